"""Labs of namespaces, by root or in a user namespace: writes the wiring, starts the first process,
finds out what it started."""

from __future__ import annotations

import itertools
import os
import select
import signal
import subprocess
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from busbw.errors import LabError
from busbw.lab import files, network, processes, requirements, slurm
from busbw.lab.state import LabNode, LabState, Mode, Process, save

SCRIPTS = Path(__file__).parent / "scripts"
_UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_UNSHARE_USER = ("unshare", "--user", "--map-root-user", *_UNSHARE[1:])
_PROBE = (
    "ip link add dev up0 type veth peer name down0 && ip link add dev switch0 type bridge && mount"
    " -t tmpfs busbw-probe /run"
)
CANNOT_AS_USER = ("make device files on a node: only root may",)
_REFUSALS = (
    ("sysfs", "show a node its own network devices in /sys: the kernel refused to mount it"),
    (
        "memlock",
        "raise a node's limit of locked memory above that of the lab's maker: the kernel refused",
    ),
    (
        "etc",
        "keep a change below /etc on one node: the kernel refused an overlay, /etc is this machine's",
    ),
)
_START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 30.0


def refused(mode: Mode) -> str:
    """Why this machine does not allow such a lab, in the words of what refused; empty = it does."""
    argv = (*_unshare(mode), "sh", "-c", _PROBE)
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env=requirements.environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return done.stderr.strip() or f"exit status {done.returncode}"


def write_wiring(state: LabState) -> None:
    """Write what `ip` and `tc` are to do, one file per namespace."""
    directory = state.path / "wiring"
    directory.mkdir()
    (state.path / "run").mkdir()
    names = (network.HEAD, *(node.name for node in state.nodes))
    _write(directory / "namespaces", tuple(f"netns add {name}" for name in names))
    _write(directory / "switch", network.switch_lines(state))
    _write(directory / "switch.tc", network.all_switch_tc(state) if _shaped(state) else ())
    _write(directory / "head", network.head_lines(state))
    for number, node in enumerate(state.nodes, 1):
        _write(files.node_directory(state, node) / "wiring", network.node_lines(state, number))
        _write(
            files.node_directory(state, node) / "wiring.tc",
            network.node_tc(state, node) if _shaped(state) else (),
        )


def start(state: LabState) -> LabState:
    """Start the lab and wait until every node's sshd listens; gives the record with what was found
    out.

    Raises:
        LabError: a step failed; `seen` is what it said.
    """
    log = state.path / "log"
    pid_file = state.path / "holder.pid"
    owner = ("", "") if state.mode is Mode.ROOT else (str(os.geteuid()), str(os.getegid()))
    lab = (
        *_unshare(state.mode),
        "sh",
        str(SCRIPTS / "lab.sh"),
        state.directory,
        str(SCRIPTS),
        state.cgroup or "",
        *owner,
    )
    # setsid --fork: no terminal signal reaches the lab, and it is nobody's child that could stay
    # behind as a zombie.
    argv = ("setsid", "--fork", "sh", "-c", 'echo $$ >"$0"; exec "$@"', str(pid_file), *lab)
    with (
        open(log, "wb") as log_file,
        subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            cwd="/",
            env=requirements.environment(),
        ) as launcher,
    ):
        assert launcher.stdin is not None  # both are pipes
        assert launcher.stdout is not None
        if _answer(launcher.stdout) != b"ready\n":
            raise LabError(
                "the lab could not be made",
                seen=_tail(log),
                next_step="busbw lab down, then try again",
            )
        started = _identify(state, int(pid_file.read_text()))
        save(started)
        _await_sshd(started)
        if started.slurm:
            assert started.init is not None  # set by _identify
            slurm.await_ready(
                started,
                ("nsenter", f"--net=/proc/{started.init.pid}/root/run/netns/{network.HEAD}"),
            )
        launcher.stdin.write(b"keep\n")
    return _note_refusals(_find_nodes(started))


def end(state: LabState) -> None:
    """End every process of the lab, and with them its namespaces and mounts.

    Killing the holder kills the first process of the lab, which ends only after every other process
    in it.

    Raises:
        LabError: one did not end.
    """
    holder = state.holder or _unrecorded_holder(state)
    if holder is None:
        return
    init = state.init or next(map(processes.identify, processes.children(holder.pid)), None)
    processes.send(holder, signal.SIGKILL)
    for process in (init, holder):
        processes.wait_until(
            partial(processes.gone, process), _END_TIMEOUT_S, "the end of the lab's processes"
        )


def _unrecorded_holder(state: LabState) -> Process | None:
    """The holder of a lab whose maker was killed before it could record it. It would end by itself,
    but later."""
    try:
        pid = int((state.path / "holder.pid").read_text())
    except (FileNotFoundError, ValueError):
        return None
    if f"lab.sh {state.directory} " not in processes.command_line(pid):
        return None
    return processes.identify(pid)


def _await_sshd(state: LabState) -> None:
    end = time.monotonic() + _START_TIMEOUT_S
    for node in state.nodes:
        directory = files.node_directory(state, node)
        while not (directory / "sshd.pid").exists():
            log = _tail(directory / "log")
            if time.monotonic() > end or not processes.alive(state.init):
                raise LabError(
                    f"{node.name} did not start its sshd within {_START_TIMEOUT_S:g} s",
                    seen=log,
                    next_step="busbw lab down, then try again",
                )
            time.sleep(0.005)


def _identify(state: LabState, holder_pid: int) -> LabState:
    holder = processes.identify(holder_pid)
    first = processes.children(holder_pid)
    init = processes.identify(first[0]) if first else None
    if holder is None or init is None:
        raise LabError(
            "the lab ended while it was being made",
            seen=_tail(state.path / "log"),
            next_step="busbw lab down, then try again",
        )
    return replace(state, holder=holder, init=init)


def _find_nodes(state: LabState) -> LabState:
    """The first process of each node is the only child of the `unshare … node.sh NAME` that lab.sh
    started."""
    assert state.init is not None  # set by _identify
    by_name = {_node_name(pid): pid for pid in processes.children(state.init.pid)}
    return replace(state, nodes=tuple(_find_node(node, by_name) for node in state.nodes))


def _note_refusals(state: LabState) -> LabState:
    """Record what the kernel refused node.sh on any node."""
    refused: set[str] = set()
    for node in state.nodes:
        marks = files.node_directory(state, node) / "refused"
        refused.update(entry.name for entry in marks.iterdir())
    cannot = [text for mark, text in _REFUSALS if mark in refused]
    return replace(state, cannot=(*state.cannot, *cannot))


def _find_node(node: LabNode, by_name: dict[str, int]) -> LabNode:
    first = processes.children(by_name[node.name]) if node.name in by_name else ()
    init = processes.identify(first[0]) if first else None
    if init is None:
        raise LabError(
            f"{node.name} ended while it was being made", next_step="busbw lab down, then try again"
        )
    return replace(node, init=init, netns=processes.netns(init.pid))


def _node_name(pid: int) -> str:
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    for word, name in itertools.pairwise(argv):
        if word.endswith(b"/node.sh"):
            return name.decode()
    return ""


def _unshare(mode: Mode) -> tuple[str, ...]:
    return _UNSHARE if mode is Mode.ROOT else _UNSHARE_USER


def _shaped(state: LabState) -> bool:
    return state.rate_bit_s is not None or state.uplink_rate_bit_s is not None


def _answer(pipe: IO[bytes]) -> bytes:
    readable, _, _ = select.select([pipe], [], [], _START_TIMEOUT_S)
    return pipe.readline() if readable else b""


def _tail(path: Path) -> str:
    try:
        return path.read_text(errors="replace")[-2000:].strip()
    except FileNotFoundError:
        return ""


def _write(path: Path, lines: tuple[str, ...]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
