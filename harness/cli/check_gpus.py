"""`busbw check --gpus`: each GPU by itself, with nvbandwidth and DCGM where they are there. Loads the GPUs; refused where somebody works."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from busbw.cli import check_asked

if TYPE_CHECKING:
    from busbw.plan import RunPlan
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
    from busbw.derive import between
    from busbw.stages import busy

    with check_asked.asked(args, dataclasses.replace(plan, force=args.force), "gpus") as nodes:
        context = nodes.context
        busy.refuse(context, busy.look(context, nodes.answers, context.plan.head), tuple(context.fleet.sessions))
        context.say("gpus", f"each GPU of {len(context.fleet.sessions)} nodes by itself")
        _ask(context, nodes.run, args.dcgm)
    return check_asked.tell(args, nodes.run, SCHEMA, between.gpus(nodes.run))


def _ask(context: Context, directory: RunDir, level: int | None) -> None:
    from busbw import artefacts
    from busbw.artefacts import GpusArtefact, GpusText
    from busbw.preflight import probe_gpus
    from busbw.records import CommandResult

    family = probe_gpus.family(level)
    commands = {node: probe_gpus.command(family, directory.run_id, f"gpus/{node}.txt") for node in context.fleet.sessions}
    limit_s = max(command.timeout_s for command in commands.values())
    texts = []
    for answer in context.fleet.run(commands, deadline_s=limit_s + 10):
        if isinstance(answer, CommandResult):
            path = f"raw/gpus/{answer.node}.txt" if answer.stdout or answer.ok else None
            stderr = f"{path}.err" if path and answer.stderr else None
            texts.append(GpusText(answer.node, path, stderr, answer.exit_status, answer.problem or ""))
        else:
            texts.append(GpusText(answer.node, None, None, None, answer.reason))
    artefacts.keep(directory, "gpus.json", GpusArtefact(directory.run_id, level, tuple(texts)))
