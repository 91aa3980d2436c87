"""More launches of a number whose comparison with the accepted runs is inconclusive."""

from __future__ import annotations

import dataclasses
import math

from busbw import assess
from busbw.model import CaseOutcome, RunResult
from busbw.model.history import Change
from busbw.parsers.stats.regression import FEWEST
from busbw.run.context import Context
from busbw.run.launching import Place, make
from busbw.run.measure import measure
from busbw.store.artefacts import CaseArtefact
from busbw.units import format_duration


def inconclusive_cases(result: RunResult, required: frozenset[str]) -> tuple[str, ...]:
    """Required cases with a number that more launches may settle."""
    shifts = result.compared.shifts if result.compared is not None else ()
    return tuple(
        dict.fromkeys(
            each.number.case_id
            for each in shifts
            if each.number.case_id in required
            and each.shift.change is Change.INCONCLUSIVE
            and each.shift.launches[0] >= FEWEST
        )
    )


def repeat(context: Context, place: Place, nodes: tuple[str, ...], order: int) -> int:
    """Repeat until nothing is inconclusive or the budget is spent; returns the next launch's order.

    Nothing is repeated without `repeat` in the playbook, or without an accepted run.
    """
    plan = context.plan.playbook.repeat
    if plan is None:
        return order
    planned = {case.id: case for case in context.plan.playbook.cases}
    required = frozenset(case.family for case in planned.values() if case.required)
    last_order = order + plan.most * len(required)
    while True:
        result = assess.derive(context.run)
        launches = _by_family(result, required)
        pending = [
            family
            for family in inconclusive_cases(result, required)
            if len(launches[family]) < plan.most
        ]
        added = {
            family: [outcome for outcome in outcomes if outcome.case.id not in planned]
            for family, outcomes in launches.items()
        }
        extra = [outcome for outcomes in added.values() for outcome in outcomes]
        if not pending or any(outcome.exit_status != 0 for outcome in extra):
            return last_order
        # A round that a killed run began is completed first: its budget was checked before.
        rounds = max(len(outcomes) for outcomes in added.values())
        begun = [family for family in pending if len(added[family]) < rounds]
        spent_s = math.fsum(outcome.seconds or 0.0 for outcome in extra)
        next_s = launches[pending[0]][-1].seconds or 0.0
        if not begun and spent_s + next_s > plan.budget_s:
            budget = format_duration(plan.budget_s)
            context.progress(
                "repeat", f"budget of {budget} spent; {', '.join(pending)} inconclusive"
            )
            return last_order
        for number, family in enumerate(begun or pending):
            trial = f"{family}-trial-{len(launches[family]) + 1}"
            case = dataclasses.replace(planned[family], id=trial, repeats=family)
            context.progress(case.id, "once more: too much noise so far")
            launch = make(context.plan, place, case, nodes, order=order + len(extra) + number)
            if not succeeded(measure(context, launch)):
                return last_order


def _by_family(result: RunResult, required: frozenset[str]) -> dict[str, list[CaseOutcome]]:
    launches: dict[str, list[CaseOutcome]] = {family: [] for family in required}
    for outcome in result.cases:
        if outcome.case.family in launches and outcome.case.split is None:
            launches[outcome.case.family].append(outcome)
    return launches


def succeeded(artefact: CaseArtefact) -> bool:
    """Whether the launch ended by itself, with exit status 0."""
    return artefact.state == "ended" and artefact.exit_status == 0
