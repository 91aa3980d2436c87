"""Rows of a run as lines over message size: one sweep per collective, repetitions of a size put together."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from busbw.records import BenchmarkRow, CaseOutcome, Measurement, RunResult
from busbw.reports import lead

_TIMED = ("bandwidth", "latency")
"""Purposes whose times may stand in one picture; proof, correctness and diagnosis runs are slowed by what they look at."""


@dataclass(frozen=True, slots=True)
class Side:
    """One direction (out of place or in place) at one size, over all repetitions."""

    busbw_gb_s: float
    """Median of the repetitions."""
    low_gb_s: float
    high_gb_s: float
    time_us: float
    """Median of the repetitions."""
    algbw_gb_s: float


@dataclass(frozen=True, slots=True)
class Point:
    """One message size of one case."""

    case_id: str
    size_bytes: int
    repetitions: int
    out_of_place: Side | None
    in_place: Side | None
    wrong: int | None
    """Wrong elements over all repetitions and directions; None = not checked in any."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """All timed points of one collective, by case (in the order of the plan), then by size."""

    collective: str
    nranks: int | None
    points: tuple[Point, ...]

    def pieces(self) -> tuple[tuple[Point, ...], ...]:
        """Points of one case each: lines are drawn within a case, never across."""
        return tuple(tuple(p for p in self.points if p.case_id == case) for case in dict.fromkeys(p.case_id for p in self.points))


def sweeps(result: RunResult) -> tuple[Sweep, ...]:
    """One sweep per collective that was timed over all nodes together, in the order of the plan."""
    timed = [o for o in result.cases if o.case.purpose in _TIMED and not lead.is_survey(o) and any(r.rows for r in o.results)]
    made = []
    for collective in dict.fromkeys(outcome.case.collective.value for outcome in timed):
        own = [outcome for outcome in timed if outcome.case.collective.value == collective]
        nranks = next((r.nranks for outcome in own for r in outcome.results if r.nranks is not None), None)
        made.append(Sweep(collective, nranks, tuple(point for outcome in own for point in _points(outcome))))
    return tuple(made)


def _points(outcome: CaseOutcome) -> list[Point]:
    by_size: dict[int, list[BenchmarkRow]] = {}
    for result in outcome.results:
        for row in result.rows:
            by_size.setdefault(row.size_bytes, []).append(row)
    return [_point(outcome.case.id, size, by_size[size]) for size in sorted(by_size)]


def _point(case_id: str, size_bytes: int, rows: list[BenchmarkRow]) -> Point:
    both = [side for row in rows for side in (row.out_of_place, row.in_place) if side is not None]
    checked = [side.wrong for side in both if side.wrong is not None]
    return Point(
        case_id,
        size_bytes,
        len(rows),
        _side(row.out_of_place for row in rows),
        _side(row.in_place for row in rows),
        sum(checked) if checked else None,
    )


def _side(measurements: Iterable[Measurement | None]) -> Side | None:
    own = [m for m in measurements if m is not None]
    if not own:
        return None
    busbw = [m.busbw_gb_s for m in own]
    return Side(
        statistics.median(busbw),
        min(busbw),
        max(busbw),
        statistics.median(m.time_us for m in own),
        statistics.median(m.algbw_gb_s for m in own),
    )
