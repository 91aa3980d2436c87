"""Rules: judgements over several lines or facts, which no single pattern can make.

One file per rule, each with a `RULE`; `diagnose` finds them by walking this package. A rule carries
its own examples: texts in which it fires, and texts in which it stays silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from busbw.parsers.findings.evidence import Clue, View


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
    once: bool = False
    """One such line of a text says it all: behind it few others are looked for."""


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
