"""The alert rules and the dashboard of docs/examples: every metric in them is one that busbw writes,
and a failing run opens an alert in promtool's own test."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from pathlib import Path
from types import SimpleNamespace

import promtool
import pytest
import yaml
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from busbw.model import RunResult
from busbw.reports import metrics

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docs/examples/prometheus/busbw.rules.yml"
DASHBOARD = ROOT / "docs/examples/grafana/busbw.json"
RUNS = SimpleNamespace(**runpy.run_path(str(ROOT / "tests/fixtures/reports/runs.py")))
METRIC = re.compile(r"\bbusbw_[a-z_]+")
SELECTOR = re.compile(r"\b(busbw_[a-z_]+)\{([^}]*)\}")


def written() -> dict[str, set[str]]:
    """Metric → the labels of its series, with a cluster named."""
    names: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics.render(RUNS.failing().result, "east")):
        for sample in family.samples:
            names.setdefault(sample.name, set()).update(sample.labels)
    return names


def expressions() -> list[str]:
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [rule["expr"] for rule in rules] + [
        target["expr"] for panel in panels for target in panel["targets"]
    ]


def test_rules_and_dashboard_use_metrics_and_labels_that_are_written() -> None:
    known = written()
    used = {name for text in expressions() for name in METRIC.findall(text)}
    assert used - set(known) == set()
    assert set(known) - used == set(), "a gauge that nobody looks at"
    wrong = [
        (name, label)
        for text in expressions()
        for name, selector in SELECTOR.findall(text)
        for label in re.findall(r"(\w+)=", selector)
        if label not in known[name]
    ]
    assert wrong == []


def test_a_dashboard_has_panels_of_their_own_that_do_not_overlap() -> None:
    board = json.loads(DASHBOARD.read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23


@pytest.mark.parametrize("name", ["failing", "healthy", "unreachable", "emulated", "hostile"])
def test_the_gauges_are_open_metrics_too(name: str) -> None:
    text = metrics.render(getattr(RUNS, name)().result, "east")
    families = list(openmetrics.text_string_to_metric_families(f"{text}# EOF\n"))
    assert {family.type for family in families} == {"gauge"}
    assert len(families) >= 8


def test_promtool_takes_the_rules_and_their_tests() -> None:
    for words in (("check", "rules", RULES.name), ("test", "rules", "busbw.test.yml")):
        done = subprocess.run(
            (promtool.program(), *words),
            cwd=RULES.parent,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "alerts"),
    [
        (
            "failing",
            {"BusbwFailed": True, "BusbwPartBlamed": True, "BusbwNotMeasured": False},
        ),
        ("healthy", {"BusbwFailed": False, "BusbwNotMeasured": False, "BusbwSlower": False}),
        ("unreachable", {"BusbwNotMeasured": True, "BusbwNodesUnreachable": True}),
    ],
)
def test_a_run_opens_the_alerts_that_it_should(
    name: str, alerts: dict[str, bool], tmp_path: Path
) -> None:
    result = getattr(RUNS, name)().result
    assert isinstance(result, RunResult)
    assert promtool.tested(tmp_path, metrics.render(result, "east"), alerts) == ""
    wrong = {alert: not is_open for alert, is_open in alerts.items()}
    assert "FAILED" in promtool.tested(tmp_path, metrics.render(result, "east"), wrong)
