"""`busbw run`: check the nodes, build, measure, judge, report."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from busbw.cli import console, outputs, run_kubernetes, run_slurm
from busbw.cli.command import CliCommand
from busbw.errors import Interrupted, RunDirError, UsageError

DEFAULT_PLAYBOOK = "day-one"
_INSISTS = 3
"""Signals after which a run stops without cleaning up."""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw run`."""
    parser.add_argument(
        "playbook", nargs="?", default=DEFAULT_PLAYBOOK, metavar="PLAYBOOK", help=f"name or file (default {DEFAULT_PLAYBOOK})"
    )
    nodes = parser.add_argument_group("nodes")
    nodes.add_argument(
        "-i", "--inventory", metavar="FILE", help="YAML, Ansible or Open MPI hostfile; `lab` or `lab:NAME` for the embedded lab"
    )
    nodes.add_argument("-w", "--nodes", metavar="HOSTLIST", help="such as gpu-[001-016]; with -i: only these of it")
    nodes.add_argument("-x", "--exclude", metavar="HOSTLIST", help="leave these out")
    nodes.add_argument("--transport", choices=("ssh", "openssh", "local"), default="ssh", help="how nodes are reached (default ssh)")
    nodes.add_argument("--accept-new-host-keys", action="store_true", help="take the key of a node never seen before; it is recorded")
    nodes.add_argument(
        "--temporary-keys", action="store_true", help="where nodes cannot log in to each other: a key for this run, removed at its end"
    )
    nodes.add_argument("--force", action="store_true", help="measure also on nodes where somebody else works; without it they are refused")
    nodes.add_argument("-f", "--forks", type=int, default=64, metavar="N", help="nodes asked at once (default 64)")
    nodes.add_argument("--connect-timeout", type=float, default=10.0, metavar="S", help="limit of one connection, in seconds (default 10)")
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        "-p", "--profile", metavar="NAME", help="fabric profile, such as infiniband or rocev2 (default: the inventory's, else detected)"
    )
    what.add_argument("--ranks-per-node", type=int, metavar="N", help="ranks per node (default: the inventory's, else the node's GPUs)")
    what.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable over the profile's; may be repeated")
    what.add_argument("--contract", type=Path, metavar="FILE", help="numbers that a provider promised; busbw expect --contract-template")
    what.add_argument(
        "--nccl-tests",
        metavar="PATH",
        help="nccl-tests: a folder or archive of sources here, its address (https://…/x.tar.gz#sha256=…, git+https://…#v2.19.6), "
        "or an absolute folder of binaries there",
    )
    what.add_argument(
        "--survey", action="store_true", help="measure groups of nodes against each other whether or not something falls short"
    )
    what.add_argument(
        "--budget", metavar="TIME", help="time for the survey, such as 90s or 20m (default: the playbook's); implies --survey"
    )
    what.add_argument(
        "--with",
        dest="with_",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN",
        help="earlier runs whose surveys of these nodes count as well: fewer launches until somebody is named",
    )
    what.add_argument(
        "--fabric-file",
        nargs="+",
        metavar="PATH",
        help="the fabric's own view, as for busbw check: links are judged, and findings name the switch port at the far end",
    )
    run_slurm.register(parser)
    run_kubernetes.register(parser)
    what.add_argument(
        "--try",
        dest="try_",
        action="append",
        default=[],
        metavar="NAME=A,B",
        help="measure these values in turn with the variable unset, in the place of the playbook's cases; may be repeated",
    )
    what.add_argument(
        "--changed", metavar="NODES", help="measure these nodes in turn with unchanged ones: was it the change, or the fabric?"
    )
    what.add_argument("--duration", metavar="TIME", help="repeat the bandwidth cases for so long, such as 8h: a soak")
    result = parser.add_argument_group("result")
    result.add_argument("-o", "--out", type=Path, default=Path("runs"), metavar="DIR", help="where run directories go (default runs)")
    result.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run that was cut off; finished steps are not repeated")
    result.add_argument("--replay", type=Path, metavar="RUN", help="run again from a recording, without any node")
    result.add_argument("--dry-run", action="store_true", help="print every command line with the reason of each variable; contact no node")
    result.add_argument("--json", action="store_true", help="print run.json instead of the verdict")
    console.register(result)
    outputs.register(parser)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit status is the verdict's."""
    from busbw.lab.enter import become_inside

    if args.resume and args.replay:
        raise UsageError("--resume and --replay exclude each other", seen="both were given", next_step="give one of them")
    outputs.check(args)
    if args.fabric_file:
        # A name that is no file is refused before a node is asked, and in a dry run too.
        from busbw import intake

        intake.expand(args.fabric_file)
    if not (args.dry_run or args.resume or args.replay):
        # Before anything heavy is imported: the command starts over inside the lab.
        become_inside(args.inventory)
    run_slurm.become_allocated(args)
    from busbw import planning

    with run_kubernetes.workers(args) as pods, ExitStack() as held:
        if args.dry_run:
            sys.stdout.write(planning.dry_run(planning.new_plan(args), args))
            return 0
        return _execute(args, pods, held)


def _execute(args: argparse.Namespace, pods: run_kubernetes.Pods, held: ExitStack) -> int:
    from busbw import pipeline, planning
    from busbw.cli.console import Console, steady
    from busbw.derive import pooled
    from busbw.reports import terminal, turns
    from busbw.stages import fabric

    screen, now = Console(quiet=args.quiet, verbose=args.verbose), steady()
    prepared = planning.prepare(args, now(), held)
    pods.serve(prepared.run)
    if args.fabric_file:
        fabric.take_files(prepared.run, prepared.plan.cluster.nodes, args.fabric_file)
    if args.replay is not None:
        pooled.carry(args.replay, prepared.run)
    elif args.with_:
        pooled.take(prepared.run, prepared.plan, args.with_)
    for note in prepared.notes:
        screen.say("note", note)
    shown = os.path.relpath(prepared.run.path)
    stopping = _Stopping()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stopping)
    try:
        with screen:
            result = pipeline.execute(prepared.run, prepared.plan, prepared.transport, prepared.benchmark, say=screen.say, now=now)
    except KeyboardInterrupt as stop:
        steps = f"busbw run --resume {shown}" if stopping.asked < _INSISTS else f"busbw cleanup {shown}, for the nodes were not cleaned up"
        raise Interrupted("interrupted; what was measured is kept", seen=f"{shown}/report.html", next_step=steps) from stop
    except RunDirError as error:
        if isinstance(error.__cause__, OSError):
            error.next_step = f"make room, then busbw run --resume {shown}: finished steps are not repeated"
        raise
    lines = terminal.verdict_lines(result, shown)
    if args.json:
        sys.stdout.write((prepared.run.path / "run.json").read_text(encoding="utf-8"))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in (lines[-1:] if args.quiet else (*turns.lines(result), *lines))))
    return outputs.deliver(args, prepared.run.path, result, lines[-1])


class _Stopping:
    """Ctrl-C, SIGTERM and a lost terminal end a run alike: cleaned up, reported, resumable. Who asks twice is told to wait for that."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, number: int, frame: object) -> None:
        self.asked += 1
        if 1 < self.asked < _INSISTS:
            # Not through the console: a signal may come while it writes.
            os.write(2, b"\nbusbw: the nodes are being cleaned up; a third signal leaves them as they are\n")
            return
        raise KeyboardInterrupt(f"signal {number}")


COMMAND = CliCommand("run", "check the nodes, build, measure, judge and report", register, run)
