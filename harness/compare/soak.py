"""A soak repeats the same launches for hours: drift, dips, lost links, error counters."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from busbw.model import Confidence, Evidence, Finding, Status
from busbw.model.history import Drift, Soak, SoakEvent, SoakRound
from busbw.parsers.findings.catalogue import filled
from busbw.units import counted, format_bandwidth, format_duration

FLOOR = 0.03
"""A smaller dip or drift is no fault."""
DEVIATIONS = 6.0
"""Robust deviations below the median from which a round is a dip: in 10,000 rounds of normal noise
less than one."""
SURE = 1e-3
LIKELY = 0.05
LINK_COUNTERS = ("carrier_down_count", "link_downed")
WATCHED = (
    *LINK_COUNTERS,
    "link_error_recovery",
    "symbol_error",
    "port_rcv_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "rx_errors",
    "tx_errors",
    "tx_carrier_errors",
    "local_ack_timeout_err",
    "packet_seq_err",
    "out_of_sequence",
    "TcpExtTCPTimeouts",
    "aer_dev_fatal",
    "aer_dev_nonfatal",
)
"""Counters that do not move on a healthy node."""
FEWEST = 5
"""Fewer rounds have no trend."""
BLOCKS = 200
"""Rounds that count one by one; of more, the medians of neighbours."""


def dips(rounds: Sequence[SoakRound]) -> tuple[SoakEvent, ...]:
    """Rounds far below the others of their case, and those without a number. A drift is taken out
    first, or it would hide them."""
    events: list[SoakEvent] = []
    for case_id in dict.fromkeys(each.case_id for each in rounds):
        events += _dips(case_id, [each for each in rounds if each.case_id == case_id])
    return tuple(events)


def _dips(case_id: str, rounds: Sequence[SoakRound]) -> Iterator[SoakEvent]:
    numbers = [each.busbw_gb_s for each in rounds if each.busbw_gb_s is not None]
    usual = _usual(case_id, numbers)
    residuals = [abs(value / level - 1) for value, level in zip(numbers, usual, strict=True)]
    deviation = 1.4826 * statistics.median(residuals) if residuals else 0.0
    levels = iter(usual)
    for each in rounds:
        artefact = f"raw/cases/soak-{each.number:03}-{case_id}/stdout.txt"
        at = (each.number, each.began, each.after_s, ())
        if each.busbw_gb_s is None:
            yield SoakEvent("failed", *at, each.problem, artefact)
            continue
        change = each.busbw_gb_s / next(levels) - 1
        if len(numbers) >= FEWEST and change < -max(FLOOR, DEVIATIONS * deviation):
            value = format_bandwidth(each.busbw_gb_s)
            text = f"{case_id} {value}, {change:+.0%} against the median of all rounds"
            yield SoakEvent("dip", *at, text, artefact)


def _usual(case_id: str, numbers: Sequence[float]) -> list[float]:
    """What each round would have given without noise: the median of all, on the line of the drift
    where there is one."""
    middle = statistics.median(numbers) if numbers else 0.0
    trend = drift(case_id, numbers)
    change = trend.change if trend is not None and trend.chance < LIKELY else 0.0
    return [
        middle * (1 + change * (place / (len(numbers) - 1) - 0.5)) if change else middle
        for place in range(len(numbers))
    ]


def drift(case_id: str, numbers: Sequence[float]) -> Drift | None:
    """The trend over rounds that lie evenly in time; None = too few.

    >>> trend = drift("all-reduce", [100.0, 99.0, 98.0, 97.0, 96.0, 95.0])
    >>> round(trend.change, 4), round(trend.chance, 4)
    (-0.0513, 0.0085)
    """
    if len(numbers) < FEWEST:
        return None
    # Of a long soak the medians of neighbours: as telling, and pairs grow with the square.
    step = -(-len(numbers) // BLOCKS)
    values = [statistics.median(numbers[i : i + step]) for i in range(0, len(numbers), step)]
    count = len(values)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    slope = statistics.median((values[j] - values[i]) / (j - i) for i, j in pairs)
    sign = sum((values[j] > values[i]) - (values[j] < values[i]) for i, j in pairs)
    z = max(0.0, abs(sign) - 1) / math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return Drift(
        case_id,
        slope * (len(numbers) - 1) / step / statistics.median(numbers),
        math.erfc(z / math.sqrt(2)),
    )


_STATUS = {
    "dip": Status.WARN,
    "counter": Status.WARN,
    "link-down": Status.FAIL,
    "failed": Status.UNKNOWN,
}


def findings(soak: Soak) -> tuple[Finding, ...]:
    """Lost links and a drift beyond the floor fail the run; failed rounds leave it open; dips and
    counters warn."""
    drifts = [each for each in soak.drifts if abs(each.change) >= FLOOR and each.chance < SURE]
    return (
        *(_event_finding(events) for events in _by_counter(soak.events)),
        *(_drift_finding(drift, soak.done_s) for drift in drifts),
    )


def _drift_finding(drift: Drift, done_s: float) -> Finding:
    chance = f"chance without a trend {drift.chance:.1g} (Mann-Kendall)"
    finding = Finding(
        id="soak-drift",
        status=Status.FAIL if drift.change < 0 else Status.WARN,
        title=f"{drift.case_id} drifted by {drift.change:+.1%} over {format_duration(done_s)}",
        where=(),
        evidence=(Evidence("run.json", None, f"median of all slopes; {chance}"),),
        confidence=Confidence.LIKELY,
        effect=max(0.0, -drift.change),
    )
    return filled(finding)


def _by_counter(events: Sequence[SoakEvent]) -> tuple[tuple[SoakEvent, ...], ...]:
    """The events; those of one counter of one place together: what moves in every third round is
    one thing to look at, not twenty."""
    groups: dict[tuple[object, ...], list[SoakEvent]] = {}
    for index, event in enumerate(events):
        key = (event.where, event.counter) if event.kind == "counter" else (index,)
        groups.setdefault(key, []).append(event)
    return tuple(map(tuple, groups.values()))


def _event_finding(events: tuple[SoakEvent, ...]) -> Finding:
    first, last = events[0], events[-1]
    title = f"{first.text}, in round {first.number}, {when(first)}"
    if len(events) > 1:
        total = sum(event.delta for event in events)
        title = (
            f"{', '.join(first.where)} {first.counter} +{total} in {counted(len(events), 'round')};"
            f" round {first.number}, {when(first)}, to round {last.number}, {when(last)}"
        )
    finding = Finding(
        id=f"soak-{first.kind}",
        status=_STATUS[first.kind],
        title=title,
        where=first.where,
        evidence=tuple(Evidence(event.artefact, event.line_no, event.text) for event in events[:8]),
        confidence=Confidence.CERTAIN if first.kind == "link-down" else Confidence.LIKELY,
    )
    return filled(finding)


def when(event: SoakEvent) -> str:
    """`began 2026-11-20T02:12:00Z, 1 h 2 min into the soak`."""
    began = f"began {event.began}, " if event.began else ""
    return f"{began}{format_duration(event.after_s)} into the soak"


def summary(soak: Soak) -> str:
    """One line after a round: each case's newest number, median and trend, and what happened."""
    last = soak.rounds[-1].number
    cases = [_case_summary(soak, each) for each in soak.rounds if each.number == last]
    notable = [event for event in soak.events if event.kind in ("dip", "failed", "link-down")]
    events = f"{len(notable)} event{'' if len(notable) == 1 else 's'}"
    if notable:
        events += f", the last {notable[-1].kind} {when(notable[-1])}"
    progress = f"{format_duration(soak.done_s)} of {format_duration(soak.planned_s)}"
    return f"round {last}, {progress}: {', '.join(cases)}; {events}"


def _case_summary(soak: Soak, now: SoakRound) -> str:
    rounds = [each.busbw_gb_s for each in soak.rounds if each.case_id == now.case_id]
    numbers = [value for value in rounds if value is not None]
    trend = "no trend"
    for drift in soak.drifts:
        if drift.case_id == now.case_id and drift.chance < LIKELY:
            trend = f"drift {drift.change:+.1%}"
    value, middle = f"no number ({now.problem})", "no number yet"
    if now.busbw_gb_s is not None:
        value = format_bandwidth(now.busbw_gb_s)
    if numbers:
        middle = f"median {format_bandwidth(statistics.median(numbers))}"
    return f"{now.case_id} {value} ({middle}, {trend})"
