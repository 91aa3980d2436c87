"""The places that a collector or a store of logs wrote beside the lines of a finding."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from busbw import intake
from busbw.model import Finding
from busbw.parsers.findings.evidence import Diagnosis
from busbw.parsers.findings.named_places import NO_HOST
from busbw.parsers.logs import exports, record_places
from busbw.parsers.logs.blocks import LONGEST_LINE, cut_lines

_MOST_PLACES = 4
"""Of more the lines themselves say enough."""


def with_recorded_places(diagnosis: Diagnosis, sources: Iterable[intake.Source]) -> Diagnosis:
    """The diagnosis, with what the records of its lines say of their place, where the lines name no
    host or pod themselves. Only texts of such lines that are wrapped in JSON are read again."""
    line_nos_of: dict[str, set[int]] = {}
    for finding in filter(_is_nowhere, diagnosis.findings):
        for item in finding.evidence:
            if item.line_no is not None:
                line_nos_of.setdefault(item.artefact, set()).add(item.line_no)
    places: dict[tuple[str, int | None], tuple[str, ...]] = {}
    for source in sources:
        if source.name in line_nos_of:
            found = _recorded(source, frozenset(line_nos_of[source.name]))
            places |= {(source.name, line_no): own for line_no, own in found}
    if not any(places.values()):
        return diagnosis
    return replace(diagnosis, findings=tuple(_placed(each, places) for each in diagnosis.findings))


def _is_nowhere(finding: Finding) -> bool:
    return all(NO_HOST.match(each) and not each.startswith("pod ") for each in finding.where)


def _placed(finding: Finding, places: Mapping[tuple[str, int | None], tuple[str, ...]]) -> Finding:
    if not _is_nowhere(finding):
        return finding
    own = [places.get((item.artefact, item.line_no), ()) for item in finding.evidence]
    named = dict.fromkeys(place for each in own for place in each)
    if not 0 < len(named) <= _MOST_PLACES:
        return finding
    return replace(finding, where=tuple(dict.fromkeys((*named, *finding.where))))


def _recorded(
    source: intake.Source, line_nos: frozenset[int]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The lines of these numbers, with the places of their records."""
    if not _may_be_wrapped(source):
        return
    lines = itertools.islice(
        cut_lines(source.open(record_places.marked), LONGEST_LINE), max(line_nos)
    )
    for line_no, line in enumerate(lines, 1):
        if line_no in line_nos:
            yield line_no, record_places.places_in(line.decode("utf-8", "replace"))


def _may_be_wrapped(source: intake.Source) -> bool:
    """Its text begins as JSON does."""
    start = next(source.open().plain(), b"").lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")
    return start.startswith(b"{") or exports.begins(start)
