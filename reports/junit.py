"""`junit.xml`: the run as suites of test cases, for GitLab, Jenkins and whatever else reads the Ant
JUnit form.

Written against the XSD of Ant's JUnit task (Windy Road 2011, with `skipped`, as ReFrame ships it).
A measured shortfall is a `failure`; what could not be measured is an `error`; a warning, and
whatever is advisory, passes, and the suite's output tells it: the XSD has no output of a single
case. The text of a failure stands in the attribute and in the body, because GitLab shows the body
only (gitlab.com issue 299086).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from busbw.model import CheckResult, Comparison, Finding, RunResult, Status
from busbw.reports import lead, phrases
from busbw.reports.safe import one_line, visible
from busbw.units import counted, format_size

if TYPE_CHECKING:
    from junitparser import TestCase, TestSuite

_MANY_NODES = 64
"""Above, checks that pass are one case for all their nodes: a thousand nodes stay far below
GitLab's 30 MB."""
_TEXT = 8000


@dataclass(frozen=True, slots=True)
class _Case:
    classname: str
    name: str
    status: Status
    required: bool
    message: str
    text: str
    seconds: float = 0.0


def render(result: RunResult) -> str:
    """The file's text, ending in a line feed."""
    from junitparser import JUnitXml

    document = JUnitXml()
    for number, (name, cases) in enumerate(_suites(result)):
        document.add_testsuite(_suite(result, number, name, cases))
    text: bytes = document.tostring()  # type: ignore[no-untyped-call]  # junitparser 5.0 leaves it without annotations
    return _settled(text)


def _settled(text: bytes) -> str:
    """The same document, one element a line. junitparser writes with lxml where that is installed,
    in another form: a file must not depend on it."""
    root = ElementTree.fromstring(text)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _suites(result: RunResult) -> list[tuple[str, list[_Case]]]:
    # A run that passes without a node did not need it: then its absence is reported and is no error.
    needed = result.verdict not in (Status.PASS, Status.WARN)
    reach = [
        _Case(
            f"busbw.reach.{missing.node}",
            "ssh",
            Status.UNKNOWN,
            needed,
            missing.reason,
            f"{missing.reason}\nnext: {missing.next_step}",
        )
        for missing in result.unreachable
    ]
    suites = [
        ("busbw.verdict", [_verdict(result)]),
        ("busbw.criteria", _criteria(result)),
        ("busbw.reach", reach),
        ("busbw.checks", _checks(result)),
        ("busbw.cases", [_launch(result, index) for index in range(len(result.cases))]),
        (
            "busbw.comparisons",
            [_comparison(result, comparison) for comparison in lead.beside_contract(result)],
        ),
        ("busbw.findings", [_finding(finding) for finding in lead.ordered_findings(result)]),
    ]
    return [(name, _unique(cases)) for name, cases in suites if cases]


def _unique(cases: list[_Case]) -> list[_Case]:
    """GitLab counts the first of equal names only: later ones get a number."""
    counts: dict[tuple[str, str], int] = {}
    unique = []
    for case in cases:
        key = (case.classname, case.name)
        counts[key] = counts.get(key, 0) + 1
        name = case.name if counts[key] == 1 else f"{case.name} ({counts[key]})"
        unique.append(replace(case, name=name))
    return unique


def _verdict(result: RunResult) -> _Case:
    text = "\n".join(filter(None, (result.headline, result.emulated, *result.sensitivity)))
    return _Case(
        "busbw.verdict",
        f"{result.playbook} {phrases.nodes(result.nodes)}".strip(),
        result.verdict,
        True,
        result.headline,
        text,
    )


def _criteria(result: RunResult) -> list[_Case]:
    """The numbers of the contract."""
    criteria = () if result.acceptance is None else result.acceptance.criteria
    cases = []
    for each in criteria:
        text = f"{phrases.measured(each)}, limit {phrases.limit(each)}: {each.reason}"
        name = f"{each.id} {phrases.criterion(each)}"
        evidence = "\n".join((text, *each.artefacts))
        cases.append(_Case("busbw.criteria", name, each.status, True, text, evidence))
    return cases


def _checks(result: RunResult) -> list[_Case]:
    if len(result.nodes) <= _MANY_NODES:
        return [_check(check) for check in result.checks]
    passed: dict[str, list[CheckResult]] = {}
    for check in result.checks:
        if check.status is Status.PASS:
            passed.setdefault(check.check_id, []).append(check)
    folded = [
        _Case(
            "busbw.checks.all",
            name,
            Status.PASS,
            True,
            "",
            f"{counted(len(own), 'node')}: {phrases.nodes(c.node for c in own)}",
        )
        for name, own in passed.items()
    ]
    return folded + [_check(check) for check in result.checks if check.status is not Status.PASS]


def _check(check: CheckResult) -> _Case:
    message = ", ".join(filter(None, (check.seen, check.reason))) or phrases.LABELS[check.status]
    lines = [f"found: {check.seen}", f"expected: {check.expected}", f"command: {check.command}"]
    if check.reason:
        lines.append(f"reason: {check.reason}")
    if check.evidence is not None:
        lines.append(f"seen: {check.evidence.artefact}: {check.evidence.text}")
    return _Case(
        f"busbw.checks.{check.node}",
        check.check_id,
        check.status,
        check.required,
        message,
        "\n".join(lines),
    )


def _launch(result: RunResult, index: int) -> _Case:
    outcome = result.cases[index]
    problems = dict.fromkeys(p for r in outcome.results for p in (*r.faults, *r.problems))
    text = "\n".join((outcome.reason, *problems, *outcome.artefacts))
    seconds = outcome.seconds if outcome.seconds is not None else 0.0
    return _Case(
        "busbw.cases",
        outcome.case.id,
        outcome.status,
        outcome.case.required,
        outcome.reason,
        text,
        seconds,
    )


def _comparison(result: RunResult, comparison: Comparison) -> _Case:
    outcome = lead.outcome_of(result, comparison.case_id)
    against = f"{phrases.against(comparison)}: {comparison.reason}"
    text = f"{against}\n{phrases.reference(comparison.reference)}: {comparison.reference.source}"
    name = f"{format_size(comparison.size_bytes)} against {phrases.reference(comparison.reference)}"
    required = outcome is None or outcome.case.required
    return _Case(
        f"busbw.comparisons.{comparison.case_id}", name, comparison.status, required, against, text
    )


def _finding(finding: Finding) -> _Case:
    lines = [finding.title, f"how sure: {phrases.sure(finding)}", finding.cause]
    lines += [f"costs: {finding.cost}"] if finding.cost else []
    lines += [f"seen: {phrases.location(e)}: {e.text}" for e in finding.evidence]
    lines += [f"to confirm: {step}" for step in phrases.to_confirm(finding)]
    for number, fix in enumerate(finding.fixes, 1):
        lines.append("\n  ".join((f"fix {phrases.fix_step(number, fix)}", *fix.commands)))
    lines += [f"after the fix: {step}" for step in finding.verify]
    where = f" {phrases.where(finding.where)}" if finding.where else ""
    return _Case(
        "busbw.findings",
        f"{finding.id}{where}",
        finding.status,
        finding.required,
        finding.title,
        "\n".join(filter(None, lines)),
    )


def _suite(result: RunResult, number: int, name: str, cases: list[_Case]) -> TestSuite:
    from junitparser import Attr, SystemErr, SystemOut, TestSuite

    class Suite(TestSuite):
        """With the two attributes that the XSD wants of a suite in a collection."""

        package = Attr()
        id = Attr()

    suite = Suite(name)
    suite.package = name
    suite.id = str(number)
    suite.hostname = "localhost"
    # The XSD's own form has no time zone; the plan's time is UTC.
    suite.timestamp = result.started[:19]
    for key, value in (
        ("run", result.run_id),
        ("profile", result.profile),
        ("emulated", result.emulated or "no"),
        *result.versions,
    ):
        suite.add_property(one_line(key), one_line(value))
    suite.add_testcases([_test(case) for case in cases])
    for output in (SystemOut("".join(_advice(case) for case in cases)), SystemErr("")):
        suite.append(output)  # type: ignore[no-untyped-call]  # junitparser 5.0 leaves it without annotations
    return suite


def _test(case: _Case) -> TestCase:
    from junitparser import Error, Failure, Skipped, TestCase

    test = TestCase(one_line(case.name), one_line(case.classname), round(case.seconds, 3))
    text = visible(phrases.cut(case.text, _TEXT))
    message = one_line(phrases.cut(case.message, _TEXT))
    kinds = {Status.FAIL: Failure, Status.UNKNOWN: Error}
    if case.status is Status.SKIPPED:
        test.result = [Skipped(message)]
    elif case.required and case.status in kinds:
        problem = kinds[case.status](message, case.status.value)
        problem.text = text
        test.result = [problem]
    return test


def _advice(case: _Case) -> str:
    """What the suite's output says of a case that passes as a test without being a PASS; empty for
    the others."""
    if case.status in (Status.PASS, Status.SKIPPED):
        return ""
    if case.required and case.status is not Status.WARN:
        return ""
    advisory = "" if case.required else " (advisory)"
    return (
        f"{case.status.value}{advisory} {one_line(case.classname)}"
        f" {one_line(case.name)}\n{visible(phrases.cut(case.text, _TEXT))}\n\n"
    )
