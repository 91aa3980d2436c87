"""One module per text format: bytes in, a `Document` out. This file knows what such a module offers
(`FORMAT`) and what it gives back.

A module that reads a format defines `FORMAT = Format(…)`; `formats.formats()` finds it by walking
this package: no list to extend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

HEAD_BYTES = 65536
"""`looks_like` is given at most this much from the start of a text."""


@dataclass(frozen=True, slots=True)
class Document:
    """What one text was read as."""

    kind: str
    """The format's name: `nccl-tests`, `nccl-debug`, `nccl-ras`…"""
    records: tuple[object, ...]
    """Frozen dataclasses of str, int, float, bool, None, enums, tuples and further such records;
    printed as JSON field by field."""
    summary: tuple[tuple[str, str], ...]
    """(label, value) lines for people, in the order to be shown; a repeated label continues the one
    before."""
    complete: bool
    """False = the text was cut off, or part of it could not be read; `problems` says why."""
    problems: tuple[str, ...]
    """All that is wrong, in words; each names the line where there is one."""
    faults: tuple[str, ...] = ()
    """Those of `problems` that make the result bad whether complete or not (wrong data, an error
    the text reports): exit status 1."""
    quoted: frozenset[int] = frozenset()
    """Numbers of the lines that `problems` quote, in other words or cut: nobody else needs to show
    them."""


@dataclass(frozen=True, slots=True)
class Format:
    """One way of writing something down, and how to read it."""

    name: str
    """kebab-case, unique; the `kind` of its documents, where several formats do not share one."""
    title: str
    """For people: `nccl-tests table`, `NCCL debug log`."""
    looks_like: Callable[[bytes], float]
    """How sure it is, 0..1, from the first `HEAD_BYTES` of a text. 0 = certainly not. Never
    raises."""
    read: Callable[[Iterable[bytes]], Document]
    """Reads a whole text, given as chunks of bounded size that end anywhere (also inside a line or
    a character), in constant memory.

    Raises:
        UnknownLayout: nothing in the text is of this format; `seen` quotes its first line that is
        not blank. Nothing else is raised."""
    embedded: bool = False
    """True = pieces of it stand inside other texts and far behind their start (log lines around a
    table): it is tried on every text that is not JSON or binary, whatever `looks_like` said, and a
    text may have several such kinds. Its `read` skips foreign lines quickly."""
