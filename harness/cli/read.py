"""`busbw read FILE…`: say what each text is, and print it as tables, as one JSON document, or as
CSV.

Exit status, the worst of all texts (1 before 3 before 0):

- 0: read, complete and good
- 1: bad: wrong data (`#wrong`, Out of bounds … FAILED), one-rank communicators, several processes'
  tables in one text, numbers that contradict each other or physics, errors that the text reports
- 3: incomplete (cut off, rows or sizes missing, no column names), in no known layout, or with a
  line of general failure words; the JSON document says so too
- 2: a file that is not there, or options that do not go together

An error decides wherever it stands in the text; whether the text is complete, the main kind alone:
nccl-tests before all others.
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw import intake
from busbw.cli import write_message
from busbw.cli.one_pass import OnePass
from busbw.cli.pool import rarely_collected, read_each
from busbw.codec.dump import dump_json
from busbw.errors import UnknownLayout, UsageError
from busbw.model import Status
from busbw.model.benchmark import BenchmarkResult, BenchmarkRow, Measurement
from busbw.model.logs import NcclLog
from busbw.parsers.findings import catalogue
from busbw.parsers.logs import HEAD_BYTES, Document, Format, failure_lines, nccl_debug, node_tools
from busbw.parsers.logs.failure_lines import FailureLine
from busbw.parsers.logs.formats import formats, formats_for, line_formats
from busbw.parsers.logs.scan import Pattern, Scanner, scanner_of
from busbw.parsers.nccl_tests import results_json
from busbw.parsers.nccl_tests.shape import Level, level, low_alltoall
from busbw.parsers.nccl_tests.table import KIND
from busbw.reports import phrases
from busbw.reports.safe import csv_cell, one_line
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.checks import RuleResult


@dataclass(frozen=True, slots=True)
class ReadText:
    """One text, read."""

    name: str
    title: str
    """What it is, for people; "" = nothing known is in it."""
    documents: tuple[Document, ...]
    """The kinds in it, the main one first; () = none."""
    problem: str
    """Why there is no document; "" = there is one."""
    failures: tuple[FailureLine, ...] = ()
    """Lines that report a failure and that no document judges."""


def read_all(sources: Sequence[intake.Source]) -> tuple[ReadText, ...]:
    """All texts, in the order given; large sets of files by several processes.

    Raises:
        UsageError: a file cannot be opened.
        ReadError: a compressed file cannot be expanded here, or expands beyond all measure.
    """
    return read_each(read_one, sources)


def read_one(source: intake.Source) -> ReadText:
    """One text: what it is and everything in it."""
    source = intake.in_memory(source)
    head = intake.head_of(source, HEAD_BYTES)
    binary = intake.is_binary(head)
    documents: list[tuple[Format, Document]] = []
    unread: dict[str, tuple[str, str]] = {}
    """What each of the other formats saw first, and why it could not read all."""
    lines = OnePass(source, _scanner)
    for entry in _entries(head, binary=binary):
        if documents and not documents[-1][0].embedded:
            break  # a whole text of one kind: nothing else stands in it
        is_shared = entry.name in (KIND, results_json.FORMAT.name) or entry.name in line_formats()
        reading = lines if is_shared else source.open()
        try:
            if isinstance(reading, intake.Reading):
                document = entry.read(reading)
            else:
                document = _of_lines(reading, entry.name)
        except UnknownLayout as error:
            unread[entry.name] = (error.seen, reading.problem)
            continue
        if document.kind == KIND:
            from busbw.parsers.expect.saved import with_remarks

            document = with_remarks(document)
        if reading.problem:
            problems = (*document.problems, reading.problem)
            document = replace(document, complete=False, problems=problems)
        documents.append((entry, document))
    if not documents:
        tried = [unread[entry.name] for entry in formats_for(head, binary=binary)]
        first_line = next((seen for seen, _ in tried if seen), "")
        damage = next((problem for _, problem in tried if problem), "")
        problem = source.problem or damage or _unknown(head, binary, first_line)
        return ReadText(source.name, "", (), problem)
    if len(documents) > 1:
        documents.sort(key=lambda pair: (pair[1].kind != KIND, -pair[0].looks_like(head)))
    title = documents[0][0].title
    read = tuple(document for _, document in documents)
    failures = _failures(lines, read) if documents[0][0].embedded else ()
    return ReadText(source.name, title, read, "", failures)


def _entries(head: bytes, *, binary: bool) -> tuple[Format, ...]:
    """As `formats_for`, but the embedded formats by name: how likely each is matters only for those
    that read something, and takes a millisecond."""
    embedded = tuple(entry for entry in formats() if entry.embedded)
    whole = formats_for(head, binary=binary, without=tuple(entry.name for entry in embedded))
    return whole if binary else (*whole, *embedded)


def _of_lines(lines: OnePass, name: str) -> Document:
    """The document of one format. Raises UnknownLayout as `Format.read`."""
    if name == KIND:
        return lines.table()
    if name == results_json.FORMAT.name:
        return lines.results_json()
    line_format = line_formats()[name]
    return line_format.document_of(lines.scan.of(line_format.patterns))


@functools.cache
def _scanner() -> Scanner:
    return scanner_of(_patterns())


@functools.cache
def _patterns() -> tuple[Pattern, ...]:
    patterns: dict[str, Pattern] = {}
    for line_format in line_formats().values():
        patterns.update((pattern.id, pattern) for pattern in line_format.patterns)
    for pattern in failure_lines.patterns():
        patterns[pattern.id] = replace(pattern, after=0)  # the lines alone are shown
    return tuple(patterns.values())


def _failures(lines: OnePass, documents: Sequence[Document]) -> tuple[FailureLine, ...]:
    """The lines of a log that report a failure and that no document quotes. NCCL's own warnings are
    left to the reader of NCCL's log, which knows their roles; what the catalogue calls harmless or
    a condition is no failure."""
    quoted = "\n".join(problem for each in documents for problem in each.problems)
    quoted_lines = {number for each in documents for number in each.quoted}
    failures = []
    for line in failure_lines.lines_in(lines.scan.of(failure_lines.patterns())):
        is_quoted = line.line_no in quoted_lines or line.text.strip() in quoted
        if not is_quoted and "NCCL WARN " not in line.text:
            failures.append(line)
    known = catalogue.no_failures([line.text for line in failures])
    return tuple(line for line in failures if line.text not in known)


def _unknown(head: bytes, binary: bool, first_line: str) -> str:
    """Why there is no document."""
    if not head:
        return "unknown layout: the text is empty"
    if binary:
        return f"unknown layout: binary data that begins with {head[:16].hex(' ')}"
    lines = (first_line or head.decode("utf-8", "replace")).strip().splitlines()
    begin = lines[0].strip()[:200] if lines else ""
    return f"unknown layout: no known format in it; it begins with {begin!r}"


def exit_status(texts: Sequence[ReadText]) -> int:
    """1 = a text is bad; 3 = one is incomplete or unknown; 0 = all are read, complete and good."""
    return _worst(map(_status, texts))


def _worst(statuses: Iterable[int]) -> int:
    given = set(statuses)
    return next((status for status in (1, 3) if status in given), 0)


def _status(text: ReadText) -> int:
    if not text.documents:
        return 3
    if any(map(_is_bad, text.documents)):
        return 1
    if any(line.is_certain for line in text.failures):
        return 1
    main = [each for each in text.documents if each.kind == text.documents[0].kind]
    is_complete = all(document.complete for document in main)
    return 0 if is_complete and not text.failures else 3


def _is_bad(document: Document) -> bool:
    """It has an error that the catalogue does not know to be harmless. What NCCL's log says of a
    setting or a condition is no error either."""
    if document.kind == nccl_debug.FORMAT.name:
        return not catalogue.no_failures(document.faults).issuperset(document.faults)
    return not all(map(catalogue.is_remark, document.faults))


# How `busbw read` prints: JSON, CSV, or tables for people. Text from files is never markup.

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
_NEXT_LINE = "busbw: next: busbw why FILE looks for failures in any text; docs/read.md lists what busbw reads\n"


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
        tables, others = _results(main), text.documents[1:]
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


def _results(document: Document) -> tuple[BenchmarkResult, ...]:
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
        results = [result for document in text.documents for result in _results(document)]
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


def _columns() -> int:
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
        results = _results(document)
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
    for number, result in enumerate(_results(document), 1):
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


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw read`."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="file, directory, glob, or - for standard input; .gz .zst .xz .bz2 too",
    )
    parser.add_argument(
        "--contract",
        type=Path,
        metavar="FILE",
        help="compare the tables with the numbers of a contract, each table a launch",
    )
    parser.add_argument(
        "--fabric",
        metavar="NAME",
        help="with --contract: the fabric that was bought, a profile or a family such as tcp"
        " (default: one with RDMA)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document")
    form.add_argument(
        "--csv", action="store_true", help="one line per row of the nccl-tests tables"
    )


def run(args: argparse.Namespace) -> int:
    """Read them all and print."""
    sources = intake.expand(args.files)
    if args.contract is not None and (args.json or args.csv):
        raise UsageError("--contract prints for people: leave --json and --csv out")
    if args.fabric is not None and args.contract is None:
        raise UsageError("--fabric says what a contract is about", next_step="add --contract FILE")
    with rarely_collected():
        if args.json or args.csv:
            texts = read_all(sources)
            sys.stdout.write(as_json(texts) if args.json else as_csv(texts))
            write_message(_with_next_step("".join(map(_unread, texts))))
            return exit_status(texts)
        # Written where they are read: the records of a thousand logs are not carried from process
        # to process, nor kept.
        if args.contract is not None:
            return _with_contract(read_all(sources), args.contract, args.fabric)
        shown = read_each(functools.partial(_show, columns=_columns()), sources)
        sys.stdout.write("\n".join(each.text for each in shown))
        if any(each.is_unread for each in shown):  # which and why stands on standard output
            write_message(_NEXT_LINE)
        levels = [each.levels for each in shown]
        if sum(map(bool, levels)) > 1:  # of one text it stands among the remarks
            for text in low_alltoall([level for of_text in levels for level in of_text]):
                sys.stdout.write(f"\nremark  {text}\n")
        return _worst(each.status for each in shown)


def _with_contract(texts: Sequence[ReadText], contract: Path, fabric_name: str | None) -> int:
    """The texts, then the numbers of the contract. A text that is bad decides as without one."""
    from busbw.cli import read_contract
    from busbw.fabrics import fabric
    from busbw.reports import terminal

    may_be_sockets = (
        fabric_name is not None and fabric.family(fabric_name).data_path is fabric.DataPath.SOCKETS
    )
    over_sockets = () if may_be_sockets else tuple(t.name for t in texts if _is_over_sockets(t))

    tables = [table for text in texts for each in text.documents for table in _results(each)]
    texts_status = exit_status(texts)
    headline, lines, status = read_contract.lines(
        contract,
        tables,
        not_whole=[text.name for text in texts if _status(text) != 0],
        over_sockets=over_sockets,
    )
    columns = _columns()
    sys.stdout.write(f"{headline}{as_text(texts, columns)}\n{terminal.printed(lines, columns)}")
    if not all(text.documents for text in texts):
        write_message(_NEXT_LINE)
    return _worst((texts_status, status))


def _is_over_sockets(text: ReadText) -> bool:
    """NCCL's log in it names the network Socket, of any process."""
    logs = [each for document in text.documents for each in document.records]
    return any(
        "Socket" in process.networks
        or any(connection.network == "Socket" for connection in process.connections)
        for log in logs
        if isinstance(log, NcclLog)
        for process in log.processes
    )


@dataclass(frozen=True, slots=True)
class _Shown:
    """What is printed of one text."""

    text: str
    is_unread: bool
    """Nothing in it is known."""
    status: int
    levels: tuple[Level, ...]
    """Of its tables of all_reduce and alltoall."""


def _show(source: intake.Source, columns: int) -> _Shown:
    text = read_one(source)
    tables = [table for each in text.documents for table in _results(each)]
    levels = tuple(filter(None, map(level, tables)))
    return _Shown(as_text((text,), columns), not text.documents, _status(text), levels)


def _unread(text: ReadText) -> str:
    if text.documents:
        return ""
    return f"busbw: {one_line(text.name)}: {one_line(text.problem)}\n"


def _with_next_step(messages: str) -> str:
    """What was not read, a line a text, and behind all of them what to do."""
    return f"{messages}{_NEXT_LINE}" if messages else ""
