"""The findings with the one to act on first; equal lines of several artefacts are shown once."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.model import Evidence, Finding
from busbw.reports import lead
from busbw.reports.input import Origin, ReportInput

_TEXTS = 6
_SOURCES = 4
_RAW_LINES = 4
_TABLE_ROW = re.compile(r"\s*\d+\s+\d+\s+\w+\s")
_HEAD_COLUMNS = "size"


@dataclass(frozen=True, slots=True)
class Quote:
    """One text and the artefacts that contain it."""

    text: str
    sources: tuple[Evidence, ...]
    more: int
    """Further artefacts with the same text."""
    origin: Origin | None
    """Who ran which command and when; None = the record does not say."""
    raw: str
    """The lines of the artefact that the text was read from; empty = the text is the line itself, or
    no excerpt is in this page."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One finding."""

    key: str
    """Its address on the page: `F01`."""
    finding: Finding
    quotes: tuple[Quote, ...]
    more: int
    """Further texts that are not shown."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The section: what the head of the page has not shown."""

    heading: str
    entries: tuple[Entry, ...]
    followers: frozenset[str] = frozenset()
    """Ids of those that the head of the page explains."""


def view(report: ReportInput) -> Findings | None:
    """All findings but the one at the head of the page; None = that one is the only one."""
    every = entries(report)
    first = None
    if report.result.acceptance is None:
        first = lead.deciding(report.result)
    others = tuple(entry for entry in every if entry.finding is not first)
    if first is not None and not others:
        return None
    if first is None:
        return Findings("Findings", others)
    return Findings("Other findings", others, frozenset(first.explains))


def entries(report: ReportInput) -> tuple[Entry, ...]:
    """Every finding, the one to act on first."""
    ordered = lead.ordered_findings(report.result)
    return tuple(_entry(report, finding, number) for number, finding in enumerate(ordered, 1))


def _entry(report: ReportInput, finding: Finding, number: int) -> Entry:
    same: dict[str, list[Evidence]] = {}
    for evidence in finding.evidence:
        same.setdefault(evidence.text.strip(), []).append(evidence)
    quotes = [_quote(report, text, tuple(same[text])) for text in tuple(same)[:_TEXTS]]
    return Entry(f"F{number:02d}", finding, tuple(quotes), max(0, len(same) - _TEXTS))


def _quote(report: ReportInput, text: str, sources: tuple[Evidence, ...]) -> Quote:
    more = max(0, len(sources) - _SOURCES)
    origin = report.origin_of(sources[0].artefact)
    return Quote(text, sources[:_SOURCES], more, origin, _raw(report, text, sources[0]))


def _raw(report: ReportInput, text: str, evidence: Evidence) -> str:
    """The line itself, or of a launch the head and the rows of its table."""
    lines = report.excerpt_of(evidence.artefact).splitlines()
    if evidence.line_no is not None:
        line = lines[evidence.line_no - 1] if evidence.line_no <= len(lines) else ""
        return "" if line.strip() == text else line.strip()
    rows = [line for line in lines if _TABLE_ROW.match(line)]
    heads = [line for line in lines if line.startswith("#") and _HEAD_COLUMNS in line.split()[:2]]
    return "\n".join((*heads[:1], *rows[-_RAW_LINES:])) if rows else ""
