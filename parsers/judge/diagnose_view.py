"""What a rule gets to see: the lines its watches found, in the order of the texts."""

from __future__ import annotations

from busbw.parsers.judge.diagnose_evidence import Clue, Context, EvidenceSet, Sighting, View
from busbw.parsers.judge.diagnose_signals import sightings
from busbw.parsers.rules.rule import Rule


def view_for(rule: Rule, evidence: EvidenceSet, clues: tuple[Clue, ...], context: Context) -> View:
    """The view of one rule."""
    lines = tuple((watch.name, lines_of(evidence, watch.regex)) for watch in rule.watches)
    return View(lines, clues, evidence.facts, context)


def lines_of(evidence: EvidenceSet, regex: str) -> tuple[Sighting, ...]:
    """The lines that an expression found, in order."""
    found = [
        sighting
        for number, text in enumerate(evidence.texts)
        for hit in text.hits
        if hit.pattern == regex
        for sighting in sightings(text, number, hit)
    ]
    return tuple(sorted(found, key=lambda sighting: sighting.place))
