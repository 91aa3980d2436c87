"""What `busbw why` reads: each text searched and read by its formats, and what runs found themselves, as
evidence for a diagnosis."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from busbw import intake
from busbw.cli.long_lines import with_long_documents
from busbw.cli.one_pass import OnePass
from busbw.cli.own_outputs import own_output
from busbw.cli.pool import WORTH_WORKERS, read_each
from busbw.cli.spool import Spool
from busbw.cli.text_ends import with_end
from busbw.cli.why_runs import inputs_of
from busbw.errors import ReadError, UnknownLayout, UsageError
from busbw.model import BenchmarkResult, Evidence, Finding, Fix, Status
from busbw.parsers import tools
from busbw.parsers.findings import help_blocks, searching
from busbw.parsers.findings.evidence import EvidenceSet, Fact, PackedHits, Text
from busbw.parsers.logs import HEAD_BYTES, Document, Format, node_tools
from busbw.parsers.logs.flight_recorder import of_rank, rank_of
from busbw.parsers.logs.formats import formats_for
from busbw.parsers.nccl_tests import results_json
from busbw.parsers.nccl_tests.table import KIND
from busbw.text import decoded, with_run_at

if TYPE_CHECKING:
    from busbw.fabrics.profile import Family
    from busbw.model import RasReport, RunResult
    from busbw.parsers.nccl_tests.shape import Level
    from busbw.parsers.stall.recorders import Progress


_LINES = ("nccl-debug", "open-mpi", "slurm", "watchdog", "node-tools")
"""Formats whose lines the catalogue's own expressions find, and tools that `_tool_outputs` reads:
reading them as well would add nothing here."""
_MANY = 16
"""Texts from which on the memory of what was found in them counts, where they are large: packing
costs 1 ms a text."""
_START = b"Init START"
"""NCCL's own words at the start of a communicator."""


@dataclass(frozen=True, slots=True)
class Reading:
    """All that was read."""

    evidence: EvidenceSet
    problems: tuple[str, ...]
    """What could not be read, or not completely."""
    findings: tuple[Finding, ...] = ()
    """Of the runs among the inputs: blame, stalls, failed checks."""
    gaps: tuple[str, ...] = ()
    """Results and outputs of tools, outside runs, of which a part is missing, and which part; runs
    whose verdict is UNKNOWN."""
    ends_open: bool = False
    """Among the gaps are texts that end without an end: the job may still run."""
    open_run: str = ""
    """The directory of a run among the gaps that has no end; empty = there is none."""
    is_blank: bool = False
    """No text has a line; a dump that says of no rank that it waits is not blank."""
    is_known: bool = True
    """A text is in a known layout, or has a line that was searched for."""
    is_good: bool = False
    """Every text was read whole by a format or as a tool's output, and nothing in it is bad: what
    `busbw read` ends with 0 for."""
    remarks: tuple[str, ...] = ()
    """What is worth a look in results that are complete and not bad."""
    sources: tuple[intake.Source, ...] = ()
    """All texts, to read them again."""
    family: Family | None = None
    """Of the runs' fabric; None = there is no run, they differ, or other texts are beside."""


@dataclass(frozen=True, slots=True)
class _Records:
    """What the formats gave for one text, as far as it matters here."""

    facts: tuple[Fact, ...] = ()
    dumps: tuple[Progress, ...] = ()
    reports: tuple[tuple[str, RasReport], ...] = ()
    faults: tuple[Evidence, ...] = ()
    """What `busbw read` calls bad."""
    gaps: tuple[str, ...] = ()
    """Why `busbw read` calls it incomplete."""
    remarks: tuple[str, ...] = ()
    """What `busbw read` remarks on tables that are complete and not bad."""
    levels: tuple[Level, ...] = ()
    """Of its tables of all_reduce and alltoall."""
    is_layout: bool = False
    """A format read it."""
    is_good: bool = False
    """A format or a tool's reader read it whole, and nothing in it is bad."""


@dataclass(frozen=True, slots=True)
class _TextReading:
    """What one text gave."""

    text: Text | None
    records: _Records
    problems: tuple[str, ...]
    is_blank: bool = False
    """It is a text without a line."""
    is_known: bool = True
    """It is in a known layout, or has a line that was searched for."""


def read(names: Sequence[str]) -> Reading:
    """Read the inputs, in the order given; directories file by file, a run's directory, also below
    another, by its recorded outputs and its result.

    Raises:
        UsageError: something named is not there, or may not be read.
    """
    inputs = inputs_of(names)
    runs, sources = inputs.runs, inputs.sources
    readings = _each_read(sources)
    records = [reading.records for reading in readings]
    results = [_run_result(run) for run in runs]
    are_of_runs = [_is_of_run(source, runs) for source in sources]
    facts = (*_facts(records, are_of_runs), *_facts_of_runs(results))
    texts = tuple(reading.text for reading in readings if reading.text is not None)
    faults = tuple(chain.from_iterable(each.faults for each in records))
    problems = (*inputs.problems, *chain.from_iterable(each.problems for each in readings))
    beside = [each for each, is_of_run in zip(records, are_of_runs, strict=True) if not is_of_run]
    gaps = (*inputs.gaps, *chain.from_iterable(each.gaps for each in beside))
    unknown = [each for each in results if each.verdict is Status.UNKNOWN]
    families = {_family_of(run) for run in runs}
    return Reading(
        EvidenceSet(texts, facts, faults),
        problems,
        tuple(chain.from_iterable(each.findings for each in results)),
        (*gaps, *(f"run {each.run_id}: {each.headline}" for each in unknown)),
        open_run=_open_run(runs, results),
        is_blank=all(reading.is_blank for reading in readings if reading.text is not None),
        is_known=bool(facts or results) or any(reading.is_known for reading in readings),
        is_good=not problems and all(each.is_good for each in records),
        remarks=_remarks(records),
        sources=sources,
        family=families.pop() if len(families) == 1 and all(are_of_runs) else None,
    )


def _open_run(runs: Sequence[str], results: Sequence[RunResult]) -> str:
    """The directory of the first run without a verdict that has no end; "" = there is none."""
    for run, result in zip(runs, results, strict=True):
        if result.verdict is Status.UNKNOWN and not result.finished:
            return run
    return ""


def _each_read(sources: tuple[intake.Source, ...]) -> Sequence[_TextReading]:
    """What each text gave; of many, what is found is kept packed."""
    # Names tell texts apart in a diagnosis, so that two of one name are not worked on apart.
    is_much = sum(source.path.stat().st_size for source in sources) >= WORTH_WORKERS
    if is_much and len({each.name for each in sources}) == len(sources) >= _MANY:
        return read_each(_read_condensed, sources, kept=functools.partial(_spooled, Spool()))
    return read_each(read_one, sources)


def _facts(records: Sequence[_Records], are_of_runs: Sequence[bool]) -> tuple[Fact, ...]:
    """Of all texts, with what only several of them show; of those of a run without what the run judges
    itself."""
    every: list[Fact] = []
    for each, is_of_run in zip(records, are_of_runs, strict=True):
        every += _facts_beside_verdict(each.facts) if is_of_run else each.facts
    dumps = tuple(chain.from_iterable(each.dumps for each in records))
    reports = tuple(chain.from_iterable(each.reports for each in records))
    if every:
        from busbw.parsers.findings import facts  # its records take 50 ms to make

        every += facts.node_differences(every)
    if dumps or reports:
        from busbw.parsers.findings import stalls

        every += (*stalls.from_dumps(dumps), *stalls.from_reports(reports))
    return tuple(every)


def _facts_beside_verdict(own: tuple[Fact, ...]) -> tuple[Fact, ...]:
    if not own:
        return ()
    from busbw.parsers.findings import facts

    return facts.of_run(own)


def _facts_of_runs(results: Sequence[RunResult]) -> Iterator[Fact]:
    if not results:
        return
    from busbw.parsers.findings import facts

    for result in results:
        yield from facts.from_checks(result.checks)
        yield from facts.from_comparisons(result.comparisons)


def _remarks(records: Sequence[_Records]) -> tuple[str, ...]:
    """On the tables of each text, and on those of several texts beside each other."""
    remarks = tuple(chain.from_iterable(each.remarks for each in records))
    levels = [each.levels for each in records]
    if not any(levels):
        return remarks
    from busbw.parsers.nccl_tests.shape import low_between  # most texts are no tables

    return (*remarks, *low_between(levels))


def _is_of_run(source: intake.Source, runs: Iterable[str]) -> bool:
    return any(source.path.is_relative_to(run) for run in runs)


def with_unfinished_starts(reading: Reading) -> Reading:
    """The reading, with communicators that ranks began to start and did not complete as gaps: no line
    reports them. Reads every text of NCCL's log once more."""
    starting = tuple(filter(_names_a_start, reading.sources))
    if not starting:
        return reading
    from busbw.model.logs import NcclLog
    from busbw.parsers.logs import nccl_communicators, nccl_debug

    logs: list[NcclLog] = []
    for source in starting:
        try:
            if not intake.is_binary(intake.head_of(source, HEAD_BYTES)):
                records = nccl_debug.read(source.open()).records
                logs += (each for each in records if isinstance(each, NcclLog))
        except (UnknownLayout, ReadError, UsageError):
            continue  # what cannot be read stands among the problems already
    processes = [process for log in logs for process in log.processes]
    starts = nccl_communicators.stuck(processes)
    return replace(reading, gaps=(*reading.gaps, *starts))


def _names_a_start(source: intake.Source) -> bool:
    """A line of it may say that a communicator begins."""
    end = b""
    try:
        for chunk in source.open():
            if _START in end + chunk:
                return True
            end = chunk[1 - len(_START) :]
    except (ReadError, UsageError):
        pass  # it stands among the problems already
    return False


def _family_of(name: str) -> Family | None:
    from busbw.assess.checks import load_plan
    from busbw.store import run_directory

    return load_plan(run_directory.open_existing(Path(name))).profile.family


def _run_result(name: str) -> RunResult:
    from busbw.assess import derive
    from busbw.store import run_directory

    directory = run_directory.open_existing(Path(name))
    result = derive(directory)
    place = shlex.quote(run_directory.shown_path(directory.path))

    def placed(fix: Fix) -> Fix:
        commands = (with_run_at(each, result.run_id, place) for each in fix.commands)
        return replace(fix, commands=tuple(commands))

    findings = (replace(f, fixes=tuple(map(placed, f.fixes))) for f in result.findings)
    return replace(result, findings=tuple(findings))


def _read_condensed(source: intake.Source) -> _TextReading:
    """One of many texts."""
    reading = read_one(source)
    if reading.text is None:
        return reading
    return replace(reading, text=searching.condensed(reading.text))


def _spooled(spool: Spool, reading: _TextReading) -> _TextReading:
    """One of many texts, as it is kept until all are there."""
    if reading.text is None or not isinstance(reading.text.hits, PackedHits):
        return reading
    hits = reading.text.hits.kept_by(spool.keep)
    return replace(reading, text=replace(reading.text, hits=hits))


def read_one(source: intake.Source) -> _TextReading:
    """One text: searched, and read by its formats. A text that cannot be read is a problem, not an
    end."""
    try:
        source = intake.in_memory(source)
        head = intake.head_of(source, HEAD_BYTES)
        if own := own_output(head):
            problem = f"{source.name}: {own}"
            return _TextReading(None, _Records(gaps=(problem,)), (problem,))
        binary = intake.is_binary(head)
        lines = OnePass(source, searching.scanner)
        records = _records(source, head, lines, binary=binary)
        if binary and records == _Records():
            if source.problem:
                problem = f"{source.name}: {source.problem}"
                return _TextReading(None, replace(records, gaps=(problem,)), (problem,))
            problem = f"{source.name}: binary data, not searched as a log"
            return _TextReading(None, records, (problem,))
        if binary:
            return _TextReading(Text(source.name, ()), records, ())
        scan = lines.scan
        scan = with_end(scan, source, searching.scanner())
        if not records.is_layout:
            scan = with_long_documents(scan, source, searching.scanner())
        is_known = bool(scan.hits) or records.is_layout or _has_lines(head)
    except (ReadError, UsageError) as error:
        why = f" ({error.seen})" if error.seen else ""
        what = error.what.removeprefix(f"{source.name} ")
        return _TextReading(None, _Records(), (f"{source.name}: {what}{why}",))
    problems = [f"{source.name}: {problem}" for problem in scan.problems]
    if lines.problem:
        gap = f"{source.name}: {lines.problem}"
        problems.append(gap)
        records = replace(records, gaps=(*records.gaps, gap))
    if not scan.first_line:
        problems.append(f"{source.name}: the text is empty")
        return _TextReading(Text(source.name, ()), records, tuple(problems), is_blank=True)
    text = Text(source.name, help_blocks.opened(scan.hits, decoded(head)), scan.lines)
    return _TextReading(text, records, tuple(problems), is_known=is_known)


def _has_lines(head: bytes) -> bool:
    """A format of lines, or a tool, sees its own in it."""
    own = formats_for(head, binary=False)
    return any(each.looks_like(head) for each in own if each.name in _LINES) or tools.is_marked(
        head
    )


def _records(source: intake.Source, head: bytes, lines: OnePass, *, binary: bool) -> _Records:
    """Tables, dumps and reports; what stands in lines is searched for."""
    records: list[object] = []
    faults: list[str] = []
    gaps: list[str] = []
    remarks: list[str] = []
    is_layout = False
    for reader in formats_for(head, binary=binary, without=_LINES):
        try:
            document = _document(reader, source, lines)
        except UnknownLayout:
            continue
        if document.kind == KIND:
            from busbw.parsers.expect.saved import with_remarks

            document = with_remarks(document)
        records += document.records
        faults += document.faults
        is_layout = True
        if not document.complete:
            gaps += document.problems[:1]
        elif document.kind == KIND and not document.faults:
            remarks += document.problems
        if not reader.embedded:
            break
    dumps, reports = _stalls_in(source.name, records)
    outputs = _ToolOutputs() if binary else _tool_outputs(source, head)
    measured: tuple[Fact, ...] = ()
    if records:
        from busbw.parsers.findings import facts

        measured = facts.from_records(source.name, records)
    levels: tuple[Level, ...] = ()
    if any(isinstance(each, BenchmarkResult) for each in records):
        from busbw.parsers.nccl_tests.shape import level

        tables = [each for each in records if isinstance(each, BenchmarkResult)]
        levels = tuple(filter(None, map(level, tables)))
    bad = tuple(Evidence(source.name, None, fault) for fault in dict.fromkeys(faults))
    bad += outputs.errors
    missing = (*gaps, *outputs.gaps)
    return _Records(
        (*measured, *outputs.facts),
        dumps,
        reports,
        bad,
        tuple(f"{source.name}: {gap}" for gap in missing),
        tuple(f"{source.name}: {remark}" for remark in remarks),
        levels,
        is_layout,
        is_good=(is_layout or outputs.are_any) and not bad and not missing,
    )


def _document(reader: Format, source: intake.Source, lines: OnePass) -> Document:
    """What a format reads in a text. Raises UnknownLayout as `Format.read`."""
    if reader.name == KIND:
        return lines.table()
    if reader.name == results_json.FORMAT.name:
        return lines.results_json()
    return reader.read(source.open())


def _stalls_in(
    name: str, records: Sequence[object]
) -> tuple[tuple[Progress, ...], tuple[tuple[str, RasReport], ...]]:
    """What the records of one text say of ranks that wait: dumps of the flight recorder, and RAS
    reports that name ranks."""
    if not records:
        return (), ()
    from busbw.model import FlightDump, RasReport  # 15 ms that most texts do not need

    dumps: list[Progress] = []
    reports = []
    for record in records:
        if isinstance(record, FlightDump):
            if record.rank is None:
                record = of_rank(record, rank_of(name))
            from busbw.parsers.stall.recorders import progress  # 30 ms

            dumps += progress(name, record)
        elif isinstance(record, RasReport) and record.ranks:
            reports.append((name, record))
    return tuple(dumps), tuple(reports)


@dataclass(frozen=True, slots=True)
class _ToolOutputs:
    """What node tools printed into one text."""

    facts: tuple[Fact, ...] = ()
    errors: tuple[Evidence, ...] = ()
    gaps: tuple[str, ...] = ()
    are_any: bool = False


def _tool_outputs(source: intake.Source, head: bytes) -> _ToolOutputs:
    """The facts, errors and gaps in it: the declaration of each tool says all three."""
    if not tools.is_marked(head):
        return _ToolOutputs()
    data = intake.head_of(source, node_tools.MOST_BYTES)
    outputs = tools.read(data)
    if not outputs:
        return _ToolOutputs()
    from busbw.parsers.findings import facts

    text = decoded(data)
    return _ToolOutputs(
        facts.from_outputs(source.name, text, outputs),
        facts.tool_errors(source.name, text, outputs),
        tuple(gap for output in outputs for gap in output.gaps),
        are_any=True,
    )
