"""A soak: the same launches again and again, and what became of them. Drift, dips, links that went
away, counters that moved."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from busbw.model import Confidence, Evidence, Finding, Status
from busbw.model.history import Drift, Soak, SoakEvent, SoakRound
from busbw.units import format_bandwidth, format_duration

FLOOR = 0.03
"""A smaller dip or drift is nobody's fault."""
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
"""Counters that stand still while all is well."""
FEWEST = 5
"""Rounds below which no trend is looked for."""
BLOCKS = 200
"""Rounds that are looked at each by itself; of more, neighbours together."""


def dips(rounds: Sequence[SoakRound]) -> tuple[SoakEvent, ...]:
    """Rounds far below the others of their case, and those that gave no number. A drift is taken
    out first, or it would hide them."""
    found = []
    for case_id in dict.fromkeys(each.case_id for each in rounds):
        own = [each for each in rounds if each.case_id == case_id]
        numbers = [each.busbw_gb_s for each in own if each.busbw_gb_s is not None]
        usual = _usual(case_id, numbers)
        off = [abs(value / level - 1) for value, level in zip(numbers, usual, strict=True)]
        deviation = 1.4826 * statistics.median(off) if off else 0.0
        levels = iter(usual)
        for each in own:
            artefact = f"raw/cases/soak-{each.number:03}-{case_id}/stdout.txt"
            if each.busbw_gb_s is None:
                found.append(
                    SoakEvent(
                        "failed", each.number, each.began, each.after_s, (), each.problem, artefact
                    )
                )
                continue
            change = each.busbw_gb_s / next(levels) - 1
            if len(numbers) >= FEWEST and change < -max(FLOOR, DEVIATIONS * deviation):
                text = (
                    f"{case_id} {format_bandwidth(each.busbw_gb_s)}, {change:+.0%} against the"
                    " median of all rounds"
                )
                found.append(
                    SoakEvent("dip", each.number, each.began, each.after_s, (), text, artefact)
                )
    return tuple(found)


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

    >>> found = drift("all-reduce", [100.0, 99.0, 98.0, 97.0, 96.0, 95.0])
    >>> round(found.change, 4), round(found.chance, 4)
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


def findings(soak: Soak) -> tuple[Finding, ...]:
    """Links that went away and failed rounds fail the run; so does a drift beyond the floor; dips
    and counters warn."""
    found = [_finding(same) for same in _alike(soak.events)]
    for each in soak.drifts:
        if abs(each.change) >= FLOOR and each.chance < SURE:
            hours = format_duration(soak.done_s)
            found.append(
                Finding(
                    id="soak-drift",
                    status=Status.FAIL if each.change < 0 else Status.WARN,
                    title=f"{each.case_id} drifted by {each.change:+.1%} over {hours}",
                    where=(),
                    evidence=(
                        Evidence(
                            "run.json",
                            None,
                            f"median of all slopes; chance without a trend {each.chance:.1g}"
                            " (Mann-Kendall)",
                        ),
                    ),
                    would_settle=(
                        (
                            "the temperatures and clocks of the first and the last round, in"
                            " raw/cases/soak-*/counters-*"
                        ),
                    ),
                    confidence=Confidence.LIKELY,
                    effect=max(0.0, -each.change),
                )
            )
    return tuple(found)


def _alike(events: Sequence[SoakEvent]) -> tuple[tuple[SoakEvent, ...], ...]:
    """The events, those of one counter of one place together: what moves in every third round is
    one thing to look at, not twenty."""
    found: dict[str, list[SoakEvent]] = {}
    for number, event in enumerate(events):
        found.setdefault(
            event.text.rpartition("+")[0] if event.kind == "counter" else str(number), []
        ).append(event)
    return tuple(tuple(same) for same in found.values())


def _finding(events: tuple[SoakEvent, ...]) -> Finding:
    first, last = events[0], events[-1]
    title = f"{first.text}, in round {first.number}, {when(first)}"
    if len(events) > 1:
        what, total = (
            first.text.rpartition(" +")[0],
            sum(int(event.text.rpartition("+")[2]) for event in events),
        )
        title = (
            f"{what} +{total} in {len(events)} rounds; round {first.number}, {when(first)}, to"
            f" round {last.number}, {when(last)}"
        )
    status = (
        Status.WARN
        if first.kind in ("dip", "counter")
        else Status.FAIL
        if first.kind == "link-down"
        else Status.UNKNOWN
    )
    return Finding(
        id=f"soak-{first.kind}",
        status=status,
        title=title,
        where=first.where,
        evidence=tuple(Evidence(event.artefact, event.line_no, event.text) for event in events[:8]),
        verify=("busbw run soak",),
        confidence=Confidence.CERTAIN if first.kind == "link-down" else Confidence.LIKELY,
    )


def when(event: SoakEvent) -> str:
    """`began 2026-11-20T02:12:00Z, 1 h 2 min into the soak`."""
    began = f"began {event.began}, " if event.began else ""
    return f"{began}{format_duration(event.after_s)} into the soak"


def summary(found: Soak) -> str:
    """One line of where a soak stands, after its last round: each case's newest number, its median
    and its trend, and what happened."""
    last = found.rounds[-1]
    trends = {
        each.case_id: f"drift {each.change:+.1%}" for each in found.drifts if each.chance < LIKELY
    }
    told = []
    for each in (each for each in found.rounds if each.number == last.number):
        numbers = [
            one.busbw_gb_s
            for one in found.rounds
            if one.case_id == each.case_id and one.busbw_gb_s is not None
        ]
        now = (
            format_bandwidth(each.busbw_gb_s)
            if each.busbw_gb_s is not None
            else f"no number ({each.problem})"
        )
        middle = (
            f"median {format_bandwidth(statistics.median(numbers))}" if numbers else "no number yet"
        )
        told.append(f"{each.case_id} {now} ({middle}, {trends.get(each.case_id, 'no trend')})")
    strange = [event for event in found.events if event.kind in ("dip", "failed", "link-down")]
    events = f"{len(strange)} event{'' if len(strange) == 1 else 's'}"
    events += f", the last {strange[-1].kind} {when(strange[-1])}" if strange else ""
    stands = (
        f"round {last.number}, {format_duration(found.done_s)} of"
        f" {format_duration(found.planned_s)}"
    )
    return f"{stands}: {', '.join(told)}; {events}"
