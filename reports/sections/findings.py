"""The findings with the one to act on first; equal lines of several artefacts are shown once."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.model import Evidence, Finding
from busbw.reports import lead
from busbw.reports.input import ReportInput

_TEXTS = 6
_SOURCES = 4


@dataclass(frozen=True, slots=True)
class Quote:
    """One text and the artefacts that contain it."""

    text: str
    sources: tuple[Evidence, ...]
    more: int
    """Further artefacts with the same text."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One finding."""

    key: str
    """Its address on the page: `F01`."""
    finding: Finding
    quotes: tuple[Quote, ...]
    more: int
    """Further texts that are not shown."""


def view(report: ReportInput) -> tuple[Entry, ...]:
    """Every finding; () is shown too, in words."""
    return tuple(
        _numbered(finding, number)
        for number, finding in enumerate(lead.ordered_findings(report.result), 1)
    )


def _numbered(finding: Finding, number: int) -> Entry:
    same: dict[str, list[Evidence]] = {}
    for evidence in finding.evidence:
        same.setdefault(evidence.text.strip(), []).append(evidence)
    quotes = tuple(
        Quote(text, tuple(sources[:_SOURCES]), max(0, len(sources) - _SOURCES))
        for text, sources in same.items()
    )
    return Entry(f"F{number:02d}", finding, quotes[:_TEXTS], max(0, len(quotes) - _TEXTS))
