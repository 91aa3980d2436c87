"""`busbw check --gpus`: each GPU by itself, with nvbandwidth and DCGM where they are there. Loads the GPUs; refused where somebody works."""

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
    from busbw.records import CheckResult
    from busbw.rundir import RunDir
    from busbw.stages.context import Context

SCHEMA = "busbw.gpus/1"


def register(parser: argparse.ArgumentParser) -> None:
    """The options."""
    group = parser.add_argument_group("gpus")
    group.add_argument(
        "--gpus", action="store_true", help="each GPU by itself instead: nvbandwidth's copies, compared over all GPUs; loads them"
    )
    group.add_argument(
        "--dcgm", type=int, choices=(1, 2, 3), metavar="LEVEL", help="with --gpus: dcgmi diag -r LEVEL too (3 takes half an hour)"
    )
    group.add_argument("--force", action="store_true", help="with --gpus: beside somebody else's work too")


def run(args: argparse.Namespace, plan: RunPlan) -> int:
    """Do it; the exit status is the verdict's.

    Raises:
        ReachError: no node could be reached.
        BusyError: somebody works on the nodes.
    """
    from busbw import artefacts, rundir
    from busbw.cli import check_inside, check_print
    from busbw.cli.console import Console, now
    from busbw.codec import dump_json
    from busbw.derive import result
    from busbw.parsers.judge.verdict import EXIT_STATUS
    from busbw.records import Status, worst
    from busbw.stages import busy, checking, preflight
    from busbw.stages.context import Context
    from busbw.stages.reach import reach

    console = Console(quiet=args.quiet or args.json)
    directory = rundir.create(args.out or Path("runs"), plan.started, "gpus")
    plan = dataclasses.replace(plan, run_id=directory.run_id, force=args.force)
    artefacts.keep(directory, "plan.json", plan)
    with reach(directory, plan, check_inside.transport(args, plan), console.say) as fleet:
        if not fleet.sessions:
            raise ReachError("no node could be reached", seen=fleet.unreachable[0].reason if fleet.unreachable else "")
        context = Context(run=directory, plan=plan, fleet=fleet, now=now, say=console.say)
        console.say("check", f"asking {len(fleet.sessions)} of {len(plan.cluster.nodes)} nodes")
        preflight.ask(context)
        answers = result.answers(directory, plan)
        busy.refuse(context, busy.look(context, answers, plan.head), tuple(fleet.sessions))
        console.say("gpus", f"each GPU of {len(fleet.sessions)} nodes by itself")
        checks = _ask(context, directory, args.dcgm)
    asked = checking.conclude(directory)
    reached = tuple(check for check in asked.checks if check.check_id == "ssh.connect")
    verdict = worst(tuple(check.status for check in (*reached, *checks) if check.required and check.status is not Status.SKIPPED))
    report = dataclasses.replace(asked, schema=SCHEMA, checks=(*reached, *checks), verdict=verdict, exit_status=EXIT_STATUS[verdict])
    directory.write_derived("gpus.json", dump_json(report))
    if args.json:
        sys.stdout.write((directory.path / "gpus.json").read_text(encoding="utf-8"))
    else:
        shown = check_print.lines(report, os.path.relpath(directory.path))
        sys.stdout.write("".join(f"{line}\n" for line in (shown[-1:] if args.quiet else shown)))
    return report.exit_status


def _ask(context: Context, directory: RunDir, level: int | None) -> tuple[CheckResult, ...]:
    from busbw.preflight import probe_gpus, script
    from busbw.records import CommandResult

    family = probe_gpus.family(level)
    commands = {node: probe_gpus.command(family, directory.run_id, f"gpus/{node}.txt") for node in context.fleet.sessions}
    limit_s = max(command.timeout_s for command in commands.values())
    answers = tuple(
        script.split(context.plan.cluster.node(result.node), result, directory.run_id, f"raw/gpus/{result.node}.txt")
        for result in context.fleet.run(commands, deadline_s=limit_s + 10)
        if isinstance(result, CommandResult)
    )
    return (*(check for answer in answers for check in family.judge(answer)), *family.compare(answers))
