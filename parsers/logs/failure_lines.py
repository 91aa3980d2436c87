"""Which lines report a failure: the wordings of every writer, as data (`failure_lines.yaml`).

>>> reports_failure("worker 3: [ERROR] lost its peer"), reports_failure("checks done: errors: 0")
(True, False)
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from dataclasses import dataclass

from busbw import codec
from busbw.errors import ReadError
from busbw.parsers.logs.scan import Pattern, Scan, Scanner, scanner_of
from busbw.table_cache import cached

_KEEP = 64
"""Lines kept of each process: a harmless remark repeated often must not hide the failure behind."""
_AFTER = 12
"""Lines kept behind each: frames of a crash, the rest of a message."""


@dataclass(frozen=True, slots=True)
class Writer:
    """How one kind of program reports a failure."""

    name: str
    expressions: tuple[str, ...]
    matches: tuple[str, ...]
    """Lines that must match, each with one expression at least."""
    rejects: tuple[str, ...]
    """Lines that must match no expression of this writer."""
    words: bool = False
    """True = general words, which count only in a line without any of `Lexicon.harmless`."""
    unless: tuple[str, ...] = ()
    """Of general words: what else makes a line harmless."""
    finding: str | None = None
    """The entry of the catalogue that says what such a failure amounts to, where nothing else is
    known; None = there is none."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The wordings of all writers."""

    writers: tuple[Writer, ...]
    harmless: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailureLine:
    """One line of a text that reports a failure."""

    line_no: int
    text: str
    is_certain: bool
    """A writer's own wording; False = general words only."""


@functools.cache
def load() -> Lexicon:
    """The lexicon as packaged. Read once."""
    return cached("failure-lines", _packaged)


def _packaged() -> Lexicon:
    file = importlib.resources.files(__package__) / "failure_lines.yaml"
    return codec.load_yaml(file.read_text(encoding="utf-8"), file.name, Lexicon, error=ReadError)


@functools.cache
def patterns_of(writer: Writer) -> tuple[Pattern, ...]:
    """What to search texts for. A general word counts only in a line without what makes it
    harmless, so that no harmless line takes the place of a failure."""
    if not writer.words:
        return tuple(Pattern(each, each, keep=_KEEP, after=_AFTER) for each in writer.expressions)
    harmless = "|".join((*load().harmless, *writer.unless))
    return tuple(
        Pattern(f"words: {each}", each, keep=_KEEP, after=_AFTER, unless=harmless)
        for each in writer.expressions
    )


@functools.cache
def patterns(*, words: bool | None = None) -> tuple[Pattern, ...]:
    """The patterns of the writers' own wordings, of the general words, or (None) of both."""
    chosen = (writer for writer in load().writers if words in (None, writer.words))
    return tuple(pattern for writer in chosen for pattern in patterns_of(writer))


def reports_failure(line: str) -> bool:
    """Whether the line reports a failure, by any wording."""
    return writer_of(line) is not None


@functools.lru_cache(maxsize=4096)
def is_harmless(line: str) -> bool:
    """Whether the lexicon knows the line as one that says nothing of a failure."""
    return _harmless().search(line) is not None


@functools.cache
def _harmless() -> re.Pattern[str]:
    return re.compile("|".join(load().harmless), re.IGNORECASE)


def writer_of(line: str) -> Writer | None:
    """Whose wording it is by which the line reports a failure; None = nobody's."""
    ids = _scanner().ids_in(line)
    return _writers()[ids[0]] if ids else None


@functools.cache
def _scanner() -> Scanner:
    """Not asked of `scanner_of` for each line: to hash all patterns takes longer than the search."""
    return scanner_of(patterns())


@functools.cache
def _writers() -> dict[str, Writer]:
    """Id of a pattern → its writer."""
    return {pattern.id: writer for writer in load().writers for pattern in patterns_of(writer)}


def lines_in(scan: Scan) -> tuple[FailureLine, ...]:
    """The lines that report a failure, in order: the first ones of each wording and process.

    scan: of a text, for `patterns`.

    >>> from busbw.parsers.logs.scan import Scanner
    >>> scan = Scanner(patterns()).scan([b"errors: 0\\nbash: mpirun: command not found\\n"])
    >>> [each.line_no for each in lines_in(scan)]
    [2]
    """
    own = {each.id for each in patterns(words=False)}
    lines: dict[int, FailureLine] = {}
    for hit in scan.hits:
        for line in hit.examples:
            known = lines.get(line.line_no)
            is_certain = hit.pattern in own or (known is not None and known.is_certain)
            lines[line.line_no] = FailureLine(line.line_no, line.text, is_certain)
    return tuple(lines[line_no] for line_no in sorted(lines))
