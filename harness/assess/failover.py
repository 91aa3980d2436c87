"""A rail that died in a run with port failover: NCCL moves its traffic to the ports that are left, so
that the job goes on at their rate. Judged from its log, the ports' counters and the bandwidth.

Line of NCCL 2.29.7 to 2.30.7 (`src/transport/net_ib/p2p_resiliency.cc`): `NET/IB: Device 1 marked as
failed. …`. Its number is that of the port inside the connection, on both ends of it: which rail died
is seen in the counters of the nodes.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from busbw.assess import counters, proof
from busbw.assess.counters import CaseCounters
from busbw.assess.launches import Launch
from busbw.fabrics.nccl_settings import FAILOVER, is_on
from busbw.inventory.hostlist import fold
from busbw.model import Confidence, Evidence, Finding, Status
from busbw.model.counters import RailBytes
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.logs import nccl_line
from busbw.store.run_directory import RunDir
from busbw.text import decoded
from busbw.units import format_size

_MOVED = re.compile(r"^.*NET/IB ?: (?:\w+: )?Device \d+ marked as failed\..*$", re.M)
_GONE = "link_downed"
_LITTLE = 0.75
"""A port with less than this share of its node's busiest one lost traffic while it was measured."""
_HALVED = (0.3, 0.8)
"""Shares of the rate before it that one port of two leaves: half, and what the time before the
failure adds. Without NCCL's line only a share in between counts."""
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Rail:
    """A port that lost its link or its traffic while a case ran."""

    node: str
    device: str
    text: str
    artefact: str
    line_no: int | None
    went_down: bool
    """True = its link went down; False = it only moved less than the others of its node."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The largest size of a launch, and what the launches before it reached there."""

    size_bytes: int
    busbw_gb_s: float
    before_gb_s: float
    """Median."""

    @property
    def share(self) -> float:
        """Of the rate before."""
        return self.busbw_gb_s / self.before_gb_s


def findings(
    run: RunDir, settings: Mapping[str, str], launches: tuple[Launch, ...]
) -> Iterator[Finding]:
    """One for each launch in which a rail died and the job went on."""
    whole = [launch for launch in launches if not launch.artefact.groups]
    moved: set[str] = set()
    for launch in whole:
        case_id = launch.artefact.case.id
        lines = _lines(run, launch)
        if not lines and not is_on(settings, FAILOVER):
            continue
        before = [each for each in whole if each.artefact.case.id not in moved | {case_id}]
        rate = _rate(
            launch, [each for each in before if each.artefact.order < launch.artefact.order]
        )
        finding = judged(case_id, lines, counters.load(run, case_id), rate)
        if finding is not None:
            moved.add(case_id)
            yield finding


def judged(
    case_id: str, lines: tuple[Evidence, ...], counted: CaseCounters | None, rate: Rate | None
) -> Finding | None:
    """What log, counters and rate of a launch say together; None = nothing of a failover.

    `lines`: of NCCL's log. Without one, only a link that went down in a launch that lost about half
    counts, and is likely at most.
    """
    rails = _rails(counted)
    down = [rail for rail in rails if rail.went_down]
    named = down or rails
    halved = rate is not None and _HALVED[0] <= rate.share <= _HALVED[1]
    if not lines and not (down and halved):
        return None
    sure = Confidence.CERTAIN if lines and down else Confidence.LIKELY
    which = ", ".join(f"{rail.node} {rail.device}" for rail in named[:_SHOWN])
    subject = f"{which} failed" if named else "a port failed"
    title = f"{subject}: the job halves, it does not stop"
    if rate is not None:
        title += (
            f", {rate.busbw_gb_s:.3g} of {rate.before_gb_s:.3g} GB/s at"
            f" {format_size(rate.size_bytes)} ({rate.share:.0%})"
        )
    title += f"; NCCL moved the traffic to the port that is left, in {case_id}"
    shown = [Evidence(rail.artefact, rail.line_no, rail.text) for rail in named[:_SHOWN]]
    nodes = sorted({rail.node for rail in named})
    return filled(
        Finding(
            id="ib-port-failed-over",
            status=Status.FAIL,
            title=title,
            where=tuple(f"{rail.node} {rail.device}" for rail in named[:_SHOWN]) or tuple(nodes),
            evidence=(*lines[:_SHOWN], *shown)
            or (Evidence(f"raw/cases/{case_id}/outcome.json", None, fold(nodes)),),
            confidence=sure,
        )
    )


def _lines(run: RunDir, launch: Launch) -> tuple[Evidence, ...]:
    """NCCL's lines of the failover, as the ranks wrote them."""
    texts = [(path, log.content) for path, log in proof.rank_texts(run, launch)]
    for path in (launch.artefact.stdout, launch.artefact.stderr):
        content = run.kept(path)
        if path and content:
            texts.append((path, content))
    found = []
    for path, content in texts:
        text = decoded(content)
        for match in _MOVED.finditer(text):
            if nccl_line.parse_line(match[0]) is not None:
                line_no = text.count("\n", 0, match.start()) + 1
                found.append(Evidence(path, line_no, match[0].strip()[:400]))
    return tuple(found)


def _rails(counted: CaseCounters | None) -> tuple[Rail, ...]:
    """Ports whose link went down; where none did, the ports of each node that moved less than its
    others."""
    if counted is None:
        return ()
    down = [
        Rail(
            each.after.node,
            delta.device,
            f"{delta.device} {_GONE} {delta.before} → {delta.after}",
            each.after.artefact,
            delta.line_no,
            went_down=True,
        )
        for each in counted.nodes
        for delta in each.deltas
        if delta.counter == _GONE and (delta.delta or 0) > 0
    ]
    if down:
        return tuple(down)
    return tuple(rail for each in counted.nodes for rail in _idle(each.rails, each.after.artefact))


def _idle(rails: tuple[RailBytes, ...], artefact: str) -> Iterator[Rail]:
    sent = {rail.device: rail.sent_bytes for rail in rails if rail.sent_bytes is not None}
    most = max(sent.values(), default=0)
    for device, amount in sent.items():
        # A port that carries nothing at all is none of the benchmark's rails.
        if 0 < amount < _LITTLE * most:
            text = f"{device} sent {amount / 1e9:.3g} GB, the busiest port {most / 1e9:.3g} GB"
            node = next(rail.node for rail in rails if rail.device == device)
            yield Rail(node, device, text, artefact, None, went_down=False)


def _rate(launch: Launch, before: list[Launch]) -> Rate | None:
    """None = the launch gave no table, or none before it measured the same."""
    own = _largest(launch)
    if own is None:
        return None
    size, busbw = own
    case = launch.artefact.case
    known = [
        rate
        for each in before
        if each.artefact.case.collective == case.collective
        and each.artefact.nodes == launch.artefact.nodes
        and (rate := _at(each, size)) is not None
    ]
    return Rate(size, busbw, statistics.median(known)) if known else None


def _largest(launch: Launch) -> tuple[int, float] | None:
    sizes = [row.size_bytes for result in launch.results for row in result.rows]
    size = max(sizes, default=0)
    rate = _at(launch, size)
    return (size, rate) if rate is not None else None


def _at(launch: Launch, size: int) -> float | None:
    """Bandwidth of a launch at that size in GB/s; None = it has no such row, or a rate of 0."""
    rates = [
        measured.busbw_gb_s
        for result in launch.results
        for row in result.rows
        if row.size_bytes == size
        for measured in (row.out_of_place,)
        if measured is not None and measured.busbw_gb_s
    ]
    return rates[0] if rates else None
