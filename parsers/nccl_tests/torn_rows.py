"""Rows that other text tore apart.

nccl-tests writes a row in steps (the head, each placement, the line end) while NCCL logs to the same
stream, launchers end unfinished lines, and terminals wrap long ones. The pieces are joined where the
result is a row whose bandwidths are its size over its times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from busbw.parsers.nccl_tests.layout import Layout
from busbw.parsers.nccl_tests.lines import Line
from busbw.parsers.nccl_tests.printed import PrintedRow, algbw_fits, factor_interval, share_interval
from busbw.parsers.nccl_tests.rows import HEAD, REST_OF_ROW, ROW_START, Cells, find_row

_CUT_CELL = re.compile(r"\s*(?:-?\d*\.?\d*(?:e[+-]?\d*)?|N/?|[a-z]{1,7})")
_CELL_END = re.compile(r"(?:\.\d*|/?A|e?[+-]?\d+)(?=\s|$)")
_SENTENCE = re.compile(r"\s*\d+\s+(?!N/A|nan|inf)[A-Za-z]")
"""A number and a word, such as `2 of 5: all_reduce`. Behind a row's type no count stands before a word."""
_LONGEST_CELL = 80
"""Characters with the blanks before it; a column is at most 20 wide."""
_LONGEST_ROW = 4096
"""Characters; a whole row has about 300. What is longer is no row that was torn, and to read it
again with every line would never end."""


class RowAt(NamedTuple):
    """A row, or the line on which one began that was never finished."""

    line: Line
    """Where it began."""
    printed: PrintedRow | None
    """None = torn."""
    not_finite: bool = False
    """True = a measurement is nan or inf and was left out."""


class Piece(NamedTuple):
    """What a line gave."""

    rows: tuple[RowAt, ...]
    """Rows that are finished with it, and rows given up because of it; () = it only continued a
    row."""
    rest: str
    """What stands behind the last cell: foreign text, or nothing."""


class _Pending(NamedTuple):
    """The part of a row that was read so far."""

    line: Line
    text: str
    """Up to its last whole cell."""
    cut_cell: str
    """Behind that, the beginning of a cell that the line's end cut; mostly nothing."""
    last: int
    """Number of the last line it was read from."""
    single: PrintedRow | None = None
    """The row it is if nothing follows: without column names, half a row looks like a row of one
    placement."""


@dataclass(slots=True)
class RowJoiner:
    """Takes rows out of the lines of one writer.

    >>> row = "     8388608       2097152     float     sum      -1"
    >>> rest = "    96.41   87.01  163.14       0    95.88   87.49  164.05       0"
    >>> joiner = RowJoiner(hosts={"node-a"})
    >>> joiner.take(Line(1, "", row + "node-a:41011:41040 [0] NCCL INFO", True), None).rest
    'node-a:41011:41040 [0] NCCL INFO'
    >>> (joined,) = joiner.resume(Line(2, "", rest, True), None).rows
    >>> joined.line.number, joined.printed.row.in_place.time_us
    (1, 95.88)
    """

    hosts: set[str] = field(default_factory=set)
    """Names that may stand glued to a cell."""
    pending: _Pending | None = None
    """The row that was begun and is not finished."""

    def take(self, line: Line, layout: Layout | None, one_placement: bool = False) -> Piece:
        """The rows that begin in a line. `one_placement` = rows of this table measure only one
        placement."""
        text = line.text
        rows: list[RowAt] = []
        while (head := HEAD.search(text)) is not None:
            resumed = self.resume(line._replace(text=text[: head.start()]), layout)
            rows += resumed.rows if resumed else ()
            rows += self.give_up(one_placement)
            cells = find_row(text, layout, self._hosts())
            if cells is None:
                break
            before, behind = text[: cells.begin], text[cells.end :]
            part = text[cells.begin : cells.end] if before.strip() else text[: cells.end]
            half = (
                layout is None
                and cells.printed is not None
                and len(cells.printed.measured()) == 1
                and not cells.not_finite
            )
            if cells.printed is None or half:
                cut_cell = _beginning_of_cell(behind)
                self.pending = _Pending(line, part, cut_cell, line.number, cells.printed)
            else:
                rows.append(_row_at(line, cells))
            text = behind
        return Piece(tuple(rows), text)

    def continues(self, line: Line) -> bool:
        """Whether a line begins as the rest of the row that was begun: with a cell, or, in the very
        next line, with the end of one."""
        if self.pending is None or (_SENTENCE.match(line.text) and HEAD.search(self.pending.text)):
            return False
        if REST_OF_ROW.match(line.text):
            return True
        next_line = line.number == self.pending.last + 1
        return next_line and _CELL_END.match(line.text) is not None

    def resume(self, line: Line, layout: Layout | None) -> Piece | None:
        """What a line adds to the row that was begun; None = it is no part of it."""
        pending = self.pending
        if pending is None or len(pending.text) > _LONGEST_ROW or not self.continues(line):
            return None
        longer: _Pending | None = None
        rest = ""
        for text in (pending.text + pending.cut_cell + line.text, f"{pending.text} {line.text}"):
            cells = find_row(text, layout, self._hosts())
            if cells is None:
                start = ROW_START.match(text)
                if start and start.end() > len(pending.text):
                    longer, rest = _longer(pending, text, start.end(), line), text[start.end() :]
            elif cells.printed is None:
                if cells.end > len((longer or pending).text):
                    longer, rest = _longer(pending, text, cells.end, line), text[cells.end :]
            elif _is_plausible(cells.printed) and (
                pending.single is None or len(cells.printed.measured()) == 2
            ):
                self.pending = None
                return Piece((_row_at(pending.line, cells),), text[cells.end :])
        if longer is None:
            return None
        self.pending = longer
        return Piece((), rest)

    def begin(self, line: Line) -> bool:
        """Takes a line as the start of a row that was torn before its type; False = it is none."""
        start = ROW_START.match(line.text)
        if start is None or self.pending is not None:
            return False
        self.pending = _Pending(line, start[0], "", line.number)
        return True

    def give_up(self, one_placement: bool) -> tuple[RowAt, ...]:
        """Ends the row that was begun: torn, unless rows of one placement are what this table
        has."""
        pending, self.pending = self.pending, None
        if pending is None or not HEAD.search(pending.text):
            return ()  # numbers that were no row
        return (RowAt(pending.line, pending.single if one_placement else None),)

    def _hosts(self) -> tuple[str, ...]:
        return tuple(sorted(self.hosts, key=len, reverse=True))


def _longer(pending: _Pending, text: str, end: int, line: Line) -> _Pending:
    """The pending row with what a further line added: `text` up to `end`."""
    return _Pending(pending.line, text[:end], _beginning_of_cell(text[end:]), line.number)


def _beginning_of_cell(rest: str) -> str:
    """What stands behind the last whole cell, where it can be the beginning of one."""
    return rest if len(rest) <= _LONGEST_CELL and _CUT_CELL.fullmatch(rest) else ""


def _row_at(line: Line, cells: Cells) -> RowAt:
    """A whole row. A row with more elements than bytes is torn after all: its size has lost
    digits."""
    printed = cells.printed
    if printed is not None and printed.row.size_bytes < printed.row.count:
        return RowAt(line, None)
    return RowAt(line, printed, cells.not_finite)


def _is_plausible(printed: PrintedRow) -> bool:
    """Whether a joined row can be one: bandwidth is size / time, or the same share of it in both
    placements (alltoallv and hypercube count less than the size), and busbw / algbw is one factor
    in both."""
    size_bytes, measured = printed.row.size_bytes, printed.measured()
    if not all(algbw_fits(size_bytes, value, slack) for value, slack in measured):
        shares = [share_interval(size_bytes, value, slack) for value, slack in measured]
        lows = [share[0] for share in shares if share is not None]
        highs = [share[1] for share in shares if share is not None]
        if len(lows) != 2 or max(lows) > min(highs) or lows[0] > 1:
            return False
    return factor_interval((printed,)) is not None or all(
        value.algbw_gb_s < 1 for value, _ in measured
    )
