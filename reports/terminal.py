"""The verdict as plain lines for a terminal: verdict first, then the cause, the fix, the evidence;
the last line is for grep."""

from __future__ import annotations

import re
from collections.abc import Iterable

from busbw.model import Finding, Fix, RunResult, Status, Unreachable
from busbw.reports import lead, phrases
from busbw.reports.safe import one_line
from busbw.units import format_size

_MORE_FINDINGS = 5
_EVIDENCE = 3
_TEXT = 160


def verdict_lines(result: RunResult, run_dir: str | None = None) -> tuple[str, ...]:
    """The lines to print, without line ends; every character that could move a cursor is a mark.

    `run_dir` is the run's directory as the user would type it; None = `runs/<run id>`.
    """
    findings = lead.ordered_findings(result)
    lines = [f"{result.verdict.value}  {result.headline}"]
    if result.emulated:
        lines.append(f"      {result.emulated}")
    lines += _criteria(result)
    for same in unreachable_by_reason(result):
        lines += [
            f"NOT REACHED  {phrases.nodes(u.node for u in same)}: {same[0].reason}",
            *([f"      try: {same[0].next_step}"] if same[0].next_step else []),
        ]
    if findings:
        lines += _first(findings[0])
        lines += [_brief(finding) for finding in findings[1 : 1 + _MORE_FINDINGS]]
        left = len(findings) - 1 - _MORE_FINDINGS
        lines += [f"ALSO  {phrases.count(left, 'more finding')} in the report"] if left > 0 else []
    lines += _layers(findings)
    lines += _gaps(result)
    lines.append(lead.last_line(result, run_dir or f"runs/{result.run_id}"))
    return tuple(one_line(line) for line in lines)


def _criteria(result: RunResult) -> list[str]:
    """The contract, one line a criterion, in columns."""
    if result.acceptance is None:
        return []
    rows = [("CRITERION", "LIMIT", "MEASURED", "n", "RESULT")]
    for each in result.acceptance.criteria:
        told = (
            phrases.WORDS[each.status]
            if each.status in (Status.PASS, Status.FAIL)
            else "not measured"
            if each.measured is None
            else "not decided"
        )
        what = f"{each.id} {each.collective} {format_size(each.size_bytes)}"
        rows.append(
            (
                what,
                phrases.limit(each),
                phrases.measured(each),
                str(each.launches),
                f"{phrases.SIGNS[each.status]} {told}",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    table = [
        "  "
        + "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]
        )
        for row in rows
    ]
    return [
        *table,
        *(
            [f"      {result.acceptance.without_suspects}"]
            if result.acceptance.without_suspects
            else []
        ),
    ]


def wrapped(shown: Iterable[str], width: int | None) -> tuple[str, ...]:
    """Lines that fit a terminal of `width` columns, broken behind blanks and commas and indented;
    None = as they are.

    Commands and the last line stay whole.

    >>> wrapped(("NOT CHECKED  gpu.ecc, gpu.temp: no tool",), 24)
    ('NOT CHECKED  gpu.ecc,', '      gpu.temp: no tool')
    """
    return tuple(
        part
        for line in shown
        for part in (
            _broken(line, width) if width and len(line) > width and not _whole(line) else (line,)
        )
    )


def _whole(line: str) -> bool:
    """A command to copy, or the line for grep: a break in it would be copied too."""
    return line.startswith((" " * 9, "THEN  ", "busbw: "))


def _broken(line: str, width: int) -> tuple[str, ...]:
    # Behind a label (`      found     7 x H100`) the text has a column of its own.
    indent = " " * (16 if re.match(r" {6}\w+ {2,}", line) else 6)
    found, current = [], ""
    for token in re.split(r"(?<=[ ,])", line):
        if current.strip() and len(current) + len(token.rstrip()) > width:
            found.append(current)
            current = indent
        current += token
    return tuple(part.rstrip() for part in (*found, current))


def unreachable_by_reason(result: RunResult) -> tuple[tuple[Unreachable, ...], ...]:
    """Unreachable nodes grouped by what was seen, in the order of the first of each."""
    reasons = dict.fromkeys(u.reason for u in result.unreachable)
    return tuple(tuple(u for u in result.unreachable if u.reason == reason) for reason in reasons)


def _first(finding: Finding) -> list[str]:
    deciding = finding.required and finding.status in (Status.FAIL, Status.UNKNOWN)
    # An advisory finding decided nothing: it is not the cause of the verdict above it.
    label = (
        "CAUSE"
        if deciding
        else f"NOTE  {phrases.SIGNS[finding.status]} {phrases.WORDS[finding.status]}"
    )
    lines = [f"{label} ({finding.confidence.value})  {finding.title}   [{finding.id}]"]
    if finding.cause:
        lines.append(f"      {phrases.cut(finding.cause, 2 * _TEXT)}")
    for number, fix in enumerate(finding.fixes, 1):
        lines.append(f"{'DO' if number == 1 else '  '}    {number}  {fix.summary}{_right(fix)}")
        lines += [f"         {command}" for command in fix.commands]
    for number, evidence in enumerate(finding.evidence[:_EVIDENCE], 1):
        at = evidence.artefact + (f":{evidence.line_no}" if evidence.line_no is not None else "")
        lines.append(
            f"{'SEEN' if number == 1 else '    '}  {at} "
            f" {phrases.cut(evidence.text.strip(), _TEXT)}"
        )
    left = len(finding.evidence) - _EVIDENCE
    lines += [f"      and {left} more in the report"] if left > 0 else []
    lines += [f"THEN  {command}" for command in finding.verify[:1]]
    return lines


def _right(fix: Fix) -> str:
    notes = ([f"needs {fix.needs}"] if fix.needs != "user" else []) + (
        ["disrupts running jobs"] if fix.disruptive else []
    )
    return f"   # {', '.join(notes)}" if notes else ""


def _brief(finding: Finding) -> str:
    state = f"{phrases.SIGNS[finding.status]} {phrases.WORDS[finding.status]}"
    return f"ALSO  {state} ({finding.confidence.value})  {finding.title}   [{finding.id}]"


def _layers(findings: tuple[Finding, ...]) -> list[str]:
    """The table of ratios under what it says, where a run was taken apart into its layers."""
    found = next((finding for finding in findings if finding.id == "layers"), None)
    if found is None:
        return []
    parts = [evidence.text.partition(": ") for evidence in found.evidence]
    width = max((len(name) for name, _, _ in parts), default=0)
    return [
        f"LAYERS  {found.title}",
        *(f"        {name.ljust(width)}  {text}" for name, _, text in parts),
    ]


def _gaps(result: RunResult) -> list[str]:
    # What a verdict could not see matters where somebody would rely on it; a failure stands by its
    # own evidence.
    told = () if result.verdict is Status.FAIL else result.sensitivity
    lines = [f"{'SEES' if number == 0 else '    '}  {line}" for number, line in enumerate(told)]
    if result.uncovered:
        lines.append(
            f"NOT CHECKED  {'; '.join(gap.what for gap in result.uncovered[:4])}"
            + (" …" if len(result.uncovered) > 4 else "")
        )
    return lines
