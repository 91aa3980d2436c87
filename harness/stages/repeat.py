"""More launches of what cannot be told from the accepted runs yet, until it can or the budget is spent."""

from __future__ import annotations

import dataclasses

from busbw import derive
from busbw.parsers.judge.regression import FEWEST
from busbw.records import CaseOutcome, RunResult
from busbw.records.history import Change
from busbw.stages.context import Context
from busbw.stages.launching import Place, make
from busbw.stages.measure import measure
from busbw.units import format_duration


def open_cases(result: RunResult, required: frozenset[str]) -> tuple[str, ...]:
    """Cases with a number that more launches may settle."""
    shifts = result.compared.shifts if result.compared is not None else ()
    return tuple(
        dict.fromkeys(
            each.number.case_id
            for each in shifts
            if each.number.case_id in required and each.shift.change is Change.INCONCLUSIVE and each.shift.launches[0] >= FEWEST
        )
    )


def repeat(context: Context, place: Place, nodes: tuple[str, ...], order: int) -> int:
    """Repeat; returns the order of the next launch. Nothing is repeated where the playbook does not ask, or there is no accepted run."""
    wanted = context.plan.playbook.repeat
    planned = {case.id: case for case in context.plan.playbook.cases}
    required = frozenset(case.family for case in planned.values() if case.required)
    while wanted is not None:
        result = derive.derive(context.run)
        made = _by_family(result, required)
        left = [family for family in open_cases(result, required) if len(made[family]) < wanted.most]
        added = {family: [outcome for outcome in outcomes if outcome.case.id not in planned] for family, outcomes in made.items()}
        extra = [outcome for outcomes in added.values() for outcome in outcomes]
        if not left or any(outcome.exit_status != 0 for outcome in extra):
            break
        # What a killed run began together is completed first, as it would have been: the budget was looked at before.
        rounds = max(len(outcomes) for outcomes in added.values())
        begun = [family for family in left if len(added[family]) < rounds]
        spent = sum(outcome.seconds or 0.0 for outcome in extra)
        if not begun and spent + (made[left[0]][-1].seconds or 0.0) > wanted.budget_s:
            context.say("repeat", f"budget of {format_duration(wanted.budget_s)} spent; {', '.join(left)} cannot be told")
            break
        for number, family in enumerate(begun or left):
            trial = len(made[family]) + 1
            case = dataclasses.replace(planned[family], id=f"{family}-trial-{trial}", repeats=family)
            context.say(case.id, "once more: the noise is too large to tell")
            artefact = measure(context, make(context.plan, place, case, nodes, order=order + len(extra) + number))
            if artefact.state != "ended" or artefact.exit_status != 0:
                return order + wanted.most * len(required)
    return order + (wanted.most * len(required) if wanted is not None else 0)


def _by_family(result: RunResult, required: frozenset[str]) -> dict[str, list[CaseOutcome]]:
    found: dict[str, list[CaseOutcome]] = {family: [] for family in required}
    for outcome in result.cases:
        if outcome.case.family in found and outcome.case.split is None:
            found[outcome.case.family].append(outcome)
    return found
