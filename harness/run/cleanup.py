"""What is left on the nodes of a run when it ends: removed by the run itself, and by `busbw
cleanup` where the run could not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.inventory.hostlist import fold
from busbw.model import CommandResult, Unreachable
from busbw.run import job, keys
from busbw.run.context import Context
from busbw.transport.fanout import Fleet

_DEADLINE_S = 100.0


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One node afterwards."""

    node: str
    ended: int
    """Processes that had to be ended."""
    removed: tuple[str, ...]
    """Folders that had to be removed, and the key."""
    problem: str = ""
    """Why something may be left; empty = nothing is."""


def after(context: Context, directory: str, nodes: tuple[str, ...]) -> None:
    """Remove the leases and the folder of the run's jobs from these nodes at its end; who did not
    answer to that is told.

    From all: the JSON of a launch is written on the node of its rank 0."""
    remove = job.end_run(context.plan.run_id, directory)
    answers = context.fleet.run(
        {node: remove for node in nodes if node in context.fleet.sessions}, deadline_s=70
    )
    silent = [
        answer.node for answer in answers if not (isinstance(answer, CommandResult) and answer.ok)
    ]
    if silent:
        path = context.run.shown
        context.progress(
            "run",
            f"{fold(silent)} did not answer at the end, so that something may run on there: busbw"
            f" cleanup {path}",
        )


def clean(fleet: Fleet, run_id: str) -> tuple[Cleaned, ...]:
    """End every process of the run on every node of the fleet, and remove its folders and its
    temporary key."""
    cleaned = fleet.run(job.clean(run_id), deadline_s=_DEADLINE_S)
    forgotten = {
        answer.node: answer
        for answer in fleet.run(keys.forget(keys.mark_of(run_id)), deadline_s=_DEADLINE_S)
    }
    again = {answer.node: answer for answer in fleet.run(job.sweep(run_id), deadline_s=_DEADLINE_S)}
    return tuple(_cleaned(answer, forgotten[answer.node], again[answer.node]) for answer in cleaned)


def _cleaned(
    answer: CommandResult | Unreachable,
    forgotten: CommandResult | Unreachable,
    again: CommandResult | Unreachable,
) -> Cleaned:
    why = why_not(answer)
    if isinstance(answer, Unreachable) or why:
        return Cleaned(answer.node, 0, (), why)
    out = answer.out() + ("" if isinstance(forgotten, Unreachable) else forgotten.out())
    ended = re.search(r"^killed (\d+)$", out, re.M)
    remaining = re.findall(r"^left (.+)$", out, re.M)
    problems = [f"{path} cannot be removed" for path in remaining]
    problems += [f"the temporary key may remain: {text}"] if (text := why_not(forgotten)) else []
    if isinstance(again, Unreachable) or again.out().strip() != "killed 0":
        problems.append("processes of the run do not end")
    return Cleaned(
        answer.node,
        int(ended[1]) if ended else 0,
        tuple(re.findall(r"^removed (.+)$", out, re.M)),
        "; ".join(problems),
    )


def why_not(answer: CommandResult | Unreachable) -> str:
    """Why the node did not do what it was told; empty = it did."""
    if isinstance(answer, Unreachable):
        return answer.reason
    return (
        ""
        if answer.ok
        else answer.problem or answer.err().strip() or f"exit status {answer.exit_status}"
    )
