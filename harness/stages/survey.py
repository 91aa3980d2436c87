"""The group survey: rounds of disjoint pairs, every pair of nodes once, several groups in one launch."""

from __future__ import annotations

from busbw import derive
from busbw.artefacts import CaseArtefact
from busbw.plan import RunPlan
from busbw.records import BenchmarkCase, Collective, Sizes
from busbw.stages.context import Context
from busbw.stages.launching import Place, make
from busbw.stages.measure import measure
from busbw.survey.schedule import Round, confirmation, pair_rounds
from busbw.units import format_duration

MIN_RANKS_PER_NODE = 2
"""With one rank a node a pair is two ranks: `sendrecv`'s and a ring's two directions share the links, and one rank's noise is a node's."""


def round_case(plan: RunPlan, number: Round, ranks_per_node: int) -> BenchmarkCase:
    """The launch of one round: all groups at once, per-process times of every iteration.

    A ring all-reduce loads the network between two nodes with what every larger ring gives them; NCCL's default for two NVLink nodes is a
    tree, capped by NVLink and blind to a NIC that lost a third (physical-model.md section 4), so the algorithm is forced.
    """
    survey = plan.playbook.survey
    width = ranks_per_node * len(number.groups[0])
    return BenchmarkCase(
        id=f"survey-{number.id}",
        collective=Collective.ALL_REDUCE,
        sizes=Sizes(survey.size_bytes, survey.size_bytes),
        ranks_per_node=ranks_per_node,
        iterations=survey.iterations,
        warmup=2,
        check=0,
        blocking=3,
        per_iteration=True,
        split=f"DIV {width}",
        env=(("NCCL_ALGO", "Ring"),),
        timeout_s=max(60.0, survey.budget_s),
        stall_s=plan.playbook.cases[0].stall_s if plan.playbook.cases else 120.0,
        required=True,
        purpose="diagnosis",
    )


CONFIRMATIONS = 2
"""Launches that measure again what was accused: one disturbance does not come twice."""


def survey(context: Context, place: Place, nodes: tuple[str, ...], ranks_per_node: int, order: int) -> None:
    """Measure round after round until every pair was measured or the budget is spent, then what was accused once more.

    What was left out is told by the report."""
    spent = 0.0
    rounds = pair_rounds(nodes)
    for position, number in enumerate(rounds):
        if spent > context.plan.playbook.survey.budget_s:
            budget = format_duration(context.plan.playbook.survey.budget_s)
            context.say("survey", f"budget of {budget} spent after {position} of {len(rounds)} rounds")
            break
        artefact = _measure(context, place, number, ranks_per_node, order + position)
        spent += artefact.seconds
        if artefact.state != "ended":
            return
    for attempt in range(1, CONFIRMATIONS + 1):
        accused = derive.derive(context.run).blame
        if not accused:
            return
        suspects = tuple(b.component for b in accused if b.kind == "node")
        paths = tuple((first, second) for b in accused if b.kind == "link" for first, _, second in [b.component.partition(" – ")])
        again = confirmation(attempt, nodes, suspects, paths)
        if not again.groups or _measure(context, place, again, ranks_per_node, order + len(rounds) + attempt).state != "ended":
            return


def _measure(context: Context, place: Place, number: Round, ranks_per_node: int, order: int) -> CaseArtefact:
    case = round_case(context.plan, number, ranks_per_node)
    launch = make(context.plan, place, case, number.order(), order=order, groups=number.groups)
    context.say(case.id, " | ".join(" + ".join(group) for group in number.groups))
    return measure(context, launch)
