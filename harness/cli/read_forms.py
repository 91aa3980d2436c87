"""How `busbw read` prints: JSON, CSV, or tables for people. Text from files is never markup."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.cli.read_texts import ReadText
from busbw.codec.dump import dump_json
from busbw.model import Status
from busbw.model.benchmark import BenchmarkResult, BenchmarkRow, Measurement
from busbw.parsers.logs import Document, node_tools
from busbw.parsers.logs.failure_lines import FailureLine
from busbw.parsers.nccl_tests.table import KIND
from busbw.reports import phrases
from busbw.reports.safe import csv_cell, one_line
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.checks import RuleResult

_CSV = (
    "file", "run", "collective", "nranks", "nodes", "nccl_version", "complete", "size_bytes", "count", "type", "redop", "root", "placement",
    "time_us", "algbw_gb_s", "busbw_gb_s", "wrong", "error", "line",
)  # fmt: skip
_COMMAND = re.compile(r"[:,] busbw [a-z]")
"""In a problem that says what judges or explains it."""
_MOST_PROBLEMS = 20
_UNBROKEN = 1000
"""Columns of an output that is no terminal."""
_WIDE_TABLE = 128
"""Columns that a row with everything needs."""


@dataclass(frozen=True, slots=True)
class _Label:
    """One line of a summary."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class _Check:
    """What one check says about the text."""

    check_id: str
    status: str
    seen: str
    expected: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Other:
    """A document of another kind than nccl-tests."""

    kind: str
    complete: bool
    problems: tuple[str, ...]
    faults: tuple[str, ...]
    summary: tuple[_Label, ...]
    records: tuple[object, ...]
    checks: tuple[_Check, ...]
    """What the checks of `busbw check` say about it, of the output of a node's tool."""


@dataclass(frozen=True, slots=True)
class _Read:
    """One text."""

    kind: str
    file: str
    format: str
    complete: bool
    problems: tuple[str, ...]
    tables: tuple[BenchmarkResult, ...]
    also: tuple[_Other, ...]
    failures: tuple[FailureLine, ...]


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
        return _Read("unknown", text.name, "", False, (text.problem,), (), (), ())
    main, others = text.documents[0], text.documents
    tables: tuple[BenchmarkResult, ...] = ()
    if main.kind == KIND:
        tables, others = results_of(main), text.documents[1:]
    return _Read(
        main.kind,
        text.name,
        text.title,
        main.complete,
        main.problems,
        tables,
        tuple(_other(document) for document in others),
        text.failures,
    )


def results_of(document: Document) -> tuple[BenchmarkResult, ...]:
    """The runs of nccl-tests in a document."""
    return tuple(record for record in document.records if isinstance(record, BenchmarkResult))


def _other(document: Document) -> _Other:
    summary = tuple(_Label(label, value) for label, value in document.summary)
    return _Other(
        document.kind,
        document.complete,
        document.problems,
        document.faults,
        summary,
        document.records,
        tuple(
            _Check(each.check_id, each.status.value, each.seen, each.expected, each.reason)
            for each in judged(document)
        ),
    )


def judged(document: Document) -> tuple[RuleResult, ...]:
    """What the checks say about a document; () = it is not the output of a node's tool."""
    if document.kind != node_tools.KIND:
        return ()
    from busbw.checks import frame

    return frame.judge_records(frame.families(), document.records)


def as_csv(texts: Sequence[ReadText]) -> str:
    """One line per row and placement of every nccl-tests table; cells that a spreadsheet would run
    are quoted away."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV)
    for text in texts:
        results = [result for document in text.documents for result in results_of(document)]
        for number, result in enumerate(results, 1):
            for cells in _csv_rows(result):
                writer.writerow(map(_csv_cell, (text.name, number, *cells)))
    return out.getvalue()


_Cell = str | int | float | None


def _csv_rows(result: BenchmarkResult) -> Iterator[tuple[_Cell, ...]]:
    """The cells of each row and placement that has a value."""
    front = _cells_of(result)
    for row in result.rows:
        for placement, value in _placements(row):
            if value is not None:
                yield (*front, *_cells(row, placement, value))


def _csv_cell(cell: _Cell) -> _Cell:
    return csv_cell(cell) if isinstance(cell, str) else cell


def _cells_of(result: BenchmarkResult) -> tuple[_Cell, ...]:
    complete = "yes" if result.complete else "no"
    return (result.collective, result.nranks, result.nodes, result.nccl_version, complete)


def _cells(row: BenchmarkRow, placement: str, value: Measurement) -> tuple[_Cell, ...]:
    front = (row.size_bytes, row.count, row.type, row.redop, row.root, placement)
    bandwidths = (value.time_us, value.algbw_gb_s, value.busbw_gb_s)
    return (*front, *bandwidths, value.wrong, value.error, row.line_no)


def _placements(row: BenchmarkRow) -> tuple[tuple[str, Measurement | None], ...]:
    return (("out-of-place", row.out_of_place), ("in-place", row.in_place))


def as_text(texts: Sequence[ReadText], columns: int = _UNBROKEN) -> str:
    """For people: what each text is, its tables with units, the best bandwidth, what is wrong.

    columns: of the terminal; on a narrow one a table shows times and bus bandwidths alone.
    """
    return "\n".join(_as_text(text, columns) for text in texts)


def _as_text(text: ReadText, columns: int) -> str:
    lines = _lines(text, columns)
    if columns >= _UNBROKEN:
        return "".join(f"{line}\n" for line in lines)
    from busbw.reports import terminal

    # A line that holds a command stays one, to be copied.
    shown = (terminal.Line(line, 10, unbroken=_COMMAND.search(line) is not None) for line in lines)
    return terminal.printed(shown, columns)


def columns_of_terminal() -> int:
    """Of the terminal; of a file or a pipe as many as a line needs."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNBROKEN


def _lines(text: ReadText, columns: int) -> Iterator[str]:
    if not text.documents:
        yield f"{one_line(text.name)}: {one_line(text.problem)}"
        return
    yield f"{one_line(text.name)}: {one_line(text.title)}"
    for document in text.documents:
        if document is not text.documents[0]:
            yield f"  also: {one_line(document.kind)}"
        results = results_of(document)
        for number, result in enumerate(results, 1):
            label = f"run {number} of {len(results)}: " if len(results) > 1 else ""
            yield from _result_lines(result, label, columns)
        if results:
            yield from _problem_lines(
                _of_no_run(document), document.faults, complete=document.complete
            )
        else:
            for label, value in document.summary:
                yield f"  {one_line(label):<22} {one_line(value)}"
            yield from _check_lines(document)
            yield from _problem_lines(
                document.problems, document.faults, complete=document.complete
            )
    failures = tuple(f"line {each.line_no}: {each.text}" for each in text.failures)
    yield from _problem_lines(failures, failures)


def _of_no_run(document: Document) -> tuple[str, ...]:
    """The problems of the text as a whole."""
    shown = {""}
    for number, result in enumerate(results_of(document), 1):
        shown.update(result.problems, (f"run {number}: {text}" for text in result.problems))
    return tuple(problem for problem in document.problems if problem not in shown)


def _check_lines(document: Document) -> Iterator[str]:
    for check in judged(document):
        if check.status in (Status.FAIL, Status.WARN):
            text = f"{check.seen}; expected: {check.expected}"
            yield f"  {check.status.value:<4} {check.check_id:<17} {one_line(text)}"


def _result_lines(result: BenchmarkResult, label: str, columns: int) -> Iterator[str]:
    counts = []
    for noun, count in (("rank", result.nranks), ("node", result.nodes)):
        counts.append(f"{noun}s not known" if count is None else counted(count, noun))
    facts = (
        result.collective or "collective not known",
        *counts,
        f"NCCL {result.nccl_version}" if result.nccl_version else "NCCL version not known",
        "complete" if result.complete else "INCOMPLETE",
    )
    yield "  " + one_line(label + " · ".join(facts))
    if result.rows:
        row_lines = _row_lines if columns >= _WIDE_TABLE else _narrow_row_lines
        yield from row_lines(result.rows)
        yield "  " + " · ".join(_best(result))
    yield from _problem_lines(result.problems, result.faults, complete=result.complete)


def _row_lines(rows: Sequence[BenchmarkRow]) -> Iterator[str]:
    placement = f"{'time µs':>10} {'algbw GB/s':>10} {'busbw GB/s':>10} {'wrong':>7}"
    yield f"  {'':>39} | {'out of place':^40} | {'in place':^40}"
    yield f"  {'size B':>14} {'type':>9} {'redop':>7} {'root':>6} | {placement} | {placement}"
    for row in rows:
        root = phrases.shown(row.root, missing="-")
        front = (
            f"{row.size_bytes:>14} {one_line(row.type):>9} {one_line(row.redop or '-'):>7}"
            f" {root:>6}"
        )
        yield f"  {front} | {_placement(row.out_of_place)} | {_placement(row.in_place)}"


def _narrow_row_lines(rows: Sequence[BenchmarkRow]) -> Iterator[str]:
    """Rows of 78 columns: without algbw, and type, operation and root on a line of their own where
    they change."""
    placement = f"{'time µs':>11} {'busbw GB/s':>10} {'wrong':>6}"
    yield f"  {'':>14} | {'out of place':^29} | {'in place':^29}"
    yield f"  {'size B':>14} | {placement} | {placement}"
    before: tuple[str, str | None, int | None] | None = None
    for row in rows:
        kind = (row.type, row.redop, row.root)
        if kind != before:
            root = None if row.root is None else f"root {row.root}"
            yield "  " + one_line(" · ".join(filter(None, (row.type, row.redop, root))))
        before = kind
        sides = " | ".join(map(_narrow_placement, (row.out_of_place, row.in_place)))
        yield f"  {row.size_bytes:>14} | {sides}"


def _narrow_placement(value: Measurement | None) -> str:
    if value is None:
        return f"{'not measured':^29}"
    return f"{value.time_us:>11.2f} {value.busbw_gb_s:>10.2f} {_wrong(value):>6}"


def _placement(value: Measurement | None) -> str:
    if value is None:
        return f"{'not measured':^40}"
    numbers = f"{value.time_us:>10.2f} {value.algbw_gb_s:>10.2f} {value.busbw_gb_s:>10.2f}"
    return f"{numbers} {_wrong(value):>7}"


def _wrong(value: Measurement) -> str:
    if value.wrong is not None:
        return str(value.wrong)
    return "N/A" if value.error is None else f"{value.error:.0e}"


def _best(result: BenchmarkResult) -> Iterator[str]:
    """Small bandwidths are printed with one digit: of equal ones, size over time decides."""
    best: dict[str, tuple[float, float, int]] = {}
    for row in result.rows:
        for placement, value in _placements(row):
            if value is not None:
                speed = row.size_bytes / value.time_us if value.time_us else 0.0
                this = (value.busbw_gb_s, speed, row.size_bytes)
                best[placement] = max(best.get(placement, this), this)
    for placement in sorted(best, reverse=True):
        busbw_gb_s, _, size_bytes = best[placement]
        yield f"best busbw {placement.replace('-', ' ')} {busbw_gb_s:.2f} GB/s at {size_bytes} B"
    if result.avg_busbw_gb_s is not None:
        yield f"average {result.avg_busbw_gb_s:g} GB/s"


def _problem_lines(
    problems: Sequence[str], faults: Sequence[str], *, complete: bool = False
) -> Iterator[str]:
    """complete: of a complete result what is no fault is a remark."""
    label = "remark " if complete else "problem"
    for problem in problems[:_MOST_PROBLEMS]:
        yield f"  {'BAD    ' if problem in faults else label} {one_line(problem)}"
    if len(problems) > _MOST_PROBLEMS:
        yield f"  {label} and {len(problems) - _MOST_PROBLEMS} more (--json has them all)"
