"""JUnit: states as CI systems count them, the form of the XSD, and hostile text."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml
from lxml import etree

from busbw.model import Status
from busbw.reports import junit, phrases

SCHEMA = str(Path(__file__).parents[1] / "fixtures" / "reports" / "junit.xsd")
RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
ALL = (
    "healthy",
    "failing",
    "unreachable",
    "emulated",
    "stalled",
    "acceptance",
    "hostile",
    "hostile_lab",
)


def suites(name: str) -> dict[str, tuple[int, int, int]]:
    """Tests, failures and errors of each suite."""
    document = JUnitXml.fromstring(junit.render(getattr(RUNS, name)().result).encode())
    return {suite.name: (suite.tests, suite.failures, suite.errors) for suite in document}


def test_a_pass_has_no_failure_and_no_error() -> None:
    assert suites("healthy") == {
        "busbw.verdict": (1, 0, 0),
        "busbw.checks": (160, 0, 0),
        "busbw.cases": (6, 0, 0),
        "busbw.comparisons": (4, 0, 0),
    }


def test_what_failed_is_a_failure_and_what_could_not_be_checked_an_error() -> None:
    assert suites("failing") == {
        "busbw.verdict": (1, 1, 0),
        "busbw.checks": (160, 1, 2),
        "busbw.cases": (6, 0, 0),
        "busbw.comparisons": (4, 4, 0),
        "busbw.findings": (2, 1, 0),
    }


def test_unreachable_nodes_are_errors_not_failures() -> None:
    assert suites("unreachable") == {
        "busbw.verdict": (1, 0, 1),
        "busbw.reach": (2, 0, 2),
        "busbw.checks": (20, 0, 0),
    }


def test_a_run_that_passed_without_a_node_tells_it_and_stays_green() -> None:
    missing = RUNS.unreachable().result.unreachable
    text = junit.render(replace(RUNS.healthy(4).result, unreachable=missing))
    root = ElementTree.fromstring(text)
    assert root.findall(".//error") == []
    told = [suite.findtext("system-out") for suite in root if suite.attrib["name"] == "busbw.reach"]
    assert told[0] is not None
    assert told[0].startswith(
        "UNKNOWN (advisory) busbw.reach.gpu-001 ssh\nconnect to 10.0.0.2 port 22: timed out after"
        " 10 s (2 tries)\n"
    )


def test_a_failure_says_the_same_in_attribute_and_body() -> None:
    root = ElementTree.fromstring(junit.render(RUNS.failing().result))
    case = next(
        c
        for c in root.iter("testcase")
        if (c.attrib["classname"], c.attrib["name"]) == ("busbw.checks.gpu-005", "rdma.rate")
    )
    failure = case[0]
    assert failure.attrib == {
        "message": "mlx5_3 at 200 Gb/s, the other 7 at 400 Gb/s",
        "type": "FAIL",
    }
    assert (
        failure.text
        == "found: mlx5_3 at 200 Gb/s, the other 7 at 400 Gb/s\nexpected: 8 × 400 Gb/s\ncommand:"
        " ibstat"
    )


def test_a_finding_says_what_the_report_says_of_it() -> None:
    finding = next(each for each in RUNS.failing().result.findings if each.fixes and each.required)
    finding = replace(
        finding,
        cost="181 GB/s of 372",
        would_settle=("busbw check -i lab",),
        verify=("busbw run quick",),
        fixes=(replace(finding.fixes[0], needs="root", disruptive=True),),
    )
    text = junit.render(replace(RUNS.failing().result, findings=(finding,)))
    (body,) = (
        failure.text or ""
        for case in ElementTree.fromstring(text).iter("testcase")
        if case.attrib["classname"] == "busbw.findings"
        for failure in case
    )
    assert f"\nhow sure: {phrases.sure(finding)}\n" in body
    assert "\ncosts: 181 GB/s of 372\n" in body
    assert "\nto confirm: busbw check -i lab\n" in body
    assert f"\nfix 1  {finding.fixes[0].summary}   # needs root, disrupts running jobs\n" in body
    assert body.endswith("\nafter the fix: busbw run quick")


def test_each_criterion_of_a_contract_is_a_case_with_its_number_and_limit() -> None:
    result = RUNS.acceptance().result
    assert result.acceptance is not None
    failed = [each for each in result.acceptance.criteria if each.status is Status.FAIL]
    root = ElementTree.fromstring(junit.render(result))
    cases = [c for c in root.iter("testcase") if c.get("classname") == "busbw.criteria"]
    messages = [f.get("message") or "" for case in cases for f in case.iter("failure")]
    assert (len(cases), len(messages)) == (len(result.acceptance.criteria), len(failed))
    assert failed
    assert messages[0].startswith(
        f"{phrases.measured(failed[0])}, limit {phrases.limit(failed[0])}"
    )


def test_an_advisory_failure_passes_and_is_reported() -> None:
    plain = RUNS.healthy().result
    check = replace(plain.checks[0], status=Status.FAIL, seen="8.1", required=False)
    root = ElementTree.fromstring(junit.render(replace(plain, checks=(check, *plain.checks[1:]))))
    assert root.findall(".//failure") == []
    assert "FAIL (advisory) busbw.checks.gpu-000 node.reach" in "".join(root.itertext())


def test_a_skipped_check_is_skipped() -> None:
    plain = RUNS.healthy().result
    check = replace(plain.checks[0], status=Status.SKIPPED, reason="no RDMA in this profile")
    root = ElementTree.fromstring(junit.render(replace(plain, checks=(check, *plain.checks[1:]))))
    assert [e.attrib for e in root.iter("skipped")] == [
        {"message": "ssh answers, no RDMA in this profile"}
    ]


def wrong(text: str) -> list[str]:
    """What the schema says against a file."""
    form = etree.XMLSchema(etree.parse(SCHEMA))
    form.validate(etree.fromstring(text.encode()))
    return [str(entry.message) for entry in form.error_log]


@pytest.mark.parametrize("name", ALL)
def test_the_file_is_valid_against_the_common_schema(name: str) -> None:
    assert wrong(junit.render(getattr(RUNS, name)().result)) == []


@pytest.mark.parametrize(
    ("here", "instead"),
    [
        ('package="', 'packet="'),
        ('id="1"', 'id="one"'),
        ('timestamp="2026-11-20T02:12:04"', 'timestamp="2026-11-20T02:12:04Z"'),
        ("<system-err />", ""),
        (' type="FAIL"', ""),
        ('<testcase name="ib', '<case/><testcase name="ib'),
        ("<testsuites>", '<testsuites id="1">'),
    ],
)
def test_the_schema_refuses_what_readers_would_not_take(here: str, instead: str) -> None:
    text = junit.render(RUNS.failing().result).replace('name="rdma', 'name="ib')
    assert here in text
    assert wrong(text) == []
    assert wrong(text.replace(here, instead, 1)) != []


def test_the_bytes_do_not_depend_on_which_xml_library_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import junitparser.junitparser as writer

    with_lxml = junit.render(RUNS.hostile().result)
    assert writer.etree.__name__ == "lxml.etree"
    monkeypatch.setattr(writer, "etree", ElementTree)
    assert junit.render(RUNS.hostile().result) == with_lxml
    assert with_lxml.count("\n    <testcase ") == with_lxml.count("<testcase "), (
        "one case a line, for grep"
    )


def test_suites_are_numbered_and_a_suite_that_has_nothing_is_left_out() -> None:
    root = ElementTree.fromstring(junit.render(RUNS.failing().result))
    assert [suite.attrib["id"] for suite in root] == ["0", "1", "2", "3", "4"]
    assert [suite.attrib["name"] for suite in root] == [suite.attrib["package"] for suite in root]


def test_gitlab_and_jenkins_read_what_is_meant() -> None:
    """As GitLab's parser and Jenkins' junit plugin take it: state by the child's name, the text
    from its body, the group from `classname`."""
    root = ElementTree.fromstring(junit.render(RUNS.failing().result))
    read = {}
    for case in root.iter("testcase"):
        child = next(
            (child for child in case if child.tag in ("failure", "error", "skipped")), None
        )
        state = (
            {"failure": "failed", "error": "error", "skipped": "skipped"}[child.tag]
            if child is not None
            else "success"
        )
        read[case.attrib["classname"], case.attrib["name"]] = (
            state,
            child.text if child is not None else None,
        )
    assert read["busbw.checks.gpu-005", "rdma.rate"][0] == "failed"
    assert read["busbw.checks.gpu-014", "limits.memlock"][0] == "error"
    assert read["busbw.checks.gpu-000", "rdma.rate"] == ("success", None)
    assert all(text for state, text in read.values() if state in ("failed", "error")), (
        "GitLab shows the body only"
    )
    totals = {
        name: sum(int(suite.attrib[name]) for suite in root)
        for name in ("tests", "failures", "errors", "skipped")
    }
    states = [state for state, _ in read.values()]
    assert totals == {
        "tests": len(states),
        "failures": states.count("failed"),
        "errors": states.count("error"),
        "skipped": states.count("skipped"),
    }


@pytest.mark.parametrize("name", ALL)
def test_no_two_cases_have_the_same_name(name: str) -> None:
    root = ElementTree.fromstring(junit.render(getattr(RUNS, name)().result))
    names = [(case.attrib["classname"], case.attrib["name"]) for case in root.iter("testcase")]
    assert len(names) == len(set(names))


def test_a_thousand_nodes_fold_what_passed() -> None:
    text = junit.render(RUNS.failing(200).result)
    assert len(text) < 30_000
    assert suites("failing")["busbw.checks"][1:] == (1, 2)
    root = ElementTree.fromstring(text)
    names = [
        c.attrib["classname"]
        for c in root.iter("testcase")
        if c.attrib["classname"].startswith("busbw.checks")
    ]
    assert names.count("busbw.checks.all") == 10
    assert sorted(set(names) - {"busbw.checks.all"}) == [
        f"busbw.checks.gpu-{n}" for n in ("002", "005", "009", "198", "199")
    ]
