"""What to search texts for, and what of a searched text is kept where there are a thousand.

Of a thousand texts, what each says by itself is worked out where it was searched, and of what was
found in it only that is kept, packed, which is compared between texts.
"""

from __future__ import annotations

import functools

from busbw.parsers.findings import (
    catalogue,
    contradictions,
    courses,
    crashes,
    guesses,
    help_blocks,
    line_owners,
    makers,
    message_clues,
    recoveries,
    rules,
    signs,
)
from busbw.parsers.findings.evidence import PackedClues, PackedHits, Text, TextClues
from busbw.parsers.logs import failure_lines
from busbw.parsers.logs.scan import Pattern, Scanner


def search_patterns() -> tuple[Pattern, ...]:
    """What to search texts for: the expressions of the catalogue and of the rules, each once."""
    by_regex = {pattern.id: pattern for pattern in signs.patterns(catalogue.load())}
    for pattern in (*rules.patterns(), *makers.patterns()):
        known = by_regex.setdefault(pattern.id, pattern)
        if known.common_after < pattern.common_after:
            by_regex[pattern.id] = pattern
    for pattern in _kept_longer():  # they need more lines than the catalogue's expressions
        by_regex[pattern.id] = pattern
    return (*by_regex.values(), *message_clues.patterns())


@functools.cache
def scanner() -> Scanner:
    """The scanner for `search_patterns` of this process: building it takes longer than searching a
    small file."""
    return Scanner(search_patterns())


def _kept_longer() -> tuple[Pattern, ...]:
    return (
        *contradictions.patterns(),
        *courses.patterns(),
        *crashes.patterns(),
        *failure_lines.patterns(),
        *help_blocks.patterns(),
        *line_owners.patterns(),
        *recoveries.patterns(),
    )


@functools.cache
def _compared() -> frozenset[str]:
    """The patterns whose lines are asked for when all texts are there: all but those that are the
    catalogue's alone."""
    others = (*rules.patterns(), *makers.patterns(), *_kept_longer(), *message_clues.patterns())
    return frozenset(pattern.id for pattern in others)


def condensed(text: Text) -> Text:
    """The text as `diagnose` needs it among many others with other names: the findings are the same,
    in a tenth of the memory. How many lines speak for one is cut short (`signs.brief_clues`)."""
    clues = signs.brief_clues(catalogue.load(), text)
    messages = message_clues.message_clues((text,), clues)
    of_itself = TextClues(PackedClues(clues), PackedClues(messages), guesses.is_of_field(text))
    compared = _compared()
    hits = [hit for hit in text.hits if hit.pattern in compared]
    return Text(text.artefact, PackedHits(hits), text.lines, of_itself)
