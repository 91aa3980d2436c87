"""Rules: judgements over several lines or facts, which no single pattern can make.

One file per rule, each with a `RULE`; they are found by walking this package. A rule carries its own
examples: texts in which it fires, and texts in which it stays silent.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from busbw import plugins
from busbw.parsers.findings.evidence import Clue, Context, EvidenceSet, Sighting, View, lines_of
from busbw.parsers.logs.scan import COMMON_LINES, Pattern


@dataclass(frozen=True, slots=True)
class Watch:
    """Lines a rule wants to see."""

    name: str
    regex: str
    """Python's syntax, case ignored, searched in one line."""
    distinct: bool = False
    """As of a `scan.Pattern`: of each process one line for each last word."""
    keep: int = 4
    """As of a `scan.Pattern`: lines kept of each process."""
    unless: str = ""
    """As of a `scan.Pattern`: a line that matches this as well does not count."""
    enough: int = COMMON_LINES
    """So many such lines of a text say it all: behind the 120 kB that have them few others are looked
    for. 0 = one is enough: the rule asks only whether there is any."""

    def pattern(self) -> Pattern:
        """What to search texts for. Rules that watch the same lines share its id."""
        name = f"{self.regex} unless {self.unless}" if self.unless else self.regex
        return Pattern(name, self.regex, self.keep, self.distinct, self.enough, unless=self.unless)


@dataclass(frozen=True, slots=True)
class Fires:
    """A text in which the rule gives a clue for each of these entries, with that weight."""

    text: str
    clues: tuple[tuple[str, str], ...]
    """(symptom id, weight)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One judgement."""

    name: str
    conclusion: str
    """In one sentence what it concludes from what; shown in the documentation."""
    watches: tuple[Watch, ...]
    judge: Callable[[View], Iterable[Clue]]
    """Reads the view and gives clues; a clue that excludes takes an entry out."""
    fires: tuple[Fires, ...]
    silent: tuple[str, ...]
    """Texts in which it says nothing."""


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """The rules, sorted by name."""
    found = plugins.discover(sys.modules[__name__], "RULE").values()
    return tuple(rule for rule in found if isinstance(rule, Rule))


def patterns() -> tuple[Pattern, ...]:
    """What the rules watch."""
    return tuple(watch.pattern() for rule in all_rules() for watch in rule.watches)


def view_for(rule: Rule, evidence: EvidenceSet, clues: tuple[Clue, ...], context: Context) -> View:
    """The view of one rule: of all lines those that it watches, in the order of the texts."""
    id_of = {watch.name: watch.pattern().id for watch in rule.watches}

    def each(watch: str) -> Iterator[Sighting]:
        return lines_of(evidence, id_of[watch])

    def has(watch: str) -> bool:
        return evidence.has(id_of[watch])

    names = tuple(text.artefact for text in evidence.texts)
    return View(each, has, clues, evidence.facts, context, names)
