"""Entering a lab: command lines that run something in its head namespace, in a node's, or in its
switch namespace.

The head is where busbw itself runs: it shares this machine's files, processes and user, and only
its network is the lab's.
"""

from __future__ import annotations

import os
import sys

from busbw.errors import InventoryError, LabError
from busbw.lab import bringup, network, slurm
from busbw.lab.state import INSIDE, LabNode, LabState, Mode, load

_WITH_HOSTS = 'mount --bind "$0" /etc/hosts && exec "$@"'


def inside_lab() -> bool:
    """True = this process runs inside a lab's head namespace."""
    return bool(os.environ.get(INSIDE))


def reexec_argv(state: LabState, argv: tuple[str, ...]) -> tuple[str, ...]:
    """What to execute to have `argv` run in the lab's head namespace, as the same user, with the
    lab's host names.

    Raises:
        LabError: the lab does not run.
    """
    variables = [f"{INSIDE}={state.directory}"]
    if state.slurm:
        variables.append(f"SLURM_CONF={slurm.conf(state)}")
    marked = ("env", *variables, *argv)
    if state.mode is Mode.LOOPBACK:
        demand_up(state)
        return marked
    into = (
        *_into(state, network.HEAD),
        "unshare",
        "--mount",
        "sh",
        "-c",
        _WITH_HOSTS,
        str(state.path / "hosts"),
    )
    if state.mode is Mode.ROOT:
        return (*into, *marked)
    return (
        *into,
        "unshare",
        "--user",
        f"--map-user={os.geteuid()}",
        f"--map-group={os.getegid()}",
        *marked,
    )


def become_inside(inventory: str | None) -> None:
    """`lab` or `lab:NAME` outside that lab: start this command over inside its head namespace. Does
    not return then.

    Raises:
        InventoryError: there is no such lab, or it does not run.
    """
    word, _, name = (inventory or "").partition(":")
    if word != "lab" or inside_lab():
        return
    try:
        argv = reexec_argv(load(name or None), (sys.executable, "-m", "busbw", *sys.argv[1:]))
    except LabError as error:
        raise InventoryError(error.what, seen=error.seen, next_step=error.next_step) from error
    sys.stdout.flush()
    os.execvp(argv[0], argv)


def switch_argv(state: LabState, argv: tuple[str, ...]) -> tuple[str, ...]:
    """What to execute to have `argv` run, with the rights of the lab's maker, in the switch
    namespace; `ip -n NAME` reaches every other.

    Raises:
        LabError: the lab does not run, or has no namespaces.
    """
    init = _init(state)
    return ("nsenter", f"--target={init}", *_as_maker(state), "--net", "--mount", "--pid", *argv)


def node_argv(state: LabState, node: LabNode, argv: tuple[str, ...]) -> tuple[str, ...]:
    """What to execute to have `argv` run on a node, with the rights of the lab's maker: its
    network, files, host name and processes.

    Raises:
        LabError: the node does not run, or the lab has no namespaces.
    """
    outer = _init(state)
    if node.init is None:
        raise LabError(f"{node.name} does not run", next_step="busbw lab status")
    user = _as_maker(state)
    if user:
        user = ("nsenter", f"--target={outer}", *user)
    return (
        *user,
        "nsenter",
        f"--target={node.init.pid}",
        "--net",
        "--mount",
        "--uts",
        "--pid",
        *argv,
    )


def _as_maker(state: LabState) -> tuple[str, ...]:
    """Options of nsenter for the rights of the lab's maker."""
    return () if state.mode is Mode.ROOT else ("--user", "--preserve-credentials")


def demand_up(state: LabState) -> None:
    """Make sure that the lab runs.

    Raises:
        LabError: it does not.
    """
    if not bringup.is_up(state):
        raise LabError(
            f"the lab {state.name!r} does not run",
            seen=f"{state.directory}/lab.json records it, its processes have ended",
            next_step=(
                f"busbw lab down --name {state.name} && busbw lab up -n {len(state.nodes)} --name"
                f" {state.name}"
            ),
        )


def _into(state: LabState, name: str) -> tuple[str, ...]:
    init = _init(state)
    network = f"--net=/proc/{init}/root/run/netns/{name}"
    if state.mode is Mode.ROOT:
        return ("nsenter", network)
    return ("nsenter", f"--user=/proc/{init}/ns/user", "--preserve-credentials", network)


def _init(state: LabState) -> int:
    if state.mode is Mode.LOOPBACK:
        raise LabError(
            "a lab in loopback mode has no namespaces",
            seen=f"lab {state.name!r}",
            next_step="busbw lab up --mode auto",
        )
    demand_up(state)
    assert state.init is not None  # a lab that is up has one
    return state.init.pid
