"""One data row of an nccl-tests table, whole, torn, or with foreign text glued to it.

Written against nccl-tests 1.0 to 2.19.6 and rccl-tests. A layout comes from the header line (names
and right edges). Without one it is derived from the row's own anchors: two integers and a type in
front, a reduction, a root, and measurements in blocks of four or eight.

>>> from busbw.parsers.nccl_tests.layout import parse_header
>>> layout = parse_header("#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error")
>>> cells = find_row("           8             2     float     sum    58.23    0.00    0.00  2e-07    56.02    0.00    0.00  4e-07", layout)
>>> cells.row.type, cells.row.redop, cells.row.root, cells.row.in_place.error
('float', 'sum', None, 4e-07)
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, replace
from math import isfinite

from busbw.model.benchmark import BenchmarkRow, Measurement
from busbw.parsers.nccl_tests.layout import USUAL_BLOCKS, Column, Layout
from busbw.parsers.nccl_tests.printed import PrintedRow, Slack, last_digit, slack_of

ELEMENT_BYTES = {
    "int8": 1, "char": 1, "uint8": 1, "int32": 4, "int": 4, "uint32": 4, "int64": 8, "uint64": 8, "half": 2, "float": 4, "double": 8,
    "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8,
}  # fmt: skip
"""Size of one element by the name in the type column; `char` and `int` are of NCCL 1, `fp8_*` of
RCCL, the last four of relatives."""

REDOPS = ("sum", "prod", "max", "min", "avg", "mulsum", "none")

_NUMBER = re.compile(r"-?(?:\d+(?:\.\d+)?(?:e[+-]?\d{1,4})?|nan|inf)")
_COUNT_CELL = re.compile(rf"{_NUMBER.pattern}|N/A")
_ROOT = re.compile(r"-?\d{1,9}")
_REDOP = re.compile("|".join(sorted(REDOPS, key=len, reverse=True)))
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
_TOKEN = re.compile(r"\s*(\S+)")
_VALUES = {
    "redop": _REDOP, "root": _ROOT, "wrong": _COUNT_CELL, "error": _COUNT_CELL, "other": re.compile(r"\S+"),
}  # fmt: skip
"""What stands in a column, if no number."""
_TYPES = "|".join(sorted(ELEMENT_BYTES, key=len, reverse=True))
_ANY_TYPE = r"[a-z]\w{1,15}(?=\s+(?:[a-z]+\s+)?(?:-?\d+\s+)?[\d.]+\s+[\d.]+\s+[\d.]+\s)"
"""A type not known here, where the cells behind it are those of a row."""
HEAD = re.compile(
    rf"(?<![\w.])(?P<size>\d{{1,19}})\s+(?P<count>\d{{1,19}})\s+(?P<type>(?:{_TYPES})(?=\s|$|[A-Z\[(<`\"']|[\w.-]+:\d+:\d+"
    rf" )|{_ANY_TYPE})"
)
"""The three cells that make a line a data row."""
_HOST = r"[\w.-]+:\d+:\d+ "
REST_OF_ROW = re.compile(
    rf"\s*(?:(?:{_NUMBER.pattern}|N/A)(?=\s|$|[A-Za-z\[({{<`\"'|*#\\])|(?:{_TYPES}|{'|'.join(REDOPS)})(?=\s|$|[^\w-]|{_HOST}))"
)
"""What the rest of a torn row begins with."""
ROW_START = re.compile(r"\s*\d+(?:\s+\d+)?(?=\s*$|[A-Za-z])")
"""A row torn before its type."""
_GLUE = re.compile(r"[A-Za-z\[({<`\"'|*#\\]")
"""What foreign text glued to a number may begin with."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The row, or the part of it, that a text holds."""

    printed: PrintedRow | None
    """None = cells are missing."""
    begin: int
    end: int
    """Where the row's text ends; behind it stands foreign text or nothing."""
    not_finite: bool = False
    """True = a measurement is nan or inf and was left out of the row."""

    @property
    def row(self) -> BenchmarkRow:
        """The row. Raises ValueError when it is not complete."""
        if self.printed is None:
            raise ValueError("the row is not complete")
        return self.printed.row


def guess_layout(text: str, hosts: tuple[str, ...] = ()) -> Layout | None:
    """The layout of a whole row that has no header, from its own anchors; None = the cells do not
    add up to one."""
    head = HEAD.search(text)
    if head is None:
        return None
    cells, end = _cells(text, head.end(), hosts)
    front = ["size", "count", "type"]
    if cells and _REDOP.fullmatch(cells[0]):
        front.append("redop")
        cells = cells[1:]
    if len(cells) % 4 == 1:
        front.append("root")
        cells = cells[1:]
    if len(cells) not in (4, 8, 16) or _is_root(cells[0]):
        return None
    has_errors = any(re.fullmatch(r"\de[-+]00|\de-\d+", cell) for cell in cells[3::4])
    block = ["time", "algbw", "busbw", "error" if has_errors else "wrong"]
    if len(cells) == 16:
        block += ["i_min", "i_max", "i_p99", "i_cv"]
    blocks = 1 if len(cells) == 4 else 2
    columns = [Column(name) for name in front]
    columns += [Column(name, number) for number in range(blocks) for name in block]
    if _take(text, end, Column("timestamp"), None, hosts) is not None:
        columns.append(Column("timestamp"))
    return Layout(tuple(columns), (False, True)[:blocks])


def _is_root(cell: str) -> bool:
    """Whether what stands where a time should is a root: a cell behind it is missing. Times have
    decimals below 10 ms."""
    return _ROOT.fullmatch(cell) is not None and int(cell) < 10_000


def find_row(text: str, layout: Layout | None, hosts: tuple[str, ...] = ()) -> Cells | None:
    """The first data row in a text, whole or torn; None = there is none.

    `hosts` are names that may stand glued to a cell (`-1node-a:41011:…`). They decide first, then
    the header's edges, then the first character that cannot belong to a number.
    """
    if layout is not None and layout.is_bare:
        layout = None
    if layout is not None and layout.blocks > 1:
        plain = _plain_row(tuple(column.name for column in layout.columns)).match(text)
        if plain is not None:
            printed, not_finite = _build(layout, list(plain.groups()))
            return Cells(printed, plain.start(1), plain.end(), not_finite)
    head = HEAD.search(text)
    if head is None:
        return None
    layout = layout or guess_layout(text, hosts)
    if layout is None:
        return Cells(None, head.start(), _cells(text, head.end(), hosts)[1])
    shift = _shift(layout, head)
    values: list[str | None] = [head["size"], head["count"], head["type"]]
    position = head.end()
    for column in layout.columns[3:]:
        taken = _take(text, position, column, shift, hosts)
        if taken is None:
            return Cells(None, head.start(), position)
        value, position = taken
        values.append(value)
        if value is not None and column.edge is not None and shift is not None:
            # A value too wide for its column moves all that follow. One too far to the left shows
            # that the row was re-indented.
            new_shift = position - column.edge
            shift = new_shift if new_shift >= shift else None
    if layout.blocks == 1 and len(_cells(text, position, hosts)[0]) >= 3:
        # the header has lost its second half: the row's own anchors decide
        wider = guess_layout(text, hosts)
        if wider is not None and wider.blocks == 2:
            return find_row(text, wider, hosts)
    printed, not_finite = _build(layout, values)
    return Cells(printed, head.start(), position, not_finite)


class PlainRows:
    """Reads the rows of one table to which nothing is glued and in which nothing is missing: of a
    thousand tables, nearly all. What it does not take, `find_row` reads cell by cell.

    >>> from busbw.parsers.nccl_tests.layout import parse_header
    >>> plain = PlainRows(parse_header("# size count type redop root time algbw busbw #wrong time algbw busbw #wrong"))
    >>> plain.row("8388608 2097152 float sum -1 96.41 87.01 163.14 0 95.88 87.49 164.05 N/A", 7).row.in_place.busbw_gb_s
    164.05
    >>> plain.row("8388608 2097152 float sum -1 96.41 87.01 163.14 0 95.88 87.49", 7) is None
    True
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        names = [column.name for column in layout.columns]
        self._match = _plain_row(tuple(names)).match
        blocks = [column.block for column in layout.columns]
        starts = [blocks.index(number) for number in range(layout.blocks) if number in blocks]
        front = names[: starts[0]] if starts else names
        block = tuple(names[starts[0] : starts[0] + blocks.count(0)]) if starts else ()
        is_usual = (
            block in USUAL_BLOCKS
            and names == [*front, *block * len(starts)]
            and (len(starts) == 1 or set(layout.in_place) == {False, True})
            and set(front) <= {"size", "count", "type", "redop", "root"}
            and (layout.is_bare or len(starts) == len(set(layout.in_place)) == 2)
        )
        self._starts = tuple(starts) if is_usual else ()
        self.reads_any = layout.is_bare or layout.blocks > 1
        """False = of such a table every row is read cell by cell: it may have lost its second half."""
        self._front = len(set(front))
        at = {name: place for place, name in enumerate(front)}
        # No column of these is the first one, so that 0 = it is not there.
        self._count_at, self._type_at = at.get("count", 0), at.get("type", 0)
        self._redop_at, self._root_at = at.get("redop", 0), at.get("root", 0)
        self._last = block[3] if len(block) > 3 else ""
        self._one_block: tuple[PlainRows, ...] = ()
        if layout.is_bare and len(self._starts) == 2:
            self._one_block = tuple(PlainRows(each) for each in _one_block_each(layout))

    def row(self, text: str, line_no: int) -> PrintedRow | None:
        """The row that a line is; None = it is to be read cell by cell, or is none."""
        match = self._match(text) if self._starts else None
        if match is None or text[match.end() :].strip():
            return self._row_of_one_block(text, line_no)
        cells = match.groups()
        size_bytes, count = int(cells[0]), int(cells[1]) if self._count_at else 0
        if size_bytes < count:
            return None
        values: dict[bool, Measurement] = {}
        slacks: dict[bool, Slack] = {}
        for start, in_place in zip(self._starts, self.layout.in_place, strict=True):
            measured = self._measurement(cells, start)
            if measured is None:
                return None
            values[in_place], slacks[in_place] = measured
        redop = cells[self._redop_at] if self._redop_at else None
        root = int(cells[self._root_at]) if self._root_at else -1
        row = BenchmarkRow(
            size_bytes,
            count,
            cells[2] if self._type_at else "",
            None if redop == "none" else redop,
            root if root >= 0 else None,
            values.get(False),
            values.get(True),
            line_no,
        )
        return PrintedRow(row, slacks.get(False), slacks.get(True))

    def _row_of_one_block(self, text: str, line_no: int) -> PrintedRow | None:
        """A row under two blocks that fills one of them, as mscclpp-test's do: which one shows in
        where its time ends."""
        cells = [match.end() for match in _TOKEN.finditer(text)]
        columns = [column for column in self.layout.columns if column.name in ("size", "time")]
        edges = [column.edge for column in columns if column.edge is not None]
        front = self._front
        if not self._one_block or len(edges) != 3 or len(cells) <= front:
            return None
        size, *times = edges
        ends = cells[front] - (cells[0] - size)
        nearest = min((0, 1), key=lambda block: abs(times[block] - ends))
        readers = self._one_block[nearest::2]
        return next((row for each in readers if (row := each.row(text, line_no))), None)

    def _measurement(self, cells: tuple[str, ...], start: int) -> tuple[Measurement, Slack] | None:
        """The block that begins there; None = a number in it is not finite."""
        layout = self.layout
        time, algbw, busbw = cells[start : start + 3]
        last = cells[start + 3] if self._last else "N/A"
        time_us, algbw_gb_s, busbw_gb_s = float(time), float(algbw), float(busbw)
        if not (isfinite(time_us) and isfinite(algbw_gb_s) and isfinite(busbw_gb_s)):
            return None
        wrong = error = None
        if self._last == "error":
            error = _finite(last)
            if error is None and last != "N/A":
                return None
        elif last == "0":
            wrong = 0
        else:
            wrong = elements(_finite(last))
            if wrong is None and last != "N/A":
                return None
        value = Measurement(
            time_us * layout.time_us,
            algbw_gb_s * layout.bandwidth_gb_s,
            busbw_gb_s * layout.bandwidth_gb_s,
            wrong,
            error,
        )
        digits = last_digit(time), last_digit(algbw), last_digit(busbw)
        return value, slack_of(digits, layout.time_us, layout.bandwidth_gb_s)


def _one_block_each(layout: Layout) -> tuple[Layout, ...]:
    """The layouts of rows that fill the first block, and the second; then of such that lack its last
    column: data that is not checked has no `#wrong`."""
    front = [column for column in layout.columns if column.block < 0]
    layouts = []
    for cut in (None, -1):
        for number, in_place in enumerate(layout.in_place):
            block = [column for column in layout.columns if column.block == number][:cut]
            columns = (*front, *(replace(column, block=0) for column in block))
            layouts.append(replace(layout, columns=columns, in_place=(in_place,)))
    return tuple(layouts)


@functools.cache
def _plain_row(names: tuple[str, ...]) -> re.Pattern[str]:
    """Matches a row of these columns to which nothing is glued and in which nothing is missing: the
    values by which the cells are taken one by one, at once."""
    values = [r"\s*(\d{1,19})(?=\s|$)"]
    for name in names[1:]:
        # A time of day has no place here: rows with one are read cell by cell.
        fronts = {"timestamp": r"(?!)", "count": r"\d{1,19}", "type": _TYPES}
        pattern = fronts.get(name) or _value_of(name).pattern
        values.append(rf"\s+({pattern})(?=\s|$)")
    return re.compile("".join(values))


def _shift(layout: Layout, head: re.Match[str]) -> int | None:
    """How far the row stands to the right of the header; None = its own columns do not keep the
    header's distances."""
    edges = [column.edge for column in layout.columns[:3]]
    shifts = {
        head.end(name) - edge
        for name, edge in zip(("size", "count", "type"), edges, strict=True)
        if edge is not None
    }
    return shifts.pop() if len(shifts) == 1 else None


def _cells(text: str, position: int, hosts: tuple[str, ...]) -> tuple[list[str], int]:
    """The cells from a position on, when no layout says how many there are, and where they end."""
    cells: list[str] = []
    while True:
        taken = _take(text, position, Column("wrong"), None, hosts)
        if taken is None and not cells:
            taken = _take(text, position, Column("redop"), None, hosts)
        if taken is None or taken[0] is None:
            return cells, position
        cells.append(taken[0])
        position = taken[1]


def _take(
    text: str, position: int, column: Column, shift: int | None, hosts: tuple[str, ...]
) -> tuple[str | None, int] | None:
    """The value of one column and where it ends; (None, position) = left blank; None = the text
    does not go on with such a value."""
    match = _TOKEN.match(text, position)
    if match is None:
        return None
    token, begin = match[1], match.start(1)
    if column.name == "timestamp":
        clock = _TOKEN.match(text, match.end())
        if not _DATE.fullmatch(token) or clock is None or not _CLOCK.match(clock[1]):
            return None
        return f"{token} {clock[1][:8]}", clock.start(1) + 8
    if column.name == "redop" and (_NUMBER.fullmatch(token) or _ROOT.match(token)):
        return None, position
    pattern = _value_of(column.name)
    if pattern.fullmatch(token):
        return token, match.end()
    if column.name in ("wrong", "error") and token[-1] == "*" and pattern.fullmatch(token[:-1]):
        return token[:-1], match.end()  # rccl-tests marks an error beyond its limit so
    length = _cut(token, begin, column, pattern, shift, hosts)
    return (token[:length], begin + length) if length else None


def _value_of(column: str) -> re.Pattern[str]:
    """What stands in a column of that name."""
    return _VALUES.get(column, _NUMBER)


def _cut(
    token: str,
    begin: int,
    column: Column,
    pattern: re.Pattern[str],
    shift: int | None,
    hosts: tuple[str, ...],
) -> int:
    """How many characters of a token with foreign text glued to it are the value; 0 = none."""
    for host in hosts:
        length = token.find(host + ":")
        if length > 0 and pattern.fullmatch(token[:length]):
            return length
    if column.edge is not None and shift is not None:
        length = column.edge + shift - begin
        if 0 < length < len(token) and pattern.fullmatch(token[:length]):
            return length
    longest = pattern.match(token)
    for length in range(min(longest.end(), 40) if longest else 0, 0, -1):  # no number is longer
        if pattern.fullmatch(token[:length]) and _GLUE.match(token[length]):
            return length
    return 0


def _build(layout: Layout, values: list[str | None]) -> tuple[PrintedRow, bool]:
    """The row of a full list of values; the flag says that a measurement was not finite and was
    left out."""
    front: dict[str, str | None] = {}
    blocks: list[dict[str, str]] = [{} for _ in layout.in_place]
    for column, value in zip(layout.columns, values, strict=True):
        if column.block < 0:
            front[column.name] = value
        elif value is not None:
            blocks[column.block][column.name] = value
    measured = {
        in_place: _measurement(layout, cells)
        for in_place, cells in zip(layout.in_place, blocks, strict=True)
    }
    out_of_place, out_of_place_slack = measured.get(False) or (None, None)
    in_place, in_place_slack = measured.get(True) or (None, None)
    root, redop = front.get("root"), front.get("redop")
    row = BenchmarkRow(
        size_bytes=int(front["size"] or 0),
        count=int(front["count"] or 0),
        type=front["type"] or "",
        redop=None if redop == "none" else redop,
        root=int(root) if root is not None and int(root) >= 0 else None,
        out_of_place=out_of_place,
        in_place=in_place,
        timestamp=front.get("timestamp"),
    )
    return PrintedRow(row, out_of_place_slack, in_place_slack), None in measured.values()


def _measurement(layout: Layout, cells: dict[str, str]) -> tuple[Measurement, Slack] | None:
    """One block of a row; None = a time, bandwidth, `#wrong` or error in it is nan or inf."""
    cputime = "cputime" in cells
    time, algbw, busbw = cells["cputime" if cputime else "time"], cells["algbw"], cells["busbw"]
    counted, error = cells.get("wrong", "N/A"), cells.get("error", "N/A")
    printed = (time, algbw, busbw, *(cell for cell in (counted, error) if cell != "N/A"))
    if not all(math.isfinite(float(text)) for text in printed):
        return None
    minimum, maximum, p99, cv = (
        _finite(cells.get(name)) for name in ("i_min", "i_max", "i_p99", "i_cv")
    )
    value = Measurement(
        time_us=float(time) * layout.time_us,
        algbw_gb_s=float(algbw) * layout.bandwidth_gb_s,
        busbw_gb_s=float(busbw) * layout.bandwidth_gb_s,
        wrong=elements(_finite(counted)),
        error=_finite(error),
        iter_min_us=minimum,
        iter_max_us=maximum,
        iter_p99_us=p99,
        iter_cv_percent=cv,
        cputime=cputime,
    )
    digits = last_digit(time), last_digit(algbw), last_digit(busbw)
    return value, slack_of(digits, layout.time_us, layout.bandwidth_gb_s)


def _finite(printed: str | None) -> float | None:
    """A number; None = N/A, nan, inf, or no such column."""
    number = math.nan if printed is None or printed == "N/A" else float(printed)
    return number if math.isfinite(number) else None


def elements(counted: float | None) -> int | None:
    """Wrong elements as a whole number that is 0 only where nothing was wrong; None stays None.

    >>> elements(0.0), elements(2.0), elements(0.5), elements(-1.0)
    (0, 2, 1, -1)
    """
    if counted is None:
        return None
    return math.ceil(counted) if counted > 0 else math.floor(counted)
