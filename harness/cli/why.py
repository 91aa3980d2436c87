"""`busbw why`: the cause of what went wrong, from logs, tables, dumps, directories of them or a
run, without a cluster; and the explanation of an id."""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw import codec, intake
from busbw.cli.one_pass import OnePass
from busbw.cli.pool import WORTH_WORKERS, rarely_collected, read_each
from busbw.errors import ReadError, UnknownLayout, UsageError
from busbw.model import (
    Confidence,
    Evidence,
    Finding,
    Fix,
    Status,
)
from busbw.parsers import tools
from busbw.parsers.findings import catalogue, message_clues, similar
from busbw.parsers.findings.catalogue import STAGES, Catalogue, Entry, Role, Weight
from busbw.parsers.findings.diagnose import RATIOS, condensed, diagnose, search_patterns
from busbw.parsers.findings.evidence import RESULT, Context, Diagnosis, EvidenceSet, Fact, Text
from busbw.parsers.logs import HEAD_BYTES, node_tools
from busbw.parsers.logs.flight_recorder import of_rank, rank_of
from busbw.parsers.logs.formats import formats_for
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.nccl_tests.table import KIND
from busbw.reports import phrases
from busbw.reports.safe import one_line
from busbw.text import decoded

if TYPE_CHECKING:
    from busbw.model import RasReport, RunResult
    from busbw.parsers.stall.recorders import Progress

_LINES = ("nccl-debug", "open-mpi", "slurm", "watchdog", "node-tools")
"""Formats whose lines the catalogue's own expressions find, and tools that `_tool_facts` reads:
reading them as well would add nothing here."""
_MANY = 16
"""Texts from which on the memory of what was found in them counts, where they are large: packing
costs 1 ms a text."""
_RUN_TEXTS = (".out", ".err", ".log", ".txt")


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
    is_blank: bool = False
    """No text has a line; a dump that says of no rank that it waits is not blank."""
    is_known: bool = True
    """A text is in a known layout, or has a line that was searched for."""


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
    is_layout: bool = False
    """A format read it."""


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
    """Read the inputs, in the order given; directories file by file, a run's directory by its
    recorded outputs and its result.

    Raises:
        UsageError: something named is not there, or may not be read.
    """
    runs = [name for name in names if (Path(name) / "raw" / "plan.json").is_file()]
    sources: list[intake.Source] = []
    for name in names:
        sources += _run_texts(name) if name in runs else intake.expand([name])
    # Names tell texts apart in a diagnosis, so that two of one name are not worked on apart.
    is_much = sum(source.path.stat().st_size for source in sources) >= WORTH_WORKERS
    are_many = is_much and len({each.name for each in sources}) == len(sources) >= _MANY
    readings = read_each(_read_condensed if are_many else read_one, sources)
    results = [_run_result(run) for run in runs]

    texts = []
    all_facts: list[Fact] = []
    dumps: list[Progress] = []
    reports: list[tuple[str, RasReport]] = []
    faults: list[Evidence] = []
    problems: list[str] = []
    gaps: list[str] = []
    for source, reading in zip(sources, readings, strict=True):
        if not any(source.path.is_relative_to(run) for run in runs):
            gaps += reading.records.gaps
        if reading.text is not None:
            texts.append(reading.text)
        all_facts += reading.records.facts
        dumps += reading.records.dumps
        reports += reading.records.reports
        faults += reading.records.faults
        problems += reading.problems
    if all_facts or results:
        from busbw.parsers.findings import facts  # its records take 50 ms to make

        all_facts += facts.node_differences(all_facts)
    if dumps or reports:
        from busbw.parsers.findings import stalls

        all_facts += stalls.from_dumps(dumps)
        all_facts += stalls.from_reports(reports)
    findings: list[Finding] = []
    for result in results:
        all_facts += facts.from_checks(result.checks)
        all_facts += facts.from_comparisons(result.comparisons)
        findings += result.findings
        if result.verdict is Status.UNKNOWN:
            gaps.append(f"run {result.run_id}: {result.headline}")
    evidence = EvidenceSet(tuple(texts), tuple(all_facts), tuple(faults))
    is_blank = all(reading.is_blank for reading in readings if reading.text is not None)
    is_known = bool(all_facts or results) or any(reading.is_known for reading in readings)
    return Reading(evidence, tuple(problems), tuple(findings), tuple(gaps), is_blank, is_known)


def _run_texts(name: str) -> list[intake.Source]:
    """What the benchmark, the build and the stalled nodes printed; what busbw and its nodes said to
    each other is not evidence, and a stream that stayed empty is no lost text."""
    sources = filter(_is_evidence, intake.expand([str(Path(name) / "raw")]))
    return [source for source in sources if source.path.stat().st_size]


def _is_evidence(source: intake.Source) -> bool:
    folders = source.path.parts
    if "nodes" in folders[-3:-1] and "-build." not in source.path.name:
        return False
    return source.path.suffix in _RUN_TEXTS and "preflight" not in folders


def _run_result(name: str) -> RunResult:
    from busbw.assess import derive
    from busbw.store import run_directory

    return derive(run_directory.open_existing(Path(name)))


@functools.cache
def _scanner() -> Scanner:
    """The scanner of this process: building it takes longer than searching a small file."""
    return Scanner(search_patterns())


def _read_condensed(source: intake.Source) -> _TextReading:
    """One of many texts."""
    reading = read_one(source)
    if reading.text is None:
        return reading
    return replace(reading, text=condensed(reading.text))


def read_one(source: intake.Source) -> _TextReading:
    """One text: searched, and read by its formats. A text that cannot be read is a problem, not an
    end."""
    try:
        source = intake.in_memory(source)
        head = intake.head_of(source, HEAD_BYTES)
        binary = intake.is_binary(head)
        lines = OnePass(source, _scanner)
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
    text = Text(source.name, scan.hits, scan.lines)
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
    is_layout = False
    for reader in formats_for(head, binary=binary, without=_LINES):
        try:
            document = lines.table() if reader.name == KIND else reader.read(source.open())
        except UnknownLayout:
            continue
        records += document.records
        faults += document.faults
        is_layout = True
        if not document.complete:
            gaps += document.problems[:1]
        if not reader.embedded:
            break
    dumps, reports = _stalls_in(source.name, records)
    outputs = _ToolOutputs() if binary else _tool_outputs(source, head)
    measured: tuple[Fact, ...] = ()
    if records:
        from busbw.parsers.findings import facts

        measured = facts.from_records(source.name, records)
    bad = tuple(Evidence(source.name, None, fault) for fault in dict.fromkeys(faults))
    return _Records(
        (*measured, *outputs.facts),
        dumps,
        reports,
        (*bad, *outputs.errors),
        tuple(f"{source.name}: {gap}" for gap in (*gaps, *outputs.gaps)),
        is_layout,
    )


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


def _tool_outputs(source: intake.Source, head: bytes) -> _ToolOutputs:
    """The facts, errors and gaps in it: the declaration of each tool says all three."""
    if not tools.is_marked(head):
        return _ToolOutputs()
    text = decoded(intake.head_of(source, node_tools.MOST_BYTES))
    outputs = tools.read(text)
    if not outputs:
        return _ToolOutputs()
    from busbw.parsers.findings import facts

    return _ToolOutputs(
        facts.from_outputs(source.name, text, outputs),
        facts.tool_errors(source.name, text, outputs),
        tuple(gap for output in outputs for gap in output.gaps),
    )


# The diagnosis, as text for a terminal and as a JSON document.

Json = dict[str, object]

_SURER = {Confidence.CERTAIN: 0, Confidence.LIKELY: 1, Confidence.POSSIBLE: 2}
_MOST_POSSIBLE = 5
_EVIDENCE = 4
_PROBLEMS = 5
_WIDTH = 200
_OF_NCCL = re.compile(r"NCCL(?!_)|RCCL|\bnccl[A-Z]")
_BEFORE = 40
"""Characters shown before ` NCCL WARN ` of a line that is too long to be shown whole."""


def exit_status(diagnosis: Diagnosis) -> int:
    """0 = no line looks like a failure, 1 = a cause or a condition is named, also one that is only
    possible, 3 = a failure for which no cause is named."""
    if any(_is_stated(each) and each.status is not Status.PASS for each in diagnosis.findings):
        return 1
    if not diagnosis.unexplained:
        return 0
    return 1 if leading_guess(diagnosis) is not None else 3


def leading_guess(diagnosis: Diagnosis) -> Finding | None:
    """The first possible cause of a failure for which nothing is more than possible; None = only
    entries that share words with a line, or say it again, or settings."""
    if not diagnosis.unexplained or diagnosis.by_words:
        return None
    shown = worth_showing(diagnosis)
    if any(map(_is_stated, shown)):
        return None
    for each in shown:
        if _is_cause_or_condition(each) and each.id not in message_clues.RESTATEMENTS:
            return each
    return None


def _is_cause_or_condition(finding: Finding) -> bool:
    """Settings are neither; what only runs find is a failure or none."""
    known = catalogue.load().by_id.get(finding.id)
    if known is None:
        return finding.status is Status.FAIL
    return known.role in (Role.CAUSE, Role.SECONDARY, Role.STATE)


def _is_stated(finding: Finding) -> bool:
    return finding.confidence is not Confidence.POSSIBLE


def with_findings(diagnosis: Diagnosis, run_findings: tuple[Finding, ...]) -> Diagnosis:
    """The diagnosis with what runs found themselves: the surer first, a run's own before what its
    texts say."""
    if not run_findings:
        return diagnosis
    # A run's findings carry the causes that the catalogue knows; those are shown with them only.
    ids = {name for each in run_findings for name in (each.id, *each.also, *each.explains)}
    others = [each for each in diagnosis.findings if each.id not in ids]
    ordered = sorted([*run_findings, *others], key=lambda each: _SURER[each.confidence])
    return replace(diagnosis, findings=tuple(ordered), healthy=False)


def worth_showing(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """All that is at least likely, and the first of what is possible."""
    stated, possible = _split(diagnosis.findings)
    return (*stated, *possible[:_MOST_POSSIBLE])


def _split(findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Those that are at least likely, and those that are only possible."""
    stated: list[Finding] = []
    possible: list[Finding] = []
    for finding in findings:
        if _is_stated(finding):
            stated.append(finding)
        else:
            possible.append(finding)
    return stated, possible


def document(diagnosis: Diagnosis, shown: tuple[Finding, ...], reading: Reading) -> Json:
    """What `--json` prints."""
    texts = reading.evidence.texts[:1000]
    return {
        "schema": "busbw.why/1",
        "findings": [_finding(finding) for finding in shown],
        "healthy": diagnosis.healthy,
        "unexplained": [_line(line) for line in diagnosis.unexplained],
        "notes": list(diagnosis.notes),
        "problems": list(dict.fromkeys((*reading.problems, *reading.gaps))),
        "read": [{"file": text.artefact, "lines": text.lines} for text in texts],
    }


def _finding(finding: Finding) -> Json:
    return {
        "id": finding.id,
        "confidence": finding.confidence.value,
        "status": finding.status.value,
        "title": finding.title,
        "cause": finding.cause,
        "where": list(finding.where),
        "evidence": [_line(item) for item in finding.evidence],
        "fixes": [_fix(fix) for fix in finding.fixes],
        "verify": list(finding.verify),
        "would_settle": list(finding.would_settle),
        "also": list(finding.also),
        "explains": list(finding.explains),
    }


def _line(item: Evidence) -> Json:
    return {"file": item.artefact, "line": item.line_no, "text": item.text}


def _fix(fix: Fix) -> Json:
    return {
        "do": fix.summary,
        "run": list(fix.commands),
        "needs": fix.needs,
        "disruptive": fix.disruptive,
    }


def answer(diagnosis: Diagnosis, shown: tuple[Finding, ...], reading: Reading) -> str:
    """The diagnosis for people: verdict first, then cause, evidence, fix, what else is possible,
    and what was read."""
    stated, possible = _split(shown)
    leader = leading_guess(diagnosis)
    consequences = {name for each in stated for name in _explains(each.id)}
    guesses = [each for each in possible if each.id not in consequences and each is not leader]
    blocks = [_stated_lines(each, possible) for each in stated]
    if leader is not None:
        blocks.append(_leading_lines(leader, diagnosis, reading))
    elif not stated:
        blocks.append(_nothing(diagnosis, guesses, reading))
    if guesses:
        named = stated if leader is None else [leader]
        blocks.append(_guess_lines(guesses, named, diagnosis))
    hidden = len(diagnosis.findings) - len(shown)
    if hidden > 0:
        blocks.append([f"{hidden} more: --all"])
    blocks.append(_read_lines(reading))
    if len(stated) > 1:
        blocks.append(_overview(stated))
    return "\n\n".join("\n".join(one_line(line) for line in block) for block in blocks) + "\n"


_COMMAND = re.compile(
    r" {15}(?! )|  (?:verify|confirm) |.{32}to confirm: | {12}(?=\S+ -)|  next {8}busbw "
)
"""A line of `answer` that is there to be copied."""
_COLUMN = re.compile(r"  \S+ {2,}|\s*")
"""Up to the text of a line: behind a label or an id."""


def broken(text: str, columns: int) -> str:
    """The answer on a terminal: broken behind blanks and indented below its text; a command stays
    one line."""
    from busbw.reports import terminal

    lines = []
    for line in text.splitlines():
        column = _COLUMN.match(line)
        indent = max(2, column.end()) if column is not None else 2
        lines.append(terminal.Line(line, indent, unbroken=_COMMAND.match(line) is not None))
    return terminal.printed(lines, columns)


def _overview(stated: Sequence[Finding]) -> list[str]:
    """All that is at least likely in a line each: the first of them left the screen long ago."""
    out = [f"{phrases.count(len(stated), 'finding')}, as above:"]
    for each in stated:
        place = f"  {phrases.location(each.evidence[0])}" if each.evidence else ""
        out.append(f"  {each.confidence.value:<7}  {each.id:<26}{place}")
    return out


def _explains(symptom_id: str) -> tuple[str, ...]:
    symptom = catalogue.load().by_id.get(symptom_id)
    return symptom.explains if symptom is not None else ()


def _read_lines(reading: Reading) -> list[str]:
    texts = reading.evidence.texts
    lines = sum(text.lines for text in texts)
    shown = reading.problems[:_PROBLEMS]
    out = [f"read {phrases.count(len(texts), 'file')}, {phrases.count(lines, 'line')}"]
    out += [f"  not read: {problem}" for problem in shown]
    hidden = len(reading.problems) - len(shown)
    if hidden > 0:
        out.append(f"  and {hidden} more: --json lists them")
    return out


def _nothing(diagnosis: Diagnosis, guesses: list[Finding], reading: Reading) -> list[str]:
    gaps = reading.gaps
    if diagnosis.healthy:
        return [
            "no failure: the work completed, and no line reports a problem",
            *_not_judged(reading.evidence.facts),
        ]
    if diagnosis.unexplained:
        first = diagnosis.unexplained[0]
        return [
            "CAUSE not found: something failed, and the evidence does not say why",
            # Without a line it is what a reader of the text says: it stands nowhere else.
            f"  first line  {phrases.location(first)}"
            f"  {first.text if first.line_no is None else _cut(first.text)}",
            f"  next        {_more_evidence(reading.evidence.texts)}",
        ]
    if gaps:
        more = f" (and {len(gaps) - 1} more)" if len(gaps) > 1 else ""
        return [
            "UNKNOWN: no line reports a failure, but the evidence is incomplete",
            f"  missing     {_cut(gaps[0])}{more}",
            "  next        give the complete output, or measure again what is missing",
        ]
    if guesses:
        return ["nothing found; settings and conditions worth a look are listed below"]
    if not reading.is_known:
        return [
            "UNKNOWN: no line is of a kind that busbw knows, so nothing was judged",
            "  next        give the whole output of the job, or the logs of NCCL, MPI, the scheduler"
            " and the kernel",
        ]
    return ["nothing found: no line is a known sign of trouble"]


def _not_judged(facts: Iterable[Fact]) -> list[str]:
    """That nobody compared a measured bandwidth with what the hardware should give."""
    measured = [fact.record() for fact in facts if fact.source == RESULT]
    if any(name in values for values in measured for name in RATIOS):
        return []
    values = next((values for values in measured if "busbw" in values), None)
    if values is None:
        return []
    busbw, size, nodes = values["busbw"], values.get("max_bytes"), values.get("nodes")
    at = f" at {size:.0f} B" if isinstance(size, float) else ""
    known = f" --nodes {nodes:.0f}" if isinstance(nodes, float) else " --nodes <nodes>"
    known += f" --size {size:.0f}" if isinstance(size, float) else ""
    return [
        f"  not judged  bandwidth: busbw {busbw:g} GB/s{at}; whether that is low depends on the"
        " hardware, which was not compared",
        "  next        busbw expect --gpu <model> --fabric <profile> --collective <name>"
        f"{known} --measured {busbw:g}",
    ]


def _more_evidence(texts: Iterable[Text]) -> str:
    """What would say more, as far as the texts do not have it."""
    lines = [line.text for text in texts for hit in text.hits for line in hit.examples]
    if any(" NCCL INFO " in line for line in lines):
        return (
            "give the logs of all ranks, one file each, and the kernel logs of the nodes (dmesg -T)"
        )
    if any(map(_OF_NCCL.search, lines)):
        settings = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET"
        return f"run again with {settings} and one file per rank, and give all files"
    if any(map(similar.is_of_field, lines)):
        return "give the whole output of every rank, and the kernel logs of the nodes (dmesg -T)"
    return (
        "read what the program itself says there; if a GPU job failed with it, give the whole"
        " output of that job"
    )


def _stated_lines(finding: Finding, possible: list[Finding]) -> list[str]:
    """A finding that is at least likely, with those of the possible ones that it explains."""
    consequences = [phrases.entry(each.id) for each in possible if each.id in _explains(finding.id)]
    return [*_finding_lines(finding, ()), *_labelled("explains", consequences)]


def _leading_lines(leader: Finding, diagnosis: Diagnosis, reading: Reading) -> list[str]:
    """The first possible cause, with the first line that reports a failure where it shows another,
    and what would say more."""
    own = {(item.artefact, item.line_no) for item in leader.evidence[:_EVIDENCE]}
    first = diagnosis.unexplained[0]
    is_shown = first.line_no is None or (first.artefact, first.line_no) in own
    others = [] if is_shown else [first]
    return [
        *_finding_lines(leader, others),
        *_labelled_text("open", "the evidence does not show for certain that this is the cause"),
        *_labelled_text("next", _more_evidence(reading.evidence.texts)),
    ]


def _finding_lines(finding: Finding, before: Iterable[Evidence]) -> list[str]:
    """before: lines that are shown before its own evidence."""
    sign = phrases.SIGNS[finding.status]
    label = "CAUSE" if finding.status is Status.FAIL else "FOUND"
    evidence = [
        f"{phrases.location(item)}  {_cut(item.text)}"
        for item in (*before, *finding.evidence[:_EVIDENCE])
    ]
    shown = set(finding.verify).union(*(fix.commands for fix in finding.fixes))
    return [
        f"{sign} {label} ({finding.confidence.value})  {finding.title}   [{finding.id}]",
        f"  {finding.cause}",
        *_labelled_text("where", ", ".join(finding.where)),
        *_labelled("evidence", evidence),
        *_steps(finding.fixes),
        *_labelled("verify", finding.verify),
        *_labelled("confirm", [step for step in finding.would_settle if step not in shown]),
    ]


def _labelled(label: str, texts: Iterable[str]) -> list[str]:
    """Lines under one label, which stands before the first."""
    return [f"  {'' if number else label:<8}  {text}" for number, text in enumerate(texts)]


def _labelled_text(label: str, text: str | None) -> list[str]:
    """One line under its label; none for an empty text."""
    return _labelled(label, [text]) if text else []


def _steps(fixes: tuple[Fix, ...]) -> list[str]:
    lines = []
    for number, fix in enumerate(fixes, 1):
        lines += [phrases.fix_step(number, fix), *(f"   {command}" for command in fix.commands)]
    return _labelled("fix", lines)


def _guess_lines(guesses: list[Finding], named: list[Finding], diagnosis: Diagnosis) -> list[str]:
    """Title, place, line and what would confirm it of each; the text of a line only once.

    named: the findings that are shown in full above them.
    """
    lines = {(item.artefact, item.line_no) for each in named for item in each.evidence[:_EVIDENCE]}
    where = {place for each in named for place in each.where}
    if not any(map(_is_stated, named)):
        lines |= {(line.artefact, line.line_no) for line in diagnosis.unexplained[:1]}
    out = ["also possible, not shown by the evidence alone:" if named else "possible causes:"]
    if diagnosis.by_words:
        out = ["no known sign; these entries only share words with that line:"]
    for finding in guesses:
        item = finding.evidence[0]
        text = "" if (item.artefact, item.line_no) in lines else f"  {_cut(item.text)}"
        lines.add((item.artefact, item.line_no))
        out += [
            f"  {finding.id:<28}  {finding.title}",
            f"  {'':<28}  {phrases.location(item)}{text}",
        ]
        if not where.issuperset(finding.where):
            out.append(f"  {'':<28}  where: {', '.join(finding.where)}")
        out += [f"  {'':<28}  to confirm: {step}" for step in finding.would_settle[:1]]
    return out


def _cut(text: str) -> str:
    """What matters of a line: of a long one what stands around NCCL's level, or its start."""
    text = text.strip()
    if len(text) <= _WIDTH:
        return text
    start = max(0, text.find(" NCCL ") - _BEFORE)
    end = start + _WIDTH
    prefix = "…" if start else ""
    suffix = "…" if end < len(text) else ""
    return prefix + text[start:end] + suffix


# Entries of the catalogue.


def entry(symptom: Entry, known: Catalogue) -> str:
    """One entry of the catalogue, explained; of a check also the entries that it is evidence for."""
    stages = ", ".join((symptom.stage, *symptom.also_stages))
    severity = f"{symptom.severity.value}; " if symptom.severity else ""
    signs = []
    for signal in symptom.signals:
        if signal.weight is not Weight.EXCLUDES:
            expression = f"{signal.source}: {signal.expr}"
            signs.append(signal.matches[0] if signal.matches else expression)
    source = f"preflight:{symptom.id}"
    causes = []
    for each in known.entries:
        if any(signal.source == source for signal in each.signals):
            causes.append(f"{each.id}  {each.title}")
    out = [
        f"{symptom.id}  {symptom.title}",
        *_labelled("cause", [symptom.cause]),
        *_labelled("costs", [f"{severity}shows at {stages}"]),
        *_labelled("why", [symptom.explanation]),
        *_labelled("signs", dict.fromkeys(signs)),
        *_labelled("causes", causes),
        *_labelled("reasons", _reasons(symptom)),
        *_steps(tuple(step.fix() for step in symptom.fix)),
        *_labelled("verify", symptom.verify),
        *_labelled("settle", symptom.settle),
        *_labelled_text("trust", symptom.trust),
        *_labelled("see", [f"{title}, {address}" for title, address in symptom.references]),
    ]
    return "\n".join(one_line(line) for line in out) + "\n"


def _reasons(symptom: Entry) -> list[str]:
    """What the message may come from, the most frequent first, with the numbers behind it."""
    share_of = catalogue.shares(symptom)
    ordered = sorted(symptom.reasons, key=lambda reason: -share_of[reason.id])
    return [
        f"{share_of[each.id]:.0%}  {each.id} ({phrases.count(each.cases, 'case')}): {each.why}"
        for each in ordered
    ]


def listing(known: Catalogue) -> str:
    """One line per entry, by stage."""
    out = []
    for stage in STAGES:
        out.append(stage)
        for symptom in known.entries:
            if symptom.stage == stage and symptom.role is not Role.NOTE:
                out.append(f"  {symptom.id:<32}  {symptom.title}")
    return "\n".join(out) + "\n"


def _unknown(name: str, known: Catalogue) -> UsageError:
    """The error for what is neither a path nor an id."""
    if os.sep in name or "." in name:
        what = f"{name}: no such file"
        return UsageError(what, next_step="to look up an id: busbw why --list")
    near = [each for each in known.by_id if name.casefold() in each]
    hint = f"; ids with that word: {', '.join(near)}"
    if not near:
        # Not the list of all ids: it is long, and the next step prints it.
        hint = "".join(codec.unknown("id", name, known.by_id).partition("; did you mean")[1:])
    return UsageError(
        f"{name!r} is neither a path nor an id{hint}",
        next_step="busbw why --list shows all ids; a path must exist",
    )


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw why`."""
    from busbw.cli.why_options import register_live

    parser.usage = (
        "busbw why PATH… | RUN | ID [--json] [--all] [--fabric NAME]\n"
        "       busbw why --list\n"
        "       busbw why --live [-w NODES | -i FILE | --job SLURM_ID | --pid PID]"
        " [--watch 10s] [--stacks] [--json]"
    )
    parser.add_argument(
        "what",
        nargs="*",
        metavar="PATH | RUN | ID",
        help="logs, directories, a run, `-` for standard input; or one id to explain",
    )
    parser.add_argument("--json", action="store_true", help="the findings as JSON, best first")
    parser.add_argument(
        "--all", action="store_true", help="every explanation that is possible, not only the best"
    )
    parser.add_argument("--list", action="store_true", dest="list_entries", help="list all ids")
    parser.add_argument(
        "--fabric",
        metavar="NAME",
        help="the fabric it was meant to run on: a profile, or a family such as ib or roce"
        " (default: what the logs show)",
    )
    register_live(parser)


def run(args: argparse.Namespace) -> int:
    """Diagnose, or explain an entry. 0 = nothing found, 1 = a cause or a condition is named, 3 =
    something failed and no cause is named, a result is incomplete, no text is of a known kind, or a
    file that was named is empty."""
    if args.live or args.print_script:
        from busbw.cli.why_live import run_live

        return run_live(args)
    if args.list_entries:
        sys.stdout.write(listing(catalogue.load()))
        return 0
    if not args.what and args.job is not None:
        raise UsageError("--job needs --live", next_step=f"busbw why --live --job {args.job}")
    if not args.what:
        raise UsageError(
            "why needs a path, a run or an id", next_step="busbw why nccl.log, or busbw why --list"
        )
    name = args.what[0]
    if len(args.what) == 1 and name != "-" and not os.path.exists(name):
        return _explain(name)
    with rarely_collected():
        return _diagnose(args)


def _explain(name: str) -> int:
    """Print the entry of an id."""
    known = catalogue.load()
    if name not in known.by_id:
        raise _unknown(name, known)
    sys.stdout.write(entry(known.by_id[name], known))
    return 0


def _diagnose(args: argparse.Namespace) -> int:
    if len(args.what) == 1 and Path(args.what[0]).is_dir():
        from busbw.triage.offline import is_collection

        if is_collection(Path(args.what[0])):
            from busbw.cli.why_live import offline

            return offline(args, args.what[0])
    if args.redact:
        raise UsageError(
            "--redact is for --live and for collected answers",
            seen=args.what[0],
            next_step="busbw report RUN --redact for a run",
        )
    family = None
    if args.fabric is not None:
        from busbw.fabrics import fabric

        family = fabric.family(args.fabric)
    reading = read(args.what)
    texts = reading.evidence.texts
    if not texts and not reading.evidence.facts:
        raise ReadError(
            f"nothing to read in {', '.join(args.what)}",
            seen="\n".join(reading.problems),
            next_step="give a log, a directory of logs, a table or a run",
        )
    if not reading.evidence.facts and reading.is_blank:
        verb = "is" if len(args.what) == 1 else "are"
        raise ReadError(
            f"{', '.join(args.what)} {verb} empty: nothing to diagnose",
            seen="\n".join(reading.problems),
            next_step="give a log, a directory of logs, a table or a run",
        )
    diagnosis = diagnose(reading.evidence, Context(family))
    diagnosis = with_findings(diagnosis, reading.findings)
    if reading.gaps:
        diagnosis = replace(diagnosis, healthy=False)
    shown = diagnosis.findings if args.all else worth_showing(diagnosis)
    if args.json:
        text = json.dumps(document(diagnosis, shown, reading), ensure_ascii=False, indent=2) + "\n"
    else:
        text = answer(diagnosis, shown, reading)
        if sys.stdout.isatty():
            text = broken(text, shutil.get_terminal_size().columns)
    sys.stdout.write(text)
    is_partial = bool(reading.gaps) or not reading.is_known or any(map(_is_empty, args.what))
    return exit_status(diagnosis) or (3 if is_partial else 0)


def _is_empty(name: str) -> bool:
    """A file that was named and holds nothing: no pass can rest on it."""
    path = Path(name)
    return path.is_file() and path.stat().st_size == 0
