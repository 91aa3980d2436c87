"""Which things of this field a text names, and what each wrong with them usually comes from
(`things.yaml`, where its form is told).

>>> [table().things[number].name for number in numbers("munged: authentication failed")][:1]
['munge']
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw import codec
from busbw.errors import ReadError
from busbw.parsers.findings import catalogue
from busbw.parsers.logs.scan_sieve import branches_of
from busbw.table_cache import cached


@dataclass(frozen=True, slots=True)
class Cause:
    """What a pair usually comes from."""

    entries: tuple[str, ...]
    """The likeliest first."""
    is_guess: bool
    """`?`: where nothing else says why."""


@dataclass(frozen=True, slots=True)
class Thing:
    """Something of this field that a text names."""

    name: str
    words: str
    """Python `re`, case ignored; compiled for the first line that has one of its literals."""
    causes: Mapping[str, Cause]
    """By wrong; `state` stands for each value of a cell, `any` for each wrong that is not named,
    `said` for words that are thing and wrong in one."""
    is_general: bool
    """Programs of every field speak of it."""


@dataclass(frozen=True, slots=True)
class Table:
    """The packaged things, the more telling first: of two equally near the first counts."""

    things: tuple[Thing, ...]
    literals: tuple[tuple[str, int], ...]
    """(Text in small letters that a line with the thing must have, number of the thing); "" = none
    is known."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a line amounts to."""

    thing: str
    wrong: str
    """Or `any`, `state`, `said`, where the thing has no cause of its own for the wrong."""
    distance: int
    """Characters between the words of the thing and those of the failure; 0 in a table's row."""
    entries: tuple[str, ...]
    is_general: bool = False
    """Programs of every field speak of such a thing."""


@dataclass(frozen=True, slots=True)
class _File:
    names: dict[str, str]
    """Stand for longer words: `<nic>`."""
    things: dict[str, dict[str, str | list[str]]]
    general: dict[str, dict[str, str | list[str]]]


@functools.cache
def table() -> Table:
    """The packaged table. Read when a line is first asked about."""
    return cached("things", _packaged)


def _packaged() -> Table:
    path = importlib.resources.files(__package__) / "things.yaml"
    file = codec.load_yaml(path.read_text(encoding="utf-8"), path.name, _File, error=ReadError)
    own = [_thing(name, row, file.names, is_general=False) for name, row in file.things.items()]
    own += [_thing(name, row, file.names, is_general=True) for name, row in file.general.items()]
    literals: set[tuple[str, int]] = set()
    for branch in branches_of(thing.words for thing in own):
        literals.update((literal.decode(), branch.index) for literal in branch.literals or (b"",))
    return Table(tuple(own), tuple(sorted(literals)))


def _thing(
    name: str, row: Mapping[str, str | list[str]], names: Mapping[str, str], *, is_general: bool
) -> Thing:
    given = row["words"]
    words = given if isinstance(given, str) else "|".join(given)
    for short, long in names.items():
        words = words.replace(f"<{short}>", long)
    causes = {}
    for keys, text in row.items():
        if keys != "words":
            causes.update(dict.fromkeys(keys.split(), _cause(str(text))))
    if "any" in causes and not causes["any"].is_guess:
        causes.setdefault("said", causes["any"])
    return Thing(name, words, causes, is_general)


def _cause(text: str) -> Cause:
    return Cause(tuple(text.rstrip("?").split()), is_guess=text.endswith("?"))


_HOST = re.compile(
    r"(?:\b[a-z]{1,8}-)?\bgpus?(?:-?\d{2,}|-[a-z]\d+|-[a-z]{2,12}(?=[:~\]]))(?![\w.]*:[\da-f])",
    re.IGNORECASE,
)


def without_hosts(text: str) -> str:
    """The text with `node` for hosts that are called after their GPUs: none of them is one.

    >>> without_hosts("[ops@gpu-07 ~]$ make: device busy"), without_hosts("GPU 3, gpu3 or gpu-4 is busy")
    ('[ops@node ~]$ make: device busy', 'GPU 3, gpu3 or gpu-4 is busy')
    """
    return _HOST.sub("node", text) if "gpu" in text.casefold() else text


def numbers(text: str) -> list[int]:
    """The numbers of the things of which a text has a literal, in order."""
    low = text.lower()
    return sorted({number for literal, number in table().literals if literal in low})


def first(text: str, wrongs: Sequence[str], *, guesses: bool = True) -> Reading | None:
    """The first thing that a text names and that has a cause for one of the wrongs, the first of
    them counting. A guess counts with `guesses` only."""
    for number in numbers(text):
        thing = table().things[number]
        wrong = next((each for each in wrongs if each in thing.causes), None)
        if wrong is None or (thing.causes[wrong].is_guess and not guesses):
            continue
        if catalogue.compiled(thing.words).search(text):
            return Reading(thing.name, wrong, 0, thing.causes[wrong].entries)
    return None


def entries() -> Iterator[str]:
    """Every entry that the table names."""
    for thing in table().things:
        for cause in thing.causes.values():
            yield from cause.entries
