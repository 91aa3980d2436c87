"""`busbw lab`: bring the embedded cluster up, look at it, run something in it, break it, take it down."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from types import FrameType

from busbw import units
from busbw.cli.command import CliCommand
from busbw.errors import Interrupted, LabError, UsageError


def register(parser: argparse.ArgumentParser) -> None:
    """Options of all `busbw lab` commands."""
    parsers = parser.add_subparsers(dest="lab_command", metavar="COMMAND", required=True)
    _register_up(parsers.add_parser("up", help="bring a lab up"))
    execute = parsers.add_parser(
        "exec", help="run a command on a node, or without a node in the lab's head namespace", usage="busbw lab exec [NODE] -- CMD…"
    )
    execute.add_argument("--name", help="which lab")
    execute.add_argument("words", nargs=argparse.REMAINDER, metavar="[NODE] -- CMD…")
    down = parsers.add_parser("down", help="take a lab down, whole or half made")
    down.add_argument("--name", help="which lab (default: lab, or the only one)")
    down.add_argument("--all", action="store_true", help="every lab")


def run(args: argparse.Namespace) -> int:
    """Run the `busbw lab` command that was given."""
    return {"up": _up, "exec": _exec, "down": _down}[args.lab_command](args)


COMMAND = CliCommand("lab", "the embedded cluster: bring it up, break it, take it down", register, run)


def _register_up(up: argparse.ArgumentParser) -> None:
    up.add_argument("-n", "--nodes", type=int, default=4, metavar="N", help="nodes (default 4)")
    up.add_argument(
        "--mode", choices=("auto", "root", "userns", "loopback"), default="auto", help="what nodes are made of (default: the best there is)"
    )
    up.add_argument("--rails", type=int, default=1, metavar="R", help="links per node, each a network of its own (default 1)")
    up.add_argument(
        "--leaves", type=int, default=1, metavar="L", help="switches the nodes are spread over, with uplinks to a spine (default 1)"
    )
    up.add_argument(
        "--rate",
        metavar="RATE",
        help="rate of every rail both ways, such as 1gbit; auto = one that the CPUs can well push (default: not shaped)",
    )
    up.add_argument("--uplink-rate", metavar="RATE", help="rate of every leaf's uplink per rail")
    up.add_argument("--name", default="lab", help="several labs live side by side under different names (default lab)")
    up.add_argument("--gpus", type=int, default=2, metavar="G", help="emulated GPUs, so ranks, per node (default 2)")
    up.add_argument("--cpus-per-node", type=float, metavar="CPUS", help="limit of each node's CPU time (default: equal shares)")
    up.add_argument("--no-cgroups", action="store_true", help="make no control groups: nodes take CPU time from each other")
    up.add_argument("--no-node-ssh", action="store_true", help="nodes cannot log in to each other")


def _up(args: argparse.Namespace) -> int:
    from busbw.lab import bringup, files
    from busbw.lab.state import Mode

    options = bringup.LabOptions(
        nodes=args.nodes,
        mode=None if args.mode == "auto" else Mode(args.mode),
        rails=args.rails,
        leaves=args.leaves,
        rate_bit_s=None if args.rate in (None, "auto") else _rate("--rate", args.rate),
        rate_auto=args.rate == "auto",
        uplink_rate_bit_s=None if args.uplink_rate is None else _rate("--uplink-rate", args.uplink_rate),
        name=args.name,
        gpus=args.gpus,
        node_ssh=not args.no_node_ssh,
        cgroups=not args.no_cgroups,
        cpus_per_node=args.cpus_per_node,
    )
    signal.signal(signal.SIGTERM, _interrupt)
    state = bringup.up(options, _progress)
    for what in state.cannot:
        _progress(f"this lab cannot {what}")
    sys.stdout.write(
        f"lab {state.name} is up: {len(state.nodes)} nodes, {state.nodes[0].name} to {state.nodes[-1].name}\n"
        f"  log in:    busbw lab exec {state.nodes[0].name} -- hostname\n"
        f"  by ssh:    busbw lab exec -- ssh -F {files.ssh_config(state)} {state.nodes[0].name}\n"
        f"  take down: busbw lab down --name {state.name}\n"
    )
    return 0


def _exec(args: argparse.Namespace) -> int:
    from busbw.lab import enter, files
    from busbw.lab.state import load

    words = list(args.words)
    node = None if words[:1] == ["--"] else next(iter(words), None)
    command = words[1:] if node is None else words[2:]
    if not command or (node is not None and words[1] != "--"):
        raise UsageError("nothing to run", seen=f"lab exec {' '.join(words)}", next_step="busbw lab exec node1 -- hostname")
    state = load(args.name)
    if node is not None:
        command = ["ssh", "-F", str(files.ssh_config(state)), state.node(node).name, *command]
    argv = enter.reexec_argv(state, tuple(command))
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise LabError("the lab cannot be entered", seen=f"{argv[0]}: {error}", next_step="busbw lab status") from error


def _down(args: argparse.Namespace) -> int:
    from busbw.lab import bringup
    from busbw.lab.state import names

    wanted = names() if args.all else (args.name,)
    for name in wanted:
        if name is None and not names():
            continue
        state = bringup.down(name)
        if state is not None:
            sys.stdout.write(f"lab {state.name} is down\n")
    return 0


def _rate(option: str, text: str) -> float:
    try:
        return units.parse_link_rate(text)
    except ValueError as error:
        raise UsageError(f"{option} {text!r} is no rate", seen=str(error), next_step=f"{option} 1gbit") from error


def _progress(text: str) -> None:
    sys.stderr.write(f"busbw: {text}\n")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted("stopped by SIGTERM; what was made of the lab is taken down again")
