"""`summary.md`: the verdict for a pull request, a ticket or a chat, in GitHub's Markdown, and its
workflow annotations.

GitHub drops a step summary above 1024 KiB whole (docs.github.com, "Workflow commands",
GITHUB_STEP_SUMMARY) and shows ten annotations of a kind per step.
"""

from __future__ import annotations

from busbw.model import Comparison, Finding, RunResult, Status
from busbw.reports import lead, phrases
from busbw.reports.input import ReportInput
from busbw.reports.safe import (
    annotation,
    annotation_property,
    markdown,
    markdown_block,
    markdown_code,
)
from busbw.reports.terminal import unreachable_by_reason
from busbw.units import format_size

MAXIMUM_BYTES = 200_000
MAXIMUM_ANNOTATIONS = 10
_EVIDENCE_CHARACTERS = 4000
_CUT = "\n*Cut here: the rest is in report.html.*\n"


def render(report: ReportInput) -> str:
    """The summary, at most MAXIMUM_BYTES of UTF-8; where it had to be cut, whole parts are left out
    and a line says so."""
    result = report.result
    parts = [_head(result), _unreachable(result)]
    parts += [
        _finding(finding, number) for number, finding in enumerate(lead.ordered_findings(result), 1)
    ]
    parts += [_numbers(result), _gaps(result), _versions(result)]
    text = ""
    for part in filter(None, parts):
        if len((text + part + _CUT).encode()) > MAXIMUM_BYTES:
            return text + _CUT
        text += ("\n" if text else "") + part
    return text


def github_annotations(result: RunResult) -> str:
    """Workflow commands for the first findings that did not pass, one a line, at most
    MAXIMUM_ANNOTATIONS; empty = nothing to say."""
    kinds = {Status.FAIL: "error", Status.UNKNOWN: "error", Status.WARN: "warning"}
    lines = []
    for finding in lead.ordered_findings(result):
        if finding.status in kinds:
            kind = kinds[finding.status] if finding.required else "notice"
            at = f" ({phrases.where(finding.where)})" if finding.where else ""
            message = f"{finding.cause or finding.title}{at}; {finding.confidence.value}"
            lines.append(
                f"::{kind}"
                f" title={annotation_property('busbw: ' + finding.title)}::{annotation(message)}"
            )
    if not lines and result.verdict in kinds:
        lines.append(
            f"::{kinds[result.verdict]}"
            f" title={annotation_property('busbw: ' + result.verdict.value)}::{annotation(result.headline)}"
        )
    return "".join(f"{line}\n" for line in lines[:MAXIMUM_ANNOTATIONS])


def _head(result: RunResult) -> str:
    lines = [
        f"# {phrases.SIGNS[result.verdict]} {result.verdict.value}: {markdown(result.headline)}",
        "",
    ]
    if result.emulated:
        lines += [f"> **{markdown(result.emulated)}**", ""]
    nodes = f"{phrases.count(len(result.nodes), 'node')} {markdown_code(phrases.nodes(result.nodes))}".strip()
    ended = markdown_code(result.finished) if result.finished else "not ended"
    lines += [
        (
            f"{nodes} · playbook {markdown_code(result.playbook)} · profile"
            f" {markdown_code(result.profile)} · run {markdown_code(result.run_id)} ·"
            f" {markdown_code(result.started)} to {ended}"
        ),
        "",
    ]
    return "\n".join(lines)


def _unreachable(result: RunResult) -> str:
    if not result.unreachable:
        return ""
    lines = ["## Not reached", ""]
    for same in unreachable_by_reason(result):
        lines += [
            f"- {markdown_code(phrases.nodes(u.node for u in same))}: {markdown(same[0].reason)}"
        ]
        lines += [f"  next: {markdown_code(same[0].next_step)}"] if same[0].next_step else []
    return "\n".join(lines) + "\n"


def _finding(finding: Finding, number: int) -> str:
    where = f" · {markdown_code(phrases.where(finding.where))}" if finding.where else ""
    advisory = "" if finding.required else " · advisory"
    lines = [
        (
            f"## F{number:02d} {phrases.SIGNS[finding.status]} {phrases.WORDS[finding.status]}:"
            f" {markdown(finding.title)}"
        ),
        "",
        f"{markdown_code(finding.id)} · {finding.confidence.value}{where}{advisory}",
        "",
    ]
    lines += [markdown(finding.cause), ""] if finding.cause else []
    for evidence in finding.evidence:
        at = evidence.artefact + (f":{evidence.line_no}" if evidence.line_no is not None else "")
        lines += [
            f"Seen in {markdown_code(at)}:",
            "",
            markdown_block(phrases.cut(evidence.text, _EVIDENCE_CHARACTERS)),
        ]
    for step, fix in enumerate(finding.fixes, 1):
        needs = f" (needs {markdown(phrases.right(fix.needs))})" if fix.needs != "user" else ""
        disrupts = " **disrupts running jobs**" if fix.disruptive else ""
        lines += [f"Fix {step}: {markdown(fix.summary)}{needs}{disrupts}", ""]
        lines += [markdown_block("\n".join(fix.commands), "sh")] if fix.commands else []
    if finding.explains:
        lines += [
            "Follows from it:",
            "",
            *(f"- {markdown(other)}" for other in finding.explains),
            "",
        ]
    if finding.also:
        lines += [
            "Other possible causes:",
            "",
            *(f"- {markdown(other)}" for other in finding.also),
            "",
        ]
    lines += (
        ["To confirm:", "", markdown_block("\n".join(finding.would_settle), "sh")]
        if finding.would_settle
        else []
    )
    lines += (
        ["Then verify:", "", markdown_block("\n".join(finding.verify), "sh")]
        if finding.verify
        else []
    )
    return "\n".join(lines)


def _numbers(result: RunResult) -> str:
    compared = lead.whole_cluster(result)
    if not compared:
        return ""
    lines = [
        "## Measured",
        "",
        "| | case | size | measured | expected | share | reference |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [_row(comparison) for comparison in compared]
    return "\n".join(lines) + "\n"


def _row(comparison: Comparison) -> str:
    expected = comparison.reference.busbw_gb_s
    cells = (
        f"{phrases.SIGNS[comparison.status]} {phrases.WORDS[comparison.status]}",
        # In a table a pipe ends the cell even inside a code span, unless escaped.
        markdown_code(comparison.case_id).replace("|", "\\|"),
        format_size(comparison.size_bytes),
        phrases.bandwidth(comparison.measured_gb_s),
        phrases.bandwidth(expected) if expected is not None else "none",
        phrases.percent(comparison.ratio),
        markdown(
            f"{phrases.reference(comparison.reference)}: {comparison.reference.source}."
            f" {comparison.reason}"
        ),
    )
    return f"| {' | '.join(cells)} |"


def _gaps(result: RunResult) -> str:
    lines = ["## What was not checked", ""]
    lines += [f"- {markdown(line)}" for line in result.sensitivity]
    for gap in result.uncovered:
        settle = (
            f" (would settle it: {markdown_code(gap.would_settle)})" if gap.would_settle else ""
        )
        lines.append(f"- not checked: {markdown(gap.what)}: {markdown(gap.why)}{settle}")
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def _versions(result: RunResult) -> str:
    named = ", ".join(
        f"{markdown(name)} {markdown_code(version)}" for name, version in result.versions
    )
    return f"## Versions\n\n{named}\n" if named else ""
