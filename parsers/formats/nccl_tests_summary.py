"""nccl-tests results as a document: what to tell people about them in a few lines."""

from __future__ import annotations

from busbw.parsers.formats import Document
from busbw.records.benchmark import BenchmarkResult, BenchmarkRow
from busbw.units import format_bandwidth, format_size

KIND = "nccl-tests"


def document(results: tuple[BenchmarkResult, ...]) -> Document:
    """All runs of one text as one document."""
    problems: list[str] = []
    faults: list[str] = []
    summary: list[tuple[str, str]] = []
    for number, result in enumerate(results, 1):
        label = f"run {number}: " if len(results) > 1 else ""
        problems += [label + text for text in result.problems]
        faults += [label + text for text in result.faults]
        summary += [(label + name, value) for name, value in _summary(result)]
    return Document(KIND, results, tuple(summary), all(result.complete for result in results), tuple(problems), tuple(faults))


def best_row(result: BenchmarkResult) -> BenchmarkRow | None:
    """The row with the highest out-of-place busbw (in place where only that was measured); None = no row has one."""
    rows = [row for row in result.rows if row.out_of_place or row.in_place]
    return max(rows, key=_busbw, default=None)


def _busbw(row: BenchmarkRow) -> float:
    value = row.out_of_place or row.in_place
    return value.busbw_gb_s if value else -1.0


def _summary(result: BenchmarkResult) -> list[tuple[str, str]]:
    best = best_row(result)
    return [
        ("collective", result.collective or "not known"),
        ("ranks", "not known" if result.nranks is None else str(result.nranks)),
        ("nodes", "not known" if result.nodes is None else str(result.nodes)),
        ("NCCL", result.nccl_version or "not known"),
        ("rows", str(len(result.rows))),
        ("best busbw", "no row" if best is None else f"{format_bandwidth(_busbw(best))} at {format_size(best.size_bytes)}"),
        ("average busbw", format_bandwidth(result.avg_busbw_gb_s)),
    ]
