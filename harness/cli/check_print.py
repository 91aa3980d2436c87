"""The outcome of `busbw check` as plain lines: verdict, matrix with equal nodes folded, what is wrong, what was not checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from busbw.inventory import fold
from busbw.records import CheckResult, Status
from busbw.reports import phrases
from busbw.reports.safe import one_line
from busbw.stages.checking import CheckReport

_ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN)
_TEXT = 200
_GROUPS = 12
"""Sets of nodes shown for one check; more than these are counted."""


@dataclass(frozen=True, slots=True)
class Same:
    """Nodes that gave the same answer to one check."""

    example: CheckResult
    nodes: tuple[str, ...]


def lines(report: CheckReport, run_dir: str) -> tuple[str, ...]:
    """The lines to print, without line ends; `run_dir` as the user would type it."""
    found = [f"{report.verdict.value}  {_headline(report)}"]
    found += [f"      {report.emulated}"] if report.emulated else []
    found += _matrix(report)
    for status in _ORDER:
        for same in _folded(c for c in report.checks if _shown(c, status)):
            found += _problem(same)
    found += _not_checked(report)
    found.append(_last(report, run_dir))
    return tuple(one_line(line) for line in found)


def drain_reason(report: CheckReport) -> str:
    """One line for a scheduler's drain reason or a health check: what required is not well, worst first, or that all is."""
    bad = [c for status in (Status.FAIL, Status.UNKNOWN) for c in report.checks if c.required and c.status is status]
    if not bad:
        warned = sum(c.status is Status.WARN or (c.status is Status.FAIL and not c.required) for c in report.checks)
        passed = sum(c.status is Status.PASS for c in report.checks)
        return one_line(f"busbw: {report.verdict.value} {phrases.count(passed, 'check')} passed, {phrases.count(warned, 'warning')}")
    said = dict.fromkeys(f"{c.check_id} {c.found}" + (f" ({c.reason})" if c.status is Status.UNKNOWN and c.reason else "") for c in bad)
    told = "; ".join(list(said)[:3])
    more = f"; and {len(said) - 3} more" if len(said) > 3 else ""
    return one_line(phrases.cut(f"busbw: {report.verdict.value} {told}{more}", 2 * _TEXT))


def _headline(report: CheckReport) -> str:
    count = phrases.count(len(report.nodes), "node")
    required = [c for c in report.checks if c.required and c.status is not Status.SKIPPED]
    bad = {c.node for c in required if c.status is report.verdict}
    if not required:
        return f"nothing was checked on {count}, profile {report.profile}"
    if report.verdict in (Status.FAIL, Status.UNKNOWN):
        word = "not as required" if report.verdict is Status.FAIL else "could not be checked"
        return f"{len(bad)} of {count} {word}: {fold(bad)}; profile {report.profile}"
    return f"{count} as required by profile {report.profile}"


def _matrix(report: CheckReport) -> list[str]:
    """One line per group of checks: how many nodes are well, and who is not."""
    groups = list(dict.fromkeys(c.check_id.partition(".")[0] for c in report.checks if c.status is not Status.SKIPPED))
    found = []
    for group in groups:
        members = [c for c in report.checks if c.check_id.startswith(f"{group}.") and c.status is not Status.SKIPPED]
        marks = []
        well = set(report.nodes) & {c.node for c in members}
        for status in _ORDER:
            nodes = {c.node for c in members if c.status is status}
            well -= nodes
            ids = list(dict.fromkeys(c.check_id for c in members if c.status is status))
            if nodes:
                shown = ", ".join(ids[:4]) + (f" and {len(ids) - 4} more" if len(ids) > 4 else "")
                marks.append(f"{phrases.SIGNS[status]} {fold(nodes)} {shown}")
        well_said = f"all well ({phrases.count(len({c.check_id for c in members}), 'check')})"
        found.append(f"  {group:<6} {len(well)}/{len(report.nodes)}  {'   '.join(marks) or well_said}")
    return found


def _shown(check: CheckResult, status: Status) -> bool:
    # An advisory check that could not be made is a gap, not a problem: it is listed under NOT CHECKED.
    return check.status is status and (check.required or status is not Status.UNKNOWN)


def _folded(checks: Iterable[CheckResult]) -> tuple[Same, ...]:
    """Equal answers together, in the order of the first of each."""
    groups: dict[tuple[str, str, str, str, bool], list[CheckResult]] = {}
    for check in checks:
        groups.setdefault((check.check_id, check.found, check.expected, check.reason, check.required), []).append(check)
    return tuple(Same(members[0], tuple(c.node for c in members)) for members in groups.values())


def _problem(same: Same) -> list[str]:
    check = same.example
    state = f"{phrases.SIGNS[check.status]} {phrases.WORDS[check.status]}"
    advisory = "" if check.required else "   (advisory)"
    found = [f"{state}  {check.check_id}  {fold(same.nodes)}{advisory}"]
    found.append(f"      found     {phrases.cut(check.found, _TEXT)}" + (f"  ({phrases.cut(check.reason, _TEXT)})" if check.reason else ""))
    found += [f"      expected  {phrases.cut(check.expected, _TEXT)}"] if check.expected else []
    found += [f"      command   {check.command}"] if check.command else []
    if check.evidence is not None:
        at = check.evidence.artefact + (f":{check.evidence.line_no}" if check.evidence.line_no is not None else "")
        text = check.evidence.text.strip().splitlines()
        found.append(f"      seen      {at}" + (f"  {phrases.cut(text[0], _TEXT)}" if text else ""))
    return found


def _not_checked(report: CheckReport) -> list[str]:
    """Advisory checks without an answer, by reason; and how many do not apply."""
    reasons: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for same in _folded(c for c in report.checks if c.status is Status.UNKNOWN and not c.required):
        reasons.setdefault((same.example.reason or same.example.found, same.nodes), []).append(same.example.check_id)
    found = [
        f"NOT CHECKED  {', '.join(ids)}  {fold(nodes)}: {phrases.cut(reason, _TEXT)}"
        for (reason, nodes), ids in list(reasons.items())[:_GROUPS]
    ]
    found += [f"NOT CHECKED  {len(reasons) - _GROUPS} more reasons in check.json"] if len(reasons) > _GROUPS else []
    asked = {c.check_id for c in report.checks if c.status is not Status.SKIPPED}
    skipped = sorted({c.check_id for c in report.checks if c.status is Status.SKIPPED} - asked)
    if skipped:
        found.append(
            f"NOT APPLICABLE  {phrases.count(len(skipped), 'check')} to these nodes with profile {report.profile} (reasons in check.json)"
        )
    return found


def _last(report: CheckReport, run_dir: str) -> str:
    counts = {status: sum(c.status is status for c in report.checks) for status in Status}
    return (
        f"busbw: CHECK {report.verdict.value} {counts[Status.FAIL]} failed, {phrases.count(counts[Status.WARN], 'warning')}, "
        f"{counts[Status.PASS]} passed, {counts[Status.UNKNOWN]} not checked  {run_dir}"
    )
