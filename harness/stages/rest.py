"""After a failed contract: what failed, once more on the nodes that nothing accuses. Whether it then holds is the acceptance's to say."""

from __future__ import annotations

import dataclasses

from busbw import derive
from busbw.derive.acceptance import REST
from busbw.records import Blame, Status
from busbw.stages.context import Context
from busbw.stages.launching import Place, make
from busbw.stages.measure import measure

LAST = 1000
"""Order of the first of these launches: after everything else."""


def suspects(blames: tuple[Blame, ...], nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Nodes to leave out: accused ones, those whose part is accused, and of a path its first end."""
    found = []
    for blame in blames:
        named = [node for node in nodes if node in blame.component.replace(" – ", " ").split()]
        found += named[:1]
    return tuple(dict.fromkeys(found))


def measure_rest(context: Context, place: Place, nodes: tuple[str, ...]) -> None:
    """Each case with a failed criterion, without the suspects; nothing where nothing failed, nobody is accused, or fewer than two are left."""
    result = derive.derive(context.run)
    if result.acceptance is None:
        return
    failed = {each.case_id for each in result.acceptance.criteria if each.status is Status.FAIL}
    out = suspects(result.blame, nodes)
    rest = tuple(node for node in nodes if node not in out)
    if not failed or not out or len(rest) < 2:
        return
    context.say("rest", f"once more without {', '.join(out)}")
    cases = [case for case in context.plan.playbook.cases if case.id in failed]
    for position, case in enumerate(cases):
        again = dataclasses.replace(case, id=f"{REST}{case.id}", required=False)
        launch = make(context.plan, place, again, rest, order=LAST + position)
        if measure(context, launch).state != "ended":
            return
