"""`busbw check --path`: the path NCCL will use between the nodes, tried without a GPU."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import ReachError

if TYPE_CHECKING:
    from busbw.plan import RunPlan
    from busbw.rundir import RunDir
    from busbw.stages.checking import CheckReport

SCHEMA = "busbw.path/1"


def register(parser: argparse.ArgumentParser) -> None:
    """The option."""
    group = parser.add_argument_group("path")
    group.add_argument(
        "--path",
        action="store_true",
        help="the path between the nodes instead: the launcher's ssh, an mpirun hello, TCP ports, the interface that NCCL chooses",
    )


def run(args: argparse.Namespace, plan: RunPlan) -> int:
    """Do it; the exit status is the verdict's.

    Raises:
        ReachError: no node could be reached.
    """
    from busbw import artefacts, rundir
    from busbw.cli import check_inside, check_print
    from busbw.cli.console import Console, now
    from busbw.codec import dump_json
    from busbw.derive import result
    from busbw.preflight.software import facts
    from busbw.stages import preflight, probe
    from busbw.stages.context import Context
    from busbw.stages.reach import reach

    console = Console(quiet=args.quiet or args.json)
    directory = rundir.create(args.out or Path("runs"), plan.started, "path")
    plan = dataclasses.replace(plan, run_id=directory.run_id)
    artefacts.keep(directory, "plan.json", plan)
    with reach(directory, plan, check_inside.transport(args, plan), console.say) as fleet:
        if not fleet.sessions:
            raise ReachError("no node could be reached", seen=fleet.unreachable[0].reason if fleet.unreachable else "")
        context = Context(run=directory, plan=plan, fleet=fleet, now=now, say=console.say)
        console.say("check", f"asking {len(fleet.sessions)} of {len(plan.cluster.nodes)} nodes")
        preflight.ask(context)
        # Where no profile was given the answers decide on it.
        context = dataclasses.replace(context, plan=result.load_plan(directory))
        probe.attempt(context, {answer.node.name: facts(answer) for answer in result.answers(directory, plan)})
    report = _report(directory)
    directory.write_derived("path.json", dump_json(report))
    if args.json:
        sys.stdout.write((directory.path / "path.json").read_text(encoding="utf-8"))
    else:
        shown = check_print.lines(report, os.path.relpath(directory.path))
        sys.stdout.write("".join(f"{line}\n" for line in (shown[-1:] if args.quiet else shown)))
    return report.exit_status


def _report(directory: RunDir) -> CheckReport:
    """The checks of the path, and who could not be reached."""
    from busbw.derive import probe
    from busbw.parsers.judge.verdict import EXIT_STATUS
    from busbw.records import Status, worst
    from busbw.stages import checking

    asked = checking.conclude(directory)
    checks = (*(check for check in asked.checks if check.check_id == "ssh.connect"), *probe.load(directory))
    verdict = worst(tuple(check.status for check in checks if check.required and check.status is not Status.SKIPPED))
    return dataclasses.replace(asked, schema=SCHEMA, checks=checks, verdict=verdict, exit_status=EXIT_STATUS[verdict])
