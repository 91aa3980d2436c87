"""Why a run comes to WARN: every comparison that warns, as a finding that says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from busbw.assess.launches import Launch
from busbw.model import Comparison, Confidence, Evidence, Finding, Status
from busbw.parsers.findings.catalogue import filled
from busbw.units import format_bandwidth, format_size

_QUOTED = 8
"""Comparisons that one finding quotes."""


def findings(
    comparisons: tuple[Comparison, ...], launches: Mapping[str, Launch]
) -> Iterator[Finding]:
    """One for groups of the survey, one for numbers below what is expected. `launches`: by case
    id."""
    warned = [each for each in comparisons if each.status is Status.WARN]
    groups: list[Comparison] = []
    levels: list[Comparison] = []
    for each in warned:
        launch = launches.get(each.case_id)
        if launch is None or not launch.artefact.case.required:
            continue
        (groups if launch.artefact.groups else levels).append(each)
    if groups:
        yield _finding("group-slow-once", groups)
    if levels:
        yield _finding("below-expected", levels)


def _finding(finding_id: str, several: list[Comparison]) -> Finding:
    worst = min(several, key=lambda each: each.ratio or 1.0)
    more = f" (and {len(several) - 1} more)" if len(several) > 1 else ""
    evidence = []
    for each in several[:_QUOTED]:
        evidence.append(Evidence(f"raw/cases/{each.case_id}/outcome.json", None, _text(each)))
    return filled(
        Finding(
            id=finding_id,
            status=Status.WARN,
            title=f"{_text(worst)}{more}",
            where=tuple(sorted({" + ".join(each.nodes) for each in several if each.nodes})),
            evidence=tuple(evidence),
            confidence=Confidence.POSSIBLE,
        )
    )


def _text(comparison: Comparison) -> str:
    nodes = f" on {' + '.join(comparison.nodes)}" if len(comparison.nodes) <= 2 else ""
    return (
        f"{comparison.case_id}{nodes} at {format_size(comparison.size_bytes)}:"
        f" {format_bandwidth(comparison.measured_gb_s)}, {comparison.reason}"
    )
