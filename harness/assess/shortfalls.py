"""Why a run does not pass: its comparisons that do not, as findings that say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from busbw.assess.launches import Launch
from busbw.model import Comparison, Confidence, Evidence, Finding, Status
from busbw.parsers import verdict
from busbw.parsers.findings.catalogue import filled
from busbw.units import format_bandwidth, format_size

_QUOTED = 8
"""Comparisons that one finding quotes."""
_CONFIDENCE = {Status.WARN: Confidence.POSSIBLE}
"""A warning may be noise; a number that fails was measured as its gate demands."""


def missed(
    comparisons: tuple[Comparison, ...],
    launches: Mapping[str, Launch],
    others: tuple[Finding, ...],
    busy: frozenset[str] = frozenset(),
) -> Iterator[Finding]:
    """Numbers that fail or decide nothing, as far as none of the `others` says why the run does. A
    survey's groups are left to blame. `launches`: by case id; `busy`: cases that were measured while
    others used the CPUs."""
    statuses = {each.status for each in others if each.required}
    if Status.FAIL in statuses:
        return
    required = [each for each in comparisons if _is_required_case(launches.get(each.case_id))]
    failed = [each for each in required if each.status is Status.FAIL]
    undecided = [each for each in required if each.status is Status.UNKNOWN]
    if failed:
        suspected = [
            place for each in others if each.id == "suspicion-open" for place in each.where
        ]
        cause = f"Not located for sure. Suspected: {', '.join(suspected)}." if suspected else ""
        too_low = _finding("number-too-low", Status.FAIL, failed, cause)
        yield verdict.less_sure(too_low, [each.case_id for each in failed], busy)
    elif undecided and Status.UNKNOWN not in statuses:
        yield _finding("number-open", Status.UNKNOWN, undecided)


def _is_required_case(launch: Launch | None) -> bool:
    return launch is not None and launch.artefact.case.required and not launch.artefact.groups


def warned(
    comparisons: tuple[Comparison, ...], launches: Mapping[str, Launch]
) -> Iterator[Finding]:
    """One for groups of the survey, one for numbers below what is expected. `launches`: by case
    id."""
    groups: list[Comparison] = []
    levels: list[Comparison] = []
    for each in comparisons:
        if each.status is not Status.WARN:
            continue
        launch = launches.get(each.case_id)
        if launch is None or not launch.artefact.case.required:
            continue
        (groups if launch.artefact.groups else levels).append(each)
    if groups:
        yield _finding("group-slow-once", Status.WARN, groups)
    if levels:
        yield _finding("below-expected", Status.WARN, levels)


def _finding(
    finding_id: str, status: Status, several: list[Comparison], cause: str = ""
) -> Finding:
    """`cause`: empty = that of the catalogue."""
    worst = min(several, key=lambda each: each.ratio or 1.0)
    more = f" (and {len(several) - 1} more)" if len(several) > 1 else ""
    evidence = []
    for each in several[:_QUOTED]:
        evidence.append(Evidence(f"raw/cases/{each.case_id}/outcome.json", None, _text(each)))
    return filled(
        Finding(
            id=finding_id,
            status=status,
            title=f"{_text(worst)}{more}",
            where=tuple(sorted({" + ".join(each.nodes) for each in several if each.nodes})),
            evidence=tuple(evidence),
            cause=cause,
            confidence=_CONFIDENCE.get(status, Confidence.CERTAIN),
        )
    )


def _text(comparison: Comparison) -> str:
    nodes = f" on {' + '.join(comparison.nodes)}" if len(comparison.nodes) <= 2 else ""
    where = f"{comparison.case_id}{nodes} at {format_size(comparison.size_bytes)}"
    measured = format_bandwidth(comparison.measured_gb_s)
    if comparison.status is Status.WARN:
        return f"{where}: {measured}, {comparison.reason}"
    reference = comparison.reference
    expected = format_bandwidth(reference.busbw_gb_s)
    return (
        f"{where}: {measured}, compared with {expected} ({reference.source}): {comparison.reason}"
    )
