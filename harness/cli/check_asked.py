"""What the checks beside the nodes' own have in common: a run directory, nodes that were asked once, and a report told as `busbw check` tells its."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import ReachError

if TYPE_CHECKING:
    from busbw.plan import RunPlan
    from busbw.preflight import NodeAnswer
    from busbw.records import CheckResult
    from busbw.rundir import RunDir
    from busbw.stages.context import Context


@dataclass(frozen=True, slots=True)
class Asked:
    """Reached nodes with their answers to the script of all checks."""

    run: RunDir
    context: Context
    answers: tuple[NodeAnswer, ...]


@contextlib.contextmanager
def asked(args: argparse.Namespace, plan: RunPlan, kind: str) -> Iterator[Asked]:
    """Make the run directory, reach the nodes and ask each once; the sessions are open while the caller works.

    Raises:
        ReachError: no node could be reached.
    """
    from busbw import artefacts, rundir
    from busbw.cli import check_inside
    from busbw.cli.console import Console, now
    from busbw.derive import result
    from busbw.stages import preflight
    from busbw.stages.context import Context
    from busbw.stages.reach import reach

    console = Console(quiet=args.quiet or args.json)
    directory = rundir.create(args.out or Path("runs"), plan.started, kind)
    plan = dataclasses.replace(plan, run_id=directory.run_id)
    artefacts.keep(directory, "plan.json", plan)
    with reach(directory, plan, check_inside.transport(args, plan), console.say) as fleet:
        if not fleet.sessions:
            raise ReachError("no node could be reached", seen=fleet.unreachable[0].reason if fleet.unreachable else "")
        context = Context(run=directory, plan=plan, fleet=fleet, now=now, say=console.say)
        console.say("check", f"asking {len(fleet.sessions)} of {len(plan.cluster.nodes)} nodes")
        preflight.ask(context)
        # Where no profile was given the answers decide on it.
        settled = result.load_plan(directory)
        yield Asked(directory, dataclasses.replace(context, plan=settled), result.answers(directory, settled))


def tell(args: argparse.Namespace, run: RunDir, schema: str, checks: tuple[CheckResult, ...]) -> int:
    """Write the report as `NAME.json`, NAME out of `busbw.NAME/1`, print it, and give the exit status of the verdict."""
    from busbw.cli import check_print
    from busbw.codec import dump_json
    from busbw.parsers.judge.verdict import EXIT_STATUS
    from busbw.records import Status, worst
    from busbw.stages import checking

    nodes = checking.conclude(run)
    told = (*(check for check in nodes.checks if check.check_id == "ssh.connect"), *checks)
    verdict = worst(tuple(check.status for check in told if check.required and check.status is not Status.SKIPPED))
    report = dataclasses.replace(nodes, schema=schema, checks=told, verdict=verdict, exit_status=EXIT_STATUS[verdict])
    text = dump_json(report)
    run.write_derived(f"{schema.partition('.')[2].partition('/')[0]}.json", text)
    if args.json:
        sys.stdout.write(text)
    else:
        shown = check_print.lines(report, os.path.relpath(run.path))
        sys.stdout.write("".join(f"{line}\n" for line in (shown[-1:] if args.quiet else shown)))
    return report.exit_status
