"""Take the nodes out of service that a result is sure of: with a reason, a way back, and never more
than a limit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from busbw.act import records
from busbw.act.records import Action, Undrained
from busbw.act.schedulers import MARK, Program, Scheduler, Standing, performed
from busbw.act.suspects import Suspect
from busbw.errors import MeasureError
from busbw.inventory import fold
from busbw.model import Cluster
from busbw.reports.safe import one_line
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.units import counted

DEFAULT_LIMIT = "5%"
_QUOTES = re.compile("[\"'`$]")
_LIMIT = re.compile(r"([0-9]{1,6})(%?)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done, as lines to print."""

    lines: tuple[str, ...]
    problem: bool = False
    """Something should have been done and was not."""


def at_most(text: str, nodes: int) -> int:
    """How many of `nodes` nodes may be out of service: a number, or a share of them, but one at
    least.

    >>> at_most("5%", 4), at_most("5%", 100), at_most("3", 100)
    (1, 5, 3)

    Raises:
        ValueError: the text is neither.
    """
    match = _LIMIT.fullmatch(text)
    if match is None or int(match[1]) == 0 or (match[2] and int(match[1]) > 100):
        raise ValueError(f"expected a number of nodes or a share such as 5%, found {text!r}")
    return max(1, nodes * int(match[1]) // 100) if match[2] else int(match[1])


def take_out(
    run: RunDir,
    plan: RunPlan,
    suspects: tuple[Suspect, ...],
    scheduler: Scheduler,
    limit: str,
    *,
    act: bool,
    now: Callable[[], str],
) -> Outcome:
    """Take the suspects out, if there are no more than the limit leaves room for; else none of
    them: so many at once have a common cause, and a part of them is no better.

    Args:
        limit: nodes of the plan that busbw may hold out of service, those already out included.
        act: False = only say what would be done.
    """
    if not suspects:
        return Outcome(("no node is taken out of service: no finding is sure enough of one",))
    try:
        standings = scheduler.standings(plan.cluster, plan.transport)
    except MeasureError as error:
        return Outcome((f"nothing is taken out of service: {error.what}: {error.seen}",), True)
    out_already, not_counted = _held_nodes(run, plan.cluster, standings, scheduler)
    lines, todo = [f"not counted as out of service: {why}" for why in not_counted], []
    for suspect in suspects:
        standing = standings.get(suspect.node)
        if standing is None:
            lines.append(f"{suspect.node} is left alone: {scheduler.program} knows no such node")
        elif not standing.in_service:
            why = one_line(standing.reason or "no reason given")
            lines.append(f"{suspect.node} is left alone: it is out of service already ({why})")
        elif not records.acted_on(run, suspect.node):
            todo.append((suspect, standing))
    most = at_most(limit, len(plan.cluster.nodes))
    if len(out_already) + len(todo) > most:
        already = f", and {fold(out_already)} out already" if out_already else ""
        names = fold(suspect.node for suspect, _ in todo)
        text = (
            f"nothing is taken out of service: {counted(len(todo), 'node')} would be"
            f" ({names}){already}, and {most} of {len(plan.cluster.nodes)} is the limit (--at-most)"
        )
        return Outcome((*lines, text), bool(todo))
    problem = False
    for suspect, standing in todo:
        action = _action(run, suspect, standing, scheduler, now())
        done = _done(run, action, scheduler) if act else ""
        problem = problem or bool(done)
        lines += _lines(action, act, done)
    if todo and not act:
        lines.append("nothing was done; --act does it")
    return Outcome(tuple(lines), problem)


def _held_nodes(
    run: RunDir, cluster: Cluster, standings: dict[str, Standing], scheduler: Scheduler
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Nodes that busbw holds out of service: as the scheduler says, or where nobody says, by the
    records of the runs beside this one; and which of those cannot be read."""
    if isinstance(scheduler, Program):
        others = records.of_folder(run.path.parent)
        out = {a.node for _, every in others.runs for a in every if a.action == scheduler.action}
        return tuple(node.name for node in cluster.nodes if node.name in out), others.unreadable
    held = (
        node
        for node, each in standings.items()
        if not each.in_service and each.reason.startswith(MARK)
    )
    return tuple(held), ()


def _action(
    run: RunDir, suspect: Suspect, standing: Standing, scheduler: Scheduler, at: str
) -> Action:
    # Plain characters without quotes: whoever keeps the reason must give it back as it is.
    plain = one_line(suspect.diagnosis).encode("ascii", "replace").decode()
    plain = _QUOTES.sub("", plain)
    reason = f"{MARK}{plain} ({run.run_id})"
    return Action(
        node=suspect.node,
        place=standing.place,
        action=scheduler.action,
        reason=reason,
        ids=suspect.ids,
        measured=suspect.measured,
        who=records.who(),
        at=at,
        commands=tuple(step.text for step in scheduler.out(standing.place, reason)),
        undo=tuple(step.text for step in scheduler.back(standing.place, reason)),
        undo_command=scheduler.undo if isinstance(scheduler, Program) else "",
    )


def _done(run: RunDir, action: Action, scheduler: Scheduler) -> str:
    """Do it; what went wrong, empty = nothing."""
    records.keep(run, action)
    try:
        for step in scheduler.out(action.place, action.reason):
            performed(step)
    except MeasureError as error:
        how = f"never taken out: {error.what}: {error.seen}"
        records.keep_undrained(run, Undrained(action.node, action.who, action.at, how))
        return f"{error.what}: {error.seen}"
    return ""


def _lines(action: Action, act: bool, problem: str) -> list[str]:
    word = action.action if action.action in ("drain", "cordon") else "act on"
    if problem:
        return [f"could not {word} {action.node}: {one_line(problem)}"]
    past = {"drain": "drained", "cordon": "cordoned"}.get(word, "acted on")
    lines = [f"{past if act else f'would {word}'} {action.node}: {action.reason}"]
    lines += [f"      {'did' if act else 'do'}    {command}" for command in action.commands]
    return lines + [f"      undo  {command}" for command in action.undo]
