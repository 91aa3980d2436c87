"""The rows that iperf3 and iperf print for people, and whether they go together: the intervals of a
stream follow one another and add up to its sum, those of all streams to the row of their sum
(src/iperf_locale.c of iperf 3.21, include/Locale.c of iperf 2.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from busbw.parsers.tools.numbers import RowForm

TIME = r"^(?:\w{3} \w{3} [ \d]\d [\d:]{8} \d{4} ?)?"
"""Of --timestamps."""
_ID = r"\[ *(SUM|\*?\d{1,6})\](?:\[([TR]X)-[CS]\])?"
_INTERVAL = re.compile(
    TIME + _ID + r" +(\d{1,7}\.\d+)- *(\d{1,7}\.\d+) +sec"
    r" +(\d+(?:\.\d+)?) ([KMGT]?)Bytes +(\d+(?:\.\d+)?) ([KMGT]?)(bits|Bytes)/sec([^\n]{0,120})$",
    re.M,
)
_BEGIN_OF_ROW = re.compile(
    TIME
    + _ID
    + r"(?!.*datagrams received out-of-order)(?: *| +-?\d[-\d.,]{0,20} *(?:-?\d[\d.,]{0,20} *)?(?:se?c?(?: +[-\d.n].*)?)?)$",
    re.M,
)
ROW = RowForm(_BEGIN_OF_ROW, _INTERVAL)
_OMITTED = "(omitted)"
"""Of -O: it counts in no sum."""
_LOST = re.compile(r"(\d{1,18})/ *(\d{1,18}) \(")
_RETRIES = re.compile(r"^ +(\d{1,9})\b(?!\.|/)")
_BITS = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}
"""Gb/s of one unit. Units of bytes count in 1024, units of bits in 1000."""
_ROUNDED = 0.012
"""Share by which numbers of three digits may miss their sum, or each other."""
_ROUNDED_S = 0.011
"""Twice the last digit of a time."""
_GAP_S = 0.1
"""So far an interval may begin from where the one before it ended."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a test: an interval, or a whole test of one stream or of all."""

    stream: str
    back: bool
    """True = the other direction of `--bidir`."""
    begin_s: float
    end_s: float
    sent_bytes: float
    gbit_s: float
    end: str
    """`sender` or `receiver` in a summary of iperf3; "" = an interval, or of iperf."""
    retransmits: int | None = None
    packets: tuple[int, int] | None = None
    """UDP's: lost, all."""

    @property
    def shown(self) -> str:
        """As it begins in the text."""
        return f"[{self.stream}] {self.begin_s:.2f}-{self.end_s:.2f} sec"


def rows_in(text: str) -> list[Row]:
    """The rows of a test.

    >>> [(row.shown, row.gbit_s) for row in rows_in("[  5]   0.00-1.00   sec  2.33 GBytes  20.0 Gbits/sec    0")]
    [('[5] 0.00-1.00 sec', 20.0)]
    """
    found = (match for match in _INTERVAL.finditer(text) if _OMITTED not in match[10])
    return [_row(match) for match in found]


def _row(match: re.Match[str]) -> Row:
    tail = match[10].strip()
    lost, retries = _LOST.search(tail), _RETRIES.match(match[10])
    bits = 8 * (1.024 ** "_KMGT".index(match[8] or "_")) if match[9] == "Bytes" else 1
    return Row(
        stream=match[1],
        back=match[2] == "RX",
        begin_s=float(match[3]),
        end_s=float(match[4]),
        sent_bytes=float(match[5]) * 1024 ** "_KMGT".index(match[6] or "_"),
        gbit_s=float(match[7]) * _BITS[match[8]] * bits,
        end=next((end for end in ("sender", "receiver") if tail.endswith(end)), ""),
        retransmits=int(retries[1]) if retries and not lost else None,
        packets=(int(lost[1]), int(lost[2])) if lost else None,
    )


def contradiction(rows: Sequence[Row]) -> str:
    """What of the rows of one test does not go together; "" = nothing. Of several clients of iperf
    the rows have the same names: little can be said of them."""
    doubts = [*_rates(rows)]
    if any(row.end for row in rows):
        doubts += [*_order(rows), *_totals(rows)]
    if len({(row.shown, row.back, row.end) for row in rows}) == len(rows):
        doubts += _streams(rows)
    return next(iter(doubts), "")


def _rates(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        seconds = row.end_s - row.begin_s
        if seconds <= 0:
            yield f"the times of the row {row.shown} are none"
            continue
        rate = row.sent_bytes * 8e-9 / seconds
        slack = _ROUNDED + _ROUNDED_S / seconds
        if abs(rate - row.gbit_s) > slack * max(rate, row.gbit_s) + 1e-8:
            yield f"the bytes of the row {row.shown} are {rate:.3g} Gb/s, not {row.gbit_s:.3g}"


def _intervals(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, bool], list[Row]]]:
    """Those of each stream and direction."""

    def of(row: Row) -> tuple[str, bool]:
        return row.stream, row.back

    plain = sorted((row for row in rows if not row.end), key=of)
    for key, group in groupby(plain, key=of):
        yield key, list(group)


def _order(rows: Sequence[Row]) -> Iterator[str]:
    for (stream, _), intervals in _intervals(rows):
        if intervals[0].begin_s > _GAP_S:
            yield f"the intervals before {intervals[0].shown} are missing"
        for before, row in pairwise(intervals):
            if row.begin_s < before.end_s - _GAP_S:
                yield f"the interval {row.shown} stands twice, or not in its place: two tests in one?"
            elif row.begin_s > before.end_s + _GAP_S:
                yield f"an interval of [{stream}] is missing: {before.end_s:g} to {row.begin_s:g} sec"


def _totals(rows: Sequence[Row]) -> Iterator[str]:
    for (stream, back), intervals in _intervals(rows):
        sums = [row for row in rows if row.end and (row.stream, row.back) == (stream, back)]
        added = sum(row.sent_bytes for row in intervals)
        last = intervals[-1]
        if sums and last.end_s < min(row.end_s for row in sums) - _GAP_S:
            yield f"the intervals behind {last.shown} are missing"
        elif sums and not any(_is_near(added, row.sent_bytes) for row in sums):
            yield (
                f"the intervals of [{stream}] add up to {added:.4g} bytes, not to"
                f" {sums[0].sent_bytes:.4g}, as printed"
            )


def _streams(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        same = (row.back, row.begin_s, row.end_s, row.end)
        parts = [
            each.sent_bytes
            for each in rows
            if each.stream != "SUM" and (each.back, each.begin_s, each.end_s, each.end) == same
        ]
        if row.stream == "SUM" and parts and not _is_near(sum(parts), row.sent_bytes):
            yield f"the streams add up to {sum(parts):.4g} bytes, not to the row {row.shown}"


def _is_near(one: float, other: float) -> bool:
    return abs(one - other) <= _ROUNDED * max(one, other) + 1024
