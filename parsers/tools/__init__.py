"""The tools of a node: a module for each, with its parser and one `TOOL` that declares all the rest.

A `TOOL` (or a tuple of them) says by which marks an output is known, what its records say in a line
each, which facts they hold for the table of findings, and which errors and gaps they report. It is
found by walking this package; `busbw read`, `busbw why` and the checks all read texts through
`read`. A text may hold the outputs of several tools.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from busbw import plugins
from busbw.parsers.logs.scan_literals import Marks
from busbw.table_cache import cached

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

    def read(self, text: str) -> Reading | None:
        """What the text says; None = it is not of this tool."""
        if not any(mark in text for mark in self.marks):
            return None
        records = self.parse(text)
        if not records:
            return None
        return Reading(
            tool=self.name,
            records=records,
            lines=tuple(line for record in records for line in self.lines(record)),
            facts=tuple(self.facts(records)) if self.facts is not None else (),
            errors=tuple(error for record in records for error in self.errors(record)),
            gaps=tuple(gap for record in records for gap in self.gaps(record)),
        )


def one(parse: Callable[[str], R | None]) -> Callable[[str], tuple[R, ...]]:
    """A parser of one record as a parser of several."""

    def records(text: str) -> tuple[R, ...]:
        record = parse(text)
        return () if record is None else (record,)

    return records


@functools.cache
def _declared() -> tuple[tuple[str, str, tuple[str, ...], bool], ...]:
    """Name, module and marks of every tool, by name, and whether the table of findings reads it. From
    the cache: every text is asked for marks, and few texts are a tool's."""
    return cached("node-tools", _described)


def _described() -> tuple[tuple[str, str, tuple[str, ...], bool], ...]:
    found = plugins.discover_with_modules(sys.modules[__name__], "TOOL")
    return tuple(
        (name, module, tool.marks, tool.facts is not None)
        for name, (module, tool) in found.items()
        if isinstance(tool, Tool)
    )


def _tool(name: str, module: str) -> Tool[object]:
    """The tool of that name, of which only the module is imported."""
    declared = vars(importlib.import_module(module))["TOOL"]
    each = declared if isinstance(declared, tuple) else (declared,)
    return next(tool for tool in each if tool.name == name)


def read(text: str) -> tuple[Reading, ...]:
    """The outputs in a text, by the names of their tools; () = none that is known.

    >>> [(each.tool, each.lines) for each in read("FEC parameters for eth0:\\nActive FEC encoding: RS\\n")]
    [('ethtool --show-fec', ('eth0: configured not shown, active RS',))]
    """
    marked = _marks(facts=False).numbers_in(text.encode("utf-8", "replace"))
    each_mark = ((name, module) for name, module, marks, _ in _declared() for _ in marks)
    wanted = dict.fromkeys(each for number, each in enumerate(each_mark) if number in marked)
    readings = (_tool(name, module).read(text) for name, module in wanted)
    return tuple(reading for reading in readings if reading is not None)


def is_marked(head: bytes, *, facts: bool = False) -> bool:
    """Whether the start of a text has a mark of a tool; `facts` = of one that gives facts."""
    return _marks(facts=facts).stand_in(head)


@functools.cache
def _marks(*, facts: bool) -> Marks:
    chosen = (marks for _, _, marks, has_facts in _declared() if has_facts or not facts)
    return Marks(tuple(re.escape(mark) for marks in chosen for mark in marks))
