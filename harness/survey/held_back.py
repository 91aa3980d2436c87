"""The nodes of a leaf in its place, where the counters around the launches of a survey say that their
own ports hold them back: TCP's on a fabric of sockets, else those of the RDMA ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from busbw.assess.counter_texts import NodeTexts, of_case
from busbw.assess.launches import Launch
from busbw.fabrics.profile import DataPath
from busbw.model.counters import CounterDelta
from busbw.parsers.blame import held_back, priors
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.held_back import Sign
from busbw.parsers.blame.loss import PairTraffic
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.tools import counters
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.survey import retransmitted


def separated(
    run: RunDir,
    plan: RunPlan,
    launches: tuple[Launch, ...],
    outcome: BlameOutcome,
    fabric: Fabric,
) -> BlameOutcome:
    """The outcome with the nodes of a leaf in its place, where their counters say so. They are read
    only where something is to be told by them.

    Raises:
        RunDirError: an artefact is not readable.
    """
    nodes = priors.doubtful_leaf(outcome)
    if not nodes:
        return outcome
    family = plan.profile.family
    traffic: Mapping[Sign, Iterable[PairTraffic]]
    if family is not None and family.data_path is DataPath.SOCKETS:
        traffic = {held_back.SEGMENTS: retransmitted.count(run, plan, launches).pairs}
    else:
        traffic = of_ports(run, launches, nodes)
    return priors.of_held_back(outcome, held_back.held_back(traffic, nodes, fabric))


def of_ports(
    run: RunDir, launches: tuple[Launch, ...], nodes: tuple[str, ...]
) -> dict[Sign, list[PairTraffic]]:
    """By sign what each pair with one of these nodes sent over its RDMA ports, all of a node together;
    pairs whose ports do not count it are left out.

    Raises:
        RunDirError: an artefact is not readable.
    """
    traffic: dict[Sign, list[PairTraffic]] = {sign: [] for sign in held_back.OF_RDMA}
    for launch in launches:
        case = launch.artefact.case.id
        pairs = dict.fromkeys(s.nodes for s in launch.samples if len(s.nodes) == 2)
        asked = [pair for pair in pairs if set(nodes) & set(pair)]
        texts = {each.node: each for each in (of_case(run, case) or ()) if asked}
        for pair in asked:
            for sign in held_back.OF_RDMA:
                counted = _counted(sign, case, pair, [texts.get(node) for node in pair])
                traffic[sign] += [counted] if counted else []
    return traffic


def _counted(
    sign: Sign, case: str, pair: tuple[str, ...], texts: list[NodeTexts | None]
) -> PairTraffic | None:
    """What the pair sent, and what of it met a full queue; None = its ports do not count it."""
    first, second = map(_changes, texts)
    sent: list[int] = []
    met: list[int] = []
    for own, partners in ((first, second), (second, first)):
        packets = _sum(own, (sign.sent,))
        counts = (_sum(own, sign.own), _sum(partners, sign.partners))
        # As the node or its partner counts it, whichever saw more.
        known = [count for count in counts if count is not None]
        if not packets or not known:
            return None
        sent.append(packets)
        met.append(max(known))
    each = tuple(count / packets for count, packets in zip(met, sent, strict=True))
    path = next((t.after.path for t in texts if t and t.after), "")
    return PairTraffic(pair, case, sum(sent), sum(met), path, of_each=each)


def _changes(texts: NodeTexts | None) -> tuple[CounterDelta, ...]:
    """What the node's counters did during the launch; () = not known."""
    if texts is None or texts.before is None or texts.after is None:
        return ()
    first = counters.parse(texts.before.text, texts.node)
    return counters.deltas(first, counters.parse(texts.after.text, texts.node))


def _sum(changes: tuple[CounterDelta, ...], names: tuple[str, ...]) -> int | None:
    """Of all ports; None = none counts it, or one began anew."""
    found = [change.delta for change in changes if change.counter in names]
    known = [delta for delta in found if delta is not None]
    return sum(known) if found and len(known) == len(found) else None
