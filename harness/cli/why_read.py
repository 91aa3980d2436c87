"""What `busbw why` reads: every input is searched for the table's lines and read by the formats that recognise it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw import intake
from busbw.cli.read_pool import read_each
from busbw.errors import ReadError, UnknownLayout, UsageError
from busbw.outside import decoded
from busbw.parsers.formats import HEAD_BYTES
from busbw.parsers.formats.flight_recorder import of_rank, rank_of
from busbw.parsers.formats.recognise import to_try
from busbw.parsers.formats.scan import Scanner
from busbw.parsers.judge import diagnose_facts, diagnose_nodes, diagnose_stalls
from busbw.parsers.judge.diagnose import search_patterns
from busbw.parsers.judge.diagnose_evidence import EvidenceSet, Fact, Text
from busbw.parsers.judge.diagnose_stalls import Progress
from busbw.parsers.nodes import recognise as node_tools
from busbw.records import Finding, FlightDump, RasReport, RunResult

_LINES = ("nccl-debug", "open-mpi", "slurm", "watchdog", "node-tools")
"""Formats whose lines the table's own expressions find, and tools that `_node_facts` reads: reading them too would tell nothing more here."""
_RUN_TEXTS = (".out", ".err", ".log", ".txt")


@dataclass(frozen=True, slots=True)
class Reading:
    """All that was read."""

    evidence: EvidenceSet
    problems: tuple[str, ...]
    """What could not be read, or not wholly."""
    findings: tuple[Finding, ...] = ()
    """What the runs among the inputs found themselves: blame, stalls, failed checks."""


@dataclass(frozen=True, slots=True)
class _Records:
    """What its formats gave, as far as it matters here."""

    facts: tuple[Fact, ...] = ()
    dumps: tuple[Progress, ...] = ()
    reports: tuple[tuple[str, RasReport], ...] = ()


@dataclass(frozen=True, slots=True)
class _One:
    """What one text gave."""

    text: Text | None
    records: _Records
    problems: tuple[str, ...]


def read(names: Sequence[str]) -> Reading:
    """Read the inputs, in the order given; directories file by file, a run's directory by its recorded outputs and its result.

    Raises:
        UsageError: something named is not there, or may not be read.
    """
    runs = [name for name in names if (Path(name) / "raw" / "plan.json").is_file()]
    sources = [source for name in names for source in (_run_texts(name) if name in runs else intake.expand([name]))]
    read_ones = read_each(read_one, sources)
    texts = tuple(one.text for one in read_ones if one.text is not None)
    results = tuple(_run_result(run) for run in runs)
    judged = tuple(
        fact
        for result in results
        for fact in (*diagnose_facts.from_checks(result.checks), *diagnose_facts.from_comparisons(result.comparisons))
    )
    told = tuple(fact for one in read_ones for fact in one.records.facts)
    facts = (
        *told,
        *diagnose_nodes.across(told),
        *diagnose_stalls.from_dumps(each for one in read_ones for each in one.records.dumps),
        *diagnose_stalls.from_reports(tuple(each for one in read_ones for each in one.records.reports)),
        *judged,
    )
    return Reading(
        EvidenceSet(texts, facts),
        tuple(problem for one in read_ones for problem in one.problems),
        tuple(finding for result in results for finding in result.findings),
    )


def _run_texts(name: str) -> tuple[intake.Source, ...]:
    """What the benchmark, the build and the stalled nodes printed; what busbw and its nodes said to each other is not evidence."""
    sources = intake.expand([str(Path(name) / "raw")])
    told = [source for source in sources if "nodes" not in source.path.parts[-3:-1] or "-build." in source.path.name]
    return tuple(source for source in told if source.path.suffix in _RUN_TEXTS and "preflight" not in source.path.parts)


def _run_result(name: str) -> RunResult:
    from busbw import rundir
    from busbw.derive import derive

    return derive(rundir.open_existing(Path(name)))


@functools.cache
def _scanner() -> Scanner:
    """The scanner of this process: building it takes longer than searching a small file."""
    return Scanner(search_patterns())


def read_one(source: intake.Source) -> _One:
    """One text: searched, and read by its formats. A text that cannot be read is a problem, not an end."""
    try:
        head = intake.head_of(source, HEAD_BYTES)
        binary = intake.is_binary(head)
        records = _records(source, head, binary=binary)
        if binary and records == _Records():
            return _One(None, records, (f"{source.name}: binary data, not searched as a log",))
        if binary:
            return _One(Text(source.name, ()), records, ())
        reading = source.open()
        scan = _scanner().scan(reading)
    except (ReadError, UsageError) as error:
        return _One(None, _Records(), (f"{source.name}: {error.what}",))
    problems = (*scan.problems, *([reading.problem] if reading.problem else []))
    return _One(Text(source.name, scan.hits, scan.lines), records, tuple(f"{source.name}: {problem}" for problem in problems))


def _records(source: intake.Source, head: bytes, *, binary: bool) -> _Records:
    """Tables, dumps and reports; what stands in lines is searched for."""
    found: list[object] = []
    for entry in to_try(head, binary=binary):
        if entry.name in _LINES:
            continue
        try:
            found += entry.read(source.open()).records
        except UnknownLayout:
            continue
        if not entry.embedded:
            break
    return _Records(
        (*diagnose_facts.from_records(source.name, found), *_node_facts(source, head)),
        tuple(each for dump in found if isinstance(dump, FlightDump) for each in _progress(source.name, dump)),
        tuple((source.name, report) for report in found if isinstance(report, RasReport) and report.ranks),
    )


def _node_facts(source: intake.Source, head: bytes) -> tuple[Fact, ...]:
    if not diagnose_nodes.looks_like(head):
        return ()
    text = decoded(intake.head_of(source, diagnose_nodes.MOST_BYTES))
    return diagnose_nodes.from_nodes(source.name, node_tools.read(text), text)


def _progress(name: str, dump: FlightDump) -> tuple[Progress, ...]:
    return diagnose_stalls.progress(name, dump if dump.rank is not None else of_rank(dump, rank_of(name)))
