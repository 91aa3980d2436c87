"""The reports of `busbw check` as lines for a terminal: verdict, matrix with equal nodes folded, what
is wrong, what was not checked; and the fabric's side with both ends of a link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from busbw.assess import commands
from busbw.assess.headline import check_headline, sensitivity
from busbw.checks import CONNECT
from busbw.inventory import fold
from busbw.model import CheckResult, Finding, Fix, Status
from busbw.model.links import LinkTable
from busbw.model.topology import Topology
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.gpu_words import finding_for, gpus_of
from busbw.reports import phrases
from busbw.reports.safe import one_line
from busbw.reports.terminal import Line, table, unreached
from busbw.run.checking import CheckReport
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.run.fabric_side import FabricReport
    from busbw.store.plan import RunPlan

_TEXT = 200
_REASONS = 12
"""Reasons shown for what was not checked; more than these are counted."""
_ANSWERS = 4
"""Different answers shown for one check; more than these are counted."""
_LIST = 48
"""Characters of a host list in the matrix; a longer one is counted there and stands whole below."""
_LEAVES = 24
"""Leaves shown; the rest is counted and stands in fabric.json."""
_PROBLEMS = 12
_AGAIN = "busbw check"
"""Verifies every check, and is not repeated under each."""
_WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.WARN)


@dataclass(frozen=True, slots=True)
class Same:
    """Nodes that gave the same answer to one check."""

    example: CheckResult
    nodes: tuple[str, ...]


def check_lines(report: CheckReport, run_dir: str, plan: RunPlan | None = None) -> tuple[Line, ...]:
    """The lines to print; `run_dir` as the user would type it. Commands are whole where the `plan`
    of the run says how its nodes are reached."""
    headline = check_headline(report.checks, report.nodes, report.profile)
    lines = [Line(f"{report.verdict.value}  {headline}")]
    if report.emulated:
        lines.append(Line(f"      {report.emulated}"))
    lines += _matrix(report)
    if report.links is not None:
        lines += link_lines(report.links)
    lines += unreached(report.unreachable)
    problems = _problems(report)
    following = _following(problems)
    brief = any(answers[0].example.status is not Status.WARN for _, answers in problems)
    for check_ids, answers in problems:
        check = answers[0].example
        if check_ids in following:
            continue
        if brief and check.status is Status.WARN and not check.required:
            # Beside what decided it is no more than a line.
            lines.append(Line(f"{_head(check_ids, answers)}  {phrases.cut(check.seen, _TEXT)}"))
            continue
        lines += _problem(check_ids, answers, plan)
        behind = ", ".join(name for ids, by in following.items() if by == check_ids for name in ids)
        lines += [_detail("follows", behind)] if behind else []
    if report.verdict in (Status.PASS, Status.WARN):
        limits = sensitivity(report.checks) if report.links is None else _link_limits(report.links)
        for number, limit in enumerate(limits):
            lines.append(Line(f"{'      ' if number else 'LIMITS'}  {limit}"))
    lines += [Line(gap) for gap in _not_checked(report)]
    return _printable([*lines, _last("CHECK", report, run_dir)])


_ROWS = 40
"""Rows of the link test that are shown; those that are not well come first, links.json has all."""


def link_lines(links: LinkTable) -> tuple[Line, ...]:
    """The link test as a table, a row a node and rail: all of a small fleet, of a large one what is
    not well and the slowest of the rest."""
    rank = {status: place for place, status in enumerate(_WORST_FIRST)}
    rows = sorted(links.rows, key=lambda row: (rank.get(row.status, 9), row.share or 0.0))
    chosen = set(map(id, rows[:_ROWS]))
    shown = [row for row in links.rows if id(row) in chosen]
    columns = {
        "NODE": [row.node for row in shown],
        "RAIL": [row.interface or str(row.rail) for row in shown],
        "MEMORY": [row.memory for row in shown],
        "SENDS": [phrases.link_rate(row.sent_gbit_s) for row in shown],
        "RECEIVES": [phrases.link_rate(row.received_gbit_s) for row in shown],
        "OF OTHERS": [_share(row.share) for row in shown],
        "ALL BUSY": [_share(row.together) for row in shown],
        "LATENCY": [
            f"{row.latency_us:.3g} µs" if row.latency_us is not None else "–" for row in shown
        ],
        "RESULT": [f"{phrases.SIGNS[row.status]} {row.why}".rstrip() for row in shown],
    }
    if links.memory != "both":
        del columns["MEMORY"]
    together = any(row.together is not None for row in links.rows)
    if not together:
        del columns["ALL BUSY"]
    right = ("SENDS", "RECEIVES", "OF OTHERS", "ALL BUSY", "LATENCY")
    cells = list(zip(*columns.values(), strict=True))
    lines = table(tuple(columns), cells, right=tuple(name for name in right if name in columns))
    rounds = counted(links.rounds, "round")
    memory = "host and gpu" if links.memory == "both" else links.memory
    lines.append(Line(f"  {links.tool}, {memory} memory, {rounds} of disjoint pairs"))
    if together:
        lines.append(Line("  ALL BUSY: of its rate alone, while all rails of the pair are busy"))
    if len(links.rows) > _ROWS:
        lines.append(
            Line(f"  {len(links.rows) - _ROWS} more rows in links.json, none of them worse")
        )
    return _printable(lines)


def _share(value: float | None) -> str:
    return f"{value:.0%}" if value is not None else "–"


def _link_limits(links: LinkTable) -> tuple[str, ...]:
    return (
        f"detects: a node or a rail that loses {links.visible_loss:.0%} against the others, or"
        " answers in twice their time",
        "does not detect: links that are all equally slow, and what comes and goes",
    )


def drain_reason(report: CheckReport) -> str:
    """One line for a scheduler's drain reason or a health check: what required is not well, worst
    first, or that all is."""
    required = [c for c in report.checks if c.required]
    bad = [c for status in (Status.FAIL, Status.UNKNOWN) for c in required if c.status is status]
    if not bad:
        passed = sum(c.status is Status.PASS for c in report.checks)
        warned = sum(c.status in (Status.WARN, Status.FAIL) for c in report.checks)
        return one_line(
            f"busbw: {report.verdict.value} {counted(passed, 'check')} passed,"
            f" {counted(warned, 'warning')}"
        )
    # What one missing tool hides is one thing, not one per check.
    ids_by_text: dict[str, list[str]] = {}
    for check in bad:
        why = f" ({check.reason})" if check.status is Status.UNKNOWN and check.reason else ""
        ids_by_text.setdefault(f"{check.seen}{why}", []).append(check.check_id)
    reasons = [f"{', '.join(dict.fromkeys(ids))} {text}" for text, ids in ids_by_text.items()]
    more = f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    return one_line(
        phrases.cut(f"busbw: {report.verdict.value} {'; '.join(reasons[:3])}{more}", 2 * _TEXT)
    )


def _matrix(report: CheckReport) -> list[Line]:
    """A table, one line per group of checks: how many nodes are well, and who is not. Advisory checks
    without an answer stand below."""
    groups: dict[str, list[CheckResult]] = {}
    for check in report.checks:
        if check.status is not Status.SKIPPED:
            groups.setdefault(check.check_id.partition(".")[0], []).append(check)
    total = len(report.nodes)
    rows = []
    for group, members in groups.items():
        problems = [c for c in members if _is_problem(c)]
        checked = [*problems, *(c for c in members if c.status is Status.PASS)]
        well = {c.node for c in checked} - {c.node for c in problems}
        count, text = "–", "not checked"
        if checked:
            count = f"{len(well):,}/{total:,}"
            checks = len({c.check_id for c in checked})
            text = _marks(problems) or f"well ({counted(checks, 'check')})"
        rows.append((group, count, text))
    return table(("CHECKS", "WELL", "RESULT"), rows, right=("WELL",)) if rows else []


def _marks(problems: list[CheckResult]) -> str:
    """Who has which problem, a part for each status."""
    marks = []
    for status in _WORST_FIRST:
        bad = [c for c in problems if c.status is status]
        if bad:
            names = _first_of(dict.fromkeys(c.check_id for c in bad), 3)
            marks.append(f"{phrases.SIGNS[status]} {_few(c.node for c in bad)} {names}")
    return "   ".join(marks)


def _first_of(names: Iterable[str], most: int) -> str:
    """`a, b and 3 more`."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def _few(nodes: Iterable[str]) -> str:
    names = set(nodes)
    text = fold(names)
    return text if len(text) <= _LIST else f"{len(names):,} nodes"


def _is_problem(check: CheckResult) -> bool:
    # An advisory check that could not be made is a gap, not a problem: it is listed under NOT
    # CHECKED.
    return check.status in (Status.FAIL, Status.WARN) or (
        check.status is Status.UNKNOWN and check.required
    )


def _problems(report: CheckReport) -> list[tuple[tuple[str, ...], tuple[Same, ...]]]:
    """Each check that is not well with its different answers, the most frequent first; what decides
    the verdict stands before the rest.

    Checks that could not be made for one and the same reason on the same nodes are one problem."""
    groups: dict[tuple[bool, Status, str], list[CheckResult]] = {}
    unreached_nodes = {each.node for each in report.unreachable}
    for check in report.checks:
        is_said = check.check_id == CONNECT.id and check.node in unreached_nodes
        if _is_problem(check) and not is_said:
            groups.setdefault((check.required, check.status, check.check_id), []).append(check)
    ordered = sorted(groups, key=lambda key: (not key[0], _WORST_FIRST.index(key[1]), key[2]))
    by_cause: dict[tuple[object, ...], tuple[list[str], tuple[Same, ...]]] = {}
    for key in ordered:
        required, status, check_id = key
        answers = tuple(sorted(_folded(groups[key]), key=lambda same: -len(same.nodes)))
        cause: tuple[object, ...] = key
        if status is Status.UNKNOWN and len(answers) == 1:
            cause = (required, status, answers[0].example.reason, answers[0].nodes)
        by_cause.setdefault(cause, ([], answers))[0].append(check_id)
    return [(tuple(ids), answers) for ids, answers in by_cause.values()]


def _folded(checks: Iterable[CheckResult]) -> tuple[Same, ...]:
    """Equal answers together, in the order of the first of each."""
    groups: dict[tuple[str, str, str, str, bool], list[CheckResult]] = {}
    for check in checks:
        answer = (check.check_id, check.seen, check.expected, check.reason, check.required)
        groups.setdefault(answer, []).append(check)
    return tuple(Same(members[0], tuple(c.node for c in members)) for members in groups.values())


def _nodes(answers: tuple[Same, ...]) -> set[str]:
    return {node for same in answers for node in same.nodes}


def _following(
    problems: list[tuple[tuple[str, ...], tuple[Same, ...]]],
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Checks that only say less closely what another one says of the same nodes, with that one: the
    entry of its id names them."""
    by_id, following = catalogue.load().by_id, {}
    for ids, answers in problems:
        entry = by_id.get(ids[0])
        for others, other in problems:
            failed = {answers[0].example.status, other[0].example.status} == {Status.FAIL}
            named = entry is not None and set(others) <= set(entry.explains)
            if named and failed and _nodes(other) <= _nodes(answers):
                following[others] = ids
    return following


def _head(check_ids: tuple[str, ...], answers: tuple[Same, ...]) -> str:
    check = answers[0].example
    advisory = "" if check.required else "   (advisory)"
    names = ", ".join(check_ids)
    return f"{phrases.state(check.status)}  {names}  {fold(_nodes(answers))}{advisory}"


def _problem(
    check_ids: tuple[str, ...], answers: tuple[Same, ...], plan: RunPlan | None = None
) -> list[Line]:
    check = answers[0].example
    lines = [Line(_head(check_ids, answers))]
    for number, same in enumerate(answers[:_ANSWERS]):
        which = f"   on {_few(same.nodes)}" if len(answers) > 1 else ""
        why = f"  ({phrases.cut(same.example.reason, _TEXT)})" if same.example.reason else ""
        answer = f"{phrases.cut(same.example.seen, _TEXT)}{why}{which}"
        lines.append(_detail("" if number else "found", answer))
    if len(answers) > _ANSWERS:
        lines.append(_detail("", f"{len(answers) - _ANSWERS} more answers in check.json"))
    if check.expected:
        lines.append(_detail("expected", phrases.cut(check.expected, _TEXT)))
    if check.command:
        lines.append(_detail("command", check.command))
    if check.evidence is not None:
        # The bracket that opens a JSON text says nothing.
        lines_seen = map(str.strip, check.evidence.text.splitlines())
        first = next((line for line in lines_seen if any(map(str.isalnum, line))), "")
        text = f"  {phrases.cut(first, _TEXT)}" if first else ""
        lines.append(_detail("seen", f"{phrases.location(check.evidence)}{text}"))
    where = tuple(dict.fromkeys(node for same in answers for node in same.nodes))
    return lines + _steps(check, where, plan)


def _steps(check: CheckResult, where: tuple[str, ...], plan: RunPlan | None) -> list[Line]:
    """What to do about it; [] = it was not answered, and the reason says what is missing."""
    entry = catalogue.load().by_id.get(check.check_id)
    if entry is None or check.status is Status.UNKNOWN:
        return []
    gpus = gpus_of((check,))
    family = plan.profile.family if plan is not None else None
    fixes = catalogue.fixes(entry.id, family.name if family else "", gpus)
    finding = Finding(check.check_id, check.status, check.seen, where, (), fixes=fixes)
    finding = finding_for(catalogue.filled(finding), gpus)
    own = tuple(text for text in finding.verify if text != _AGAIN)
    finding = replace(finding, verify=own)
    if plan is not None:
        finding = commands.completed((finding,), plan)[0]
    # What the plan leaves open is shown for the node whose answer is shown.
    steps = catalogue.with_values((*finding.fixes, Fix("", finding.verify)), NODE=check.node)
    lines = []
    for number, fix in enumerate(steps[:-1], 1):
        lines.append(_detail("" if number > 1 else "do", phrases.fix_step(number, fix)))
        lines += [Line(f"{'':19}{command}", unbroken=True) for command in fix.commands]
    for number, command in enumerate(steps[-1].commands):
        lines.append(Line(f"      {'' if number else 'verify':<9} {command}", unbroken=True))
    return lines


def _detail(label: str, text: str) -> Line:
    """Text in a column of its own behind a label."""
    return Line(f"      {label:<9} {text}", indent=16)


def _not_checked(report: CheckReport) -> list[str]:
    """Advisory checks without an answer, by reason; and how many do not apply."""
    reasons: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for same in _folded(c for c in report.checks if c.status is Status.UNKNOWN and not c.required):
        reason = same.example.reason or same.example.seen
        reasons.setdefault((reason, same.nodes), []).append(same.example.check_id)
    lines = [f"NOT CHECKED  {gap.what}: {gap.why} ({gap.would_settle})" for gap in report.uncovered]
    for (reason, nodes), ids in list(reasons.items())[:_REASONS]:
        where = "all nodes" if len(nodes) == len(report.nodes) else fold(nodes)
        lines.append(f"NOT CHECKED  {phrases.cut(reason, _TEXT)}: {', '.join(ids)}  {where}")
    if len(reasons) > _REASONS:
        lines.append(f"NOT CHECKED  {len(reasons) - _REASONS} more reasons in check.json")
    applicable = {c.check_id for c in report.checks if c.status is not Status.SKIPPED}
    skipped = {c.check_id for c in report.checks} - applicable
    if skipped:
        lines.append(
            f"NOT APPLICABLE  {counted(len(skipped), 'check')} to these nodes with profile"
            f" {report.profile} (reasons in check.json)"
        )
    return lines


def _last(what: str, report: CheckReport | FabricReport, run_dir: str) -> Line:
    """The line for grep. Every check gives one answer for each node, and the answers are counted."""
    counts = Counter(check.status for check in report.checks)
    applied = [check for check in report.checks if check.status is not Status.SKIPPED]
    checks = counted(len({check.check_id for check in applied}), "check")
    nodes = len({check.node for check in applied})
    of = f" ({checks} on {counted(nodes, 'node')})" if what == "CHECK" and nodes > 1 else ""
    text = (
        f"busbw: {what} {report.verdict.value} {counts[Status.FAIL]:,} failed,"
        f" {counted(counts[Status.WARN], 'warning')}, {counts[Status.PASS]:,} passed,"
        f" {counts[Status.UNKNOWN]:,} not checked{of}  {run_dir}"
    )
    return Line(text, unbroken=True)


def _printable(lines: Iterable[Line]) -> tuple[Line, ...]:
    return tuple(Line(one_line(line.text), line.indent, line.unbroken) for line in lines)


def fabric_lines(report: FabricReport, run_dir: str) -> tuple[Line, ...]:
    """The lines to print: verdict, what is wrong with both ends, the cabling, what was not read."""
    topology = report.topology
    cables = sum(link.b is not None for link in topology.links)
    about = f"{counted(cables, 'link')}, {counted(len(topology.nodes), 'node')}"
    lines = [Line(f"{report.verdict.value}  {about}: {_cabling(topology)}")]
    for status in _WORST_FIRST:
        for check in report.checks:
            if check.status is status and _is_problem(check):
                lines += _problem((check.check_id,), (Same(check, (check.node,)),))
    for leaf in topology.leaves[:_LEAVES]:
        rails = _rails(topology, leaf.name)
        lines.append(Line(f"  {leaf.name:<12} {fold(leaf.nodes)}  {rails}".rstrip()))
    if len(topology.leaves) > _LEAVES:
        lines.append(Line(f"  {len(topology.leaves) - _LEAVES} more leaves in fabric.json"))
    lines += [Line(gap) for gap in _fabric_gaps(report)]
    return _printable([*lines, _last("FABRIC", report, run_dir)])


def _fabric_gaps(report: FabricReport) -> list[str]:
    """Advisory checks without an answer, and what of the texts was not read."""
    unknown: dict[tuple[str, str], list[str]] = {}
    for check in report.checks:
        if check.status is Status.UNKNOWN and not check.required:
            unknown.setdefault((check.check_id, check.reason), []).append(check.node)
    lines = [
        f"NOT CHECKED  {check_id}  {fold(nodes)}: {reason}"
        for (check_id, reason), nodes in unknown.items()
    ]
    problems = report.topology.problems
    lines += [f"NOT READ  {problem}" for problem in problems[:_PROBLEMS]]
    if len(problems) > _PROBLEMS:
        lines.append(f"NOT READ  {len(problems) - _PROBLEMS} more in fabric.json")
    return lines


def _cabling(topology: Topology) -> str:
    # Here, because most checks are of nodes: `--local` has 5 s for all.
    from busbw.parsers.fabric import cabling
    from busbw.parsers.fabric import checks as fabric_checks

    if not topology.links:
        return "no link was read"
    return fabric_checks.describe(cabling.examine(topology))


def _rails(topology: Topology, leaf: str) -> str:
    """Which rails end on a leaf: `rail 3`; "" = adapters that are no rails."""
    rails = sorted({nic.rail for nic in topology.nics if nic.leaf == leaf and nic.rail is not None})
    return f"rail {', '.join(map(str, rails))}" if rails else ""
