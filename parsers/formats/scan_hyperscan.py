"""Which expressions occur in a block, asked of hyperscan (an optional extra), so that only their lines are examined.

Two questions per block: which literals are in it (one pass, about as fast as grep), then for each expression whose literal is there,
where the expression itself is (one pass each: a database of all expressions is ten times slower than one of their literals).
Written against hyperscan 0.9.1.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from busbw.parsers.formats.scan_blocks import WARN
from busbw.parsers.formats.scan_sieve import Booking, Compiled, ShapeSieve, search_literally

_WARNED = -1
"""Stands among the indexes of expressions for "there is a warning in the block"."""


class HyperscanSieve:
    """As `scan_sieve.Sieve`."""

    def __init__(self, expressions: tuple[Compiled, ...]) -> None:
        """Raises:
        ImportError: hyperscan is not installed.
        """
        import hyperscan

        self._hyperscan = hyperscan
        self.expressions = expressions
        self.shapes = ShapeSieve(expressions)
        """For warnings that are wrapped: they are no line of the block."""
        self.always = frozenset(each.index for each in expressions if not each.literals)
        self.texts: list[bytes] = []
        """The literals."""
        self.owners: list[tuple[int, ...]] = []
        """Indexes of the expressions that each of them belongs to."""
        self.literals = self._literal_database()
        self.exact = {each.index: self._database(each) for each in expressions}

    def search(self, text: bytes, booking: Booking) -> int:
        """As `scan_sieve.Sieve`."""
        found: list[int] = []
        self.literals.scan(text, match_event_handler=lambda which, start, end, flags, context: found.append(which))
        lines = text.count(b"\n") + 1
        present: dict[int, list[bytes]] = {index: [] for index in self.always}
        for which in found:
            for index in self.owners[which]:
                present.setdefault(index, []).append(self.texts[which])
        claimed = self.shapes.search_wrapped(text, booking) if present.pop(_WARNED, None) else {}
        low = b""
        for index in sorted(present):
            if index in booking.never:
                continue
            if self.exact[index] is not None and index not in booking.once:
                self._examine_matches(index, text, claimed, booking)
            else:
                low = low or text.lower()
                search_literally(text, low, self.expressions[index], present[index], claimed, booking)
        return lines

    def _examine_matches(self, index: int, text: bytes, claimed: dict[int, Collection[int]], booking: Booking) -> None:
        """Have the lines examined that hyperscan finds a match in. It gives ends of matches, several to a line, some a line too far."""
        ends: list[int] = []
        self.exact[index].scan(text, match_event_handler=lambda which, start, end, flags, context: ends.append(end))
        at = counted = 0
        line_end = -1
        for end in sorted(ends):
            if end - 1 <= line_end:  # in the line before, or its newline
                continue
            start = text.rfind(b"\n", 0, end - 1) + 1
            line_end = text.find(b"\n", end - 1)
            line_end = len(text) if line_end < 0 else line_end
            at += text.count(b"\n", counted, start)
            counted = start
            if index not in claimed.get(at, ()):
                booking.examine(at, text[start:line_end], (index,))

    def _literal_database(self) -> Any:
        owners: dict[bytes, list[int]] = {WARN.lower(): [_WARNED]}
        for expression in self.expressions:
            for literal in expression.literals:
                owners.setdefault(literal, []).append(expression.index)
        self.texts = list(owners)
        self.owners = [tuple(indexes) for indexes in owners.values()]
        database = self._hyperscan.Database(mode=self._hyperscan.HS_MODE_BLOCK)
        flags = self._hyperscan.HS_FLAG_CASELESS | self._hyperscan.HS_FLAG_SINGLEMATCH
        database.compile(expressions=self.texts, ids=list(range(len(owners))), elements=len(owners), flags=flags, literal=True)
        return database

    def _database(self, expression: Compiled) -> Any | None:
        """A database of this expression alone; None = hyperscan has no such syntax (look-around), so its literals have to do."""
        database = self._hyperscan.Database(mode=self._hyperscan.HS_MODE_BLOCK)
        flags = self._hyperscan.HS_FLAG_CASELESS | self._hyperscan.HS_FLAG_MULTILINE
        try:
            database.compile(expressions=[expression.text.encode()], ids=[0], elements=1, flags=flags)
        except self._hyperscan.error:
            return None
        return database
