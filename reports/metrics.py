"""`metrics.prom`: about ten gauges for node_exporter's textfile collector; no time stamps, no
series per rank, node or pair."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from busbw.model import Comparison, RunResult, Status
from busbw.reports import lead
from busbw.reports.safe import one_line

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_CASE = ("collective", "case", "size", "nodes", "profile", "emulated")


def render(result: RunResult, cluster: str = "") -> str:
    """The file's text in Prometheus' exposition format, ending in a line feed. The caller writes it
    atomically.

    Args:
        cluster: of the label `cluster`, where one Prometheus sees several; empty = no such label.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    own = {"cluster": one_line(cluster)} if cluster else {}
    _run(registry, result, own)
    _compared(registry, result, own)
    return generate_latest(registry).decode("utf-8")


def _run(registry: CollectorRegistry, result: RunResult, own: dict[str, str]) -> None:
    from prometheus_client import Gauge

    emulated = _emulated(result)
    names = (*own, "playbook", "profile", "emulated")
    labels = (*own.values(), one_line(result.playbook), one_line(result.profile), emulated)

    def gauge(name: str, text: str) -> Gauge:
        return Gauge(name, text, names, registry=registry).labels(*labels)

    gauge("busbw_run_success", "1 when the verdict is PASS or WARN, else 0").set(
        result.verdict in (Status.PASS, Status.WARN)
    )
    gauge("busbw_run_measured", "0 when the verdict is UNKNOWN: nothing can be said").set(
        result.verdict is not Status.UNKNOWN
    )
    gauge("busbw_run_exit_status", "Exit status of the run").set(result.exit_status)
    gauge("busbw_nodes", "Nodes of the run").set(len(result.nodes))
    gauge("busbw_nodes_unreachable", "Nodes that could not be reached").set(len(result.unreachable))
    gauge("busbw_components_blamed", "Components that the measurements blame").set(
        len(result.blame)
    )
    started, finished = _seconds(result.started), _seconds(result.finished)
    if started is not None:
        gauge("busbw_run_timestamp_seconds", "When the run started, Unix time").set(started)
        if finished is not None:
            gauge("busbw_run_duration_seconds", "How long the run took").set(finished - started)
    findings = Gauge("busbw_findings", "Findings by state", (*names, "severity"), registry=registry)
    checks = Gauge(
        "busbw_checks", "Preflight answers by state", (*names, "severity"), registry=registry
    )
    for status in Status:
        severity = status.value.lower()
        findings.labels(*labels, severity).set(
            sum(1 for finding in result.findings if finding.status is status)
        )
        checks.labels(*labels, severity).set(
            sum(1 for check in result.checks if check.status is status)
        )


def _compared(registry: CollectorRegistry, result: RunResult, own: dict[str, str]) -> None:
    from prometheus_client import Gauge

    measured = Gauge(
        "busbw_bus_bandwidth_bytes_per_second",
        "Bus bandwidth measured over all nodes",
        (*own, *_CASE),
        registry=registry,
    )
    ratio = Gauge(
        "busbw_baseline_ratio",
        "Measured over expected bandwidth",
        (*own, *_CASE, "reference"),
        registry=registry,
    )
    for comparison in lead.whole_cluster(result):
        labels = (*own.values(), *_labels(result, comparison))
        if comparison.measured_gb_s is not None:
            measured.labels(*labels).set(comparison.measured_gb_s * 1e9)
        if comparison.ratio is not None:
            ratio.labels(*labels, one_line(comparison.reference.kind)).set(comparison.ratio)


def _labels(result: RunResult, comparison: Comparison) -> tuple[str, ...]:
    nodes = len(comparison.nodes or result.nodes)
    case = (one_line(lead.collective(result, comparison)), one_line(comparison.case_id))
    return (
        *case,
        str(comparison.size_bytes),
        str(nodes),
        one_line(result.profile),
        _emulated(result),
    )


def _emulated(result: RunResult) -> str:
    return "yes" if result.emulated else "no"


def _seconds(at: str | None) -> float | None:
    """Unix time of an RFC 3339 time; None = there is none, or it has no time zone to place it
    by."""
    try:
        when = datetime.fromisoformat(at) if at is not None else None
    except ValueError:
        return None
    return when.timestamp() if when is not None and when.tzinfo is not None else None
