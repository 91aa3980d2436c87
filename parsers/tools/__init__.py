"""The tools of a node: a module for each (nvidia-smi: for each of its outputs), with its parser and one
`TOOL` that declares all the rest.

A `TOOL` (or a tuple of them) says by which marks an output is known, what its records say in a line
each, which facts they hold for the table of findings, and which errors and gaps they report. It is
found by walking this package; `busbw read`, `busbw why` and the checks all read texts through
`read`. A text may hold the outputs of several tools.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

from busbw import plugins
from busbw.parsers.logs.copied import as_printed_bytes, omission
from busbw.parsers.logs.scan_literals import Marks
from busbw.parsers.logs.tags import by_writer
from busbw.parsers.tools.numbers import RowForm, impossible
from busbw.table_cache import cached
from busbw.text import decoded

R = TypeVar("R")
Value = float | bool | str
"""What a fact holds under a name of the table's expressions."""


@dataclass(frozen=True, slots=True)
class ToolFact:
    """What an output says about one device, under the id of the check that reads the same."""

    check_id: str
    values: tuple[tuple[str, Value], ...]
    subject: str = ""
    """The device or GPU it is about, as the output writes it; "" = the node as a whole."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The output of one tool, read."""

    tool: str
    records: tuple[object, ...]
    lines: tuple[str, ...]
    """Each record in a line, for people."""
    facts: tuple[ToolFact, ...]
    errors: tuple[str, ...]
    """Errors that the tool itself reports."""
    gaps: tuple[str, ...]
    """What of the output is missing."""


def _nothing(records: object) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class Tool(Generic[R]):
    """One tool, or one form of its output."""

    name: str
    """As people type it."""
    marks: tuple[str, ...]
    """One of them is in every output of it; a text without them is not parsed."""
    parse: Callable[[str], tuple[R, ...]]
    """The records in a text; () = the text is not of this tool."""
    lines: Callable[[R], Iterable[str]]
    facts: Callable[[tuple[R, ...]], Iterable[ToolFact]] | None = None
    """None = the table of findings reads nothing of it."""
    errors: Callable[[R], Iterable[str]] = _nothing
    gaps: Callable[[R], Iterable[str]] = _nothing
    needs: tuple[str, ...] = ()
    """Expressions, as `Marks` takes them, of which one matches in every text that `parse` finds
    something in: for a tool whose marks stand in many texts that say nothing. () = none."""
    rows: tuple[RowForm, ...] = ()
    """The lines that carry its numbers: of one that is damaged the text has a gap."""
    parse_data: Callable[[bytes], tuple[R, ...]] | None = None
    """As `parse`, of a text that is not decoded, for a tool whose lines stand in long logs; None =
    it needs the whole text."""

    def read(self, data: bytes, text: Callable[[], str]) -> Reading | None:
        """What a text with its marks says, given as bytes and as what makes text of them; None = it
        is not of this tool."""
        records = self.parse_data(data) if self.parse_data is not None else self.parse(text())
        if not records:
            return None
        return Reading(
            tool=self.name,
            records=records,
            lines=tuple(line for record in records for line in self.lines(record)),
            facts=tuple(self.facts(records)) if self.facts is not None else (),
            errors=tuple(error for record in records for error in self.errors(record)),
            gaps=tuple(dict.fromkeys((*self._damaged(text), *self._gaps(records)))),
        )

    def _gaps(self, records: tuple[R, ...]) -> Iterator[str]:
        for record in records:
            yield from self.gaps(record)
            yield from (f"{self.name}: {number} is none" for number in impossible(record))

    def _damaged(self, text: Callable[[], str]) -> Iterator[str]:
        for form in self.rows:
            if torn := form.torn(text()):
                yield f"{self.name}: a row is torn, or has other than numbers: {torn[:200]!r}"


def one(parse: Callable[[str], R | None]) -> Callable[[str], tuple[R, ...]]:
    """A parser of one record as a parser of several."""

    def records(text: str) -> tuple[R, ...]:
        record = parse(text)
        return () if record is None else (record,)

    return records


class _Declared(NamedTuple):
    """What is known of a tool without importing its module."""

    name: str
    module: str
    marks: tuple[str, ...]
    needs: tuple[str, ...]
    has_facts: bool
    """The table of findings reads it."""


@functools.cache
def _declared() -> tuple[_Declared, ...]:
    """Every tool, by name. From the cache: every text is asked for marks, and few texts are a
    tool's."""
    return cached("node-tools", _described)


def _described() -> tuple[_Declared, ...]:
    found = plugins.discover_with_modules(sys.modules[__name__], "TOOL")
    return tuple(
        _Declared(name, module, tool.marks, tool.needs, tool.facts is not None)
        for name, (module, tool) in found.items()
        if isinstance(tool, Tool)
    )


def _tool(name: str, module: str) -> Tool[object]:
    """The tool of that name, of which only the module is imported."""
    declared = vars(importlib.import_module(module))["TOOL"]
    each = declared if isinstance(declared, tuple) else (declared,)
    return next(tool for tool in each if tool.name == name)


def read(text: str | bytes) -> tuple[Reading, ...]:
    """The outputs in a text, by the names of their tools; () = none that is known. Bytes are decoded,
    and their lines ended by `\\n` alone, where a tool needs it; what people's tools left in them is
    taken out before.

    >>> [(each.tool, each.lines) for each in read("FEC parameters for eth0:\\nActive FEC encoding: RS\\n")]
    [('ethtool --show-fec', ('eth0: configured not shown, active RS',))]
    """
    data = as_printed_bytes(text) if isinstance(text, bytes) else text.encode("utf-8", "replace")
    wanted = _tools_in(data)

    @functools.cache
    def as_text() -> str:
        whole = text if isinstance(text, str) else decoded(data.replace(b"\r\n", b"\n"))
        return by_writer(whole)

    readings = (_tool(each.name, each.module).read(data, as_text) for each in wanted)
    found = [reading for reading in readings if reading is not None]
    left_out = omission(data) if found and isinstance(text, bytes) else ""
    if left_out:
        gap = f"a part of the text was left out: {left_out[:200]!r}"
        found[0] = replace(found[0], gaps=(*found[0].gaps, gap))
    return tuple(found)


def _tools_in(data: bytes) -> tuple[_Declared, ...]:
    """The tools whose marks, and one of whose needs, are in a text."""
    found = _marks_and_needs().numbers_in(data)
    tools: list[_Declared] = []
    number = 0
    for each in _declared():
        behind = number + len(each.marks)
        end = behind + len(each.needs)
        is_met = not each.needs or not found.isdisjoint(range(behind, end))
        if is_met and not found.isdisjoint(range(number, behind)):
            tools.append(each)
        number = end
    return tuple(tools)


def is_marked(head: bytes, *, facts: bool = False) -> bool:
    """Whether the start of a text has a mark of a tool; `facts` = of one that gives facts."""
    return _marks(facts=facts).stand_in(as_printed_bytes(head))


@functools.cache
def _marks(*, facts: bool) -> Marks:
    chosen = (each.marks for each in _declared() if each.has_facts or not facts)
    return Marks(tuple(re.escape(mark) for marks in chosen for mark in marks))


@functools.cache
def _marks_and_needs() -> Marks:
    """Of each tool its marks, then its needs."""
    texts = ((*map(re.escape, each.marks), *each.needs) for each in _declared())
    return Marks(tuple(itertools.chain.from_iterable(texts)))
