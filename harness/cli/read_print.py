"""How `busbw read` prints what it read: JSON, CSV, or tables for people. Text from files is never markup."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.cli.read_texts import ReadText
from busbw.codec.dump import dump_json
from busbw.parsers.formats import Document
from busbw.parsers.formats.nccl_tests_summary import KIND
from busbw.records.benchmark import BenchmarkResult, BenchmarkRow, Measurement, ProcessTimes, RankLine
from busbw.reports.safe import csv_cell, one_line

__all__ = ["as_csv", "as_json", "as_text", "one_line"]

_CSV = (
    "file", "run", "collective", "nranks", "nodes", "nccl_version", "complete", "size_bytes", "count", "type", "redop", "root", "placement",
    "time_us", "algbw_gb_s", "busbw_gb_s", "wrong", "error", "line",
)  # fmt: skip
_MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class _Table:
    """A run of nccl-tests, field by field as the document has it."""

    collective: str | None
    nranks: int | None
    nodes: int | None
    rows: tuple[BenchmarkRow, ...]
    avg_busbw_gb_s: float | None
    nccl_version: str | None
    complete: bool
    problems: tuple[str, ...]
    faults: tuple[str, ...]
    out_of_bounds: int | None
    tests_version: str | None
    config: tuple[tuple[str, str], ...]
    ranks: tuple[RankLine, ...]
    process_times: tuple[ProcessTimes, ...]


@dataclass(frozen=True, slots=True)
class _Label:
    """One line of a summary."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class _Other:
    """A document of another kind than nccl-tests."""

    kind: str
    complete: bool
    problems: tuple[str, ...]
    faults: tuple[str, ...]
    summary: tuple[_Label, ...]
    records: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    """One text."""

    kind: str
    file: str
    format: str
    complete: bool
    problems: tuple[str, ...]
    tables: tuple[_Table, ...]
    also: tuple[_Other, ...]


@dataclass(frozen=True, slots=True)
class _Files:
    """Several texts."""

    files: tuple[_Read, ...]


def as_json(texts: Sequence[ReadText]) -> str:
    """One document: that of the text, or `{"files": […]}` of several."""
    documents = tuple(_read(text) for text in texts)
    return dump_json(documents[0] if len(documents) == 1 else _Files(documents))


def _read(text: ReadText) -> _Read:
    if not text.documents:
        return _Read("unknown", text.name, "", False, (text.problem,), (), ())
    ruling = text.documents[0]
    tables = tuple(_table(record) for record in ruling.records if isinstance(record, BenchmarkResult)) if ruling.kind == KIND else ()
    others = text.documents[1:] if ruling.kind == KIND else text.documents
    return _Read(ruling.kind, text.name, text.title, ruling.complete, ruling.problems, tables, tuple(_other(one) for one in others))


def _table(result: BenchmarkResult) -> _Table:
    return _Table(
        collective=result.collective,
        nranks=result.nranks,
        nodes=result.nodes,
        rows=result.rows,
        avg_busbw_gb_s=result.avg_busbw_gb_s,
        nccl_version=result.nccl_version,
        complete=result.complete,
        problems=result.problems,
        faults=result.faults,
        out_of_bounds=result.out_of_bounds,
        tests_version=result.tests_version,
        config=result.config,
        ranks=result.ranks,
        process_times=result.process_times,
    )


def _other(document: Document) -> _Other:
    summary = tuple(_Label(label, value) for label, value in document.summary)
    return _Other(document.kind, document.complete, document.problems, document.faults, summary, document.records)


def as_csv(texts: Sequence[ReadText]) -> str:
    """One line per row and placement of every nccl-tests table; cells that a spreadsheet would run are quoted away."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV)
    for text in texts:
        for number, result in enumerate(_results(text), 1):
            for row in result.rows:
                for placement, value in (("out-of-place", row.out_of_place), ("in-place", row.in_place)):
                    if value is not None:
                        cells = (text.name, number, *_cells_of(result), *_cells(row, placement, value))
                        writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    return out.getvalue()


def _cells_of(result: BenchmarkResult) -> tuple[str | int | None, ...]:
    return result.collective, result.nranks, result.nodes, result.nccl_version, "yes" if result.complete else "no"


def _cells(row: BenchmarkRow, placement: str, value: Measurement) -> tuple[str | int | float | None, ...]:
    front = (row.size_bytes, row.count, row.type, row.redop, row.root, placement)
    return (*front, value.time_us, value.algbw_gb_s, value.busbw_gb_s, value.wrong, value.error, row.line_no)


def _results(text: ReadText) -> Iterator[BenchmarkResult]:
    for document in text.documents:
        for record in document.records:
            if isinstance(record, BenchmarkResult):
                yield record


def as_text(texts: Sequence[ReadText]) -> str:
    """For people: what each text is, its tables with units, the best bandwidth, what is wrong."""
    return "\n".join("".join(f"{line}\n" for line in _lines(text)) for text in texts)


def _lines(text: ReadText) -> Iterator[str]:
    if not text.documents:
        yield f"{one_line(text.name)}: {one_line(text.problem)}"
        return
    yield f"{one_line(text.name)}: {one_line(text.title)}"
    for document in text.documents:
        if document is not text.documents[0]:
            yield f"  also: {one_line(document.kind)}"
        results = [record for record in document.records if isinstance(record, BenchmarkResult)]
        if results:
            for number, result in enumerate(results, 1):
                yield from _result_lines(result, f"run {number} of {len(results)}: " if len(results) > 1 else "")
        else:
            yield from (f"  {one_line(label):<22} {one_line(value)}" for label, value in document.summary)
            yield from _problem_lines(document.problems, document.faults)


def _result_lines(result: BenchmarkResult, label: str) -> Iterator[str]:
    known = (
        (result.collective or "collective not known"),
        f"{result.nranks} ranks" if result.nranks is not None else "ranks not known",
        f"{result.nodes} nodes" if result.nodes is not None else "nodes not known",
        f"NCCL {result.nccl_version}" if result.nccl_version else "NCCL version not known",
        "complete" if result.complete else "INCOMPLETE",
    )
    yield "  " + one_line(label + " · ".join(known))
    if result.rows:
        yield from _row_lines(result.rows)
        yield "  " + " · ".join(_best(result))
    yield from _problem_lines(result.problems, result.faults)


def _row_lines(rows: Sequence[BenchmarkRow]) -> Iterator[str]:
    placement = f"{'time µs':>10} {'algbw GB/s':>10} {'busbw GB/s':>10} {'wrong':>7}"
    yield f"  {'':>39} | {'out of place':^40} | {'in place':^40}"
    yield f"  {'size B':>14} {'type':>9} {'redop':>7} {'root':>6} | {placement} | {placement}"
    for row in rows:
        front = f"{row.size_bytes:>14} {one_line(row.type):>9} {one_line(row.redop or '-'):>7} {'-' if row.root is None else row.root:>6}"
        yield f"  {front} | {_placement(row.out_of_place)} | {_placement(row.in_place)}"


def _placement(value: Measurement | None) -> str:
    if value is None:
        return f"{'not measured':^40}"
    checked = "N/A" if value.wrong is None and value.error is None else f"{value.error:.0e}" if value.wrong is None else str(value.wrong)
    return f"{value.time_us:>10.2f} {value.algbw_gb_s:>10.2f} {value.busbw_gb_s:>10.2f} {checked:>7}"


def _best(result: BenchmarkResult) -> Iterator[str]:
    for name, values in (("out of place", [row.out_of_place for row in result.rows]), ("in place", [row.in_place for row in result.rows])):
        best = max(
            ((value.busbw_gb_s, row) for value, row in zip(values, result.rows, strict=True) if value), key=lambda one: one[0], default=None
        )
        if best is not None:
            yield f"best busbw {name} {best[0]:.2f} GB/s at {best[1].size_bytes} B"
    if result.avg_busbw_gb_s is not None:
        yield f"average {result.avg_busbw_gb_s:g} GB/s"


def _problem_lines(problems: Sequence[str], faults: Sequence[str]) -> Iterator[str]:
    for problem in problems[:_MOST_PROBLEMS]:
        yield f"  {'BAD    ' if problem in faults else 'problem'} {one_line(problem)}"
    if len(problems) > _MOST_PROBLEMS:
        yield f"  problem and {len(problems) - _MOST_PROBLEMS} more (--json has them all)"
