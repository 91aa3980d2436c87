"""`busbw check`: is every node what it should be, and are they all the same? Reads only, on every node once."""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import check_fabric, check_inside, console
from busbw.cli.command import CliCommand
from busbw.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from busbw.plan import RunPlan

_PLAYBOOK = "day-one"
"""Its checks are the ones required, beside the fabric profile's."""
_LOCAL_S = 4.8
"""Of the whole process with --local: a prolog has to answer in 5 s."""
_LOCAL_AFTER_S = 1.7
"""Of it, to end what hangs (1.2 s where nothing heeds a signal), judge, and write."""
_LOCAL_SECTION_S = 2
_LOCAL_LEAST_S = 2.2
"""For the script, even where the machine is so busy that the start took all there was: one section may hang and be told as hanging."""
_FRAMEWORKS = {
    "busbw": {"PASS": 0, "WARN": 0, "FAIL": 1, "UNKNOWN": 3},
    "nhc": {"PASS": 0, "WARN": 0, "FAIL": 1, "UNKNOWN": 1},
    "nagios": {"PASS": 0, "WARN": 1, "FAIL": 2, "UNKNOWN": 3},
    "npd": {"PASS": 0, "WARN": 0, "FAIL": 1, "UNKNOWN": 2},
}
"""Exit status by verdict: LBNL Node Health Check and Slurm's Prolog (anything but 0 takes the node out), the Nagios plugin interface (also
Meta's GCM), the custom plugins of Kubernetes' node-problem-detector."""
_EPILOG = """\
exit status of a check, and with --local of a prolog or node-health script (--framework):

              all well   warnings   required failed   required not checked
  (default)       0          0             1                  3
  nhc             0          0             1                  1     also Slurm's Prolog and HealthCheckProgram
  nagios          0          1             2                  3
  npd             0          0             1                  2     node-problem-detector
  usage: 2, interrupted: 130

  Slurm's Prolog:   busbw check --local --framework nhc -p infiniband || exit 1
  drain by hand:    scontrol update nodename=$(hostname -s) state=drain reason="$(busbw check --local -p infiniband)"
"""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw check`."""
    parser.epilog, parser.formatter_class = _EPILOG, argparse.RawDescriptionHelpFormatter
    nodes = parser.add_argument_group("nodes")
    nodes.add_argument(
        "-i", "--inventory", metavar="FILE", help="YAML, Ansible or Open MPI hostfile; `lab` or `lab:NAME` for the embedded lab"
    )
    nodes.add_argument("-w", "--nodes", metavar="HOSTLIST", help="such as gpu-[001-016]; with -i: only these of it")
    nodes.add_argument("-x", "--exclude", metavar="HOSTLIST", help="leave these out")
    nodes.add_argument(
        "--local",
        action="store_true",
        help="this machine alone, in 5 s, one line for a drain reason; with -i: what the inventory expects of it",
    )
    nodes.add_argument(
        "--framework", choices=tuple(_FRAMEWORKS), default="busbw", help="with --local: whose exit status (table below; default busbw)"
    )
    nodes.add_argument("--sudo", action="store_true", help="`sudo -n` before what only root may see: dmesg, lspci, mlnx_qos, mstconfig")
    nodes.add_argument("--transport", choices=("ssh", "openssh", "local"), default="ssh", help="how nodes are reached (default ssh)")
    nodes.add_argument("--accept-new-host-keys", action="store_true", help="take the key of a node never seen before; it is recorded")
    nodes.add_argument("-f", "--forks", type=int, default=64, metavar="N", help="nodes asked at once (default 64)")
    nodes.add_argument("--connect-timeout", type=float, default=10.0, metavar="S", help="limit of one connection, in seconds (default 10)")
    parser.add_argument("-p", "--profile", metavar="NAME", help="fabric profile, such as infiniband or rocev2 (default: the inventory's)")
    check_fabric.register(parser)
    check_inside.register(parser)
    result = parser.add_argument_group("result")
    result.add_argument("-o", "--out", type=Path, metavar="DIR", help="where run directories go (default runs; with --local none is kept)")
    result.add_argument("--json", action="store_true", help="print check.json instead of the verdict")
    console.register(result)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit status is the verdict's."""
    from busbw.lab.enter import become_inside

    if args.local:
        return _local(args)
    if args.framework != "busbw":
        raise UsageError(
            "--framework is of node-health scripts", seen=f"--framework {args.framework} without --local", next_step="add --local"
        )
    become_inside(args.inventory)
    if check_fabric.wanted(args):
        return check_fabric.run(args, _plan)
    return _check(args, _plan(args), args.out or Path("runs"))


def _local(args: argparse.Namespace) -> int:
    if args.nodes or args.exclude:
        raise UsageError("--local means this machine", seen="-w or -x beside --local", next_step="leave them out")
    args.nodes = os.uname().nodename.partition(".")[0]
    args.transport = "local"
    args.quiet = True
    plan = _plan(args)
    if args.out is not None:
        return _check(args, plan, args.out)
    with tempfile.TemporaryDirectory(prefix="busbw-check-") as folder:
        return _check(args, plan, Path(folder))


def _plan(args: argparse.Namespace) -> RunPlan:
    """The plan of a run without cases."""
    from busbw import planning, profile
    from busbw.cli.console import now

    wanted: dict[str, object] = {"playbook": _PLAYBOOK, "env": [], "ranks_per_node": None, "temporary_keys": False}
    plan = planning.new_plan(argparse.Namespace(**{**vars(args), **wanted}), started=now())
    if args.profile is None and plan.cluster.fabric is not None:
        # The playbook's fabric is what its benchmark runs over, and none runs here: what the nodes have counts.
        plan = dataclasses.replace(plan, profile=profile.load(plan.cluster.fabric))
    survey = dataclasses.replace(plan.playbook.survey, when="never")
    return dataclasses.replace(plan, playbook=dataclasses.replace(plan.playbook, name="check", cases=(), gates=(), survey=survey))


def _check(args: argparse.Namespace, plan: RunPlan, out: Path) -> int:
    from busbw import artefacts, rundir
    from busbw.cli import check_print
    from busbw.cli.console import Console, now
    from busbw.stages import checking

    screen = Console(quiet=args.quiet, verbose=args.verbose)
    directory = rundir.create(out, plan.started, "check")
    plan = dataclasses.replace(plan, run_id=directory.run_id)
    artefacts.keep(directory, "plan.json", plan)
    for note in plan.cluster.notes:
        screen.say("note", note)
    transport = check_inside.transport(args, plan)
    within_s, section_s = (_local_within_s(), _LOCAL_SECTION_S) if args.local else (None, None)
    limits = checking.Limits(within_s, section_s, sudo=args.sudo)
    signal.signal(signal.SIGTERM, _as_interrupt)
    shown = os.path.relpath(directory.path)
    try:
        with screen:
            report = checking.check(directory, plan, transport, limits, say=screen.say, now=now)
    except KeyboardInterrupt as stop:
        raise Interrupted("interrupted before the checks ended", seen=f"{shown}/raw", next_step="busbw check again") from stop
    if args.json:
        sys.stdout.write((directory.path / "check.json").read_text(encoding="utf-8"))
    elif args.local:
        sys.stdout.write(f"{check_print.drain_reason(report)}\n")
    else:
        lines = check_print.lines(report, shown)
        shaped = lines[-1:] if args.quiet else check_print.wrapped(lines, console.width())
        sys.stdout.write("".join(f"{line}\n" for line in shaped))
    return _FRAMEWORKS[args.framework][report.verdict.value] if args.local else report.exit_status


def _local_within_s() -> float:
    """How long the script of --local may take: what the start of this process has left."""
    return max(_LOCAL_LEAST_S, _LOCAL_S - _LOCAL_AFTER_S - (_age_s() or 0.5))


def _age_s() -> float | None:
    """Seconds since this process was started; None = the system does not tell."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _as_interrupt(number: int, frame: object) -> None:
    """SIGTERM ends a check as Ctrl-C does: connections are closed, what was answered is kept."""
    raise KeyboardInterrupt(f"signal {number}")


COMMAND = CliCommand("check", "is every node what it should be, and are they all the same", register, run)
