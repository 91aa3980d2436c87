"""`busbw check --links`: the link test of the whole fleet. Loads the network, so never beside
somebody else's work."""

from __future__ import annotations

from busbw import assess
from busbw.assess import links
from busbw.run import leases, participants
from busbw.run.checking import ProbedNodes
from busbw.survey.link_baseline import LinkBaselineArtefact
from busbw.survey.measure_links import measure_fleet

SCHEMA = "busbw.links/1"


def measure(nodes: ProbedNodes, budget_s: float, *, gpu_memory: bool, sudo: bool) -> None:
    """Measure all nodes that were reached.

    Raises:
        BusyError: other jobs or another run of busbw are on the nodes.
    """
    context = nodes.context
    occupation = participants.look(context, nodes.answers, context.plan.head)
    here = tuple(context.fleet.sessions)
    participants.refuse(context, occupation, here)
    leases.take(context, here)
    plan = assess.load_plan(context.run)

    def settled(artefact: LinkBaselineArtefact) -> bool:
        return links.settled(links.judge(context.run, plan, artefact))

    try:
        measure_fleet(context, budget_s, gpu_memory=gpu_memory, sudo=sudo, settled=settled)
    finally:
        leases.release(context, here)
