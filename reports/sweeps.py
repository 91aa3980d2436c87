"""Rows of a run as lines over message size: one sweep per collective, repetitions of a size put
together."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from busbw.model import (
    BenchmarkResult,
    BenchmarkRow,
    CaseOutcome,
    LaunchRole,
    Measurement,
    RunResult,
)
from busbw.reports import lead

_TIMED = ("bandwidth", "latency")
"""Purposes whose times may stand in one picture; proof, correctness and diagnosis runs are slowed
by what they look at."""


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
        pieces: dict[str, list[Point]] = {}
        for point in self.points:
            pieces.setdefault(point.case_id, []).append(point)
        return tuple(map(tuple, pieces.values()))


def sweeps(result: RunResult) -> tuple[Sweep, ...]:
    """One sweep per collective that was timed over all nodes together, in the order of the plan."""
    timed: dict[str, list[CaseOutcome]] = {}
    for outcome in result.cases:
        if outcome.case.purpose not in _TIMED or lead.is_survey(outcome):
            continue
        if outcome.case.role is LaunchRole.WITHOUT_SUSPECTS:
            continue  # other nodes: no launch of this curve
        if any(table.rows for table in outcome.results):
            timed.setdefault(outcome.case.collective.value, []).append(outcome)
    return tuple(_sweep(collective, outcomes) for collective, outcomes in timed.items())


def _sweep(collective: str, outcomes: list[CaseOutcome]) -> Sweep:
    tables = [table for outcome in outcomes for table in outcome.results]
    nranks = next((table.nranks for table in tables if table.nranks is not None), None)
    families: dict[str, list[BenchmarkResult]] = {}
    for outcome in outcomes:
        families.setdefault(outcome.case.family, []).extend(outcome.results)
    points = tuple(point for name, own in families.items() for point in _points(name, own))
    return Sweep(collective, nranks, points)


def _points(case_id: str, launches: list[BenchmarkResult]) -> list[Point]:
    """Of a case with all launches that repeat it: the medians are what is judged."""
    by_size: dict[int, list[BenchmarkRow]] = {}
    for result in launches:
        for row in result.rows:
            by_size.setdefault(row.size_bytes, []).append(row)
    return [_point(case_id, size, by_size[size]) for size in sorted(by_size)]


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


SideOf = Callable[[Point], Side | None]
