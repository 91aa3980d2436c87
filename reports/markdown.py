"""`summary.md`: the verdict for a pull request, a ticket or a chat, in GitHub's Markdown, and its
workflow annotations.

GitHub drops a step summary above 1024 KiB whole (docs.github.com, "Workflow commands",
GITHUB_STEP_SUMMARY) and shows ten annotations of a kind per step.
"""

from __future__ import annotations

from collections.abc import Iterable

from busbw.model import Comparison, Finding, Fix, RunResult, Status
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
from busbw.units import counted, format_size

MAXIMUM_BYTES = 200_000
MAXIMUM_ANNOTATIONS = 10
_EVIDENCE_CHARACTERS = 4000
_CUT = "\n*Cut here: the rest is in report.html.*\n"


def render(report: ReportInput) -> str:
    """The summary, at most MAXIMUM_BYTES of UTF-8; where it had to be cut, whole parts are left out
    and a line says so."""
    result = report.result
    parts = [_head(result), _acceptance(result), _unreachable(result)]
    findings = enumerate(lead.ordered_findings(result), 1)
    parts += [_finding(finding, number) for number, finding in findings]
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
            message = "; ".join((finding.cause or finding.title, *_sure(finding)))
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
    lines = [f"# {_signed(result.verdict, result.verdict.value)}: {markdown(result.headline)}", ""]
    if result.emulated:
        lines += [f"> **{markdown(result.emulated)}**", ""]
    nodes = counted(len(result.nodes), "node")
    ended = markdown_code(result.finished) if result.finished else "not ended"
    facts = (
        f"{nodes} {markdown_code(phrases.nodes(result.nodes))}".strip(),
        f"playbook {markdown_code(result.playbook)}",
        f"profile {markdown_code(result.profile)}",
        f"run {markdown_code(result.run_id)}",
        f"{markdown_code(result.started)} to {ended}",
    )
    return "\n".join([*lines, " · ".join(facts), ""])


def _acceptance(result: RunResult) -> str:
    if result.acceptance is None:
        return ""
    lines = ["## Acceptance", "", "| | criterion | limit | measured | n | |"]
    lines.append("| --- | --- | ---: | ---: | ---: | --- |")
    for each in result.acceptance.criteria:
        criterion = markdown(f"{each.id} {phrases.criterion(each)}")
        numbers = f"{phrases.limit(each)} | {phrases.measured(each)} | {each.launches}"
        state = phrases.state(each.status)
        if each.status not in (Status.PASS, Status.FAIL):
            state = f"{state}, {phrases.open_criterion(each)}"
        lines.append(f"| {state} | {criterion} | {numbers} | {markdown(each.reason)} |")
    if result.acceptance.without_suspects:
        lines += ["", markdown(result.acceptance.without_suspects)]
    missing = _list("Not measured:", result.acceptance.not_measured)
    return _part([*lines, *(["", *missing[:-1]] if missing else [])])


def _unreachable(result: RunResult) -> str:
    lines = ["## Not reached", ""]
    for same in unreachable_by_reason(result.unreachable):
        nodes = markdown_code(phrases.nodes(u.node for u in same))
        lines.append(f"- {nodes}: {markdown(same[0].reason)}")
        if same[0].next_step:
            lines.append(f"  next: {markdown_code(same[0].next_step)}")
    return _part(lines)


def _finding(finding: Finding, number: int) -> str:
    state = _signed(finding.status, phrases.LABELS[finding.status])
    facts = [markdown_code(finding.id), *map(markdown, _sure(finding))]
    if not finding.required:
        facts.append("advisory")
    lines = [f"## F{number:02d} {state}: {markdown(finding.title)}", "", " · ".join(facts), ""]
    if finding.cause:
        lines += [markdown(finding.cause), ""]
    lines += _list("Ruled out:", finding.ruled_out)
    if finding.cost:
        lines += [f"Cost: {markdown(finding.cost)}", ""]
    for evidence in finding.evidence:
        lines += [f"Seen in {markdown_code(phrases.location(evidence))}:", ""]
        lines.append(markdown_block(phrases.cut(evidence.text, _EVIDENCE_CHARACTERS)))
    for step, fix in enumerate(finding.fixes, 1):
        lines += _fix(fix, step)
    lines += _list("Follows from it:", map(phrases.entry, finding.explains))
    lines += _list("Other possible causes:", phrases.other_causes(finding))
    lines += _commands(f"{phrases.CONFIRM}:", phrases.to_confirm(finding))
    lines += _commands(f"{phrases.AFTER}:", finding.verify)
    return "\n".join(lines)


def _sure(finding: Finding) -> list[str]:
    """How sure it is, and where, unless that says it already."""
    place = phrases.place(finding)
    return [phrases.sure(finding), place] if place else [phrases.sure(finding)]


def _fix(fix: Fix, step: int) -> list[str]:
    text = f"Fix {step}: {markdown(fix.summary)}"
    if fix.needs != "user":
        text += f" (needs {markdown(phrases.right(fix.needs))})"
    if fix.disruptive:
        text += " **disrupts running jobs**"
    lines = [text, ""]
    if fix.commands:
        lines.append(markdown_block("\n".join(fix.commands), "sh"))
    return lines


def _list(heading: str, items: Iterable[str]) -> list[str]:
    """A heading and its items; [] = there are none."""
    lines = [f"- {markdown(item)}" for item in items]
    return [heading, "", *lines, ""] if lines else []


def _commands(heading: str, commands: tuple[str, ...]) -> list[str]:
    """A heading, a block of commands, and what says in words what to do; [] = there is neither."""
    if not commands:
        return []
    lines = [each for each in commands if phrases.is_command(each)]
    words = [f"- {markdown(each)}" for each in commands if not phrases.is_command(each)]
    block = [markdown_block("\n".join(lines), "sh")] if lines else []
    return [heading, "", *block, *words, *([""] if words else [])]


def _signed(status: Status, word: str) -> str:
    return f"{phrases.SIGNS[status]} {word}"


def _part(lines: list[str]) -> str:
    """A heading, an empty line and what follows; empty = nothing follows."""
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def _numbers(result: RunResult) -> str:
    rows = [_row(comparison) for comparison in lead.beside_contract(result)]
    if not rows:
        return ""
    columns = "| | case | size | measured | expected | share | reference |"
    rule = "| --- | --- | ---: | ---: | ---: | ---: | --- |"
    return _part(["## Measured", "", columns, rule, *rows])


def _row(comparison: Comparison) -> str:
    expected = comparison.reference.busbw_gb_s
    source = f"{phrases.reference(comparison.reference)}: {comparison.reference.source}."
    cells = (
        phrases.state(comparison.status),
        # In a table a pipe ends the cell even inside a code span, unless escaped.
        markdown_code(comparison.case_id).replace("|", "\\|"),
        format_size(comparison.size_bytes),
        phrases.measured_number(comparison),
        phrases.shown(expected, phrases.bandwidth, "none"),
        phrases.shown(comparison.ratio, phrases.percent),
        markdown(f"{source} {comparison.reason}"),
    )
    return f"| {' | '.join(cells)} |"


def _gaps(result: RunResult) -> str:
    lines = ["## What was not checked", ""]
    lines += [f"- {markdown(limit)}" for limit in result.sensitivity]
    for gap in result.uncovered:
        text = f"- not checked: {markdown(gap.what)}: {markdown(gap.why)}"
        if gap.would_settle:
            text += f" (to confirm: {markdown_code(gap.would_settle)})"
        lines.append(text)
    return _part(lines)


def _versions(result: RunResult) -> str:
    named = ", ".join(
        f"{markdown(name)} {markdown_code(version)}" for name, version in result.versions
    )
    return f"## Versions\n\n{named}\n" if named else ""
