"""The accusations of a run as findings: each with its confirmation, or with why there is none, and with its raw link where that was measured.

And what a survey was asked for beside them and did not come to.
"""

from __future__ import annotations

from busbw.parsers.judge import blame_layers, blame_loss, blame_words
from busbw.parsers.judge.blame import BlameOutcome
from busbw.parsers.judge.blame_confirm import CASE, confirmation
from busbw.parsers.judge.blame_layers import Layer
from busbw.parsers.judge.blame_loss import Carried
from busbw.parsers.judge.blame_parts import Fabric
from busbw.parsers.judge.groups import GroupSample
from busbw.plan import RunPlan
from busbw.records import Finding, Uncovered
from busbw.survey import schedule
from busbw.survey.confirm import confirming


def findings(
    plan: RunPlan,
    fabric: Fabric,
    outcome: BlameOutcome,
    samples: tuple[GroupSample, ...],
    raw_links: tuple[Layer, ...],
    carried: tuple[Carried, ...],
) -> tuple[Finding, ...]:
    """One for each part that is accused. `samples` and `carried`: of this run's own launches."""
    if not outcome.blames:
        return ()
    measured = {node for sample in samples for node in sample.nodes}
    nodes = tuple(node.name for node in plan.cluster.nodes if node.name in measured)
    cannot = dict(confirming(nodes, fabric, outcome).cannot)
    return tuple(
        blame_words.blame_finding(
            blame,
            confirmation(blame, part, samples, fabric, cannot.get(part, "")),
            blame_layers.evidence(raw_links, blame.component),
            blame_loss.beside(carried, part, outcome.accused, fabric),
        )
        for blame, part in zip(outcome.blames, outcome.accused, strict=True)
    )


def climbed(plan: RunPlan, samples: tuple[GroupSample, ...]) -> tuple[Uncovered, ...]:
    """What is missing of a ladder that the playbook asks for."""
    if "ladder" not in plan.playbook.survey.groups:
        return ()
    measured = {sample.launch for sample in samples}
    # The ladder of a run is that of the nodes that took part.
    nodes = {node for sample in samples for node in sample.nodes}
    planned = schedule.ladder(tuple(node.name for node in plan.cluster.nodes if node.name in nodes))
    missing = [number.groups[0] for number in planned if len(nodes) > 1 and CASE + number.id not in measured]
    if not missing:
        return ()
    counts = ", ".join(str(len(group)) for group in missing)
    return (Uncovered(f"the ladder at {counts} nodes", "no budget was left, or a launch failed", "busbw run --survey --budget 20m"),)
