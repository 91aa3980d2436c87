"""Which lines of a block could match which expressions, with the standard library alone: by shape
and by literal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from busbw.parsers.logs.required_literals import (
    HEX,
    alternatives,
    erased,
    required_literals,
    shape_of,
)
from busbw.parsers.logs.wrapped_warnings import WARN

_LOWER = bytes(range(256)).lower()
_ERASE = (HEX + "ABCDEF").encode()
_SHORTEST = 3
_MOST_SHAPES = 100_000


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
        self.is_soon_common = False
        """A few of its lines are enough for a text, and a text has many."""

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

    def joined(self, other: Candidates) -> Candidates:
        """With those of other branches in the same block."""
        return self._replace(
            lines={**self.lines, **other.lines},
            of_branch=self.of_branch | other.of_branch,
            sure=self.sure | other.sure,
        )


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
        for branch, literals, is_exact in alternatives(text):
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
