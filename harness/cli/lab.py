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
from busbw.cli import lab_options, write_message
from busbw.errors import Interrupted, LabError, UsageError
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.lab.state import LabState


def register(parser: argparse.ArgumentParser) -> None:
    """Options of all `busbw lab` commands."""
    lab_options.add_all(parser)


def run(args: argparse.Namespace) -> int:
    """Run the `busbw lab` command that was given."""
    return {"up": _up, "status": _status, "exec": _exec, "fault": _fault, "down": _down}[
        args.lab_command
    ](args)


_LEAST_RATE_BIT_S = 8000.0
"""Below 1 kB/s the kernel's shapers lose their precision, and no benchmark ends."""


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
    lines = [f"lab {state.name} is up: {counted(len(state.nodes), 'node')}, {first} to {last}"]
    if state.persona is not None:
        lines.append(f"  shows:     {state.persona.title} per node (invented)")
    if state.mode is not Mode.LOOPBACK:
        lines.append(f"  links:     {_links_text(state, args.rate)}")
    lines += [
        f"  log in:    busbw lab exec{state.option} {first} -- hostname",
        f"  by ssh:    busbw lab exec{state.option} -- ssh -F {files.ssh_config(state)} {first}",
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
        if state is None:
            sys.stdout.write(f"no lab is named {name}: nothing was taken down\n")
        else:
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
