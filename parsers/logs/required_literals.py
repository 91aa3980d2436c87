"""What every line that an expression matches must contain: its plain text, and what is left of it
without digits and hex letters.

A scanner looks at gigabytes and cannot run hundreds of expressions on each line. Two necessary
conditions are derived from an expression:

- `required_literals`: strings of which every match contains at least one;
- `erased`: an expression that matches the *shape* of every line the original matches: the line
  without `0-9a-f`, in lower case.

Written against Python 3.11's `re` syntax, as far as the tables use it; the rest is refused by
name, never guessed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

HEX = "0123456789abcdef"
"""What a shape leaves out: the characters of numbers and addresses."""
_ERASED = str.maketrans("", "", HEX + "ABCDEF")
_PLAIN = re.compile(r"[\w /:,'\"=@%<>&;!~#-]+(?![*+?{])")
"""Characters that stand for themselves and are not repeated."""
_GROUP = re.compile(r"\((?:\?(?::|P<\w+>|[aiLmsux]*(?:-[imsx]+)?:|=|!|<=|<!))?")
_INLINE_FLAGS = re.compile(r"\(\?[aiLmsux]+\)")
_CHAR_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d*)(,?)(\d*)\})[?+]?")
_ONE_CLASS = re.compile(r"\(\?:(\.|\\[DwWsS]|\[(?:\\.|[^\]\\])*\])\?\)")
"""A class in a shape: it may be missing."""
_AMBIGUOUS = re.compile(r"(?<!\\)(?:\\\\)*(?:[*+|]|(?<!\()\?)")
"""Something that is repeated, optional or one of several."""
_MOST_ALTERNATIVES = 32
"""Longest list of alternatives kept as literals; beyond it the part counts as unknown."""

_ORDINARY = "\n".join(
    (
        "nccl info bootstrap : using eth0:10.0.0.1<0>",
        "nccl info bootstrap: using eth0:10.0.0.1<0>",
        "nccl info net/plugin: could not find: libnccl-net.so. using internal net plugin.",
        "nccl info tuner/plugin: could not find: libnccl-tuner.so",
        "nccl info net/ib : using [0]mlx5_0:1/ib [1]mlx5_1:1/roce [ro]; oob eth0:10.0.0.1<0>",
        "nccl info net/socket : using [0]eth0:10.0.0.1<0>",
        "nccl info using network ib",
        "nccl info using network socket",
        "nccl info cudadriverversion 12040",
        "nccl info nccl_ib_hca set by environment to mlx5",
        "nccl info comm 0x1 rank 0 nranks 8 cudadev 0 nvmldev 0 busid 1b000 commid 0x2 - init start",
        "nccl info comm 0x1 rank 0 nranks 8 nnodes 2 localranks 8 localrank 0 - init complete",
        "nccl info channel 00/0 : 0[0] -> 1[1] via net/ib/0/gdrdma",
        "nccl info channel 00 : 0[0] -> 1[1] via net/socket/0",
        "nccl info channel 00/0 : 0[0] -> 1[1] via p2p/cumem",
        "nccl info channel 00/0 : 0[0] -> 1[1] via shm/direct/direct",
        "nccl info trees [0] 1/-1/-1->0->-1",
        "nccl info 16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels",
        "nccl info connected all rings",
        'file "/opt/train.py", line 12, in main',
        "started pulled scheduled starting loading loaded: processes workers nodes tasks count devices",
    )
)
"""Lines that every log of a job has, thousands of them in a large one."""
_TELLING = 4
"""Letters of a string that are better than a longer one in ordinary lines."""
_LONGEST = 1000


_Value = tuple[int, int, list[str]]


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of an expression: what it matches exactly, what it must contain, what its shape
    matches."""

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
    return text.translate(_ERASED).lower()


def required_literals(pattern: str) -> tuple[str, ...]:
    """Strings, in lower case, of which every line that `pattern` matches contains at least one; ()
    = none could be derived.

    >>> required_literals(r"NET/IB ?: No device found")
    ('net/ib : no device found', 'net/ib: no device found')
    >>> required_literals(r"vendor.err(?:=| )(?:129|249)")
    ('vendor',)

    Raises:
        ValueError: `pattern` uses syntax this module does not know, or its groups or classes are
        not closed.
    """
    return tuple(sorted(_parse(pattern, _telling).contains() or ()))


Alternative = tuple[str, tuple[str, ...], bool]
"""A branch, its literals, and whether they are all that it matches."""


@cache
def alternatives(pattern: str) -> tuple[Alternative, ...]:
    """The branches of an expression, each with its literals: where several lists would do, the one
    whose shortest string is longest, for a search of the text itself and not of its shape.

    >>> alternatives(r"a vendor.err(?:=| )(?:129|249)|dead or")
    (('a vendor.err(?:=| )(?:129|249)', ('a vendor',), False), ('dead or', ('dead or',), True))

    What stands in ordinary lines is taken only where nothing else is left.

    >>> alternatives(r"NET/IB : Using .*mlx5_bond")
    (('NET/IB : Using .*mlx5_bond', ('mlx5_bond',), False),)
    """
    reader = _Reader(pattern, _length)
    branches = []
    while reader.position <= len(pattern):
        begin = reader.position
        part = reader.sequence()
        branches.append(_alternative(pattern[begin : reader.position], part))
        if reader.peek() == ")" or reader.position > len(pattern):
            raise ValueError(f"unbalanced group in {pattern!r} at {reader.position}")
        reader.position += 1
    if _INLINE_FLAGS.match(pattern) and len(branches) > 1:
        return (_alternative(pattern, _parse(pattern, _length)),)
    return tuple(branches)


def _alternative(text: str, part: _Part) -> Alternative:
    has_flags = "(?" in text.replace("(?:", "")
    is_exact = part.exact is not None and "" not in part.exact and not has_flags
    literals = part.contains() or frozenset()
    return (
        text,
        tuple(sorted(filter(functools.partial(_is_shortest, literals), literals))),
        is_exact,
    )


def _is_shortest(literals: frozenset[str], literal: str) -> bool:
    """Whether no other of the literals stands in it: what has it would have that one, too."""
    return not any(each in literal for each in literals if each != literal)


def erased(pattern: str) -> str:
    """An expression that matches `shape_of(line)` for every line that `pattern` matches.

    >>> erased(r"via NET/IB/\\d+(?:/Shared)?$")
    'vi\\\\ nt/i/(?:(?:/shr))?$'

    Raises:
        ValueError: as `required_literals`.
    """
    return _parse(pattern, _telling).erased


@cache
def _parse(pattern: str, value: Callable[[frozenset[str]], _Value]) -> _Part:
    reader = _Reader(pattern, value)
    part = reader.alternatives()
    if reader.position != len(pattern):
        raise ValueError(f"unbalanced group in {pattern!r} at {reader.position}")
    return part


class _Reader:
    """Recursive descent over one expression. It is not compiled for that: that takes as long again,
    and most are never needed."""

    def __init__(self, pattern: str, value: Callable[[frozenset[str]], _Value]) -> None:
        self.pattern = pattern
        self.value = value
        """How much a list of required strings is worth: the best one is taken."""
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
        return self.in_a_row(parts)

    def in_a_row(self, parts: list[_Part]) -> _Part:
        """Neighbouring pieces with short lists of texts become one longer list; the best list
        is what is required."""
        run = frozenset({""})
        lists: list[frozenset[str]] = []
        broken = False
        for part in parts:
            if part.exact is not None and len(run) * len(part.exact) <= _MOST_ALTERNATIVES:
                run = frozenset(left + right for left in run for right in part.exact)
                continue
            broken = True
            lists.append(run)
            if part.required is not None:
                lists.append(part.required)
            run = part.exact if part.exact is not None else frozenset({""})
        erased_text = "".join(part.erased for part in parts)
        if not broken:
            return _Part(erased_text, run)
        usable = [strings for strings in (*lists, run) if "" not in strings]
        return _Part(erased_text, None, max(usable, key=self.value, default=None))

    def atom(self) -> _Part:
        char = self.peek()
        readers = {"(": self.group, "[": self.char_class, "\\": self.escape}
        if char in readers:
            return readers[char]()
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
        special = self.pattern.startswith("(?", self.position)
        if opening is None or (special and opening.group() == "("):
            start = self.pattern[self.position : self.position + 4]
            raise ValueError(f"group not known here: {start!r} in {self.pattern!r}")
        self.position = opening.end()
        body = self.alternatives()
        self.position += 1
        if opening.group() in ("(?=", "(?!", "(?<=", "(?<!"):
            return _Part(erased="")
        return _Part(f"(?:{body.erased})", body.exact, body.required)

    def char_class(self) -> _Part:
        match = _CHAR_CLASS.match(self.pattern, self.position)
        if match is None:
            raise ValueError(f"class not understood in {self.pattern!r} at {self.position}")
        self.position = match.end()
        return _class_part(match.group())

    def escape(self) -> _Part:
        char = self.pattern[self.position + 1 : self.position + 2]
        if not char:
            raise ValueError(f"nothing behind the last character of {self.pattern!r}")
        self.position += 2
        if char in "bBAZ":
            # Word boundaries move when characters are left out: nothing can be demanded of the
            # shape.
            return _Part(erased="" if char in "bB" else "\\" + char)
        if char in "dDwWsS":
            return _class_part("\\" + char)
        if char in "tnrfv":
            return _Part(erased="\\" + char)
        if char.isalnum():
            raise ValueError(f"escape not known here: \\{char} in {self.pattern!r}")
        return _literal(char)

    def quantified(self, part: _Part) -> _Part:
        match = _QUANTIFIER.match(self.pattern, self.position)
        if match is None or match.group() == "{,}":
            return part
        self.position = match.end()
        text = match.group()
        optional = text[0] in "*?" or (text[0] == "{" and int(match.group(1) or 0) == 0)
        if text[0] == "?":
            exact = part.exact | {""} if part.exact is not None else None
            return _Part(_repeat(part.erased, "?"), exact)
        required = None if optional else part.contains()
        # Without digits `(?:\S+ +)+` is `(?:\S* *)*`: exponential time wherever it fails.
        if _AMBIGUOUS.search(part.erased) and not _ONE_CLASS.fullmatch(part.erased):
            return _Part(".*", None, required)
        return _Part(_repeat(part.erased, "*"), None, required)


def _literal(text: str) -> _Part:
    return _Part(re.escape(shape_of(text)), frozenset({text.lower()}))


@cache
def _class_part(text: str) -> _Part:
    """A class that may stand for a digit or hex letter may be missing from the shape."""
    compiled = re.compile(text, re.IGNORECASE)
    members = frozenset(chr(code) for code in range(32, 127) if compiled.fullmatch(chr(code)))
    lowered = frozenset(char.lower() for char in members)
    if lowered <= set(HEX):
        rest = ""
    elif lowered & set(HEX):
        rest = f"(?:{text}?)"
    else:
        rest = text
    small = text.startswith("[") and not text.startswith("[^") and len(lowered) <= 4
    return _Part(rest, lowered if small else None)


def _repeat(erased_text: str, quantifier: str) -> str:
    """Lower bounds are dropped: a repeated piece may have been all digits."""
    if not erased_text:
        return ""
    if len(erased_text) == 1 or (len(erased_text) == 2 and erased_text[0] == "\\"):
        return erased_text + quantifier
    inner = _ONE_CLASS.fullmatch(erased_text)
    return (inner.group(1) if inner else f"(?:{erased_text})") + quantifier


def _any_of(parts: list[_Part]) -> _Part:
    erased_text = "|".join(part.erased for part in parts)
    exact = _union([part.exact for part in parts])
    if exact is not None:
        return _Part(erased_text, exact)
    return _Part(erased_text, None, _union([part.contains() for part in parts]))


def _union(lists: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    """All strings of the lists; None = one of the lists is unknown, or they are too many."""
    strings: set[str] = set()
    for each in lists:
        if each is None:
            return None
        strings |= each
    return frozenset(strings) if len(strings) <= _MOST_ALTERNATIVES else None


def _telling(strings: frozenset[str]) -> _Value:
    """How much of the weakest string a shape keeps; ties go to the shorter list."""
    shortest = min(len(shape_of(text)) for text in strings)
    return shortest, -len(strings), sorted(strings)


def _length(strings: frozenset[str]) -> _Value:
    """The length of the shortest string; ties go to the shorter list. What stands in ordinary lines
    comes last: it would find each of them, and seldom decide anything."""
    shortest = min(map(len, strings))
    if shortest >= _TELLING and not any(each in _ORDINARY for each in strings):
        shortest += _LONGEST
    return shortest, -len(strings), sorted(strings)
