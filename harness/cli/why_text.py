"""The diagnosis as a person reads it on a terminal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from busbw.cli.why_reading import Reading
from busbw.cli.why_verdict import by_certainty, is_cause_in_doubt, leading_guess
from busbw.model import Evidence, Finding, Status
from busbw.parsers.findings import catalogue, similar
from busbw.parsers.findings.diagnose import RATIOS
from busbw.parsers.findings.evidence import RESULT, Diagnosis, Fact, Text
from busbw.reports import phrases
from busbw.reports.safe import one_line
from busbw.units import counted

_EVIDENCE = 4
_PROBLEMS = 5
_REMARKS = 3
_WIDTH = 200
_OF_NCCL = re.compile(r"NCCL(?!_)|RCCL|\bnccl[A-Z]")
_BEFORE = 40
"""Characters shown before ` NCCL WARN ` of a line that is too long to be shown whole."""


_PASSED_ON = "secondary-error"
"""It says that a line passes on another one's error: beside a cause it is no cause of its own."""
_TOO_SHORT = "watchdog-timeout-short"
"""It doubts that anything failed: beside a cause that is at least likely it says nothing."""
_KERNEL_LINE = re.compile(r"\bkernel: |^\[ *\d+\.\d{6}\]|^\[\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}\] ")
"""A line of a kernel log, as dmesg, dmesg -T and syslog write it."""


def answer(diagnosis: Diagnosis, shown: tuple[Finding, ...], reading: Reading) -> str:
    """The diagnosis for people: verdict first, then cause, evidence, fix, what else is possible,
    and what was read."""
    stated, possible = by_certainty(shown)
    leader = leading_guess(diagnosis)
    if leader is None:
        stated, possible = _with_suspect(stated, possible, reading)
    consequences = {name for each in stated for name in _explains(each.id)}
    guesses = [each for each in possible if each.id not in consequences and each is not leader]
    if stated or leader is not None:
        guesses = [each for each in guesses if each.id != _PASSED_ON]
    if stated:
        guesses = [each for each in guesses if each.id != _TOO_SHORT]
    blocks = [_stated_lines(each, possible, diagnosis) for each in stated]
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
    if diagnosis.contradictions:
        blocks.append([f"contradiction: {each}" for each in diagnosis.contradictions])
    blocks.append(_read_lines(reading))
    if len(stated) > 1:
        blocks.append(_overview(stated))
    return "\n\n".join("\n".join(one_line(line) for line in block) for block in blocks) + "\n"


def _with_suspect(
    stated: list[Finding], possible: list[Finding], reading: Reading
) -> tuple[list[Finding], list[Finding]]:
    """Both, with what a run blames, however unsure it is, before what follows from it."""
    blamed = [each.id for each in reading.findings[:1]]
    following = {each.id for each in stated}
    for each in possible:
        if each.id in blamed and following.intersection(each.explains):
            return [each, *stated], [other for other in possible if other is not each]
    return stated, possible


_COMMAND = re.compile(
    r" {15}(?! )|  (?:verify|confirm) |.{32}to confirm: | {12}(?=\S+ -)|  next {8}busbw |  \| |busbw: "
)
"""A line that is there to be copied, or for grep."""
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
    out = [f"{counted(len(stated), 'finding')}, as above:"]
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
    out = [f"read {counted(len(texts), 'file')}, {counted(lines, 'line')}"]
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
            *(f"  remark      {each}" for each in reading.remarks[:_REMARKS]),
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
        step = "give the complete output, or measure again what is missing"
        if reading.open_run:
            run = shlex.quote(reading.open_run)
            step = (
                "a run that still runs: busbw why --live -w NODES; one that was stopped:"
                f" busbw run --resume {run}"
            )
        elif reading.ends_open:
            step = (
                "a job that still runs: busbw why --live; one that is gone: give the scheduler's log,"
                " the kernel logs (dmesg -T) and the other ranks' outputs"
            )
        return [
            "UNKNOWN: no line reports a failure, but the evidence is incomplete",
            f"  missing     {_cut(gaps[0])}{more}",
            f"  next        {step}",
        ]
    if is_cause_in_doubt(diagnosis, reading):
        return [
            "UNKNOWN: no line reports a failure, but what is listed below can make a job fail",
            f"  next        {_more_evidence(reading.evidence.texts)}",
        ]
    if guesses:
        return ["nothing found; settings and conditions worth a look are listed below"]
    if not reading.is_known:
        return [
            "UNKNOWN: no line is of a kind that busbw knows, so nothing was judged",
            "  next        give the complete output of the job, or the logs of NCCL, MPI, the scheduler"
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
    from busbw.parsers.expect.hardware import recognise_gpu
    from busbw.parsers.expect.saved import expect_command

    collective = values.get("collective")
    command = expect_command(
        recognise_gpu(str(values.get("gpu", ""))),
        _whole(values.get("nranks")),
        _whole(nodes),
        None if collective is None else str(collective),
        _whole(size),
        float(busbw),
    )
    return [
        f"  not judged  bandwidth: busbw {busbw:g} GB/s{at}; whether that is low depends on the"
        " hardware, which was not compared",
        f"  next        {command}",
    ]


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, float) else None


def _lines(texts: Iterable[Text]) -> Iterator[str]:
    """What was found in them, text by text: all at once would be a quarter of a megabyte for each."""
    return (line.text for text in texts for hit in text.hits for line in hit.examples)


def _more_evidence(texts: Sequence[Text]) -> str:
    """What would say more, as far as the texts do not have it."""
    is_given = any(map(_KERNEL_LINE.search, _lines(texts)))
    kernel = "" if is_given else ", and the kernel logs of the nodes (dmesg -T)"
    if any(" NCCL INFO " in line for line in _lines(texts)):
        return f"give the logs of all ranks, one file each{kernel}"
    if any(map(_OF_NCCL.search, _lines(texts))):
        settings = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET"
        return f"run again with {settings} and one file per rank, and give all files"
    if any(map(similar.is_of_field, _lines(texts))):
        return f"give the complete output of every rank{kernel}"
    return (
        "read what the program itself says there; if a GPU job failed with it, give the whole"
        " output of that job"
    )


def _stated_lines(finding: Finding, possible: list[Finding], diagnosis: Diagnosis) -> list[str]:
    """A finding that is at least likely, with those of the possible ones that it explains."""
    consequences = [phrases.entry(each.id) for each in possible if each.id in _explains(finding.id)]
    return [*_finding_lines(finding, (), diagnosis), *phrases.labelled("explains", consequences)]


def _leading_lines(leader: Finding, diagnosis: Diagnosis, reading: Reading) -> list[str]:
    """The first possible cause, with the first line that reports a failure where it shows another,
    and what would say more."""
    own = {(item.artefact, item.line_no) for item in leader.evidence[:_EVIDENCE]}
    first = diagnosis.unexplained[0]
    is_shown = first.line_no is None or (first.artefact, first.line_no) in own
    others = [] if is_shown else [first]
    return [
        *_finding_lines(leader, others, diagnosis),
        *phrases.labelled_text(
            "open", "the evidence does not show for certain that this is the cause"
        ),
        *phrases.labelled_text("next", _more_evidence(reading.evidence.texts)),
    ]


def _finding_lines(finding: Finding, before: Iterable[Evidence], diagnosis: Diagnosis) -> list[str]:
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
        *phrases.labelled_text("where", _where(finding, diagnosis)),
        *phrases.labelled("evidence", evidence),
        *phrases.steps(finding.fixes),
        *phrases.labelled("verify", finding.verify),
        *phrases.labelled("confirm", [step for step in finding.would_settle if step not in shown]),
    ]


def _where(finding: Finding, diagnosis: Diagnosis) -> str:
    more = diagnosis.more_places.get(finding.id, 0)
    return ", ".join(finding.where) + (f", and {more} more" if more else "")


def _guess_lines(guesses: list[Finding], named: list[Finding], diagnosis: Diagnosis) -> list[str]:
    """Title, place, line and what would confirm it of each; the text of a line only once.

    named: the findings that are shown in full above them.
    """
    lines = {(item.artefact, item.line_no) for each in named for item in each.evidence[:_EVIDENCE]}
    where = {place for each in named for place in each.where}
    steps = {step for each in named for step in each.would_settle}
    if not any(each.at_least_likely for each in named):
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
            out.append(f"  {'':<28}  where: {_where(finding, diagnosis)}")
        fresh = [step for step in finding.would_settle[:1] if step not in steps]
        out += [f"  {'':<28}  to confirm: {step}" for step in fresh]
        steps.update(fresh)
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
