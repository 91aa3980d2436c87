"""The verdict as plain lines for a terminal: verdict first, then the cause, the fix, the evidence;
the last line is for grep."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from busbw.checks import CONNECT
from busbw.model import Confidence, CriterionResult, Finding, RunResult, Status, Unreachable
from busbw.parsers import contract
from busbw.reports import lead, phrases
from busbw.reports.safe import one_line
from busbw.text import with_run_at
from busbw.units import counted, format_size

_MORE_FINDINGS = 5
_EVIDENCE = 3
_TEXT = 160
_GAPS = 4
_SHARP = 0.9
"""A gate that begins to fail at this share of the number, or above, lets little pass."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output, and how it may be broken."""

    text: str
    indent: int = 6
    """Columns before what follows a break."""
    unbroken: bool = False
    """True = never broken: a command to copy, or the line for grep."""

    def __str__(self) -> str:
        return self.text


def printed(lines: Iterable[Line], width: int | None) -> str:
    """The text of lines on a terminal of `width` columns, broken behind blanks and commas and
    indented; None = no line is broken.

    >>> printed([Line("NOT CHECKED  gpu.ecc, gpu.temp: no tool")], 24)
    'NOT CHECKED  gpu.ecc,\\n      gpu.temp: no tool\\n'
    """
    parts: list[str] = []
    for line in lines:
        fits = width is None or len(line.text) <= width
        parts += [line.text] if fits or line.unbroken else _broken(line, width or 0)
    return "".join(f"{part}\n" for part in parts)


def _broken(line: Line, width: int) -> list[str]:
    parts, current = [], ""
    for token in re.split(r"(?<=[ ,])", line.text):
        if current.strip() and len(current) + len(token.rstrip()) > width:
            parts.append(current.rstrip())
            current = " " * line.indent
        current += token
    return [*parts, current.rstrip()]


def table(
    head: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: tuple[str, ...] = ()
) -> list[Line]:
    """Rows in columns below their heads, each a line: the last column is broken under itself where
    the terminal is narrow.

    Args:
        right: heads of the columns that end at one edge, as figures do.

    >>> rows = [("n1", "48.1", "good"), ("gpu-2", "9", "slow, no cause found")]
    >>> print(printed(table(("NODE", "GB/s", "STATE"), rows, right=("GB/s",)), 32), end="")
      NODE   GB/s  STATE
      n1     48.1  good
      gpu-2     9  slow, no cause
                   found
    """
    every = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)][:-1]
    indent = 2 + sum(widths) + 2 * len(widths)
    lines = []
    for *cells, last in every:
        columns = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(head, cells, widths, strict=False)
        ]
        lines.append(Line(f"  {'  '.join([*columns, last])}".rstrip(), indent))
    return lines


def verdict_lines(result: RunResult, run_dir: str | None = None) -> tuple[Line, ...]:
    """The lines to print; every character that could move a cursor is a mark.

    `run_dir` is the run's directory as the user would type it; None = `runs/<run id>`.
    """
    gone = {each.node for each in result.unreachable}
    # NOT REACHED says it, with what to try.
    findings = tuple(
        each
        for each in lead.ordered_findings(result)
        if each.id not in (CONNECT.id, "reach-failed") or not gone.issuperset(each.where)
    )
    lines = [Line(f"{result.verdict.value}  {result.headline}")]
    if result.emulated:
        lines.append(Line(f"      {result.emulated}"))
    lines += _gate(result)
    lines += _criteria(result)
    lines += unreached(result.unreachable)
    if findings and result.verdict is Status.PASS:
        # Nothing has to be done: what was noted is a line.
        lines += _others(list(findings))
    elif findings and (decided := lead.deciding(result)) and decided not in findings:
        # What NOT REACHED says decided it.
        lines += _others(list(findings))
    elif findings:
        lines += _first(findings[0], result.headline)
        lines += [Line(f"FOLLOWS  {text}") for text in _numbers_behind(findings)]
        others = [each for each in findings[1:] if each.id not in findings[0].explains]
        lines += _others(others)
    lines += _layers(findings)
    lines += _gaps(result)
    place = run_dir or f"runs/{result.run_id}"
    shown = [
        replace(line, text=one_line(with_run_at(line.text, result.run_id, place))) for line in lines
    ]
    return (*shown, Line(one_line(lead.last_line(result, place)), unbroken=True))


def _gate(result: RunResult) -> list[Line]:
    """The gate that lets most pass, where it lets much pass: what would have failed moves with the
    noise, and with how far the number is above what is wanted. A contract has its limits, and a
    failure its evidence."""
    if result.verdict is Status.FAIL or result.acceptance is not None:
        return []
    left = {}
    for each in lead.whole_cluster(result):
        outcome = lead.outcome_of(result, each.case_id)
        if outcome is not None and not outcome.case.required:
            continue
        if each.status is Status.PASS and each.threshold_gb_s and each.measured_gb_s:
            left[each] = each.threshold_gb_s / each.measured_gb_s
    blindest = min(left, key=lambda each: left[each], default=None)
    if blindest is None or left[blindest] >= _SHARP:
        return []
    number = f"{blindest.case_id} at {format_size(blindest.size_bytes)}"
    share = phrases.percent(left[blindest])
    why = f"{phrases.reference(blindest.reference)}: {blindest.reason}"
    return [Line(f"GATE  {number} fails only below {share} of this run's number ({why})")]


def _numbers_behind(findings: tuple[Finding, ...]) -> list[str]:
    """What was compared with accepted runs and follows from the first finding: whoever asked for
    that comparison wants its numbers, too."""
    return [
        f"{phrases.title(each)}   [{each.id}]"
        for each in findings[1:]
        if each.id == "slower-than-accepted" and each.id in findings[0].explains
    ]


def _criteria(result: RunResult) -> list[Line]:
    """The contract, one line a criterion, in columns."""
    if result.acceptance is None:
        return []
    lines = table(CRITERIA, [criterion_row(each) for each in result.acceptance.criteria])
    if result.acceptance.without_suspects:
        lines.append(Line(f"      {result.acceptance.without_suspects}"))
    if result.acceptance.not_measured:
        lines.append(Line(f"      not measured: {'; '.join(result.acceptance.not_measured)}"))
    lines += [
        Line(f"      undecided: {contract.words(each)}: {each.reason}", indent=8)
        for each in contract.undecided(result.acceptance)
    ]
    return lines


CRITERIA = ("RESULT", "LIMIT", "MEASURED", "n", "CRITERION")
"""What may be long comes last: a narrow terminal breaks it under itself."""


def criterion_row(of: CriterionResult) -> tuple[str, str, str, str, str]:
    """One number of a contract under `CRITERIA`."""
    if of.status in (Status.PASS, Status.FAIL):
        word = phrases.LABELS[of.status]
    else:
        word = phrases.open_criterion(of)
    return (
        f"{phrases.SIGNS[of.status]} {word}",
        phrases.limit(of),
        phrases.measured(of),
        str(of.launches),
        f"{of.id} {phrases.criterion(of)}",
    )


def unreached(unreachable: tuple[Unreachable, ...]) -> list[Line]:
    """Who was not reached, why, and what to try."""
    lines = []
    groups = unreachable_by_reason(unreachable)
    for number, same in enumerate(groups, 1):
        nodes = phrases.nodes(u.node for u in same)
        lines.append(Line(f"NOT REACHED  {nodes}: {same[0].reason}"))
        step = same[0].next_step
        if step and (number == len(groups) or groups[number][0].next_step != step):
            lines.append(Line(f"      try: {step}"))
    return lines


def unreachable_by_reason(
    unreachable: tuple[Unreachable, ...],
) -> tuple[tuple[Unreachable, ...], ...]:
    """Unreachable nodes grouped by what was seen, in the order of the first of each. A node's own
    name or address in the reason makes no difference."""
    reasons = [_without_own(each) for each in unreachable]
    return tuple(
        tuple(u for u, own in zip(unreachable, reasons, strict=True) if own == reason)
        for reason in dict.fromkeys(reasons)
    )


_ADDRESS = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b|\b[0-9a-f]*:[0-9a-f:]*:[0-9a-f]+\b")


def _without_own(each: Unreachable) -> str:
    return _ADDRESS.sub("NODE", each.reason.replace(each.node, "NODE"))


def _first(finding: Finding, headline: str) -> list[Line]:
    cause = phrases.cut(finding.cause, 2 * _TEXT)
    title = phrases.title(finding)
    texts = [title, cause]
    if title.startswith(headline):
        # The line above says it already.
        texts = [cause, title.removeprefix(headline).lstrip(",;: ")]
    elif title in headline:
        texts = [cause]
    first, *others = [text for text in texts if text] or [title]
    lines = [Line(f"{_label(finding)}  {first}   [{finding.id}]")]
    lines += [Line(f"      {text}") for text in others]
    lines += [Line(f"NOT   {text}") for text in finding.ruled_out]
    if finding.cost:
        lines.append(Line(f"COST  {finding.cost}"))
    if finding.confidence is Confidence.POSSIBLE:
        lines += _commands(phrases.CONFIRM, phrases.to_confirm(finding)[:1])
    for number, fix in enumerate(finding.fixes, 1):
        head = "DO" if number == 1 else "  "
        lines.append(Line(f"{head}    {phrases.fix_step(number, fix)}", indent=9))
        lines += [Line(f"         {command}", unbroken=True) for command in fix.commands]
    for number, evidence in enumerate(finding.evidence[:_EVIDENCE], 1):
        head = "SEEN" if number == 1 else "    "
        at, text = phrases.location(evidence), phrases.cut(evidence.text.strip(), _TEXT)
        is_known = evidence.text.strip() in (title, headline)
        lines.append(Line(f"{head}  {at}" if is_known else f"{head}  {at}  {text}"))
    hidden = len(finding.evidence) - _EVIDENCE
    if hidden > 0:
        lines.append(Line(f"      and {hidden} more in the report"))
    return lines + _commands(phrases.AFTER, finding.verify[:1])


def _commands(label: str, commands: Iterable[str]) -> list[Line]:
    """Each behind the label that says what it is for, in capitals as all labels."""
    return [Line(f"{label.upper()}  {command}", unbroken=True) for command in commands]


def _label(finding: Finding) -> str:
    # An advisory finding decided nothing: it is not the cause of the verdict above it.
    if finding.required and finding.status in (Status.FAIL, Status.UNKNOWN):
        return f"CAUSE ({phrases.sure(finding)})"
    return f"NOTE  {phrases.state(finding.status)} ({phrases.sure(finding)})"


def _others(findings: list[Finding]) -> list[Line]:
    """A line each; advisory warnings of checks share one."""
    advisory = [each for each in findings if _is_advice(each)]
    own = [each for each in findings if len(advisory) < 2 or not _is_advice(each)]
    lines = [_brief(finding) for finding in own[:_MORE_FINDINGS]]
    hidden = len(own) - _MORE_FINDINGS
    if hidden > 0:
        lines.append(Line(f"ALSO  {counted(hidden, 'more finding')} in the report"))
    if len(advisory) > 1:
        ids: dict[str, list[str]] = {}
        for each in advisory:
            ids.setdefault(phrases.where(each.where), []).append(each.id)
        named = "; ".join(f"{', '.join(names)}: {place}" for place, names in ids.items())
        state = phrases.state(Status.WARN)
        lines.append(Line(f"ALSO  {state} of {len(advisory)} checks: {named}"))
    return lines


def _is_advice(finding: Finding) -> bool:
    # Only checks have dotted ids.
    return "." in finding.id and finding.status is Status.WARN and not finding.required


def _brief(finding: Finding) -> Line:
    state = phrases.state(finding.status)
    place, title = phrases.place(finding), phrases.title(finding)
    is_named = any(name in title for name in finding.where)
    text = title if is_named or not place else f"{title}: {place}"
    if finding.status is not Status.UNKNOWN or finding.where:
        state += f" ({phrases.sure(finding)})"
    return Line(f"ALSO  {state}  {text}   [{finding.id}]")


def _layers(findings: tuple[Finding, ...]) -> list[Line]:
    """The layer breakdown: a line a layer, below its conclusion."""
    breakdown = next((finding for finding in findings if finding.id == "layer-breakdown"), None)
    if breakdown is None or breakdown.id in findings[0].explains:
        return []
    rows = (Line(f"        {row.text}") for row in breakdown.evidence)
    return [Line(f"LAYERS  {breakdown.title}"), *rows]


def _gaps(result: RunResult) -> list[Line]:
    lines = []
    # Detection limits matter where somebody would rely on the verdict; a failure stands by its own
    # evidence.
    if result.verdict is not Status.FAIL:
        for number, limit in enumerate(phrases.limits(result.sensitivity)):
            lines.append(Line(f"{'      ' if number else 'LIMITS'}  {limit}", indent=10))
    if result.uncovered:
        gaps = "; ".join(gap.what for gap in result.uncovered[:_GAPS])
        more = " …" if len(result.uncovered) > _GAPS else ""
        lines.append(Line(f"NOT CHECKED  {gaps}{more}"))
        shown = {step for finding in result.findings for step in finding.would_settle}
        open_suspects = (gap for gap in result.uncovered if gap.what.startswith("suspected: "))
        steps = (gap.would_settle for gap in open_suspects if gap.would_settle not in shown)
        lines += _commands(phrases.CONFIRM, steps)
    return lines
