"""How a row that other text tore apart is put together again.

nccl-tests writes a row in steps (the head, each placement, the line end) while NCCL logs to the same stream, launchers end unfinished
lines, and terminals wrap long ones. The pieces are joined where the result is a row whose bandwidths are its size over its times.

>>> rows = RowJoiner(hosts={"node-a"})
>>> rows.take(Line(1, "", "     8388608       2097152     float     sum      -1node-a:41011:41040 [0] NCCL INFO", True), None).rest
'node-a:41011:41040 [0] NCCL INFO'
>>> piece = rows.resume(Line(2, "", "    96.41   87.01  163.14       0    95.88   87.49  164.05       0", True), None)
>>> piece.found[0].line.number, piece.found[0].read.row.in_place.time_us
(1, 95.88)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from busbw.parsers.formats.nccl_tests_identity import algbw_fits, factor_interval, share_interval
from busbw.parsers.formats.nccl_tests_layout import FRAGMENT, HEAD, START, Cells, Layout, ReadRow, take_row
from busbw.parsers.formats.nccl_tests_scan import Line

_CUT_CELL = re.compile(r"\s*(?:-?\d*\.?\d*(?:e[+-]?\d*)?|N/?|[a-z]{1,7})")
_CELL_END = re.compile(r"(?:\.\d*|/?A|e?[+-]?\d+)(?=\s|$)")
_LONGEST_CELL = 80
"""Characters with the blanks before it; a column is at most 20 wide."""
_LONGEST_ROW = 4096
"""Characters; a whole row has about 300. What is longer is no row that was torn, and to read it again with every line would never end."""


class Found(NamedTuple):
    """A row, or the line on which one began that was never finished."""

    line: Line
    """Where it began."""
    read: ReadRow | None
    """None = torn."""
    not_finite: bool = False
    """True = a measurement is nan or inf and was left out."""


class Piece(NamedTuple):
    """What a line gave."""

    found: tuple[Found, ...]
    """Rows that are finished with it, and rows given up because of it; () = it only carried a row on."""
    rest: str
    """What stands behind the last cell: foreign text, or nothing."""


class _Pending(NamedTuple):
    """The part of a row that was read so far."""

    line: Line
    text: str
    """Up to its last whole cell."""
    begun: str
    """Behind that, the beginning of a cell that the line's end cut; mostly nothing."""
    last: int
    """Number of the last line it was read from."""
    single: ReadRow | None = None
    """The row it is if nothing follows: without column names, half a row looks like a row of one placement."""


@dataclass(slots=True)
class RowJoiner:
    """Takes rows out of the lines of one writer."""

    hosts: set[str] = field(default_factory=set)
    """Names that may stand glued to a cell."""
    pending: _Pending | None = None
    """The row that was begun and is not finished."""

    def take(self, line: Line, layout: Layout | None, one_placement: bool = False) -> Piece:
        """The rows that begin in a line. `one_placement` = rows of this table measure only one placement."""
        text = line.text
        found: list[Found] = []
        while (head := HEAD.search(text)) is not None:
            resumed = self.resume(line._replace(text=text[: head.start()]), layout)
            found += resumed.found if resumed else ()
            found += self.give_up(one_placement)
            cells = take_row(text, layout, self._hosts())
            if cells is None:
                break
            before = text[: cells.begin]
            part = text[: cells.end] if not before.strip() else text[cells.begin : cells.end]
            text = text[cells.end :]
            if cells.read is None:
                self.pending = _Pending(line, part, _begun(text), line.number)
            elif layout is None and len(cells.read.measured()) == 1 and not cells.not_finite:
                self.pending = _Pending(line, part, _begun(text), line.number, cells.read)
            else:
                found.append(_checked(line, cells))
        return Piece(tuple(found), text)

    def goes_on(self, line: Line) -> bool:
        """Whether a line begins as the rest of the row that was begun: with a cell, or, in the very next line, with the end of one."""
        if self.pending is None:
            return False
        return bool(FRAGMENT.match(line.text) or (line.number == self.pending.last + 1 and _CELL_END.match(line.text)))

    def resume(self, line: Line, layout: Layout | None) -> Piece | None:
        """What a line adds to the row that was begun; None = it is no part of it."""
        pending = self.pending
        if pending is None or len(pending.text) > _LONGEST_ROW or not self.goes_on(line):
            return None
        longer: _Pending | None = None
        rest = ""
        for joined in (pending.text + pending.begun + line.text, f"{pending.text} {line.text}"):
            cells = take_row(joined, layout, self._hosts())
            if cells is None and (start := START.match(joined)) and start.end() > len(pending.text):
                longer, rest = _Pending(pending.line, start[0], _begun(joined[start.end() :]), line.number), joined[start.end() :]
            if cells is None:
                continue
            if cells.read is not None and _adds_up(cells.read) and (pending.single is None or len(cells.read.measured()) == 2):
                self.pending = None
                return Piece((_checked(pending.line, cells),), joined[cells.end :])
            if cells.read is None and cells.end > len((longer or pending).text):
                longer, rest = _Pending(pending.line, joined[: cells.end], _begun(joined[cells.end :]), line.number), joined[cells.end :]
        if longer is None:
            return None
        self.pending = longer
        return Piece((), rest)

    def begin(self, line: Line) -> bool:
        """Takes a line as the start of a row that was torn before its type; False = it is none."""
        start = START.match(line.text)
        if start is None or self.pending is not None:
            return False
        self.pending = _Pending(line, start[0], "", line.number)
        return True

    def give_up(self, one_placement: bool) -> tuple[Found, ...]:
        """Ends the row that was begun: torn, unless rows of one placement are what this table has."""
        pending, self.pending = self.pending, None
        if pending is None or not HEAD.search(pending.text):
            return ()  # numbers that were no row
        return (Found(pending.line, pending.single if one_placement else None),)

    def _hosts(self) -> tuple[str, ...]:
        return tuple(sorted(self.hosts, key=len, reverse=True))


def _begun(rest: str) -> str:
    """What stands behind the last whole cell, where it can be the beginning of one."""
    return rest if len(rest) <= _LONGEST_CELL and _CUT_CELL.fullmatch(rest) else ""


def _checked(line: Line, cells: Cells) -> Found:
    """A whole row; torn after all where it has more elements than bytes, so that its size has lost digits."""
    read = cells.read
    if read is not None and read.row.size_bytes < read.row.count:
        return Found(line, None)
    return Found(line, read, cells.not_finite)


def _adds_up(read: ReadRow) -> bool:
    """Whether a row that was put together can be one: bandwidth is size / time, or the same share of it in both placements (alltoallv and
    hypercube count less than the size), and busbw / algbw is one factor in both."""
    measured = read.measured()
    exact = all(algbw_fits(read.row.size_bytes, value, slack) for value, slack in measured)
    shares = [share for value, slack in measured if (share := share_interval(read.row.size_bytes, value, slack)) is not None]
    alike = len(shares) == 2 and max(low for low, _ in shares) <= min(high for _, high in shares) and shares[0][0] <= 1
    return (exact or alike) and (factor_interval((read,)) is not None or all(value.algbw_gb_s < 1 for value, _ in measured))
