"""What the nodes of each measured pair retransmitted, from the counters around the launches of a
survey, and who loses packets by that."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.assess.counter_texts import NodeTexts, of_case
from busbw.assess.launches import Launch
from busbw.fabrics.profile import DataPath
from busbw.model import ComponentKind, Finding, Uncovered
from busbw.parsers.blame import loss
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.loss import PairTraffic
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.tools import counters
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir

_OF_ONE_NODE = (ComponentKind.NODE, ComponentKind.RAIL, ComponentKind.INTRA_NODE)


@dataclass(frozen=True, slots=True)
class Counted:
    """All pairs of a run's survey; none where the benchmark's traffic is not TCP's, which no
    kernel's counter of segments sees."""

    pairs: tuple[PairTraffic, ...]
    uncovered: tuple[Uncovered, ...]
    """Nodes whose pairs could not be counted."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """By one node during one launch, in TCP segments."""

    sent: int
    retransmitted: int
    path: str
    """The later counters."""
    line_no: int


def count(run: RunDir, plan: RunPlan, launches: tuple[Launch, ...]) -> Counted:
    """What each pair sent, and sent again, in each of its launches.

    Raises:
        RunDirError: an artefact is not readable.
    """
    family = plan.profile.family
    if family is None or family.data_path is not DataPath.SOCKETS:
        return Counted((), ())
    pairs: list[PairTraffic] = []
    blind: dict[str, dict[str, str]] = {}
    for launch in launches:
        counted, why = pairs_of(run, launch)
        pairs += counted
        for node, reason in why.items():
            blind.setdefault(node, {})[launch.artefact.case.id] = reason
    return Counted(tuple(pairs), not_counted(blind))


def findings(
    pairs: tuple[PairTraffic, ...], outcome: BlameOutcome, fabric: Fabric
) -> tuple[Finding, ...]:
    """Who loses packets."""
    # Queues before what is slow overflow, and drop packets themselves.
    slow = {(level.sample.launch, frozenset(level.sample.nodes)) for level in outcome.explained}
    bad = {name for part in outcome.flagged if part.kind in _OF_ONE_NODE for name in part.names}
    unexplained = (
        p for p in pairs if (p.launch, frozenset(p.nodes)) not in slow and not bad & set(p.nodes)
    )
    return loss.findings(tuple(unexplained), fabric)


def not_counted(blind: dict[str, dict[str, str]]) -> tuple[Uncovered, ...]:
    """By node and launch why it could not be counted, in one line for all nodes that miss the same
    launches: a thousand nodes may miss them all."""
    alike: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for node, launches in blind.items():
        alike.setdefault((tuple(launches), next(iter(launches.values()))), []).append(node)
    rows = []
    for (cases, why), nodes in alike.items():
        names = ", ".join(nodes[:8])
        if len(nodes) > 8:
            names += f" and {len(nodes) - 8} more"
        plural = "es" if len(cases) > 1 else ""
        rows.append(
            Uncovered(
                f"packets lost by the pairs of {names}",
                f"{why}, in {len(cases)} launch{plural}",
                "nstat -az TcpRetransSegs TcpOutSegs on the nodes, before and after a launch",
            )
        )
    return tuple(rows)


def pairs_of(run: RunDir, launch: Launch) -> tuple[tuple[PairTraffic, ...], dict[str, str]]:
    """What each pair of a launch sent, and by node why it could not be counted.

    Raises:
        RunDirError: an artefact is not readable.
    """
    groups = dict.fromkeys(sample.nodes for sample in launch.samples if len(sample.nodes) == 2)
    if not groups:
        return (), {}
    texts = {node.node: node for node in of_case(run, launch.artefact.case.id) or ()}
    each = {node: _sent(texts.get(node)) for nodes in groups for node in nodes}
    sent = {node: of_node for node, of_node in each.items() if isinstance(of_node, _Sent)}
    pairs = []
    for nodes in groups:
        ends = [sent[node] for node in nodes if node in sent]
        if len(ends) == len(nodes):
            most = max(ends, key=lambda of_node: of_node.retransmitted)
            pairs.append(
                PairTraffic(
                    nodes,
                    launch.artefact.case.id,
                    sum(n.sent for n in ends),
                    sum(n.retransmitted for n in ends),
                    most.path,
                    most.line_no,
                    tuple(n.retransmitted / n.sent for n in ends),
                )
            )
    return tuple(pairs), {node: why for node, why in each.items() if isinstance(why, str)}


def _sent(texts: NodeTexts | None) -> _Sent | str:
    """During the launch, or why that is not known."""
    if texts is None or texts.before is None or texts.after is None:
        return texts.problems[0] if texts and texts.problems else "no counters were taken"
    first, second = counters.segments(texts.before.text), counters.segments(texts.after.text)
    if first is None or second is None:
        return "its counters do not say how many TCP segments were sent"
    if second[0] <= first[0] or second[1] < first[1]:
        return "its counters did not grow during the launch, or began anew"
    return _Sent(second[0] - first[0], second[1] - first[1], texts.after.path, second[2])
