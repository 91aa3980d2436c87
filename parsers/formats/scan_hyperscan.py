"""Which expressions occur in a block, asked of hyperscan (an optional extra), so that only their lines are examined.

Two questions per block: which literals are in it (one pass, about as fast as grep), then for each expression whose literal is there,
whether the expression itself is (one pass each: a database of all expressions is ten times slower than one of their literals).
Written against hyperscan 0.9.1.
"""

from __future__ import annotations

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
        self.owners: list[tuple[int, ...]] = []
        """Indexes of the expressions that each literal belongs to."""
        self.literals = self._literal_database()
        self.exact = {each.index: self._database(each) for each in expressions}

    def search(self, text: bytes, booking: Booking) -> None:
        """As `scan_sieve.Sieve`."""
        seen: set[int] = set(self.always)

        def found(which: int, start: int, end: int, flags: int, context: object) -> None:
            seen.update(self.owners[which])

        self.literals.scan(text, match_event_handler=found)
        if not seen:
            return
        claimed = self.shapes.search_wrapped(text, booking) if _WARNED in seen else {}
        common = booking.common()
        for index in sorted(seen - {_WARNED}):
            if self._occurs(index, text):
                search_literally(text, self.expressions[index], index in common, claimed, booking)

    def _occurs(self, index: int, text: bytes) -> bool:
        database = self.exact[index]
        if database is None:
            return True
        hits: list[int] = []
        database.scan(text, match_event_handler=lambda which, start, end, flags, context: hits.append(end))
        return bool(hits)

    def _literal_database(self) -> Any:
        owners: dict[bytes, list[int]] = {WARN.lower(): [_WARNED]}
        for expression in self.expressions:
            for literal in expression.literals:
                owners.setdefault(literal, []).append(expression.index)
        self.owners = [tuple(indexes) for indexes in owners.values()]
        database = self._hyperscan.Database(mode=self._hyperscan.HS_MODE_BLOCK)
        flags = self._hyperscan.HS_FLAG_CASELESS | self._hyperscan.HS_FLAG_SINGLEMATCH
        database.compile(expressions=list(owners), ids=list(range(len(owners))), elements=len(owners), flags=flags, literal=True)
        return database

    def _database(self, expression: Compiled) -> Any | None:
        """A database of this expression alone; None = hyperscan has no such syntax (look-around), so its literals have to do."""
        database = self._hyperscan.Database(mode=self._hyperscan.HS_MODE_BLOCK)
        flags = self._hyperscan.HS_FLAG_CASELESS | self._hyperscan.HS_FLAG_SINGLEMATCH | self._hyperscan.HS_FLAG_MULTILINE
        try:
            database.compile(expressions=[expression.text.encode()], ids=[0], elements=1, flags=flags)
        except self._hyperscan.error:
            return None
        return database
