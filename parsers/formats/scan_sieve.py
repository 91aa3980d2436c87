"""Which lines of a block could match which expressions, with the standard library alone: by shape, by literal, by wrapped warning."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import compress
from typing import Protocol

from busbw.parsers.formats.scan_blocks import WARN
from busbw.parsers.formats.scan_regex import HEX, erased, required_literals, shape_of

_LOWER = bytes(range(256)).lower()
_ERASE = (HEX + "ABCDEF").encode()
_WARN_SHAPE = shape_of(WARN.decode()).encode()
_MOST_SHAPES = 100_000
_MOST_PLANS = 1_000
_CONTINUATION_LINES = 3
_CONTINUATION_BYTES = 2048
_NOT_CONTINUATION = re.compile(
    rb"^\s*(?:#|-?\d|$)|^\W*[\w.-]+:\d+:\d+ | NCCL [A-Z]+ |^-{8}|^\S+: |^ ?\.\. |^Traceback|^  |^\S*\w@\w\S*[ :].*[$#%>] |^Script done on "
)
_CUT = re.compile(rb"(?:failed with(?: error)?(?: \d+)?|[,:;(=-]|\b(?:with|to|for|on|and|of|the|in|from|is|error))\s*$")
_SECOND = re.compile(rb"[a-z(]|This is usually caused|Disable NVLS|Do not force-enable")
_TAG = re.compile(
    rb"^(?:\[?[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\]?)?(?:\[[^\]]{1,80}\]){0,2}<std\w+>: ?|^\[(?:rank|default)\d+\]: ?"
)


@dataclass(frozen=True)
class Compiled:
    """An expression with its necessary conditions. What is compiled, is so when it is first needed: most expressions meet no line like theirs."""

    index: int
    text: str
    literals: tuple[bytes, ...]
    """Lower case; a matching line contains one of them. () = none is known."""
    shape_literals: tuple[bytes, ...]
    """The shape of a matching line contains one of them; () = none is known."""
    shape_text: str
    sieved: bool
    """False = its shape says too little (`dead` is all hex letters): its lines are found by its literals instead, which costs more."""

    @cached_property
    def regex(self) -> re.Pattern[bytes]:
        """The expression."""
        return re.compile(self.text.encode(), re.IGNORECASE)

    def literal_in(self, low: bytes) -> bool:
        """Whether a text in lower case has what a matching line must have."""
        for literal in self.literals:  # not any(): this runs a million times, and a generator costs thrice as much
            if literal in low:
                return True
        return not self.literals

    @cached_property
    def shape(self) -> re.Pattern[bytes]:
        """Matches the shape of every matching line."""
        return re.compile(self.shape_text.encode(), re.IGNORECASE)


Alike = tuple[bytes, bytes, bytes]
"""First word, shape and last word of a line."""


class Booking(Protocol):
    """Takes lines, and says which ones it still wants."""

    once: frozenset[int]
    """Expressions of which the first matching line of this block is enough."""
    never: frozenset[int]
    """Expressions that are not looked for in this block."""

    distinct: frozenset[int]
    """Expressions that want each kind of line of a process only once."""

    def book_alike(self, key: Alike, lines: Sequence[bytes], places: Sequence[int], candidates: Sequence[int]) -> None:
        """Lines at these places that the candidates, all of them `distinct`, take for the same: none or the first is examined."""

    def examine(self, at: int, line: bytes, candidates: Sequence[int]) -> Sequence[int]:
        """Run these expressions on a line (`at` = its index in the block, from 0); gives the indexes of those that match."""

    def book(self, index: int, found: Sequence[tuple[int, bytes]]) -> None:
        """These lines (index in the block, text), ascending, match the expression."""


@cache
def compiled(index: int, text: str) -> Compiled:
    """The expression, ready.

    Raises:
        ValueError: as `scan_regex.required_literals`.
    """
    literals, shape_text = required_literals(text), erased(text)
    shapes = {shape_of(literal) for literal in literals}
    known = bool(shapes) and "" not in shapes
    return Compiled(
        index=index,
        text=text,
        literals=tuple(literal.encode() for literal in literals),
        shape_literals=tuple(sorted(each.encode() for each in shapes)) if known else (),
        shape_text=shape_text,
        sieved=known or re.search(shape_text, "", re.IGNORECASE) is None,
    )


class Sieve:
    """Looks at each distinct shape once, and remembers shapes from block to block."""

    def __init__(self, expressions: tuple[Compiled, ...]) -> None:
        self.expressions = {each.index: each for each in expressions}
        self.sieved = tuple(each for each in expressions if each.sieved)
        self.unsieved = tuple(each for each in expressions if not each.sieved)
        self.known: dict[bytes, tuple[int, ...]] = {}
        self.hot: set[bytes] = set()
        """The known shapes that some expression may match, and those of warnings."""
        self.plans: dict[frozenset[int], dict[bytes, tuple[int, ...]]] = {}
        """For each set of common expressions: what of `known` is still wanted of every line of a hot shape."""

    def search(self, text: bytes, booking: Booking) -> int:
        """Have every line of the block examined that an expression may match and that is wanted. Gives the number of its lines."""
        shapes = text.translate(_LOWER, _ERASE).split(b"\n")
        distinct = set(shapes)
        fresh = distinct.difference(self.known)
        if fresh:
            self._learn(fresh)
        hot = distinct & self.hot
        claimed = self.search_wrapped(text, booking) if any(_WARN_SHAPE in shape for shape in hot) else {}
        plans = self._plans(hot, booking.once | booking.never)
        if plans or (hot and booking.once):
            block = _Lines(text.split(b"\n"), shapes, claimed)
            self._search_all(block, plans, booking)
            self._search_once(block, hot, booking)
        if self.unsieved:
            low = text.lower()
            for expression in self.unsieved:
                search_literally(text, low, expression, expression.literals, claimed, booking)
        return len(shapes)

    def search_wrapped(self, text: bytes, booking: Booking) -> dict[int, Collection[int]]:
        """Examine the wrapped warnings of a block, each as one line. Gives what matched, for the index of each line they consist of."""
        claimed: dict[int, Collection[int]] = {}
        for at, joined, count in _wrapped_warnings(text):
            indexes = (*self._may_match(joined.translate(_LOWER, _ERASE)), *(each.index for each in self.unsieved))
            matched = booking.examine(at, joined, indexes)
            claimed.update((at + step, matched) for step in range(count))
        return claimed

    def _may_match(self, shape: bytes) -> tuple[int, ...]:
        """Indexes of the expressions that can match a line of this shape."""
        return tuple(
            each.index
            for each in self.sieved
            if (not each.shape_literals or any(literal in shape for literal in each.shape_literals)) and each.shape.search(shape)
        )

    def _learn(self, fresh: set[bytes]) -> None:
        if len(self.known) + len(fresh) > _MOST_SHAPES:
            self.known.clear()
            self.hot.clear()
            self.plans.clear()
        for shape in fresh:
            self.known[shape] = self._may_match(shape)
            if self.known[shape] or _WARN_SHAPE in shape:
                self.hot.add(shape)

    def _plans(self, hot: set[bytes], common: frozenset[int]) -> dict[bytes, tuple[int, ...]]:
        """The expressions wanted of every line, for each shape that has any."""
        if len(self.plans) > _MOST_PLANS:
            self.plans.clear()
        made = self.plans.setdefault(common, {})
        plans = {}
        for shape in hot:
            plan = made.get(shape)
            if plan is None:
                plan = made[shape] = tuple(index for index in self.known[shape] if index not in common)
            if plan:
                plans[shape] = plan
        return plans

    def _search_all(self, block: _Lines, plans: dict[bytes, tuple[int, ...]], booking: Booking) -> None:
        """Have the lines of these shapes examined, shape by shape; of lines that are alike to all who want them the first, the others counted."""
        repeatable = {shape for shape, plan in plans.items() if booking.distinct.issuperset(plan) and _WARN_SHAPE not in shape}
        groups: dict[bytes, list[int]] = {}
        alike: dict[Alike, list[int]] = {}
        for at in compress(range(len(block.shapes)), map(plans.__contains__, block.shapes)):
            shape = block.shapes[at]
            if shape not in repeatable or at in block.claimed:
                groups.setdefault(shape, []).append(at)
            else:
                line = block.lines[at]
                alike.setdefault((line[: line.find(b" ") + 1], shape, line[line.rfind(b" ") :]), []).append(at)
        for key, places in alike.items():
            booking.book_alike(key, block.lines, places, plans[key[1]])
        matches: dict[int, list[tuple[int, bytes]]] = {}
        for shape, places in groups.items():
            group = [block.lines[at] for at in places]
            low = b"\n".join(group).lower()
            for index in plans[shape]:
                expression = self.expressions[index]
                if expression.literal_in(low):  # shapes are alike that texts are not
                    search = expression.regex.search
                    found = [(at, line) for at, line in zip(places, group, strict=True) if search(line)]
                    matches.setdefault(index, []).extend(block.unclaimed(index, found))
        for index, found in matches.items():
            booking.book(index, sorted(found))

    def _search_once(self, block: _Lines, hot: set[bytes], booking: Booking) -> None:
        """Have lines examined until each of the expressions that are wanted once has one."""
        for index in booking.once:
            shapes = {shape for shape in hot if index in self.known[shape]}
            if not shapes:
                continue
            for at in compress(range(len(block.shapes)), map(shapes.__contains__, block.shapes)):
                if index not in block.claimed.get(at, ()) and booking.examine(at, block.lines[at], (index,)):
                    break


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a block."""

    lines: list[bytes]
    shapes: list[bytes]
    claimed: dict[int, Collection[int]]
    """By index: the expressions that have matched the line as part of a wrapped warning."""

    def unclaimed(self, index: int, found: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Those of the lines that have not been matched so."""
        return [(at, line) for at, line in found if index not in self.claimed.get(at, ())] if self.claimed else found


def search_literally(
    text: bytes, low: bytes, expression: Compiled, literals: Sequence[bytes], claimed: dict[int, Collection[int]], booking: Booking
) -> None:
    """Have the lines of the block examined that contain one of the expression's literals (all lines where it has none).

    low: the text in lower case. literals: those of the expression that may be in it."""
    index = expression.index
    if index in booking.never:
        return
    first_only = index in booking.once
    for at, line in _lines_with(text, low, literals):
        if index in claimed.get(at, ()):
            continue
        if booking.examine(at, line, (index,)) and first_only:
            return


def _lines_with(text: bytes, low: bytes, literals: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """(index, line) of the lines that contain one of the literals, ascending; all lines when there are none."""
    if not literals:
        yield from enumerate(text.split(b"\n"))
        return
    following = [low.find(literal) for literal in literals]
    at = counted = 0
    while found := [position for position in following if position >= 0]:
        position = min(found)
        at += low.count(b"\n", counted, position)
        counted = position
        end = low.find(b"\n", position)
        end = len(low) if end < 0 else end
        yield at, text[low.rfind(b"\n", 0, position) + 1 : end]
        for which, literal in enumerate(literals):
            if 0 <= following[which] < end:
                following[which] = low.find(literal, end)


def _wrapped_warnings(text: bytes) -> Iterator[tuple[int, bytes, int]]:
    """(index of the first line, the warning as one line, how many lines it consists of) of each warning that runs on in further lines."""
    at = counted = 0
    found = text.find(WARN)
    while found >= 0:
        at += text.count(b"\n", counted, found)
        counted = found
        end = text.find(b"\n", found)
        if end < 0:
            return
        following = [_TAG.sub(b"", line) for line in text[end + 1 : end + 1 + _CONTINUATION_BYTES].split(b"\n")[:_CONTINUATION_LINES]]
        parts = [text[text.rfind(b"\n", 0, found) + 1 : end]]
        for line in following:
            if not _continues(parts[-1], line):
                break
            parts.append(line)
        if len(parts) > 1:
            yield at, b" ".join(parts), len(parts)
        found = text.find(WARN, end)


def _continues(before: bytes, line: bytes) -> bool:
    """The line goes on where the one before was cut, or is the second of those warnings that consist of several."""
    return _NOT_CONTINUATION.search(line) is None and (_CUT.search(before) is not None or _SECOND.match(line) is not None)
