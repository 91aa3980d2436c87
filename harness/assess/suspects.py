"""The findings on a run's suspects: what the survey blames, confirmed and beside the link baseline."""

from __future__ import annotations

from busbw.model import Finding
from busbw.parsers.blame import findings as blame_findings
from busbw.parsers.blame import layer_breakdown, loss, narrow
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.confirm import confirmation
from busbw.parsers.blame.layer_breakdown import RailLink
from busbw.parsers.blame.loss import PairTraffic
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.store.plan import RunPlan
from busbw.survey.confirm import confirming


def findings(
    plan: RunPlan,
    wiring: Fabric,
    outcome: BlameOutcome,
    samples: tuple[GroupSample, ...],
    links: tuple[RailLink, ...],
    carried: tuple[PairTraffic, ...],
) -> tuple[Finding, ...]:
    """One per suspect, with its confirmation or why there is none, and with its link baseline.

    `samples` and `carried`: of this run's own launches.
    """
    if not outcome.blames:
        return ()
    surveyed = {node for sample in samples for node in sample.nodes}
    nodes = tuple(node.name for node in plan.cluster.nodes if node.name in surveyed)
    interfaces = {node.name: node.data_interfaces for node in plan.cluster.nodes}
    family = plan.profile.family.name if plan.profile.family else ""
    measured = narrow.Measurements(samples, links, interfaces, family)
    cannot = dict(confirming(nodes, wiring, outcome).cannot)
    return tuple(
        narrow.narrowed(
            blame_findings.blame_finding(
                suspect,
                confirmation(suspect, part, samples, wiring, cannot.get(part, "")),
                layer_breakdown.evidence(links, suspect.component),
                loss.evidence(carried, part, outcome.flagged, wiring),
            ),
            suspect,
            measured,
        )
        for suspect, part in zip(outcome.blames, outcome.flagged, strict=True)
    )


def names(outcome: BlameOutcome) -> frozenset[str]:
    """What is flagged or suspected, by its names."""
    doubtful = (each.account.part for each in outcome.open)
    return frozenset(name for part in (*outcome.flagged, *doubtful) for name in part.names)
