"""Each process's time of the same collective, in rank order: who is slow, and whose iterations
spread."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.model import CaseOutcome, ProcessTimes
from busbw.reports import phrases
from busbw.reports.charts import axes, strip
from busbw.reports.charts.svg import Drawing
from busbw.reports.groups import suspect_nodes
from busbw.reports.input import ReportInput
from busbw.reports.sections.curve import Cursor
from busbw.units import counted, format_size, format_time_us

OUTLIER_RATIO = 1.10
"""The line above which a process counts as an outlier: 10 %, the rule of thumb for spread over
ranks (measurement.md, articles)."""
_WORST = 20
_CURSOR_UP_TO = 1100


@dataclass(frozen=True, slots=True)
class Row:
    """One process of the table."""

    process: int
    host: str
    median: str
    ratio: str
    slowest: str
    """Its slowest iteration over its own median."""
    deviation: str
    """Standard deviation over mean of its iterations."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """One picture and the processes with the highest ratio."""

    heading: str
    conclusion: str
    picture: Drawing
    cursor: Cursor | None
    rows: tuple[Row, ...]
    total: int
    outliers: bool
    """Whether a process is slower than the rest."""


@dataclass(frozen=True, slots=True)
class _Process:
    times: ProcessTimes
    median_us: float
    ratio: float


def view(report: ReportInput) -> tuple[Ranks, ...] | None:
    """A picture per case that gave per-process times of one communicator; None = none did."""
    panels = []
    suspects = frozenset(suspect_nodes(report.result))
    for outcome in report.result.cases:
        times = _one_communicator(outcome)
        if times:
            panels.append(_ranks(outcome, times, suspects))
    return tuple(panels) or None


def _one_communicator(outcome: CaseOutcome) -> tuple[ProcessTimes, ...]:
    """Times at the largest size, out of place where there is such; () = none, or of several groups,
    which the survey shows."""
    every = [t for result in outcome.results for t in result.process_times if t.times_us]
    if outcome.case.split is not None or not every:
        return ()
    size = max(t.size_bytes for t in every)
    largest = [t for t in every if t.size_bytes == size]
    in_place = all(t.in_place for t in largest)
    own = {t.process: t for t in largest if t.in_place is in_place}
    if len(own) < 2 or len({t.group for t in own.values()}) > 1:
        return ()
    return tuple(own[process] for process in sorted(own))


def _ranks(
    outcome: CaseOutcome, times: tuple[ProcessTimes, ...], suspects: frozenset[str]
) -> Ranks:
    medians = [statistics.median(t.times_us) for t in times]
    middle = statistics.median(medians)
    processes = []
    for own, median in zip(times, medians, strict=True):
        processes.append(_Process(own, median, median / middle if middle else 1.0))
    outliers = [p for p in processes if p.ratio > OUTLIER_RATIO]
    heading = (
        f"{outcome.case.id}: {counted(len(times), 'process', 'processes')},"
        f" {format_size(times[0].size_bytes)}"
    )
    conclusion = _conclusion(processes, outliers, middle)
    marks = tuple(_mark(p, middle, suspects) for p in processes)
    picture = strip.Strip(
        key=f"ranks-{_key(outcome.case.id)}",
        title=f"Time per process relative to the median, {heading}",
        description=conclusion,
        y=axes.linear(
            max(OUTLIER_RATIO + 0.05, *(m.high for m in marks)),
            min(0.9, *(m.low for m in marks)),
            most=5,
        ),
        y_label="× median",
        marks=marks,
        first=_end(times[0]),
        last=_end(times[-1]),
        rules=(strip.Rule(OUTLIER_RATIO, f"{OUTLIER_RATIO:.2f} ×"),),
        nodes=all(t.host is not None for t in times),
    )
    cursor = None
    if len(times) <= _CURSOR_UP_TO:
        cursor = Cursor(
            tuple(strip.place(picture, i) for i in range(len(times))),
            tuple(_cursor_text(p) for p in processes),
        )
    worst = sorted(processes, key=lambda p: (-p.ratio, p.times.process))[:_WORST]
    rows = tuple(_row(p) for p in worst)
    drawing = strip.draw_both(picture)
    return Ranks(heading, conclusion, drawing, cursor, rows, len(times), bool(outliers))


def _key(text: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text)


def _mark(process: _Process, middle: float, suspects: frozenset[str]) -> strip.Mark:
    if not middle:
        return strip.Mark(1.0, 1.0, 1.0, False, "")
    low, high = min(process.times.times_us) / middle, max(process.times.times_us) / middle
    host = process.times.host or ""
    outlier = process.ratio > OUTLIER_RATIO
    return strip.Mark(process.ratio, low, high, outlier, host, host in suspects)


def _conclusion(processes: list[_Process], outliers: list[_Process], middle: float) -> str:
    medians = [p.median_us for p in processes]
    spread = statistics.pstdev(medians) / statistics.fmean(medians)
    spread_text = f"standard deviation over processes {spread:.1%} of the mean"
    text = f"Median {format_time_us(middle)}; {spread_text}. "
    if not outliers:
        return text + f"No process is slower than {OUTLIER_RATIO:.2f} × the median."
    slow = counted(len(outliers), "process", "processes")
    hosts = [p.times.host for p in outliers if p.times.host is not None]
    if hosts:
        slow += f" on {phrases.nodes(hosts)}"
    worst = max(p.ratio for p in outliers)
    return f"{text}{slow} above {OUTLIER_RATIO:.2f} × the median, the slowest at {worst:.2f} ×."


def _end(times: ProcessTimes) -> str:
    text = f"process {times.process}"
    return text if times.host is None else f"{text} ({times.host})"


def _cursor_text(process: _Process) -> str:
    return (
        f"{_end(process.times)}: {format_time_us(process.median_us)}, {process.ratio:.2f} × the"
        " median"
    )


def _row(process: _Process) -> Row:
    own = process.times.times_us
    mean = statistics.fmean(own)
    return Row(
        process.times.process,
        phrases.shown(process.times.host, missing="not known"),
        format_time_us(process.median_us),
        f"{process.ratio:.2f} ×",
        f"{max(own) / process.median_us:.2f} ×" if process.median_us else "not known",
        f"{statistics.pstdev(own) / mean:.1%}" if mean and len(own) > 1 else "one iteration",
    )
