"""Clues from the vocabulary of the writers: what each line of a known library means, where no
expression of the catalogue knows it.

A line of such a library whose text is in no table is a clue to `unmapped-message`: it is shown, and
never more than possible.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import NO_PLACE, Clue, Place, Sighting, Text
from busbw.parsers.findings.named_places import places
from busbw.parsers.logs.scan import Hit, Pattern
from busbw.parsers.vocabulary import messages
from busbw.parsers.vocabulary.messages import Message, Writer

SOURCE = "vocabulary"
UNMAPPED = "unmapped-message"
RESTATEMENTS = (UNMAPPED, "secondary-error", "library-internal-error")
"""Entries that say no more than the line itself: with these alone nothing is explained."""
_KEEP = 64
"""Lines kept of each process: a remark repeated often must not hide the message behind."""
_NOT_A_SIGN = (Weight.EXCLUDES, Weight.REQUIRES)
_DIGITS = re.compile(r"\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b")


@functools.cache
def patterns() -> tuple[Pattern, ...]:
    """What to search texts for: the lines of each writer."""
    return tuple(
        Pattern(_pattern_id(writer), writer.lines, keep=_KEEP, after=writer.after)
        for writer in messages.writers()
    )


def message_clues(texts: Iterable[Text], clues: Iterable[Clue]) -> list[Clue]:
    """Clues from the lines of the writers, without those of which `clues` has a sign already, there
    or in a line of the same message."""
    signs = [clue for clue in clues if clue.weight not in _NOT_A_SIGN]
    # Of a condensed text they are made already, by its own signs: facts may be about its lines too.
    by_facts = {clue.evidence.artefact for clue in signs if clue.place == NO_PLACE}
    chosen: list[Clue] = []
    writers = {_pattern_id(writer): writer for writer in messages.writers()}
    known: set[tuple[str, int | None]] = set()
    for number, text in enumerate(texts):
        if text.clues is not None and text.artefact not in by_facts:
            chosen += text.clues.messages.of(text.artefact, number)
            continue
        known = known or {(clue.evidence.artefact, clue.evidence.line_no) for clue in signs}
        hits: dict[str, list[Hit]] = {name: [] for name in writers}
        for hit in text.hits:
            if hit.pattern in hits:
                hits[hit.pattern].append(hit)
        for name, own in hits.items():
            if own:
                chosen += _of_writer(writers[name], tuple(_lines(own, text, number)), known)
    return chosen


def _pattern_id(writer: Writer) -> str:
    return f"vocabulary:{writer.writer}"


def _lines(hits: Iterable[Hit], text: Text, number: int) -> Iterator[Sighting]:
    """The lines of a writer, and those behind each that belong to the message."""
    for hit in hits:
        for example in hit.examples:
            for at, line in enumerate((example.text, *example.after)):
                place = Place(number, example.line_no + at)
                yield Sighting(text.artefact, place, line, hit.process, hit.line_count)


def _of_writer(
    writer: Writer, lines: tuple[Sighting, ...], known: set[tuple[str, int | None]]
) -> list[Clue]:
    keys: dict[Sighting, Message | str] = {}
    by_shape: dict[str, Message | str] = {}
    for line in lines:
        shape = _DIGITS.sub("0", line.text)
        if shape not in by_shape:
            by_shape[shape] = messages.meaning(writer.writer, line.text) or messages.words(shape)
        keys[line] = by_shape[shape]
    explained = set()
    for line, key in keys.items():
        if (line.artefact, line.place.line_no) in known:
            explained.add(key)
    firsts: dict[tuple[Message | str, str | None], Sighting] = {}
    for line, key in keys.items():
        if key not in explained:
            firsts.setdefault((key, line.process), line)
    clues: list[Clue] = []
    for (key, _), line in firsts.items():
        clues += _clues(writer, line, key)
    return clues


def _clues(writer: Writer, line: Sighting, key: Message | str) -> Iterator[Clue]:
    if isinstance(key, Message):
        findings = key.group.findings
    else:
        findings = messages.place(writer, line.text)
        if not (findings or writer.open):
            findings = {UNMAPPED: Weight.WEAK}
    where = places(line.text)
    for entry_id, weight in findings.items():
        yield line.clue(entry_id, Weight(weight), SOURCE, where)
