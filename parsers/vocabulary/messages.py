"""What a line of a known writer means: its fixed words looked up in the tables beside this module.

A table is one YAML file for each writer, made with `docs/tools/vocabulary.py` from that writer's
releases. Its first document says which lines are the writer's, the second what they mean: this one
is read when such a line is there. Each message is given by the shortest run of its fixed words that
no message of another meaning has. Case, punctuation, numbers in their places and the wrapping of
lines do not matter.

>>> words("NET/IB : Got completion from peer %s".replace("%s", GAP))
'net ib got completion from peer …'
>>> groups = (Group(Kind.FINDING, "1 a.c  bad * of lane", {"a": "weak"}),)
>>> Lookup(messages("x", groups)).find(words("X: BAD state (3) of lane 4")).group.findings
{'a': 'weak'}
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from busbw import codec
from busbw.errors import ReadError
from busbw.table_cache import cached

GAP = "…"
"""Stands for an argument in a message, and for a line end."""
_WORD = re.compile(rf"[a-z0-9_]+|{GAP}")
_TORN = re.compile(rf"[a-z0-9_]+(?={GAP})|(?<={GAP})[a-z0-9_]+")
_MESSAGE = re.compile(r"(\S+) +(\S+)  +(\S.*)")
_GAPS = re.compile(rf"(?: {GAP})+")
_FILE = re.compile(r"\b(\w+\.(?:cc?|cpp|h|hpp|inl)):\d+")
_TELLING = 20
"""Letters of fixed words from which on a message is told by them alone. Shorter ones (`is not set`)
stand in the lines of other files too."""
_HASH_BYTES = 3


class Kind(StrEnum):
    """What a message is."""

    FINDING = "finding"
    """It points at entries of the catalogue."""
    SECONDARY = "secondary"
    """It passes on what another message says first."""
    INTERNAL = "internal"
    """A fault or a limit of the library that prints it."""
    USAGE = "usage"
    """The caller made a wrong call."""
    HARMLESS = "harmless"
    """Nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Group:
    """Messages of one meaning."""

    kind: Kind
    messages: str
    """One a line: since which release, the file, two spaces, the fixed words; ` * ` is a gap."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """Id of an entry → weight of the clue."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Whose messages a table has."""

    writer: str
    title: str
    source: str
    """The repository and the releases that were read."""
    lines: str
    """Which lines carry its messages at the level of a warning or worse: Python `re`."""
    like: str = ""
    """The writer whose messages these lines carry; "" = its own."""
    after: int = 0
    """How many lines behind each such line belong to the message."""
    open: bool = False
    """True = such lines also carry the texts of others: what is in no group is no message of its
    own."""
    places: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Which part of the writer a line comes from, by the function or file that it names (Python
    `re`) → id of an entry → weight. Decides where no message of the table is in the line, as in a
    line of a newer release."""


@dataclass(frozen=True, slots=True)
class Meanings:
    """The messages of one writer, by meaning."""

    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One entry of a table; equal to itself only."""

    since: str
    file: str
    parts: tuple[str, ...]
    """Runs of fixed words, in order, each between spaces."""
    group: Group

    def length(self) -> int:
        """Of its fixed words."""
        return sum(map(len, self.parts))

    def is_in(self, text: str) -> bool:
        """Its runs of words stand in the text, in order."""
        at = 0
        for part in self.parts:
            at = text.find(part, at)
            if at < 0:
                return False
            at += len(part) - 1
        return True


def words(text: str) -> str:
    """The words of a message or a line, in lower case, with a space between; a word that touches
    an argument is part of it."""
    text = text.lower()
    if GAP not in text:
        return " ".join(_WORD.findall(text))
    return _GAPS.sub(f" {GAP}", " ".join(_WORD.findall(_TORN.sub("", text))))


def hashed(text: str) -> str:
    """The words by their hashes: what tests keep of the sources.

    >>> hashed("no device … entries") == hashed("No device … entries")
    False
    """
    return " ".join(GAP if word == GAP else _hash(word) for word in text.split())


def _hash(word: str) -> str:
    return hashlib.blake2b(word.encode(), digest_size=_HASH_BYTES).hexdigest()


def messages(writer: str, groups: Iterable[Group]) -> tuple[Message, ...]:
    """The entries of a writer's table.

    Raises:
        ReadError: a line is not `SINCE FILE  WORDS`.
    """
    entries = []
    for group in groups:
        for line in group.messages.splitlines():
            match = _MESSAGE.fullmatch(line)
            if match is None:
                raise ReadError(
                    f"{writer}: {line!r} is not SINCE FILE  WORDS",
                    next_step="correct the line in parsers/vocabulary",
                )
            parts = tuple(f" {each.strip()} " for each in match[3].split("*"))
            entries.append(Message(match[1], match[2], parts, group))
    return tuple(entries)


class Lookup:
    """The messages of a table, by the longest word of each."""

    def __init__(self, entries: Iterable[Message]) -> None:
        self._by_word: dict[str, list[Message]] = {}
        for message in entries:
            anchor = max("".join(message.parts).split(), key=len)
            self._by_word.setdefault(anchor, []).append(message)

    def find(self, text: str, file: str = "") -> Message | None:
        """The message with most fixed words in a text of `words`; None = there is none.

        file: the source file that the line names as its origin; "" = it names none.
        """
        padded = f" {text} "
        best: Message | None = None
        for word in set(text.split()):
            for message in self._by_word.get(word, ()):
                is_other = file and message.length() < _TELLING and not message.file.endswith(file)
                if is_other:
                    continue
                if (best is None or message.length() > best.length()) and message.is_in(padded):
                    best = message
        return best


@functools.cache
def writers() -> tuple[Writer, ...]:
    """The writers that have a table, by file name. Read once.

    Raises:
        ReadError: the head of a table is not of this form.
    """
    return cached("writers", _packaged_writers)


def _packaged_writers() -> tuple[Writer, ...]:
    heads = []
    for name in sorted(file.name for file in importlib.resources.files(__package__).iterdir()):
        if name.endswith(".yaml"):
            heads.append(codec.load_yaml(_documents(name)[0], name, Writer, error=ReadError))
    return tuple(heads)


@functools.cache
def groups(writer: str) -> tuple[Group, ...]:
    """What a writer's messages mean, as packaged. Read once.

    Raises:
        ReadError: the table is not of this form.
    """
    return cached(f"messages-{writer}", functools.partial(_packaged_groups, f"{writer}.yaml"))


def _packaged_groups(name: str) -> tuple[Group, ...]:
    return codec.load_yaml(_documents(name)[1], name, Meanings, error=ReadError).groups


def _documents(name: str) -> tuple[str, str]:
    """Both documents of a table, each at its place in the file."""
    text = (importlib.resources.files(__package__) / name).read_text(encoding="utf-8")
    head, _, body = text.partition("\n---\n")
    return head, "\n" * (head.count("\n") + 2) + body


@functools.cache
def lookup(writer: str) -> Lookup:
    """The messages of a writer, ready to look lines up."""
    like = next(each.like for each in writers() if each.writer == writer)
    return lookup(like) if like else Lookup(messages(writer, groups(writer)))


def place(writer: Writer, line: str) -> Mapping[str, str]:
    """The entries of the part of the writer that a line names as its origin.

    >>> driver = Writer("x", "X", "", "X: ", places={r"klink\\w*:": {"a": "weak"}})
    >>> dict(place(driver, "X: klinkTrain: no such words before")), dict(place(driver, "X: other"))
    ({'a': 'weak'}, {})
    """
    for expression, findings in writer.places.items():
        if re.search(expression, line):
            return findings
    return {}


def meaning(writer: str, line: str) -> Message | None:
    """What the table of a writer has for a line; None = nothing: its text is unmapped.

    >>> known = meaning("nccl", "gpu1:41:42 [0] NCCL WARN rank 0 and rank 1 both on CUDA device 1000")
    >>> dict(known.group.findings)
    {'duplicate-gpu': 'strong'}
    """
    file = _FILE.search(line)
    return lookup(writer).find(words(line), file[1] if file else "")
