"""Numbers of a run of nccl-tests that contradict each other: bandwidth against size and time, counts against
sizes, and what is no number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from busbw.model.benchmark import BenchmarkRow, Collective
from busbw.parsers.nccl_tests.identity import Identity, convention
from busbw.parsers.nccl_tests.printed import PrintedRow, algbw_fits, algbw_interval
from busbw.parsers.nccl_tests.problem import LISTED, Problem, quote
from busbw.parsers.nccl_tests.rows import ELEMENT_BYTES
from busbw.parsers.nccl_tests.run_facts import RunFacts
from busbw.units import counted


def wrong_numbers(facts: RunFacts, identity: Identity) -> Iterator[Problem]:
    """busbw recomputed from size, time and factor against the printed one; nan and inf."""
    # Without rows there is nothing to be wrong: a run that ended at once prints an average of nan.
    for line in facts.not_finite[:LISTED] if facts.rows else ():
        yield Problem(f"not a number: {quote(line)}", fault=True)
    share, factor = 1.0, None
    if identity.collective is not None and identity.nranks is not None:
        share, factor = convention(identity.collective, identity.nranks, facts.rows)
    wrong = []
    for printed in facts.rows:
        disagreement = _disagreement(printed, identity, share, factor)
        if disagreement is not None:
            wrong.append(disagreement)
    if wrong:
        worst = max(each.share for each in wrong)
        first = next(each for each in wrong if (each.share > _NOTE) == (worst > _NOTE))
        yield Problem(first.text + _and_more(wrong), fault=worst > _NOTE)
    yield from _wrong_counts(facts)


def _wrong_counts(facts: RunFacts) -> Iterator[Problem]:
    """Rows whose size is another multiple of count and element size than that of most rows."""
    scales = [(printed.row, _scale(printed.row)) for printed in facts.rows]
    often_of = Counter(scale for _, scale in scales if scale)
    if not often_of:
        return
    ((usual, often),) = often_of.most_common(1)
    wrong = [row for row, scale in scales if scale is not None and scale != usual]
    if not wrong or often <= often_of.total() - often:
        return
    row = wrong[0]
    yield Problem(
        f"{_line(row)}{row.count} elements of {row.type} are not {row.size_bytes} bytes as in the"
        f" other rows{_and_more(wrong)}",
        fault=True,
    )


def _scale(row: BenchmarkRow) -> Fraction | None:
    """size / (count × element size): 1, or the number of ranks; 0 = a size of no elements; None =
    nothing was counted, or the type is not known."""
    if row.count < 0 or row.type not in ELEMENT_BYTES or not row.size_bytes:
        return None
    if not row.count:
        return Fraction(0)
    return Fraction(row.size_bytes, row.count * ELEMENT_BYTES[row.type])


_NOTE = 0.005
"""A bandwidth that is off by less is told and is no fault: another clock, or a digit of rounding."""


class _Disagreement(NamedTuple):
    """What does not fit in a row."""

    text: str
    share: float
    """Of the bandwidth that would fit."""


def _disagreement(
    printed: PrintedRow, identity: Identity, share: float, factor: float | None
) -> _Disagreement | None:
    """What does not fit in one row; None = all does. `share` of the size is what algbw counts,
    `factor` is busbw / algbw (None = not known)."""
    row = printed.row
    for value, slack in printed.measured():
        if value.time_us < 0:
            return _Disagreement(f"{_line(row)}a time of {value.time_us:g} µs is none", math.inf)
        carried = round(row.size_bytes * share)
        # alltoallv's algbw is of what the busiest rank moved
        exempt = identity.collective is Collective.ALLTOALLV
        if not exempt and not algbw_fits(carried, value, slack):
            interval = algbw_interval(carried, value, slack) or (0.0, 0.0)
            are = "are" if math.isfinite(interval[1]) else "are at least"
            text = (
                f"{_line(row)}algbw is {value.algbw_gb_s:g} GB/s, but {carried} bytes in"
                f" {value.time_us:g} µs {are} {interval[0]:.4g} GB/s"
            )
            return _Disagreement(text, _off_by(value.algbw_gb_s, interval[0]))
        if factor is None:
            continue
        spare = slack.busbw_gb_s + factor * slack.algbw_gb_s + 1e-6 * value.busbw_gb_s + 1e-9
        if abs(value.busbw_gb_s - factor * value.algbw_gb_s) > spare:
            text = (
                f"{_line(row)}busbw is {value.busbw_gb_s:g} GB/s, but algbw {value.algbw_gb_s:g} ×"
                f" {factor:g} ({identity.collective} over {identity.nranks} ranks) is"
                f" {factor * value.algbw_gb_s:.4g} GB/s"
            )
            return _Disagreement(text, _off_by(value.busbw_gb_s, factor * value.algbw_gb_s))
    return None


def _off_by(printed: float, fitting: float) -> float:
    return abs(printed - fitting) / fitting if fitting > 0 else math.inf


def _and_more(rows: Sequence[object]) -> str:
    """How many rows are wrong beside the one that is told."""
    return f" (and {counted(len(rows) - 1, 'more row')})" if len(rows) > 1 else ""


def _line(row: BenchmarkRow) -> str:
    return f"line {row.line_no}: " if row.line_no else ""
