"""A required number that falls short is measured again, in fresh launches, before it decides: one
launch on a busy machine proves nothing. Its median over the launches is judged.

Not where a suspect explains the loss, which rests on several launches already, nor where a contract
or a playbook's `repeat` says how often each case is launched.
"""

from __future__ import annotations

import dataclasses

from busbw import assess
from busbw.model import LaunchRole, RunResult, Status
from busbw.run.context import Context
from busbw.run.launching import Place, make
from busbw.run.measure import measure, wait_until_quiet
from busbw.units import format_duration

LAUNCHES = 3
"""Launches of such a case: of three, the median is what two agree on."""
FIRST_ORDER = 500
"""Order of the first of these launches: after the survey."""
_SHORT = (Status.FAIL, Status.WARN)


def short_cases(result: RunResult) -> tuple[str, ...]:
    """Required cases with a number that falls short in fewer launches than are needed to tell."""
    if result.blame:
        return ()
    required = {each.case.family for each in result.cases if each.case.required}
    short = [
        each.case_id
        for each in result.comparisons
        if each.status in _SHORT and each.measured_gb_s is not None and each.launches < LAUNCHES
    ]
    return tuple(case_id for case_id in dict.fromkeys(short) if case_id in required)


def measure_again(context: Context, place: Place, nodes: tuple[str, ...]) -> None:
    """Each short case until it has `LAUNCHES` launches, is good, or the survey's budget is spent."""
    plan = context.plan
    book = plan.playbook
    if book.contract is not None or book.repeat is not None or plan.interleaving is not None:
        return
    planned = {case.id: case for case in book.cases}
    for number in range(2, LAUNCHES + 1):
        result = assess.derive(context.run)
        for position, name in enumerate(short_cases(result)):
            if name not in planned:
                continue
            own = [each for each in result.cases if each.case.family == name]
            if not _affords(result, own[0].seconds or 0.0, book.survey.budget_s):
                budget = format_duration(book.survey.budget_s)
                context.progress(name, f"falls short, not measured again: budget of {budget} spent")
                return
            case = dataclasses.replace(planned[name], id=f"{name}-again-{number}", repeats=name)
            wait_until_quiet(context, place.head, own[-1].case.id)
            context.progress(case.id, f"{name} falls short: measured again before it decides")
            order = FIRST_ORDER + number * len(planned) + position
            artefact = measure(context, make(plan, place, case, nodes, order=order))
            if artefact.state != "ended" or artefact.exit_status != 0:
                return


def _affords(result: RunResult, more_s: float, budget_s: float) -> bool:
    """Whether another launch fits in what the survey and the launches made again have left."""
    planned = {each.case.id for each in result.cases if each.case.repeats is None}
    spent_s = sum(
        each.seconds or 0.0
        for each in result.cases
        if each.case.role is not LaunchRole.PLAYBOOK or each.case.id not in planned
    )
    return spent_s + more_s <= budget_s
