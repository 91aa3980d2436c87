"""How a diagnosis, or an entry of the symptom table, is told: as text for a terminal and as a JSON document."""

from __future__ import annotations

from dataclasses import replace

from busbw import codec
from busbw.cli.why_read import Reading
from busbw.parsers.judge.diagnose_document import STAGES
from busbw.parsers.judge.diagnose_evidence import Diagnosis
from busbw.parsers.symptoms import table
from busbw.parsers.symptoms.table import Role, Symptom, SymptomTable
from busbw.records import Confidence, Evidence, Finding, Fix, Status
from busbw.reports.safe import one_line

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
    """0 = nothing is wrong or nothing was found, 1 = findings, 3 = a failure for which there is not even a guess."""
    if any(finding.confidence is not Confidence.POSSIBLE and finding.status is not Status.PASS for finding in diagnosis.findings):
        return 1
    if not diagnosis.unexplained:
        return 0
    return 1 if diagnosis.findings else 3


def with_own(diagnosis: Diagnosis, own: tuple[Finding, ...]) -> Diagnosis:
    """The diagnosis with what runs found themselves: the surer first, a run's own before what its texts say."""
    if not own:
        return diagnosis
    # A run's findings carry the causes that the table knows; those are told with them, not again.
    ids = {name for finding in own for name in (finding.id, *finding.also, *finding.explains)}
    together = (*own, *(finding for finding in diagnosis.findings if finding.id not in ids))
    return replace(diagnosis, findings=tuple(sorted(together, key=lambda finding: _SURER[finding.confidence])), healthy=False)


def worth_showing(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """All that is at least likely, and the first of what is possible."""
    stated = [finding for finding in diagnosis.findings if finding.confidence is not Confidence.POSSIBLE]
    possible = [finding for finding in diagnosis.findings if finding.confidence is Confidence.POSSIBLE]
    return (*stated, *possible[:_MOST_POSSIBLE])


def document(diagnosis: Diagnosis, shown: tuple[Finding, ...], reading: Reading) -> Json:
    """What `--json` prints."""
    return {
        "schema": "busbw.why/1",
        "findings": [_finding(finding) for finding in shown],
        "healthy": diagnosis.healthy,
        "unexplained": [{"file": line.artefact, "line": line.line_no, "text": line.text} for line in diagnosis.unexplained],
        "notes": list(diagnosis.notes),
        "problems": list(reading.problems),
        "read": [{"file": text.artefact, "lines": text.lines} for text in reading.evidence.texts[:1000]],
    }


def _finding(finding: Finding) -> Json:
    return {
        "id": finding.id,
        "confidence": finding.confidence.value,
        "status": finding.status.value,
        "title": finding.title,
        "cause": finding.cause,
        "where": list(finding.where),
        "evidence": [{"file": item.artefact, "line": item.line_no, "text": item.text} for item in finding.evidence],
        "fixes": [
            {"do": fix.summary, "run": list(fix.commands), "needs": fix.needs, "disruptive": fix.disruptive} for fix in finding.fixes
        ],
        "verify": list(finding.verify),
        "would_settle": list(finding.would_settle),
        "also": list(finding.also),
        "explains": list(finding.explains),
    }


def answer(diagnosis: Diagnosis, shown: tuple[Finding, ...], reading: Reading) -> str:
    """The diagnosis for people: verdict first, then cause, evidence, fix, what else is possible, and what was read."""
    stated = [finding for finding in shown if finding.confidence is not Confidence.POSSIBLE]
    possible = [finding for finding in shown if finding.confidence is Confidence.POSSIBLE]
    follows = {name for finding in stated for name in _explains(finding.id)}
    guesses = [finding for finding in possible if finding.id not in follows]
    blocks = [_told(finding, [each.id for each in possible if each.id in _explains(finding.id)]) for finding in stated]
    if not stated:
        blocks.append(_nothing(diagnosis, guesses))
    if guesses:
        lines = {(item.artefact, item.line_no) for finding in stated for item in finding.evidence[:_EVIDENCE]}
        lines |= {(line.artefact, line.line_no) for line in diagnosis.unexplained[:1] if not stated}
        blocks.append(["also possible, not shown by the evidence alone:" if stated else "what it may be:", *_briefs(guesses, lines)])
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
    files = f"{len(texts)} {'file' if len(texts) == 1 else 'files'}, {lines:,} {'line' if lines == 1 else 'lines'}"
    hidden = len(reading.problems) - _PROBLEMS
    more = [f"  and {hidden} more: --json lists them"] if hidden > 0 else []
    return [f"read {files}", *[f"  not read: {problem}" for problem in reading.problems[:_PROBLEMS]], *more]


def _nothing(diagnosis: Diagnosis, guesses: list[Finding]) -> list[str]:
    if diagnosis.healthy:
        return ["nothing wrong: the work shown completed, and no line speaks against it"]
    if diagnosis.unexplained:
        first = diagnosis.unexplained[0]
        return [
            "CAUSE not found: something failed, and the evidence does not say why",
            f"  first line  {first.artefact}:{first.line_no}  {_cut(first.text)}",
            "  next        run again with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET and one file per rank, and give all files",
        ]
    return [
        "nothing found"
        + ("; settings and conditions worth a look are listed below" if guesses else ": no line that the table knows as a sign of trouble")
    ]


def _told(finding: Finding, follows: list[str]) -> list[str]:
    label = "CAUSE" if finding.status is Status.FAIL else "FOUND"
    out = [f"{_SIGNS.get(finding.status, '?')} {label} ({finding.confidence.value})  {finding.title}   [{finding.id}]"]
    out.append(f"  {finding.cause}")
    if finding.where:
        out.append(f"  where     {', '.join(finding.where)}")
    for number, item in enumerate(finding.evidence[:_EVIDENCE]):
        out.append(f"  {'evidence' if number == 0 else '        '}  {_at(item)}  {_cut(item.text)}")
    out += _steps(finding.fixes)
    out += [f"  {'verify' if number == 0 else '      '}    {step}" for number, step in enumerate(finding.verify)]
    told = {command for fix in finding.fixes for command in fix.commands} | set(finding.verify)
    settle = [step for step in finding.would_settle if step not in told]
    out += [f"  {'settle' if number == 0 else '      '}    {step}" for number, step in enumerate(settle)]
    return out + ([f"  explains  {', '.join(follows)}"] if follows else [])


def _at(item: Evidence) -> str:
    return item.artefact if item.line_no in (None, 0) else f"{item.artefact}:{item.line_no}"


def _steps(fixes: tuple[Fix, ...]) -> list[str]:
    out = []
    for number, fix in enumerate(fixes, 1):
        notes = ([f"needs {fix.needs}"] if fix.needs != "user" else []) + (["disrupts running jobs"] if fix.disruptive else [])
        out.append(f"  {'fix' if number == 1 else '   '}       {number}  {fix.summary}{'   # ' + ', '.join(notes) if notes else ''}")
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
    return ("…" if start else "") + text[start : start + _WIDTH] + ("…" if start + _WIDTH < len(text) else "")


def entry(symptom: Symptom) -> str:
    """One entry of the table, explained."""
    out = [
        f"{symptom.id}  {symptom.title}",
        f"  cause     {symptom.cause}",
        f"  costs     {symptom.severity.value}; shows at {', '.join((symptom.stage, *symptom.also_stages))}",
    ]
    out += [f"  why       {symptom.explanation}"]
    seen = [
        signal.matches[0] if signal.matches else f"{signal.source}: {signal.expr}"
        for signal in symptom.signals
        if signal.weight.value != "excludes"
    ]
    out += [f"  {'signs' if number == 0 else '     '}     {text}" for number, text in enumerate(dict.fromkeys(seen))]
    out += _steps(tuple(step.fix() for step in symptom.fix))
    out += [f"  {'verify' if number == 0 else '      '}    {step}" for number, step in enumerate(symptom.verify)]
    out.append(f"  trust     {symptom.trust}")
    out += [f"  {'see' if number == 0 else '   '}       {title}, {address}" for number, (title, address) in enumerate(symptom.references)]
    return "\n".join(one_line(line) for line in out) + "\n"


def listing(known: SymptomTable) -> str:
    """One line per entry, by stage."""
    out = []
    for stage in STAGES:
        out.append(stage)
        out += [
            f"  {symptom.id:<32}  {symptom.title}" for symptom in known.symptoms if symptom.stage == stage and symptom.role is not Role.NOTE
        ]
    return "\n".join(out) + "\n"


def unknown_word(word: str, known: SymptomTable) -> str:
    """What to say of a word that is neither a path nor an entry."""
    near = [name for name in known.by_id if word.casefold() in name]
    meant = f"symptoms with that word: {', '.join(near)}" if near else codec.unknown("symptom", word, known.by_id)
    return f"{word!r} is neither a path nor a symptom; {meant}"


__all__ = ["answer", "document", "entry", "exit_status", "listing", "unknown_word", "worth_showing"]
