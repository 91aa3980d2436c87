"""`busbw lab`: bring the embedded cluster up, look at it, run something in it, break it, take it
down."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

from busbw import units
from busbw.cli import write_message
from busbw.errors import Interrupted, LabError, UsageError

if TYPE_CHECKING:
    from busbw.lab.state import LabState


def register(parser: argparse.ArgumentParser) -> None:
    """Options of all `busbw lab` commands."""
    parsers = parser.add_subparsers(dest="lab_command", metavar="COMMAND", required=True)
    _register_up(parsers.add_parser("up", help="bring a lab up"))
    status = parsers.add_parser(
        "status", help="what the lab is, what is broken in it, what it cannot do"
    )
    status.add_argument("--name", help=_WHICH)
    status.add_argument("--json", action="store_true", help="the record of the lab as JSON")
    usage = "busbw lab exec [NODE] -- CMD…"
    execute = parsers.add_parser(
        "exec",
        help="run a command on a node; without a node, in the lab's head namespace",
        usage=usage,
    )
    execute.add_argument("--name", help=_WHICH)
    execute.add_argument("words", nargs=argparse.REMAINDER, metavar="[NODE] -- CMD…")
    _register_faults(parsers.add_parser("fault", help="break something for real, or mend it again"))
    down = parsers.add_parser("down", help="take a lab down, whole or half made")
    down.add_argument("--name", help=_WHICH)
    down.add_argument("--all", action="store_true", help="every lab")


def run(args: argparse.Namespace) -> int:
    """Run the `busbw lab` command that was given."""
    return {"up": _up, "status": _status, "exec": _exec, "fault": _fault, "down": _down}[
        args.lab_command
    ](args)


_LEAST_RATE_BIT_S = 8000.0
"""Below 1 kB/s the kernel's shapers lose their precision, and no benchmark ends."""
_WHICH = "which lab (default: the one named lab, or the only one)"


def _register_up(up: argparse.ArgumentParser) -> None:
    up.add_argument("-n", "--nodes", type=int, default=4, metavar="N", help="nodes (default 4)")
    up.add_argument(
        "--mode",
        choices=("auto", "root", "userns", "loopback"),
        default="auto",
        help="what nodes are made of (default: the best there is)",
    )
    up.add_argument(
        "--rails",
        type=int,
        default=1,
        metavar="R",
        help="links per node, each a network of its own (default 1)",
    )
    up.add_argument(
        "--leaves",
        type=int,
        default=1,
        metavar="L",
        help="switches the nodes are spread over, with uplinks to a spine (default 1)",
    )
    up.add_argument(
        "--rate",
        metavar="RATE",
        default="auto",
        help=(
            "rate of every rail both ways, such as 1gbit; none = not shaped; auto = one that the"
            " CPUs can well push (default auto)"
        ),
    )
    up.add_argument("--uplink-rate", metavar="RATE", help="rate of every leaf's uplink per rail")
    up.add_argument(
        "--name",
        default="lab",
        help="several labs live side by side under different names (default lab)",
    )
    up.add_argument(
        "--gpus",
        type=int,
        default=2,
        metavar="G",
        help="emulated GPUs, so ranks, per node (default 2)",
    )
    up.add_argument(
        "--persona",
        metavar="NAME",
        help=(
            "hardware that the nodes show without having it: h100, h200, b200, a100, h100-roce,"
            " gb200, mi300x, mi325x, mi355x, ethernet, or a YAML file (default: none)"
        ),
    )
    up.add_argument(
        "--slurm",
        action="store_true",
        help="a real Slurm over all nodes: slurmctld, a slurmd on each, munge (root only)",
    )
    up.add_argument(
        "--cpus-per-node",
        type=float,
        metavar="CPUS",
        help="limit of each node's CPU time (default: equal shares)",
    )
    up.add_argument(
        "--no-cgroups",
        action="store_true",
        help="make no control groups: nodes take CPU time from each other",
    )
    up.add_argument("--no-node-ssh", action="store_true", help="nodes cannot log in to each other")


def _register_faults(fault: argparse.ArgumentParser) -> None:
    fault.add_argument("--name", help=_WHICH)
    kinds = fault.add_subparsers(dest="kind", metavar="KIND", required=True)
    rail = "only this rail (0, 1… or eth0, eth1…)"

    def kind(name: str, text: str, *words: tuple[str, str]) -> argparse.ArgumentParser:
        parser = kinds.add_parser(name, help=text)
        # Before KIND or after it; without a default here, which would hide the one given before.
        parser.add_argument("--name", default=argparse.SUPPRESS, help=_WHICH)
        for word, meaning in words:
            parser.add_argument(word.lower(), metavar=word, help=meaning)
        return parser

    slow = kind(
        "slow",
        "slow a node's links",
        ("NODE", "which node"),
        ("RATE", "such as 200mbit, or 50%% of the lab's --rate"),
    )
    slow.add_argument("--rail", help=rail)
    slow.add_argument("--to", metavar="NODE2", help="only what NODE sends to NODE2")
    loss = kind(
        "loss",
        "lose packets at random",
        ("NODE", "which node"),
        ("PERCENT", "share of packets lost, each way"),
    )
    loss.add_argument("--rail", help=f"{rail}; mgmt = the management link")
    down = kind("link-down", "cut a node's links", ("NODE", "which node"))
    down.add_argument("--rail", help=f"{rail}; mgmt = the management link, which ssh uses")
    kind(
        "uplink",
        "slow a leaf's uplinks",
        ("LEAF", "such as leaf1"),
        ("RATE", "such as 200mbit, or 50%% of the lab's --uplink-rate"),
    )
    kind(
        "stall",
        "stop ranks of a running benchmark (SIGSTOP)",
        ("TARGET", "node, or number of one rank"),
    )
    kind(
        "kill",
        "kill ranks of a running benchmark (SIGKILL)",
        ("TARGET", "node, or number of one rank"),
    )
    load = kind("cpu-load", "keep a node's share of the CPUs busy", ("NODE", "which node"))
    load.add_argument(
        "--seconds", type=float, default=60.0, help="for how long at most (default 60)"
    )
    load.add_argument("--loops", type=int, help="how many busy loops (default: one per CPU)")
    kind(
        "cpu-limit",
        "give a node no more CPU time than that, as a container's limit does",
        ("NODE", "which node"),
        ("CPUS", "such as 0.1"),
    )
    kind("hang-ssh", "a node's sshd accepts connections and never answers", ("NODE", "which node"))
    kind("host-key", "a node shows another host key than known_hosts has", ("NODE", "which node"))
    hardware = kind(
        "hw", "break the hardware that --persona shows; without KIND: what can be broken"
    )
    hardware.add_argument(
        "hardware", nargs="?", metavar="KIND", help="such as gpu-missing or port-down"
    )
    hardware.add_argument("node", nargs="?", metavar="NODE", help="which node")
    hardware.add_argument(
        "--index", type=int, metavar="I", help="which GPU or adapter, from 0 (default: the last)"
    )
    hardware.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="of errors-grow: for how long at most (default 60)",
    )
    clear = kind("clear", "mend a node, a leaf, or everything")
    clear.add_argument("target", nargs="?", default="all", help="node, leaf or all (default all)")


def _up(args: argparse.Namespace) -> int:
    from busbw.lab import bringup, files, persona
    from busbw.lab.state import Mode

    options = bringup.LabOptions(
        nodes=args.nodes,
        mode=None if args.mode == "auto" else Mode(args.mode),
        rails=args.rails,
        leaves=args.leaves,
        rate_bit_s=None if args.rate in ("none", "auto") else _rate("--rate", args.rate),
        rate_auto=args.rate == "auto",
        uplink_rate_bit_s=(
            None if args.uplink_rate is None else _rate("--uplink-rate", args.uplink_rate)
        ),
        name=args.name,
        gpus=args.gpus,
        node_ssh=not args.no_node_ssh,
        cgroups=not args.no_cgroups,
        cpus_per_node=args.cpus_per_node,
        persona=None if args.persona is None else persona.load(args.persona),
        slurm=args.slurm,
    )
    signal.signal(signal.SIGTERM, _interrupt)
    state = bringup.up(options, _progress)
    for limit in state.cannot:
        _progress(f"this lab cannot {limit}")
    first, last = state.nodes[0].name, state.nodes[-1].name
    lines = [f"lab {state.name} is up: {len(state.nodes)} nodes, {first} to {last}"]
    if state.persona is not None:
        lines.append(f"  shows:     {state.persona.title} per node (invented)")
    if state.mode is not Mode.LOOPBACK:
        lines.append(f"  links:     {_links_text(state, args.rate)}")
    lines += [
        f"  log in:    busbw lab exec {first} -- hostname",
        f"  by ssh:    busbw lab exec -- ssh -F {files.ssh_config(state)} {first}",
        f"  take down: busbw lab down --name {state.name}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _links_text(state: LabState, option: str) -> str:
    from busbw.lab.bringup import rate_text

    text = f"{state.rails} per node, {rate_text(state.rate_bit_s)}"
    if option == "auto":
        return f"{text}: slow enough for this machine's CPUs (--rate none: not shaped)"
    if state.rate_bit_s is None:
        return f"{text}: a benchmark measures this machine's CPUs"
    return text


def _exec(args: argparse.Namespace) -> int:
    from busbw.lab import enter, files
    from busbw.lab.state import load

    argv = list(args.words)
    node = None if argv[:1] == ["--"] else next(iter(argv), None)
    command = argv[1:] if node is None else argv[2:]
    if not command or (node is not None and argv[1] != "--"):
        raise UsageError(
            "nothing to run",
            seen=f"lab exec {' '.join(argv)}",
            next_step="busbw lab exec node1 -- hostname",
        )
    state = load(args.name)
    if node is not None:
        terminal = ["-t"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        command = [
            "ssh",
            "-F",
            str(files.ssh_config(state)),
            *terminal,
            state.node(node).name,
            shlex.join(command),
        ]
    entering = enter.reexec_argv(state, tuple(command))
    sys.stdout.flush()
    try:
        os.execvp(entering[0], entering)
    except OSError as error:
        raise LabError(
            "the lab cannot be entered",
            seen=f"{entering[0]}: {error}",
            next_step="busbw lab status",
        ) from error


def _status(args: argparse.Namespace) -> int:
    from busbw import codec
    from busbw.lab import bringup
    from busbw.lab.state import load

    state = load(args.name)
    if args.json:
        sys.stdout.write(codec.dump_json(bringup.status(state)))
    else:
        sys.stdout.write(bringup.status_text(state))
    return 0 if bringup.is_up(state) else 3


def _fault(args: argparse.Namespace) -> int:
    from busbw.lab import faults
    from busbw.lab.state import load

    if args.kind == "hw" and (args.hardware is None or args.node is None):
        return _hardware_kinds(args)
    state = load(args.name)
    if args.kind == "slow":
        rate = _share(args.rate, state.rate_bit_s, "--rate")
        state = faults.slow(state, args.node, rate, args.rail, args.to)
    elif args.kind == "loss":
        state = faults.loss(state, args.node, _percent(args.percent), args.rail)
    elif args.kind == "link-down":
        state = faults.link_down(state, args.node, args.rail)
    elif args.kind == "uplink":
        state = faults.uplink(
            state, args.leaf, _share(args.rate, state.uplink_rate_bit_s, "--uplink-rate")
        )
    elif args.kind == "stall":
        state = faults.stall(state, args.target)
    elif args.kind == "kill":
        for rank in faults.kill(state, args.target):
            sys.stdout.write(f"killed rank {rank.rank} on {rank.node}\n")
    elif args.kind == "cpu-load":
        state = faults.cpu_load(state, args.node, args.seconds, args.loops)
    elif args.kind == "cpu-limit":
        state = faults.cpu_limit(state, args.node, _cpus(args.cpus))
    elif args.kind == "hang-ssh":
        state = faults.hang_ssh(state, args.node)
    elif args.kind == "host-key":
        state = faults.host_key(state, args.node)
    elif args.kind == "hw":
        state = faults.hardware(state, args.hardware, args.node, args.index, args.seconds)
    else:
        state = faults.clear(state, None if args.target == "all" else args.target)
    for fault in state.faults:
        sys.stdout.write(f"{fault.target}: {fault.kind} {fault.detail}\n")
    if not state.faults:
        sys.stdout.write(f"lab {state.name}: no fault is on\n")
    return 0


def _hardware_kinds(args: argparse.Namespace) -> int:
    from busbw.lab import persona_faults

    if args.hardware is not None:
        seen = f"lab fault hw {args.hardware} without a node"
        raise UsageError(
            "which node?", seen=seen, next_step=f"busbw lab fault hw {args.hardware} node1"
        )
    for kind, text in persona_faults.kinds():
        sys.stdout.write(f"{kind:<20}{text}\n")
    return 0


def _down(args: argparse.Namespace) -> int:
    from busbw.lab import bringup
    from busbw.lab.state import names

    for name in names() if args.all else (args.name,):
        if name is None and not names():
            continue
        state = bringup.down(name)
        if state is not None:
            sys.stdout.write(f"lab {state.name} is down\n")
    return 0


def _rate(option: str, text: str) -> float:
    try:
        rate = units.parse_link_rate(text)
        if rate < _LEAST_RATE_BIT_S:
            raise ValueError(
                f"expected at least {units.format_link_rate(_LEAST_RATE_BIT_S)}, found {text!r}"
            )
        return rate
    except ValueError as error:
        raise UsageError(
            f"{option} {text!r} is no rate", seen=str(error), next_step="busbw lab up --help"
        ) from error


def _share(text: str, lab_rate_bit_s: float | None, option: str) -> float:
    """A rate, or a share of the lab's own."""
    if not text.endswith("%"):
        return _rate("RATE", text)
    if lab_rate_bit_s is None:
        raise UsageError(
            f"{text} of what?",
            seen=f"the lab has no {option}: its links are not shaped",
            next_step="give a rate such as 200mbit",
        )
    return _rate("RATE", f"{lab_rate_bit_s * _percent(text) / 100:.0f}bit")


def _percent(text: str) -> float:
    try:
        return float(text.removesuffix("%"))
    except ValueError as error:
        raise UsageError(
            f"{text!r} is no share",
            seen="expected percent such as 1 or 0.5%",
            next_step="busbw lab fault --help",
        ) from error


def _cpus(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(
            f"{text!r} is no number of CPUs",
            seen="expected such as 0.1 or 2",
            next_step="busbw lab fault --help",
        ) from error


def _progress(text: str) -> None:
    write_message(f"busbw: {text}\n")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted("stopped by SIGTERM; what was made of the lab is taken down again")
