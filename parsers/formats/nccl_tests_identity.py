"""Which collective a table is of and over how many ranks, worked out from its own numbers.

busbw / algbw is a fixed factor of the number of ranks (nccl-tests `doc/PERFORMANCE.md`), and collectives whose buffer grows with the ranks
print size = count × element size × ranks. Both are used with the precision the numbers were printed with.

>>> ranks_of_factor(Collective.ALL_REDUCE, (1.8749, 1.8751))
(16, 16)
>>> ranks_of_factor(Collective.ALL_GATHER, (0.0, 0.0))
(1, 1)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from busbw.parsers.formats.nccl_tests_layout import ELEMENT_BYTES, ReadRow, Slack
from busbw.records.benchmark import Collective, Measurement, busbw_factor

_UNIT_FACTOR = (Collective.BROADCAST, Collective.REDUCE, Collective.SENDRECV, Collective.HYPERCUBE)
_SCALED = (
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.ALLTOALL,
    Collective.ALLTOALLV,
    Collective.SCATTER,
    Collective.GATHER,
    Collective.HYPERCUBE,
)
"""Collectives whose size is count × element size × ranks."""
_NUDGE = 1e-9
_MOST_RANKS = 1 << 20


@dataclass(frozen=True, slots=True)
class Identity:
    """What a table is of."""

    collective: Collective | None
    nranks: int | None
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hints:
    """What the text says about the run outside its rows."""

    collective: str | None = None
    """Of the program's name; None = not named."""
    listed_ranks: int | None = None
    """Ranks in the device list, in process 0's group; None = no list."""
    list_is_whole: bool = False
    """True = the list has every rank from 0 on."""
    logged_ranks: tuple[int, ...] = ()
    """`nranks` values of NCCL's own lines, most frequent first."""
    ranks_per_process: int = 1


def is_scaled(collective: Collective) -> bool:
    """Whether the size is count × element size × ranks."""
    return collective in _SCALED


def identify(rows: Sequence[ReadRow], hints: Hints) -> Identity:
    """The collective and the number of ranks of a table's rows, with what does not fit in words."""
    problems: list[str] = []
    candidates = _candidates(rows)
    named = Collective(hints.collective) if hints.collective else None
    collective = candidates[0] if len(candidates) == 1 else None
    if named is not None and (not candidates or named in candidates or named is Collective.ALLTOALLV):
        collective = named
    elif named is not None:
        problems.append(f"the program is {named}_perf, but the rows are not of that collective")
    elif candidates == (Collective.ALL_REDUCE, Collective.SENDRECV) and _in_place_counted(rows) and hints.listed_ranks in (None, 2):
        collective = Collective.ALL_REDUCE  # since 2.13.1 sendrecv leaves the in-place check out
    nranks, fitting = _count_ranks(rows, collective, hints)
    problems += _contradictions(nranks, fitting, hints, rows)
    if collective is None and nranks is not None:
        collective = _settle(candidates, rows, nranks)
    return Identity(collective, nranks, tuple(problems))


def convention(collective: Collective, nranks: int, rows: Sequence[ReadRow]) -> tuple[float, float]:
    """What algbw counts of the size (1 = all of it), and busbw / algbw, for these rows.

    hypercube, and all_gather and reduce_scatter before June 2020 (nccl-tests commit ec1b5e2), count (n−1)/n of the size in algbw
    already and print it again as busbw.
    """
    share = (nranks - 1) / nranks
    if collective is Collective.HYPERCUBE:
        return share, 1.0
    if collective in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER) and not _all_fit(rows, 1.0) and _all_fit(rows, share):
        return share, 1.0
    return 1.0, busbw_factor(collective, nranks)


def _all_fit(rows: Sequence[ReadRow], share: float) -> bool:
    """Whether every algbw is this share of size / time."""
    return all(algbw_fits(round(read.row.size_bytes * share), value, slack) for read in rows for value, slack in read.measured())


def algbw_interval(size_bytes: int, value: Measurement, slack: Slack) -> tuple[float, float] | None:
    """Lowest and highest algbw (GB/s) that the size and the printed time allow; None = the time is not the operation's (-C 1) or is 0."""
    if value.cputime or value.time_us <= slack.time_us:
        return None
    return size_bytes / (value.time_us + slack.time_us) / 1e3, size_bytes / (value.time_us - slack.time_us) / 1e3


def algbw_fits(size_bytes: int, value: Measurement, slack: Slack) -> bool:
    """Whether the printed algbw is size / time within the printed precision. True where the time says nothing about it."""
    interval = algbw_interval(size_bytes, value, slack)
    if interval is None:
        return True
    spare = slack.algbw_gb_s * (1 + 1e-6) + _NUDGE
    return interval[0] - spare <= value.algbw_gb_s <= interval[1] + spare


def share_interval(size_bytes: int, value: Measurement, slack: Slack) -> tuple[float, float] | None:
    """Lowest and highest algbw / (size / time), which is 1 where algbw counts the whole size; None = nothing was moved, or -C 1."""
    interval = algbw_interval(size_bytes, value, slack)
    if interval is None or interval[0] <= 0:
        return None
    return (value.algbw_gb_s - slack.algbw_gb_s) / interval[1], (value.algbw_gb_s + slack.algbw_gb_s) / interval[0]


def factor_interval(rows: Iterable[ReadRow]) -> tuple[float, float] | None:
    """Lowest and highest busbw / algbw that all rows allow; None = no row says anything, or they contradict each other."""
    low, high = 0.0, math.inf
    for read in rows:
        for value, slack in read.measured():
            interval = _factor(read.row.size_bytes, value, slack)
            if interval is not None:
                low, high = max(low, interval[0]), min(high, interval[1])
    return (low, high) if low <= high < math.inf else None


def _factor(size_bytes: int, value: Measurement, slack: Slack) -> tuple[float, float] | None:
    """busbw / algbw of one measurement; the time sharpens algbw where both agree."""
    low, high = value.algbw_gb_s - slack.algbw_gb_s, value.algbw_gb_s + slack.algbw_gb_s
    sharper = algbw_interval(size_bytes, value, slack)
    if sharper is not None and max(low, sharper[0]) <= min(high, sharper[1]):
        low, high = max(low, sharper[0]), min(high, sharper[1])
    if low <= 0:
        return None
    return max(0.0, value.busbw_gb_s - slack.busbw_gb_s) / high, (value.busbw_gb_s + slack.busbw_gb_s) / low


def ranks_of_factor(collective: Collective, factors: tuple[float, float]) -> tuple[int, int] | None:
    """Fewest and most ranks a busbw / algbw ratio allows; None = the collective's factor does not depend on the ranks, or none fits."""
    if collective in _UNIT_FACTOR:
        return None
    whole = 2.0 if collective is Collective.ALL_REDUCE else 1.0
    low, high = (whole / (whole - factor) if factor < whole else float(_MOST_RANKS) for factor in factors)
    fewest, most = max(1, math.ceil(low - 1e-6)), min(_MOST_RANKS, math.floor(high + 1e-6))
    return (fewest, most) if fewest <= most else None


def _scale(rows: Sequence[ReadRow]) -> int | None:
    """size / (count × element size), where it is one whole number in all rows; None = it is not, or all counts are 0."""
    scales = set()
    for read in rows:
        row = read.row
        if row.count > 0 and row.type in ELEMENT_BYTES:
            whole, rest = divmod(row.size_bytes, row.count * ELEMENT_BYTES[row.type])
            scales.add(whole if rest == 0 else 0)
    return scales.pop() if len(scales) == 1 and 0 not in scales else None


def _candidates(rows: Sequence[ReadRow]) -> tuple[Collective, ...]:
    """The collectives that print such rows; () = the rows contradict each other or say nothing."""
    scale = _scale(rows)
    if scale is None:
        return ()
    reduces = any(read.row.redop is not None for read in rows)
    if any(read.row.root is not None for read in rows):
        if reduces:
            return (Collective.REDUCE,)
        return (Collective.BROADCAST,) if scale == 1 and not _factor_is_zero(rows) else (Collective.SCATTER, Collective.GATHER)
    if scale > 1 or not reduces:
        return (Collective.REDUCE_SCATTER,) if reduces else _gathering(rows, scale)
    if _in_place_unchecked(rows):
        return (Collective.SENDRECV,)
    factors = factor_interval(rows)
    certain = _factor_is_zero(rows) or (factors is not None and factors[0] > 1 + 1e-6)
    return (Collective.ALL_REDUCE,) if certain else (Collective.ALL_REDUCE, Collective.SENDRECV)


def _gathering(rows: Sequence[ReadRow], scale: int) -> tuple[Collective, ...]:
    """all_gather and its like. alltoall has left the in-place check out since 2.13.1, when errors became counts."""
    if _in_place_unchecked(rows):
        return (Collective.ALLTOALL, Collective.ALLTOALLV)
    alike = (Collective.ALL_GATHER, Collective.HYPERCUBE) + (() if _in_place_counted(rows) else (Collective.ALLTOALL,))
    return alike if scale > 1 or _factor_is_zero(rows) else (*alike, Collective.SENDRECV)


def _factor_is_zero(rows: Sequence[ReadRow]) -> bool:
    """True = busbw is 0 beside a real algbw: one rank."""
    factors = factor_interval(rows)
    return factors is not None and factors[1] < 0.4


def _in_place_counted(rows: Sequence[ReadRow]) -> bool:
    """True = wrong elements were counted in place."""
    return any(read.row.in_place is not None and read.row.in_place.wrong is not None for read in rows)


def _in_place_unchecked(rows: Sequence[ReadRow]) -> bool:
    """True = out-of-place was checked and in-place never: alltoall, alltoallv and sendrecv since 2.13.1."""
    both = [(read.row.out_of_place, read.row.in_place) for read in rows if read.row.out_of_place and read.row.in_place]
    return bool(both) and all(out is not None and out.wrong is not None and into is not None and into.wrong is None for out, into in both)


def _settle(candidates: tuple[Collective, ...], rows: Sequence[ReadRow], nranks: int) -> Collective | None:
    """One of several candidates, where the number of ranks leaves only one whose bandwidths fit."""
    factors = factor_interval(rows)
    if factors is None or any(value.error is not None for read in rows for value, _ in read.measured()):
        return None  # with an error column: before 2.13, whose all_gather and hypercube can print the same numbers
    fitting = []
    for candidate in candidates:
        if candidate in (Collective.ALLTOALLV, Collective.REDUCE_SCATTER) and _scale(rows) == 1 and nranks > 1:
            continue
        fewest_most = ranks_of_factor(candidate, factors)
        unit = candidate in _UNIT_FACTOR and factors[0] - 1e-6 <= 1 <= factors[1] + 1e-6 and nranks > 1
        if unit or (fewest_most is not None and fewest_most[0] <= nranks <= fewest_most[1]):
            fitting.append(candidate)
    if len(fitting) == 2 and fitting[1] is Collective.ALLTOALLV:
        fitting.pop()  # its options and its matrix have to be asked for: a plain alltoall is what such rows are of
    return fitting[0] if len(fitting) == 1 else None


def _count_ranks(rows: Sequence[ReadRow], collective: Collective | None, hints: Hints) -> tuple[int | None, tuple[int, int] | None]:
    """The number of ranks, and the fewest and most that the rows allow (None = they say nothing)."""
    fitting = _fitting(rows, collective)
    listed = hints.listed_ranks
    if fitting is None:
        return listed if listed is not None else next(iter(hints.logged_ranks), None), None
    fewest, most = fitting
    if listed is not None and listed > most:
        return listed, fitting  # a list can have lost lines, but the ranks it names were there
    for known in (listed, *hints.logged_ranks):
        if known is not None and fewest <= known <= most:
            return known, fitting
    if fewest == most:
        return fewest, fitting
    return _roundest(fewest, most, hints), fitting


def _fitting(rows: Sequence[ReadRow], collective: Collective | None) -> tuple[int, int] | None:
    """Fewest and most ranks that sizes and bandwidths allow."""
    scale = _scale(rows)
    if scale is not None and scale > 1 and (collective is None or collective in _SCALED):
        return scale, scale
    factors = factor_interval(rows)
    if factors is None:
        return None
    if collective is not None:
        return ranks_of_factor(collective, factors)
    only_all_reduce = factors[0] > 1 + 1e-6
    return ranks_of_factor(Collective.ALL_REDUCE, factors) if only_all_reduce or factors[1] < 0.4 else None


def _roundest(fewest: int, most: int, hints: Hints) -> int | None:
    """The only multiple of 8 (GPUs of a node), else the only power of two, in a range too wide to decide; None = several or none."""
    step = math.lcm(8, max(1, hints.ranks_per_process))
    first = -(-fewest // step) * step
    if first <= most < first + step:
        return first
    power = 1 << (max(fewest, 1) - 1).bit_length()
    return power if power <= most < 2 * power else None


def _contradictions(nranks: int | None, fitting: tuple[int, int] | None, hints: Hints, rows: Sequence[ReadRow]) -> list[str]:
    """What the device list, the log and the numbers disagree about."""
    problems = []
    listed = hints.listed_ranks
    if fitting is not None and listed is not None and not fitting[0] <= listed <= fitting[1]:
        says = f"{fitting[0]}" if fitting[0] == fitting[1] else f"{fitting[0]} to {fitting[1]}"
        problems.append(f"the device list names {listed} ranks, but sizes and bandwidths are those of {says}")
    elif listed is None and rows and fitting is not None and fitting[0] != fitting[1]:
        if nranks is None:
            problems.append(f"the number of ranks is not known: {fitting[0]} to {fitting[1]} fit the bandwidths")
        elif nranks not in hints.logged_ranks:
            problems.append(
                f"the number of ranks is worked out: {fitting[0]} to {fitting[1]} fit the bandwidths, {nranks} is the round one"
            )
    elif listed is not None and not hints.list_is_whole:
        problems.append("the device list is not whole")
    return problems
