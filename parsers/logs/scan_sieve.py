"""Which lines of a block could match which expressions, with the standard library alone: by shape,
by literal, by wrapped warning."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple, Protocol

from busbw.parsers.logs import tags
from busbw.parsers.logs.escapes import without_escapes_bytes

# Blocks of whole, clean lines: no ANSI sequences, carriage returns or NULs, no line cut in two.

BLOCK_BYTES = 120 * 1024
"""Just under glibc's threshold (128 KiB) from which on each buffer is mapped and unmapped anew:
larger blocks are a third slower."""
LONGEST_LINE = 4096
"""NCCL cuts its own lines at about 1 KiB; what is longer is not a log line, and some expressions
take quadratic time on it."""
WARN = b" NCCL WARN "
_TAIL = 4096
_DASHES = b"-" * 50
"""Open MPI's help messages stand between such lines."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive whole lines."""

    text: bytes
    """Clean lines with newlines between them: one line more than it has newlines."""
    long_lines: int
    """Lines that were cut to `LONGEST_LINE`."""
    raw: bytes
    """This piece of the input, only without ANSI sequences: all pieces together are the input."""
    is_rest: bool = False
    """All of it is of a line that was given already: it has no text."""
    skipped: int = 0
    """Line ends in front of the text, of a line that was given already."""


class Piece(bytes):
    """A piece of a text, whose line ends somebody has counted: that takes 1 ms a MB."""

    line_ends: int


def line_ends_in(chunk: bytes) -> int:
    """How many line ends a chunk has."""
    return chunk.line_ends if isinstance(chunk, Piece) else chunk.count(b"\n")


def blocks(chunks: Iterable[bytes], size_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Regroup chunks of any size into blocks of at most `size_bytes`. Where they end does not
    depend on how the input was cut.

    A line longer than a block is given by its beginning only. No warning or help message is near
    the end of a block: its further lines are with it.
    """
    buffer, start, skipping = b"", 0, False
    for chunk in chunks:
        buffer, start = buffer[start:] + chunk, 0
        while len(buffer) - start > size_bytes:
            end = _border(buffer, start, start + size_bytes)
            block, skipping = _block(buffer[start:end], skipping)
            yield block
            start = end
    if start < len(buffer):
        block, _ = _block(buffer[start:], skipping)
        yield block


def _border(buffer: bytes, start: int, limit: int) -> int:
    """Where the block ends: after its last newline, but before a warning or a help message so near
    the end that it may be cut off."""
    end = buffer.rfind(b"\n", start, limit) + 1
    if end == 0:
        return limit
    tail = max(start, end - _TAIL)
    starts = [buffer.find(mark, tail, end) for mark in (WARN, _DASHES)]
    opening = min((at for at in starts if at >= 0), default=-1)
    if opening < 0:
        return end
    line_start = buffer.rfind(b"\n", start, opening) + 1
    return line_start if line_start > start else end


def _block(raw: bytes, skipping: bool) -> tuple[Block, bool]:
    """The block of these bytes, and whether they end inside a line.

    `skipping`: they begin inside a line that has been given already.
    """
    unfinished = not raw.endswith(b"\n")
    if b"\x1b" in raw:
        raw = without_escapes_bytes(raw)
    text = raw
    if skipping:
        _, newline, text = raw.partition(b"\n")
        if not text:
            return Block(b"", 0, raw, True, len(newline)), not newline
    if b"\r" in text:
        text = as_shown(text)
    if b"\0" in text:
        text = text.replace(b"\0", b"")
    text, long_lines = _cut_long_lines(text.removesuffix(b"\n"))
    return Block(text, long_lines, raw, False, int(skipping)), unfinished


_REPORTS = (b"rror", b"WARN", b"ailed", b"ailure", b"FATAL", b"atal")
"""Words of a report that is kept although a progress bar was written over it."""


def as_shown(text: bytes) -> bytes:
    """The lines as a terminal shows them in the end, without the earlier states of a progress bar: the
    failure stands behind those in the same line. An expression that looks for them takes 15 ms a MB,
    a search for two characters 1 ms.

    >>> as_shown(b"10%\\r20%\\rKilled\\r\\nok\\r\\r\\n")
    b'Killed\\nok\\n'
    >>> as_shown(b"NCCL WARN no route\\r40%\\n")
    b'NCCL WARN no route 40%\\n'
    """
    kept: list[bytes] = []
    copied = 0
    at = text.find(b"\r")
    while at >= 0:
        if text.startswith(b"\n", at + 1):  # the first of its line, and behind all of it
            kept.append(text[copied:at])
            copied = at + 1
            at = text.find(b"\r", copied)
            continue
        start = text.rfind(b"\n", copied, at) + 1 or copied
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        line = text[start:end].rstrip(b"\r")
        states = line.split(b"\r")
        errors = [state for state in states[:-1] if any(map(state.__contains__, _REPORTS))]
        kept += (text[copied:start], b" ".join((*errors, states[-1])))
        copied = end
        at = text.find(b"\r", end)
    kept.append(text[copied:])
    return b"".join(kept)


def _cut_long_lines(text: bytes) -> tuple[bytes, int]:
    """The text with lines cut to `LONGEST_LINE`, and how many were. Hopping from newline to newline
    is cheaper than any search."""
    kept, copied, at, cut = [], 0, 0, 0
    while len(text) - at > LONGEST_LINE:
        newline = text.rfind(b"\n", at, at + LONGEST_LINE + 1)
        if newline < 0:
            cut += 1
            kept.append(text[copied : at + LONGEST_LINE])
            newline = text.find(b"\n", at + LONGEST_LINE)
            copied = newline if newline >= 0 else len(text)
            if newline < 0:
                break
        at = newline + 1
    if not cut:
        return text, 0
    kept.append(text[copied:])
    return b"".join(kept), cut


# What every line that an expression matches must contain: its plain text, and what is left of it
# without digits and hex letters.
#
# `scan` looks at gigabytes and cannot run hundreds of expressions on each line. Two necessary
# conditions are derived from an expression:
#
# - `required_literals`: strings of which every match contains at least one;
# - `erased`: an expression that matches the *shape* of every line the original matches: the line
# without `0-9a-f`, in lower case.
#
# Written against Python 3.11's `re` syntax, as far as the tables use it; the rest is refused by
# name, never guessed.

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


_Alternative = tuple[str, tuple[str, ...], bool]
"""A branch, its literals, and whether they are all that it matches."""


@cache
def _alternatives(pattern: str) -> tuple[_Alternative, ...]:
    """The branches of an expression, each with its literals: where several lists would do, the one
    whose shortest string is longest, for a search of the text itself and not of its shape.

    >>> _alternatives(r"a vendor.err(?:=| )(?:129|249)|dead or")
    (('a vendor.err(?:=| )(?:129|249)', ('a vendor',), False), ('dead or', ('dead or',), True))
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


def _alternative(text: str, part: _Part) -> _Alternative:
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
    """The length of the shortest string; ties go to the shorter list."""
    return min(map(len, strings)), -len(strings), sorted(strings)


_LOWER = bytes(range(256)).lower()
_ERASE = (HEX + "ABCDEF").encode()
_SHORTEST = 3
_MOST_SHAPES = 100_000
_CONTINUATION_LINES = 3
_CONTINUATION_BYTES = 2048
_NOT_CONTINUATION = re.compile(
    rb"^\s*(?:#|-?\d|$)|^\W*[\w.-]+:\d+:\d+ | NCCL [A-Z]+ |^-{8}|^\S+: |^ ?\.\. |^Traceback|^ "
    rb" |^\S*\w@\w\S*[ :].*[$#%>] |^Script done on "
)
_CUT = re.compile(
    rb"(?:failed with(?: error)?(?:"
    rb" \d+)?|[,:;(=-]|\b(?:with|to|for|on|and|of|the|in|from|is|error))\s*$"
)
_SECOND = re.compile(rb"[a-z(]|This is usually caused|Disable NVLS|Do not force-enable")


class Branch:
    """One alternative of an expression, with its necessary conditions: `mlx5_core |NVRM: ` has two.
    Each is worked out when it is first needed: most expressions meet no line like theirs."""

    def __init__(
        self, number: int, index: int, text: str, literals: tuple[str, ...], is_exact: bool
    ) -> None:
        self.number = number
        """Its place among all branches."""
        self.index = index
        """The place of its expression."""
        self.text = text
        self.literals = tuple(each.encode() for each in literals)
        """Lower case; a matching line contains one of them. () = none is known."""
        self.is_exact = is_exact
        """A line matches if it contains one of them."""
        self.is_single = False
        """One matching line of a block is enough."""
        self.is_frequent = False
        """Nearly every line with one of the literals matches, and there are many."""

    @property
    def is_found_by_text(self) -> bool:
        """False = its literals are so short that every line has them."""
        return min(map(len, self.literals), default=0) >= _SHORTEST

    @cached_property
    def regex(self) -> re.Pattern[bytes]:
        """The branch as an expression."""
        return re.compile(self.text.encode(), re.IGNORECASE)

    @cached_property
    def shape_literals(self) -> tuple[bytes, ...]:
        """The shape of a matching line contains one of them; () = none is known."""
        shapes = {shape_of(literal) for literal in required_literals(self.text)}
        return () if "" in shapes else tuple(sorted(each.encode() for each in shapes))

    @cached_property
    def shape(self) -> re.Pattern[bytes]:
        """Matches the shape of every matching line."""
        return re.compile(erased(self.text).encode(), re.IGNORECASE)

    @cached_property
    def sieved(self) -> bool:
        """False = its shape says too little (`dead` is all hex letters): its lines are found by its
        literals instead, which costs more."""
        return bool(self.shape_literals) or self.shape.search(b"") is None

    def literal_in(self, low: bytes) -> bool:
        """Whether a text in lower case has what a matching line must have."""
        # not any(): this runs a million times, and a generator costs thrice as much
        for literal in self.literals:
            if literal in low:
                return True
        return not self.literals


class Candidates(NamedTuple):
    """The lines of a block that are worth a look. By branch, not by line: what is done with the
    lines of one branch is done in one go."""

    lines: Mapping[int, bytes]
    """Those lines, and perhaps others, by their place in the block."""
    of_branch: dict[int, list[int]]
    """Number of a branch → the places of the lines that it may match, ascending, each once."""
    line_count: int
    """Lines of the block."""
    has_warning: bool
    """NCCL warns of something in it (`WARN`)."""
    sure: frozenset[int]
    """Numbers of branches that match every line they are worth a look in."""


class Finder(Protocol):
    """Finds the lines of a block that are worth a look."""

    def lines(self, text: bytes, never: frozenset[int]) -> Candidates:
        """With every branch the lines that it matches, and others; with an exact branch only where
        it matches. Those of the expressions in `never` may be left out."""

    def candidates(self, line: bytes) -> Iterable[int]:
        """Every branch that matches the line, and others."""

    def learn(self, hits: Mapping[int, int], misses: Mapping[int, int]) -> None:
        """How many candidates of each branch matched in a block, and how many did not."""


def branches_of(expressions: Iterable[str]) -> tuple[Branch, ...]:
    """The branches of all expressions.

    Raises:
        ValueError: as `required_literals`.
    """
    branches: list[Branch] = []
    for index, text in enumerate(expressions):
        for branch, literals, is_exact in _alternatives(text):
            branches.append(Branch(len(branches), index, branch, literals, is_exact))
    return tuple(branches)


class Sieve:
    """The finder that needs the standard library alone: it looks at each distinct shape once, and
    remembers shapes from block to block."""

    def __init__(self, branches: tuple[Branch, ...]) -> None:
        self.sieved = tuple(each for each in branches if each.sieved)
        self.unsieved = tuple(each for each in branches if not each.sieved)
        self.sure = frozenset(each.number for each in branches if each.is_exact)
        self.known: dict[bytes, tuple[Branch, ...]] = {}
        self.hot: set[bytes] = set()
        """The known shapes that some branch may match."""

    def lines(self, text: bytes, never: frozenset[int]) -> Candidates:
        """As `Finder`."""
        shapes = text.translate(_LOWER, _ERASE).split(b"\n")
        distinct = set(shapes)
        fresh = distinct.difference(self.known)
        if fresh:
            self._learn(fresh)
        plans: dict[bytes, tuple[Branch, ...]] = {}
        for shape in distinct & self.hot:
            plan = tuple(each for each in self.known[shape] if each.index not in never)
            if plan:
                plans[shape] = plan
        of_branch = self._literally(text, never)
        has_warning = WARN in text
        if not plans and not of_branch:
            return Candidates({}, of_branch, len(shapes), has_warning, self.sure)
        lines = text.split(b"\n")
        for at, shape in enumerate(shapes) if plans else ():
            if shape in plans:
                low = lines[at].lower()
                for branch in plans[shape]:
                    if branch.literal_in(low):
                        of_branch.setdefault(branch.number, []).append(at)
        return Candidates(dict(enumerate(lines)), of_branch, len(shapes), has_warning, self.sure)

    def candidates(self, line: bytes) -> Iterable[int]:
        """As `Finder`."""
        shape = line.translate(_LOWER, _ERASE)
        return (each.number for each in (*self._may_match(shape), *self.unsieved))

    def learn(self, hits: Mapping[int, int], misses: Mapping[int, int]) -> None:
        """As `Finder`: nothing to be learnt."""

    def _may_match(self, shape: bytes) -> tuple[Branch, ...]:
        """The branches that can match a line of this shape."""
        branches = []
        for each in self.sieved:
            literals = each.shape_literals
            if literals and not any(literal in shape for literal in literals):
                continue
            if each.shape.search(shape):
                branches.append(each)
        return tuple(branches)

    def _learn(self, fresh: set[bytes]) -> None:
        if len(self.known) + len(fresh) > _MOST_SHAPES:
            self.known.clear()
            self.hot.clear()
        for shape in fresh:
            self.known[shape] = self._may_match(shape)
            if self.known[shape]:
                self.hot.add(shape)

    def _literally(self, text: bytes, never: frozenset[int]) -> dict[int, list[int]]:
        """The lines that contain a literal of a branch that has no shape."""
        low = text.lower() if self.unsieved else b""
        of_branch: dict[int, list[int]] = {}
        for branch in self.unsieved:
            if branch.index not in never and (lines := list(_lines_with(low, branch.literals))):
                of_branch[branch.number] = lines
        return of_branch


def _lines_with(low: bytes, literals: Sequence[bytes]) -> Iterator[int]:
    """The places of the lines that contain one of the literals, ascending; of all lines when there
    are none."""
    if not literals:
        yield from range(low.count(b"\n") + 1)
        return
    following = [low.find(literal) for literal in literals]
    at = counted = 0
    while positions := [position for position in following if position >= 0]:
        position = min(positions)
        at += low.count(b"\n", counted, position)
        counted = position
        end = low.find(b"\n", position)
        end = len(low) if end < 0 else end
        yield at
        for which, literal in enumerate(literals):
            if 0 <= following[which] < end:
                following[which] = low.find(literal, end)


def wrapped_warnings(text: bytes) -> Iterator[tuple[int, bytes, int]]:
    """(index of the first line, the warning as one line, how many lines it consists of) of each
    warning that runs on in further lines."""
    at = counted = 0
    start = text.find(WARN)
    while start >= 0:
        at += text.count(b"\n", counted, start)
        counted = start
        end = text.find(b"\n", start)
        if end < 0:
            return
        following = text[end + 1 : end + 1 + _CONTINUATION_BYTES].split(b"\n")
        parts = [text[text.rfind(b"\n", 0, start) + 1 : end]]
        form = tags.form_of_bytes(parts[0])
        for line in following[:_CONTINUATION_LINES]:
            untagged = tags.untagged_bytes(line, form)
            if not _continues(parts[-1], untagged):
                break
            parts.append(untagged)
        if len(parts) > 1:
            yield at, b" ".join(parts), len(parts)
        start = text.find(WARN, end)


def _continues(before: bytes, line: bytes) -> bool:
    """The line goes on where the one before was cut, or is the second of those warnings that
    consist of several."""
    if _NOT_CONTINUATION.search(line) is not None:
        return False
    return _CUT.search(before) is not None or _SECOND.match(line) is not None
