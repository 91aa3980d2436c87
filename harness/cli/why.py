"""`busbw why`: the cause of what went wrong, from logs, tables, dumps, directories of them or a
run, without a cluster."""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw import codec, intake
from busbw.cli.pool import read_each
from busbw.errors import ReadError, UnknownLayout, UsageError
from busbw.fabrics.fabric import Family
from busbw.model import (
    Confidence,
    Evidence,
    Finding,
    Fix,
    FlightDump,
    RasReport,
    RunResult,
    Status,
)
from busbw.parsers import tools
from busbw.parsers.findings import facts as diagnose_facts
from busbw.parsers.findings import stalls, table
from busbw.parsers.findings.diagnose import search_patterns
from busbw.parsers.findings.evidence import Diagnosis, EvidenceSet, Fact, Text
from busbw.parsers.findings.table import STAGES, Role, Symptom, SymptomTable
from busbw.parsers.logs import HEAD_BYTES, node_tools
from busbw.parsers.logs.flight_recorder import of_rank, rank_of
from busbw.parsers.logs.formats import formats_for
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.stall.recorders import Progress, progress
from busbw.reports.safe import one_line
from busbw.text import decoded

# What `busbw why` reads: every input is searched for the table's lines and read by the formats
# that recognise it.

_LINES = ("nccl-debug", "open-mpi", "slurm", "watchdog", "node-tools")
"""Formats whose lines the table's own expressions find, and tools that `_node_facts` reads: reading
them too would tell nothing more here."""
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
    """Read the inputs, in the order given; directories file by file, a run's directory by its
    recorded outputs and its result.

    Raises:
        UsageError: something named is not there, or may not be read.
    """
    runs = [name for name in names if (Path(name) / "raw" / "plan.json").is_file()]
    sources = [
        source
        for name in names
        for source in (_run_texts(name) if name in runs else intake.expand([name]))
    ]
    read_ones = read_each(read_one, sources)
    texts = tuple(one.text for one in read_ones if one.text is not None)
    results = tuple(_run_result(run) for run in runs)
    judged = tuple(
        fact
        for result in results
        for fact in (
            *diagnose_facts.from_checks(result.checks),
            *diagnose_facts.from_comparisons(result.comparisons),
        )
    )
    told = tuple(fact for one in read_ones for fact in one.records.facts)
    facts = (
        *told,
        *diagnose_facts.across(told),
        *stalls.from_dumps(each for one in read_ones for each in one.records.dumps),
        *stalls.from_reports(tuple(each for one in read_ones for each in one.records.reports)),
        *judged,
    )
    return Reading(
        EvidenceSet(texts, facts),
        tuple(problem for one in read_ones for problem in one.problems),
        tuple(finding for result in results for finding in result.findings),
    )


def _run_texts(name: str) -> tuple[intake.Source, ...]:
    """What the benchmark, the build and the stalled nodes printed; what busbw and its nodes said to
    each other is not evidence."""
    sources = intake.expand([str(Path(name) / "raw")])
    told = [
        source
        for source in sources
        if "nodes" not in source.path.parts[-3:-1] or "-build." in source.path.name
    ]
    return tuple(
        source
        for source in told
        if source.path.suffix in _RUN_TEXTS and "preflight" not in source.path.parts
    )


def _run_result(name: str) -> RunResult:
    from busbw.assess import derive
    from busbw.store import run_directory

    return derive(run_directory.open_existing(Path(name)))


@functools.cache
def _scanner() -> Scanner:
    """The scanner of this process: building it takes longer than searching a small file."""
    return Scanner(search_patterns())


def read_one(source: intake.Source) -> _One:
    """One text: searched, and read by its formats. A text that cannot be read is a problem, not an
    end."""
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
    return _One(
        Text(source.name, scan.hits, scan.lines),
        records,
        tuple(f"{source.name}: {problem}" for problem in problems),
    )


def _records(source: intake.Source, head: bytes, *, binary: bool) -> _Records:
    """Tables, dumps and reports; what stands in lines is searched for."""
    found: list[object] = []
    for entry in formats_for(head, binary=binary):
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
        tuple(
            each
            for dump in found
            if isinstance(dump, FlightDump)
            for each in _progress(source.name, dump)
        ),
        tuple(
            (source.name, report)
            for report in found
            if isinstance(report, RasReport) and report.ranks
        ),
    )


def _node_facts(source: intake.Source, head: bytes) -> tuple[Fact, ...]:
    if not tools.is_marked(head, facts=True):
        return ()
    text = decoded(intake.head_of(source, node_tools.MOST_BYTES))
    return diagnose_facts.from_tools(source.name, text)


def _progress(name: str, dump: FlightDump) -> tuple[Progress, ...]:
    return progress(name, dump if dump.rank is not None else of_rank(dump, rank_of(name)))


# How a diagnosis, or an entry of the symptom table, is told: as text for a terminal and as a JSON
# document.

Json = dict[str, object]

_SIGNS = {Status.FAIL: "✖", Status.WARN: "▲", Status.PASS: "✓"}
_SURER = {Confidence.CERTAIN: 0, Confidence.LIKELY: 1, Confidence.POSSIBLE: 2}
_MOST_POSSIBLE = 5
_EVIDENCE = 4
_PROBLEMS = 5
_WIDTH = 200
_BEFORE = 40
"""Characters shown before ` NCCL WARN ` of a line that is too long to be shown whole."""


def exit_status(diagnosis: Diagnosis) -> int:
    """0 = nothing is wrong or nothing was found, 1 = findings, 3 = a failure for which there is not
    even a guess."""
    if any(
        finding.confidence is not Confidence.POSSIBLE and finding.status is not Status.PASS
        for finding in diagnosis.findings
    ):
        return 1
    if not diagnosis.unexplained:
        return 0
    return 1 if diagnosis.findings else 3


def with_own(diagnosis: Diagnosis, own: tuple[Finding, ...]) -> Diagnosis:
    """The diagnosis with what runs found themselves: the surer first, a run's own before what its
    texts say."""
    if not own:
        return diagnosis
    # A run's findings carry the causes that the table knows; those are told with them, not again.
    ids = {name for finding in own for name in (finding.id, *finding.also, *finding.explains)}
    together = (*own, *(finding for finding in diagnosis.findings if finding.id not in ids))
    return replace(
        diagnosis,
        findings=tuple(sorted(together, key=lambda finding: _SURER[finding.confidence])),
        healthy=False,
    )


def worth_showing(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """All that is at least likely, and the first of what is possible."""
    stated = [
        finding for finding in diagnosis.findings if finding.confidence is not Confidence.POSSIBLE
    ]
    possible = [
        finding for finding in diagnosis.findings if finding.confidence is Confidence.POSSIBLE
    ]
    return (*stated, *possible[:_MOST_POSSIBLE])


def document(diagnosis: Diagnosis, shown: tuple[Finding, ...], reading: Reading) -> Json:
    """What `--json` prints."""
    return {
        "schema": "busbw.why/1",
        "findings": [_finding(finding) for finding in shown],
        "healthy": diagnosis.healthy,
        "unexplained": [
            {"file": line.artefact, "line": line.line_no, "text": line.text}
            for line in diagnosis.unexplained
        ],
        "notes": list(diagnosis.notes),
        "problems": list(reading.problems),
        "read": [
            {"file": text.artefact, "lines": text.lines} for text in reading.evidence.texts[:1000]
        ],
    }


def _finding(finding: Finding) -> Json:
    return {
        "id": finding.id,
        "confidence": finding.confidence.value,
        "status": finding.status.value,
        "title": finding.title,
        "cause": finding.cause,
        "where": list(finding.where),
        "evidence": [
            {"file": item.artefact, "line": item.line_no, "text": item.text}
            for item in finding.evidence
        ],
        "fixes": [
            {
                "do": fix.summary,
                "run": list(fix.commands),
                "needs": fix.needs,
                "disruptive": fix.disruptive,
            }
            for fix in finding.fixes
        ],
        "verify": list(finding.verify),
        "would_settle": list(finding.would_settle),
        "also": list(finding.also),
        "explains": list(finding.explains),
    }


def answer(diagnosis: Diagnosis, shown: tuple[Finding, ...], reading: Reading) -> str:
    """The diagnosis for people: verdict first, then cause, evidence, fix, what else is possible,
    and what was read."""
    stated = [finding for finding in shown if finding.confidence is not Confidence.POSSIBLE]
    possible = [finding for finding in shown if finding.confidence is Confidence.POSSIBLE]
    follows = {name for finding in stated for name in _explains(finding.id)}
    guesses = [finding for finding in possible if finding.id not in follows]
    blocks = [
        _entry_lines(finding, [each.id for each in possible if each.id in _explains(finding.id)])
        for finding in stated
    ]
    if not stated:
        blocks.append(_nothing(diagnosis, guesses))
    if guesses:
        lines = {
            (item.artefact, item.line_no)
            for finding in stated
            for item in finding.evidence[:_EVIDENCE]
        }
        lines |= {(line.artefact, line.line_no) for line in diagnosis.unexplained[:1] if not stated}
        blocks.append(
            [
                "also possible, not shown by the evidence alone:" if stated else "what it may be:",
                *_briefs(guesses, lines),
            ]
        )
    hidden = len(diagnosis.findings) - len(shown)
    if hidden > 0:
        blocks.append([f"{hidden} more: --all"])
    blocks.append(_read(reading))
    return "\n\n".join("\n".join(one_line(line) for line in block) for block in blocks) + "\n"


def _explains(symptom_id: str) -> tuple[str, ...]:
    symptom = table.load().by_id.get(symptom_id)
    return symptom.explains if symptom is not None else ()


def _read(reading: Reading) -> list[str]:
    texts = reading.evidence.texts
    lines = sum(text.lines for text in texts)
    files = (
        f"{len(texts)} {'file' if len(texts) == 1 else 'files'}, {lines:,}"
        f" {'line' if lines == 1 else 'lines'}"
    )
    hidden = len(reading.problems) - _PROBLEMS
    more = [f"  and {hidden} more: --json lists them"] if hidden > 0 else []
    return [
        f"read {files}",
        *[f"  not read: {problem}" for problem in reading.problems[:_PROBLEMS]],
        *more,
    ]


def _nothing(diagnosis: Diagnosis, guesses: list[Finding]) -> list[str]:
    if diagnosis.healthy:
        return ["nothing wrong: the work shown completed, and no line speaks against it"]
    if diagnosis.unexplained:
        first = diagnosis.unexplained[0]
        return [
            "CAUSE not found: something failed, and the evidence does not say why",
            f"  first line  {first.artefact}:{first.line_no}  {_cut(first.text)}",
            (
                "  next        run again with NCCL_DEBUG=INFO"
                " NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET and one file per rank, and give all"
                " files"
            ),
        ]
    return [
        "nothing found"
        + (
            "; settings and conditions worth a look are listed below"
            if guesses
            else ": no line that the table knows as a sign of trouble"
        )
    ]


def _entry_lines(finding: Finding, follows: list[str]) -> list[str]:
    label = "CAUSE" if finding.status is Status.FAIL else "FOUND"
    out = [
        f"{_SIGNS.get(finding.status, '?')} {label} ({finding.confidence.value})  {finding.title}  "
        f" [{finding.id}]"
    ]
    out.append(f"  {finding.cause}")
    if finding.where:
        out.append(f"  where     {', '.join(finding.where)}")
    for number, item in enumerate(finding.evidence[:_EVIDENCE]):
        out.append(f"  {'evidence' if number == 0 else '        '}  {_at(item)}  {_cut(item.text)}")
    out += _steps(finding.fixes)
    out += [
        f"  {'verify' if number == 0 else '      '}    {step}"
        for number, step in enumerate(finding.verify)
    ]
    told = {command for fix in finding.fixes for command in fix.commands} | set(finding.verify)
    settle = [step for step in finding.would_settle if step not in told]
    out += [
        f"  {'settle' if number == 0 else '      '}    {step}" for number, step in enumerate(settle)
    ]
    return out + ([f"  explains  {', '.join(follows)}"] if follows else [])


def _at(item: Evidence) -> str:
    return item.artefact if item.line_no in (None, 0) else f"{item.artefact}:{item.line_no}"


def _steps(fixes: tuple[Fix, ...]) -> list[str]:
    out = []
    for number, fix in enumerate(fixes, 1):
        notes = ([f"needs {fix.needs}"] if fix.needs != "user" else []) + (
            ["disrupts running jobs"] if fix.disruptive else []
        )
        out.append(
            f"  {'fix' if number == 1 else '   '}       {number} "
            f" {fix.summary}{'   # ' + ', '.join(notes) if notes else ''}"
        )
        out += [f"               {command}" for command in fix.commands]
    return out


def _briefs(guesses: list[Finding], seen: set[tuple[str, int | None]]) -> list[str]:
    """Title, line and what would settle it of each; the text of a line once."""
    out = []
    for finding in guesses:
        item = finding.evidence[0]
        text = "" if (item.artefact, item.line_no) in seen else f"  {_cut(item.text)}"
        seen.add((item.artefact, item.line_no))
        out += [f"  {finding.id:<28}  {finding.title}", f"  {'':<28}  {_at(item)}{text}"]
        out += [f"  {'':<28}  to tell: {finding.would_settle[0]}"] if finding.would_settle else []
    return out


def _cut(text: str) -> str:
    """The telling part of a line: of a long one what stands around NCCL's level, or its start."""
    text = text.strip()
    if len(text) <= _WIDTH:
        return text
    start = max(0, text.find(" NCCL ") - _BEFORE)
    return (
        ("…" if start else "")
        + text[start : start + _WIDTH]
        + ("…" if start + _WIDTH < len(text) else "")
    )


def entry(symptom: Symptom, known: SymptomTable) -> str:
    """One entry of the catalogue, explained; of a check also the entries that it speaks for."""
    stages = ", ".join((symptom.stage, *symptom.also_stages))
    severity = f"{symptom.severity.value}; " if symptom.severity else ""
    signs = [
        signal.matches[0] if signal.matches else f"{signal.source}: {signal.expr}"
        for signal in symptom.signals
        if signal.weight.value != "excludes"
    ]
    causes = tuple(
        f"{each.id}  {each.title}"
        for each in known.symptoms
        if any(signal.source == f"preflight:{symptom.id}" for signal in each.signals)
    )
    out = [
        f"{symptom.id}  {symptom.title}",
        f"  cause     {symptom.cause}",
        f"  costs     {severity}shows at {stages}",
        f"  why       {symptom.explanation}",
        *_labelled("signs", tuple(dict.fromkeys(signs))),
        *_labelled("causes", causes),
        *_steps(tuple(step.fix() for step in symptom.fix)),
        *_labelled("verify", symptom.verify),
        *_labelled("trust", (symptom.trust,) if symptom.trust else ()),
        *_labelled("see", tuple(f"{title}, {address}" for title, address in symptom.references)),
    ]
    return "\n".join(one_line(line) for line in out) + "\n"


def _labelled(label: str, texts: Sequence[str]) -> list[str]:
    """Lines under one label, which stands before the first."""
    labels = [label, *[""] * len(texts)]
    return [f"  {label:<8}  {text}" for label, text in zip(labels, texts, strict=False)]


def listing(known: SymptomTable) -> str:
    """One line per entry, by stage."""
    out = []
    for stage in STAGES:
        out.append(stage)
        out += [
            f"  {symptom.id:<32}  {symptom.title}"
            for symptom in known.symptoms
            if symptom.stage == stage and symptom.role is not Role.NOTE
        ]
    return "\n".join(out) + "\n"


def unknown_word(word: str, known: SymptomTable) -> str:
    """What to say of a word that is neither a path nor an entry."""
    near = [name for name in known.by_id if word.casefold() in name]
    meant = (
        f"ids with that word: {', '.join(near)}"
        if near
        else codec.unknown("symptom", word, known.by_id)
    )
    return f"{word!r} is neither a path nor an id; {meant}"


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw why`."""
    parser.usage = (
        "busbw why PATH… | RUN | SYMPTOM-ID [--json] [--all] [--fabric NAME]\n       busbw why"
        " --list\n       busbw why --live [-w NODES | -i FILE | --job SLURM_ID | --pid"
        " PID] [--watch 10s] [--stacks] [--json]"
    )
    parser.add_argument(
        "what",
        nargs="*",
        metavar="PATH | RUN | SYMPTOM-ID",
        help="logs, directories, a run, `-` for standard input; or one symptom to explain",
    )
    parser.add_argument("--json", action="store_true", help="the findings as JSON, best first")
    parser.add_argument(
        "--all", action="store_true", help="every explanation that is possible, not only the best"
    )
    parser.add_argument(
        "--list", action="store_true", dest="list_entries", help="list what can be found"
    )
    parser.add_argument(
        "--fabric",
        choices=[family.value for family in Family],
        help="the fabric it was meant to run on (default: what the logs show)",
    )
    from busbw.cli.why_live import register_live

    register_live(parser)


def run(args: argparse.Namespace) -> int:
    """Diagnose, or explain an entry. 0 = nothing found, 1 = findings, 3 = something failed and the
    evidence does not say why."""
    if args.live or args.print_script:
        from busbw.cli.why_live import run_live

        return run_live(args)
    if args.list_entries:
        sys.stdout.write(listing(table.load()))
        return 0
    if not args.what:
        raise UsageError(
            "why needs a path, a run or a symptom",
            next_step="busbw why nccl.log, or busbw why --list",
        )
    entries = _entries(args.what)
    if entries is not None:
        sys.stdout.write(entries)
        return 0
    return _diagnose(args)


def _entries(words: list[str]) -> str | None:
    """The explanation where the one word is an id of the catalogue and no file of that name is
    there; None = diagnose."""
    if len(words) != 1 or os.path.exists(words[0]) or os.sep in words[0] or words[0] == "-":
        return None
    known = table.load()
    if words[0] in known.by_id:
        return entry(known.by_id[words[0]], known)
    raise UsageError(
        unknown_word(words[0], known),
        next_step="busbw why --list shows what is known; a path must exist",
    )


def _diagnose(args: argparse.Namespace) -> int:
    from pathlib import Path

    from busbw.parsers.findings.diagnose import diagnose
    from busbw.parsers.findings.evidence import Context
    from busbw.triage.offline import is_collection

    if len(args.what) == 1 and is_collection(Path(args.what[0])):
        from busbw.cli.why_live import offline

        return offline(args, args.what[0])
    if args.redact:
        raise UsageError(
            "--redact is for --live and for collected answers",
            seen=args.what[0],
            next_step="busbw report RUN --redact for a run",
        )
    reading = read(args.what)
    if not reading.evidence.texts and not reading.evidence.facts:
        raise ReadError(
            f"nothing to read in {', '.join(args.what)}",
            seen="\n".join(reading.problems),
            next_step="give a log, a directory of logs, a table or a run",
        )
    diagnosis = with_own(diagnose(reading.evidence, Context(fabric=args.fabric)), reading.findings)
    shown = diagnosis.findings if args.all else worth_showing(diagnosis)
    if args.json:
        sys.stdout.write(
            json.dumps(document(diagnosis, shown, reading), ensure_ascii=False, indent=2) + "\n"
        )
    else:
        sys.stdout.write(answer(diagnosis, shown, reading))
    return exit_status(diagnosis)
