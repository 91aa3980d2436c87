"""A recorded run says the same in the terminal, as HTML, JSON, CSV, JUnit, Markdown and metrics."""

from __future__ import annotations

import csv
import html
import json
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from busbw.cli import main
from busbw.units import format_bandwidth, format_share, format_size, format_with_interval

RUNS = Path(__file__).parents[1] / "fixtures" / "lab_runs"
STATES = {"PASS": "✓ pass", "WARN": "▲ warning", "FAIL": "✖ fail", "UNKNOWN": "? unknown"}
SKIPPED = "– skipped"


@dataclass(frozen=True)
class Said:
    """What each format says of one run."""

    result: dict[str, Any]
    terminal: str
    page: str
    """The text of report.html, a blank between two elements."""
    summary: str
    junit: ElementTree.Element
    rows: list[dict[str, str]]
    metrics: dict[str, float]

    def judged(self, comparison: dict[str, Any]) -> str:
        """Beside a criterion of a contract no other reference passes a number."""
        criteria = (self.result["acceptance"] or {"criteria": ()})["criteria"]
        numbers = {(each["case_id"], each["size_bytes"]) for each in criteria}
        is_of_contract = (comparison["case_id"], comparison["size_bytes"]) in numbers
        passes = comparison["status"] == "PASS"
        return SKIPPED if is_of_contract and passes else STATES[comparison["status"]]

    def case(self, suite: str, name: str) -> str:
        """What JUnit says of a case, in the words of the other formats."""
        (found,) = self.junit.iterfind(f".//testcase[@classname='{suite}'][@name='{name}']")
        kinds = {"failure": "FAIL", "error": "UNKNOWN"}
        kind = next((child.tag for child in found if child.tag in (*kinds, "skipped")), "")
        return SKIPPED if kind == "skipped" else STATES[kinds.get(kind, "PASS")]


@pytest.fixture(params=["quick", "slowed", "healthy", "persona", "acceptance", "resumed"])
def said(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Said:
    with tarfile.open(RUNS / f"{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    table = tmp_path / "sizes.csv"
    main(["report", str(tmp_path), "--csv", str(table)])
    page = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", " ", (tmp_path / "report.html").read_text())
    samples = re.findall(r"(?m)^([^#\n].*) (\S+)$", (tmp_path / "metrics.prom").read_text())
    return Said(
        json.loads((tmp_path / "run.json").read_text()),
        capsys.readouterr().out,
        " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split()),
        (tmp_path / "summary.md").read_text(),
        ElementTree.parse(tmp_path / "junit.xml").getroot(),
        list(csv.DictReader(table.read_text().splitlines())),
        {name: float(value) for name, value in samples},
    )


def whole(said: Said) -> list[dict[str, Any]]:
    surveys = {
        each["case"]["id"]
        for each in said.result["cases"]
        if each["case"]["purpose"] == "diagnosis"
    }
    return [each for each in said.result["comparisons"] if each["case_id"] not in surveys]


def test_the_verdict_is_the_same_everywhere(said: Said) -> None:
    verdict, headline = said.result["verdict"], said.result["headline"]
    first, *_, last = said.terminal.splitlines()
    assert first.split()[0] == verdict
    assert last.split()[1] == verdict
    assert re.match(rf"# \S {verdict}\b", said.summary)
    word = headline.partition(":")[0] if said.result["acceptance"] else ""
    for text in (first, said.summary.splitlines()[0]):
        assert headline in text
    assert (headline.removeprefix(f"{word}: ") if word else headline) in said.page
    (suite,) = said.junit.iterfind("./testsuite[@name='busbw.verdict']")
    wrong = {"FAIL": ("1", "0"), "UNKNOWN": ("0", "1")}.get(verdict, ("0", "0"))
    assert (suite.get("failures"), suite.get("errors")) == wrong
    of_prom = {name.partition("{")[0]: value for name, value in said.metrics.items()}
    assert of_prom["busbw_run_exit_status"] == said.result["exit_status"]
    assert of_prom["busbw_run_success"] == float(verdict in ("PASS", "WARN"))


def test_a_number_is_the_same_everywhere(said: Said) -> None:
    for each in whole(said):
        measured = format_bandwidth(each["measured_gb_s"])
        share = "–" if each["ratio"] is None else format_share(each["ratio"])
        size, state = format_size(each["size_bytes"]), said.judged(each)
        if each["launches"] > 1 and each["half_interval_gb_s"] is not None:
            value, half = each["measured_gb_s"], each["half_interval_gb_s"]
            measured = f"{format_with_interval(measured, value, half)} (n={each['launches']})"
        reference = each["reference"]["busbw_gb_s"]
        expected = "none" if reference is None else format_bandwidth(reference)
        assert f"{state} {size} {measured} {expected} {share}" in said.page
        row = f"| {state} | `{each['case_id']}` | {size} | {measured} | {expected} | {share} |"
        assert row in said.summary
        suite = f"busbw.comparisons.{each['case_id']}"
        kind = {"none": "no reference"}.get(each["reference"]["kind"], each["reference"]["kind"])
        name = f"{size} against {kind}"
        assert said.case(suite, name) == state
        # The reason beside the share has it in the same digits.
        assert not each["reason"].startswith(tuple("0123456789")) or each["reason"].startswith(
            share
        )


def test_machines_get_the_value_itself(said: Said) -> None:
    for each in whole(said):
        of_case = [
            row
            for row in said.rows
            if (row["case"], row["size_bytes"]) == (each["case_id"], str(each["size_bytes"]))
        ]
        assert of_case
        for row in of_case:
            values = [float(row[name] or "nan") for name in ("ratio", "reference_busbw_gb_s")]
            wanted = [each["ratio"], each["reference"]["busbw_gb_s"]]
            absent = [float("nan") if value is None else value for value in wanted]
            assert values == pytest.approx(absent, rel=0, abs=0, nan_ok=True)
            assert row["state"] == each["status"]
        label = f'case="{each["case_id"]}"'
        values = [
            value
            for name, value in said.metrics.items()
            if name.startswith("busbw_bus_bandwidth") and label in name
        ]
        assert round(each["measured_gb_s"] * 1e9, 3) in [round(value, 3) for value in values]


def test_a_criterion_is_the_same_everywhere(said: Said) -> None:
    for each in (said.result["acceptance"] or {"criteria": ()})["criteria"]:
        measured, limit = format_bandwidth(each["measured"]), format_bandwidth(each["limit"])
        state = STATES[each["status"]]
        line = f"{state} ≥ {limit} {measured} {each['launches']} {each['id']} {each['collective']}"
        assert line in " ".join(said.terminal.split())
        assert f"≥ {limit} {measured} {each['launches']} {each['reason']}" in said.page
        row = next(row for row in said.summary.splitlines() if row.startswith(f"| {state} | C1 "))
        assert f"| ≥ {limit} | {measured} | {each['launches']} |" in row
