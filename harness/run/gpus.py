"""Each GPU by itself: nvbandwidth, a large product, and DCGM where it is requested. Loads the GPUs."""

from __future__ import annotations

from busbw.checks import gpu_bench
from busbw.model import CommandResult, Unreachable
from busbw.run import leases
from busbw.run.checking import ProbedNodes
from busbw.run.context import Context
from busbw.store import artefacts
from busbw.store.artefacts import GpusArtefact, GpusText

SCHEMA = "busbw.gpus/1"


def measure(nodes: ProbedNodes, level: int | None) -> GpusArtefact:
    """Measure all nodes at once. `level` = of `dcgmi diag -r`, None = without it.

    Raises:
        BusyError: other jobs or another run of busbw are on the nodes.
    """
    with leases.alone_on(nodes) as context:
        return _measure(context, level)


def _measure(context: Context, level: int | None) -> GpusArtefact:
    context.progress("gpus", f"each GPU of {len(context.fleet.sessions)} nodes by itself")
    family = gpu_bench.family(level)
    commands = {
        node: gpu_bench.command(family, context.run.run_id, f"gpus/{node}.txt")
        for node in context.fleet.sessions
    }
    limit_s = max(command.timeout_s for command in commands.values())
    answers = context.fleet.run(commands, deadline_s=limit_s + 10)
    artefact = GpusArtefact(context.run.run_id, level, tuple(_text(each) for each in answers))
    artefacts.keep(context.run, "gpus.json", artefact)
    return artefact


def _text(answer: CommandResult | Unreachable) -> GpusText:
    if isinstance(answer, Unreachable):
        return GpusText(answer.node, None, None, None, answer.reason)
    path = f"raw/gpus/{answer.node}.txt" if answer.stdout or answer.ok else None
    stderr = f"{path}.err" if path and answer.stderr else None
    return GpusText(answer.node, path, stderr, answer.exit_status, answer.problem or "")
