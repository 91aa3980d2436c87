"""The Prometheus textfile, read back with the reference parser."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from prometheus_client.parser import text_string_to_metric_families

from busbw.reports import metrics

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.timestamp is None
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def test_a_failing_run_in_gauges() -> None:
    text = metrics.render(RUNS.failing().result)
    found = samples(text)
    assert text.endswith("\n")
    assert found["busbw_run_success"] == [
        ({"emulated": "no", "playbook": "day-one", "profile": "infiniband"}, 0.0)
    ]
    assert found["busbw_run_timestamp_seconds"][0][1] == 1795140724.0
    assert found["busbw_run_duration_seconds"][0][1] == 352.0
    assert found["busbw_bus_bandwidth_bytes_per_second"][-1] == (
        {
            "case": "all-reduce",
            "collective": "all_reduce",
            "emulated": "no",
            "nodes": "16",
            "profile": "infiniband",
            "size": "8589934592",
        },
        192036800000.0,
    )
    assert {labels["severity"]: value for labels, value in found["busbw_findings"]} == {
        "pass": 0.0,
        "warn": 1.0,
        "fail": 1.0,
        "unknown": 0.0,
        "skipped": 0.0,
    }


def test_unknown_is_neither_success_nor_measured() -> None:
    found = samples(metrics.render(RUNS.unreachable().result))
    assert [
        found[name][0][1]
        for name in ("busbw_run_success", "busbw_run_measured", "busbw_nodes_unreachable")
    ] == [0.0, 0.0, 2.0]
    assert "busbw_bus_bandwidth_bytes_per_second" not in found


def test_an_emulated_run_is_labelled_in_every_series() -> None:
    found = samples(metrics.render(RUNS.emulated().result))
    assert {labels["emulated"] for series in found.values() for labels, _ in series} == {"yes"}


def test_a_time_without_zone_gives_no_time_series() -> None:
    found = samples(
        metrics.render(
            replace(RUNS.healthy().result, started="2026-11-20T02:12:04", finished="soon")
        )
    )
    assert "busbw_run_timestamp_seconds" not in found


def test_series_do_not_grow_with_the_cluster() -> None:
    assert metrics.render(RUNS.failing(200).result).count("\n") == metrics.render(
        RUNS.failing(16).result
    ).count("\n")


def test_hostile_labels_stay_one_line_each() -> None:
    found = samples(metrics.render(RUNS.hostile().result))
    assert "␛]0;owned␇" in found["busbw_run_success"][0][0]["profile"]
