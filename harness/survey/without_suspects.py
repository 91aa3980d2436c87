"""After a failed contract: what failed, once more without the suspects. Whether it then holds is for
the acceptance to decide."""

from __future__ import annotations

import dataclasses

from busbw import assess
from busbw.assess.contract import REST
from busbw.model import Blame, LaunchRole, Status
from busbw.run.context import Context
from busbw.run.launching import Place, make
from busbw.run.measure import measure as measure_launch

FIRST_ORDER = 1000
"""Order of the first of these launches: after everything else."""


def suspects(blames: tuple[Blame, ...], nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Nodes to leave out: suspects, nodes with a suspect rail, and the first node of a slow pair."""
    first = []
    for blame in blames:
        named = [node for node in nodes if node in blame.component.nodes]
        first += named[:1]
    return tuple(dict.fromkeys(first))


def measure(context: Context, place: Place, nodes: tuple[str, ...]) -> None:
    """Each case with a failed criterion, without the suspects; nothing where nothing failed, there
    is no suspect, or fewer than two nodes remain."""
    result = assess.derive(context.run)
    if result.acceptance is None:
        return
    failed = {each.case_id for each in result.acceptance.criteria if each.status is Status.FAIL}
    excluded = suspects(result.blame, nodes)
    rest = tuple(node for node in nodes if node not in excluded)
    if not failed or not excluded or len(rest) < 2:
        return
    context.progress("rest", f"once more without {', '.join(excluded)}")
    cases = [case for case in context.plan.playbook.cases if case.id in failed]
    for position, case in enumerate(cases):
        again = dataclasses.replace(
            case, id=f"{REST}{case.id}", role=LaunchRole.WITHOUT_SUSPECTS, required=False
        )
        launch = make(context.plan, place, again, rest, order=FIRST_ORDER + position)
        if measure_launch(context, launch).state != "ended":
            return
