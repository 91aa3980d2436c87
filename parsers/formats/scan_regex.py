"""What every line that an expression matches must contain: its plain text, and what is left of it without digits and hex letters.

`scan` looks at gigabytes and cannot run hundreds of expressions on each line. Two necessary conditions are derived from an expression:

- `required_literals`: strings of which every match contains at least one;
- `erased`: an expression that matches the *shape* of every line the original matches: the line without `0-9a-f`, in lower case.

Written against Python 3.11's `re` syntax, as far as the tables use it; the rest is refused by name, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

HEX = "0123456789abcdef"
"""What a shape leaves out: the characters of numbers and addresses."""
_ERASE = str.maketrans("", "", HEX + "ABCDEF")
_PLAIN = re.compile(r"[\w /:,'\"=@%<>&;!~#-]+(?![*+?{])")
"""Characters that stand for themselves and are not repeated."""
_GROUP = re.compile(r"\((?:\?(?::|P<\w+>|[aiLmsux]*(?:-[imsx]+)?:|=|!|<=|<!))?")
_INLINE_FLAGS = re.compile(r"\(\?[aiLmsux]+\)")
_CHAR_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d*)(,?)(\d*)\})[?+]?")
_MOST_ALTERNATIVES = 32
"""Longest list of alternatives kept as literals; beyond it the part counts as unknown."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of an expression: what it matches exactly, what it must contain, what its shape matches."""

    erased: str
    exact: frozenset[str] | None = None
    """All strings it can match, in lower case; None = not a short list."""
    required: frozenset[str] | None = None
    """Every match contains one of these; None = nothing is known."""

    def contains(self) -> frozenset[str] | None:
        """The strings of which every match contains one."""
        return self.exact if self.exact is not None and "" not in self.exact else self.required


def shape_of(text: str) -> str:
    """The text without digits and hex letters, in lower case.

    >>> shape_of("node3:41011 [0] NCCL INFO comm 0x7f3a - Init COMPLETE")
    'no: [] nl ino omm x - init omplt'
    """
    return text.translate(_ERASE).lower()


def required_literals(pattern: str) -> tuple[str, ...]:
    """Strings, in lower case, of which every line that `pattern` matches contains at least one; () = none could be derived.

    >>> required_literals(r"NET/IB ?: No device found")
    ('net/ib : no device found', 'net/ib: no device found')
    >>> required_literals(r"vendor.err(?:=| )(?:129|249)")
    ('vendor',)

    Raises:
        ValueError: `pattern` uses syntax this module does not know, or its groups or classes are not closed.
    """
    return tuple(sorted(_parse(pattern).contains() or ()))


def erased(pattern: str) -> str:
    """An expression that matches `shape_of(line)` for every line that `pattern` matches.

    >>> erased(r"via NET/IB/\\d+(?:/Shared)?$")
    'vi\\\\ nt/i/(?:(?:/shr))?$'

    Raises:
        ValueError: as `required_literals`.
    """
    return _parse(pattern).erased


@cache
def _parse(pattern: str) -> _Part:
    reader = _Reader(pattern)
    part = reader.alternatives()
    if reader.position != len(pattern):
        raise ValueError(f"unbalanced group in {pattern!r} at {reader.position}")
    return part


class _Reader:
    """Recursive descent over one expression. It is not compiled for that: that takes as long again, and most are never needed."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0

    def peek(self) -> str:
        return self.pattern[self.position : self.position + 1]

    def alternatives(self) -> _Part:
        parts = [self.sequence()]
        while self.peek() == "|":
            self.position += 1
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else _any_of(parts)

    def sequence(self) -> _Part:
        parts = []
        while self.peek() and self.peek() not in "|)":
            plain = _PLAIN.match(self.pattern, self.position)
            if plain is not None:
                self.position = plain.end()
                parts.append(_literal(plain.group()))
            else:
                parts.append(self.quantified(self.atom()))
        return _in_a_row(parts)

    def atom(self) -> _Part:
        char = self.peek()
        if char == "(":
            return self.group()
        if char == "[":
            return self.char_class()
        if char == "\\":
            return self.escape()
        if char in "*+?":
            raise ValueError(f"nothing to repeat in {self.pattern!r} at {self.position}")
        self.position += 1
        if char in "^$":
            return _Part(erased=char)
        return _class_part(".") if char == "." else _literal(char)

    def group(self) -> _Part:
        opening = _GROUP.match(self.pattern, self.position)
        inline = _INLINE_FLAGS.match(self.pattern, self.position)
        if inline:
            self.position = inline.end()
            return _Part(erased="", exact=frozenset({""}))
        if opening is None or (self.pattern.startswith("(?", self.position) and opening.group() == "("):
            raise ValueError(f"group not known here: {self.pattern[self.position : self.position + 4]!r} in {self.pattern!r}")
        self.position = opening.end()
        inside = self.alternatives()
        self.position += 1
        if opening.group() in ("(?=", "(?!", "(?<=", "(?<!"):
            return _Part(erased="")
        return _Part(f"(?:{inside.erased})", inside.exact, inside.required)

    def char_class(self) -> _Part:
        found = _CHAR_CLASS.match(self.pattern, self.position)
        if found is None:
            raise ValueError(f"class not understood in {self.pattern!r} at {self.position}")
        self.position = found.end()
        return _class_part(found.group())

    def escape(self) -> _Part:
        char = self.pattern[self.position + 1 : self.position + 2]
        if not char:
            raise ValueError(f"nothing behind the last character of {self.pattern!r}")
        self.position += 2
        if char in "bBAZ":
            # Word boundaries move when characters are left out: nothing can be demanded of the shape.
            return _Part(erased="" if char in "bB" else "\\" + char)
        if char in "dDwWsS":
            return _class_part("\\" + char)
        if char in "tnrfv":
            return _Part(erased="\\" + char)
        if char.isalnum():
            raise ValueError(f"escape not known here: \\{char} in {self.pattern!r}")
        return _literal(char)

    def quantified(self, part: _Part) -> _Part:
        found = _QUANTIFIER.match(self.pattern, self.position)
        if found is None or found.group() == "{,}":
            return part
        self.position = found.end()
        text = found.group()
        optional = text[0] in "*?" or (text[0] == "{" and int(found.group(1) or 0) == 0)
        if text[0] == "?" and part.exact is not None:
            return _Part(_repeat(part.erased, "?"), part.exact | {""})
        return _Part(_repeat(part.erased, "*"), None, None if optional else part.contains())


def _literal(text: str) -> _Part:
    return _Part(re.escape(shape_of(text)), frozenset({text.lower()}))


@cache
def _class_part(text: str) -> _Part:
    """A class that may stand for a digit or hex letter may be missing from the shape."""
    compiled = re.compile(text, re.IGNORECASE)
    members = frozenset(chr(code) for code in range(32, 127) if compiled.fullmatch(chr(code)))
    lowered = frozenset(char.lower() for char in members)
    may_vanish = bool(lowered & set(HEX))
    rest = "" if lowered <= set(HEX) else f"(?:{text}?)" if may_vanish else text
    small = not text.startswith("[^") and text.startswith("[") and len(lowered) <= 4
    return _Part(rest, lowered if small else None)


def _repeat(erased_text: str, quantifier: str) -> str:
    """Lower bounds are dropped: a repeated piece may have been all digits."""
    single = len(erased_text) == 1 or (len(erased_text) == 2 and erased_text[0] == "\\")
    if not erased_text or single:
        return erased_text + quantifier if erased_text else ""
    inner = re.fullmatch(r"\(\?:(\.|\\[DwWsS]|\[(?:\\.|[^\]\\])*\])\?\)", erased_text)
    return (inner.group(1) if inner else f"(?:{erased_text})") + quantifier


def _any_of(parts: list[_Part]) -> _Part:
    erased_text = "|".join(part.erased for part in parts)
    exact = [part.exact for part in parts]
    if all(each is not None for each in exact):
        union = frozenset().union(*(each for each in exact if each is not None))
        if len(union) <= _MOST_ALTERNATIVES:
            return _Part(erased_text, union)
    needed = [part.contains() for part in parts]
    if any(each is None for each in needed):
        return _Part(erased_text)
    union = frozenset().union(*(each for each in needed if each is not None))
    return _Part(erased_text, None, union if len(union) <= _MOST_ALTERNATIVES else None)


def _in_a_row(parts: list[_Part]) -> _Part:
    """Neighbouring pieces with short lists of texts become one longer list; the most telling list is what is required."""
    run = frozenset({""})
    found: list[frozenset[str]] = []
    broken = False
    for part in parts:
        if part.exact is not None and len(run) * len(part.exact) <= _MOST_ALTERNATIVES:
            run = frozenset(left + right for left in run for right in part.exact)
            continue
        broken = True
        found.append(run)
        if part.required is not None:
            found.append(part.required)
        run = part.exact if part.exact is not None else frozenset({""})
    erased_text = "".join(part.erased for part in parts)
    if not broken:
        return _Part(erased_text, run)
    return _Part(erased_text, None, _most_telling([*found, run]))


def _most_telling(lists: Iterable[frozenset[str]]) -> frozenset[str] | None:
    """The list whose weakest string keeps most of itself in a shape; ties go to the shorter list."""
    usable = [strings for strings in lists if "" not in strings]
    return max(usable, key=lambda strings: (min(len(shape_of(text)) for text in strings), -len(strings), sorted(strings)), default=None)
