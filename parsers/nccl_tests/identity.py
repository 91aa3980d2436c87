"""Which collective a table is of and over how many ranks, from its own numbers.

busbw / algbw is a fixed factor of the number of ranks (nccl-tests `doc/PERFORMANCE.md`), and
collectives whose buffer grows with the ranks print size = count × element size × ranks. Both are
used with the precision the numbers were printed with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model.benchmark import Collective, busbw_factor
from busbw.parsers.nccl_tests.printed import PrintedRow, algbw_fits, factor_interval
from busbw.parsers.nccl_tests.rows import ELEMENT_BYTES
from busbw.units import counted

_UNIT_FACTOR = (Collective.BROADCAST, Collective.REDUCE, Collective.SENDRECV, Collective.HYPERCUBE)
UNSCALED = (Collective.ALL_REDUCE, Collective.BROADCAST, Collective.REDUCE, Collective.SENDRECV)
"""Collectives whose size is count × element size; that of all others is also × ranks."""
_MOST_RANKS = 1 << 20
_Factors = tuple[float, float] | None
"""Lowest and highest busbw / algbw that all rows allow, as `factor_interval` gives them."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a table is of."""

    collective: Collective | None
    nranks: int | None
    problems: tuple[str, ...]
    mismatch: str | None = None
    """The one of the problems that says that the rows are not of the program named."""
    missing_ranks: str | None = None
    """The one of the problems that says that the device list has lost ranks."""


_MOST_MISSING = 8


@dataclass(frozen=True, slots=True)
class Hints:
    """What the text says about the run outside its rows."""

    collective: str | None = None
    """Of the program's name; None = not named."""
    listed_ranks: int | None = None
    """Ranks in the device list, in process 0's group; None = no list."""
    list_entries: int = 0
    """Ranks that have an entry in it, over all groups."""
    list_is_complete: bool = False
    """True = the list has every rank from 0 on."""
    missing_ranks: tuple[int, ...] = ()
    """Those up to its last one that it does not name."""
    logged_ranks: tuple[int, ...] = ()
    """`nranks` values of NCCL's own lines, most frequent first; where there are none, what a quoted
    command line would start."""
    ranks_per_process: int = 1


def is_scaled(collective: Collective) -> bool:
    """Whether the size is count × element size × ranks."""
    return collective not in UNSCALED


def identify(rows: Sequence[PrintedRow], hints: Hints) -> Identity:
    """The collective and the number of ranks of a table's rows, with what does not fit in words."""
    problems: list[str] = []
    mismatch = None
    factors = factor_interval(rows)
    candidates = _candidates(rows, factors)
    collective = _named_or_only(candidates, rows, hints)
    if collective is None and hints.collective and candidates:
        mismatch = (
            f"the program is {hints.collective}_perf, but the rows are not of that collective"
        )
        problems.append(mismatch)
        collective = candidates[0] if len(candidates) == 1 else None
    nranks, fitting = _count_ranks(rows, collective, hints, factors)
    missing_ranks = _missing_ranks(fitting, hints)
    problems += [missing_ranks] if missing_ranks else _contradictions(nranks, fitting, hints, rows)
    if collective is None and nranks is not None:
        collective = _settle(candidates, rows, nranks, factors)
    return Identity(collective, nranks, tuple(problems), mismatch, missing_ranks)


def _named_or_only(
    candidates: tuple[Collective, ...], rows: Sequence[PrintedRow], hints: Hints
) -> Collective | None:
    """The collective that the program's name and the rows agree on; None = they do not, or several
    are possible."""
    if hints.collective:
        named = Collective(hints.collective)
        agrees = not candidates or named in candidates or named is Collective.ALLTOALLV
        return named if agrees else None
    if len(candidates) == 1:
        return candidates[0]
    if (
        candidates == (Collective.ALL_REDUCE, Collective.SENDRECV)
        and _in_place_counted(rows)
        and hints.listed_ranks in (None, 2)
    ):
        return Collective.ALL_REDUCE  # since 2.13.1 sendrecv leaves the in-place check out
    return None


def convention(
    collective: Collective, nranks: int, rows: Sequence[PrintedRow]
) -> tuple[float, float]:
    """What algbw counts of the size (1 = all of it), and busbw / algbw, for these rows.

    hypercube, and all_gather and reduce_scatter before June 2020 (nccl-tests commit ec1b5e2), count
    (n−1)/n of the size in algbw already and print it again as busbw.
    """
    share = (nranks - 1) / nranks
    if collective is Collective.HYPERCUBE:
        return share, 1.0
    if (
        collective in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
        and not _all_fit(rows, 1.0)
        and _all_fit(rows, share)
    ):
        return share, 1.0
    return 1.0, busbw_factor(collective, nranks)


def _all_fit(rows: Sequence[PrintedRow], share: float) -> bool:
    """Whether every algbw is this share of size / time."""
    return all(
        algbw_fits(round(printed.row.size_bytes * share), value, slack)
        for printed in rows
        for value, slack in printed.measured()
    )


def ranks_of_factor(collective: Collective, factors: tuple[float, float]) -> tuple[int, int] | None:
    """Fewest and most ranks a busbw / algbw ratio allows; None = the collective's factor does not
    depend on the ranks, or none fits.

    >>> ranks_of_factor(Collective.ALL_REDUCE, (1.8749, 1.8751))
    (16, 16)
    >>> ranks_of_factor(Collective.ALL_GATHER, (0.0, 0.0))
    (1, 1)
    """
    if collective in _UNIT_FACTOR:
        return None
    limit = 2.0 if collective is Collective.ALL_REDUCE else 1.0
    low, high = (
        limit / (limit - factor) if factor < limit else float(_MOST_RANKS) for factor in factors
    )
    fewest, most = max(1, math.ceil(low - 1e-6)), min(_MOST_RANKS, math.floor(high + 1e-6))
    return (fewest, most) if fewest <= most else None


def _scale(rows: Sequence[PrintedRow]) -> int | None:
    """size / (count × element size), where it is one whole number in all rows; None = it is not, or
    all counts are 0."""
    scales = set()
    for printed in rows:
        row = printed.row
        if row.count > 0 and row.type in ELEMENT_BYTES:
            scale, rest = divmod(row.size_bytes, row.count * ELEMENT_BYTES[row.type])
            scales.add(scale if rest == 0 else 0)
    return scales.pop() if len(scales) == 1 and 0 not in scales else None


def _candidates(rows: Sequence[PrintedRow], factors: _Factors) -> tuple[Collective, ...]:
    """The collectives that print such rows; () = the rows contradict each other or say nothing."""
    scale = _scale(rows)
    if scale is None:
        return ()
    reduces = any(printed.row.redop is not None for printed in rows)
    if any(printed.row.root is not None for printed in rows):
        if reduces:
            return (Collective.REDUCE,)
        if scale == 1 and not _is_zero(factors):
            return (Collective.BROADCAST,)
        return (Collective.SCATTER, Collective.GATHER)
    if not reduces:
        return _gathering(rows, scale, factors)
    if scale > 1:
        return (Collective.REDUCE_SCATTER,)
    if _is_zero(factors) or (factors is not None and factors[0] > 1 + 1e-6):
        return (Collective.ALL_REDUCE,)
    if _in_place_unchecked(rows):
        return (Collective.SENDRECV,)
    return (Collective.ALL_REDUCE, Collective.SENDRECV)


def _gathering(rows: Sequence[PrintedRow], scale: int, factors: _Factors) -> tuple[Collective, ...]:
    """all_gather and its like. alltoall has left the in-place check out since 2.13.1, when errors
    became counts."""
    if _in_place_unchecked(rows):
        return (Collective.ALLTOALL, Collective.ALLTOALLV)
    candidates = [Collective.ALL_GATHER, Collective.HYPERCUBE]
    if not _in_place_counted(rows):
        candidates.append(Collective.ALLTOALL)
    if scale == 1 and not _is_zero(factors):
        candidates.append(Collective.SENDRECV)
    return tuple(candidates)


def _is_zero(factors: _Factors) -> bool:
    """True = busbw is 0 beside a real algbw: one rank."""
    return factors is not None and factors[1] < 0.4


def _in_place_counted(rows: Sequence[PrintedRow]) -> bool:
    """True = wrong elements were counted in place."""
    measured = (printed.row.in_place for printed in rows)
    return any(value is not None and value.wrong is not None for value in measured)


def _in_place_unchecked(rows: Sequence[PrintedRow]) -> bool:
    """True = out-of-place was checked and in-place never: alltoall, alltoallv and sendrecv since
    2.13.1."""
    checked = []
    for printed in rows:
        out_of_place, in_place = printed.row.out_of_place, printed.row.in_place
        if out_of_place and in_place:
            checked.append((out_of_place.wrong is not None, in_place.wrong is not None))
    return set(checked) == {(True, False)}


def _settle(
    candidates: tuple[Collective, ...],
    rows: Sequence[PrintedRow],
    nranks: int,
    factors: _Factors,
) -> Collective | None:
    """One of several candidates, where the number of ranks leaves only one whose bandwidths fit."""
    if factors is None or _has_errors(rows):
        # with an error column: before 2.13, whose all_gather and hypercube can print the same
        # numbers
        return None
    fitting = []
    for candidate in candidates:
        is_scaled_only = candidate in (Collective.ALLTOALLV, Collective.REDUCE_SCATTER)
        if is_scaled_only and _scale(rows) == 1 and nranks > 1:
            continue
        if _factor_fits(candidate, factors, nranks):
            fitting.append(candidate)
    if len(fitting) == 2 and fitting[1] is Collective.ALLTOALLV:
        # its options and its matrix have to be requested: a plain alltoall is what such rows are of
        fitting.pop()
    return fitting[0] if len(fitting) == 1 else None


def _has_errors(rows: Sequence[PrintedRow]) -> bool:
    return any(value.error is not None for printed in rows for value, _ in printed.measured())


def _factor_fits(collective: Collective, factors: tuple[float, float], nranks: int) -> bool:
    """Whether the collective over so many ranks has a busbw / algbw between these two."""
    if collective in _UNIT_FACTOR:
        return factors[0] - 1e-6 <= 1 <= factors[1] + 1e-6 and nranks > 1
    ranks = ranks_of_factor(collective, factors)
    return ranks is not None and ranks[0] <= nranks <= ranks[1]


def _count_ranks(
    rows: Sequence[PrintedRow], collective: Collective | None, hints: Hints, factors: _Factors
) -> tuple[int | None, tuple[int, int] | None]:
    """The number of ranks, and the fewest and most that the rows allow (None = they say
    nothing)."""
    fitting = _fitting(rows, collective, factors)
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


def _fitting(
    rows: Sequence[PrintedRow], collective: Collective | None, factors: _Factors
) -> tuple[int, int] | None:
    """Fewest and most ranks that sizes and bandwidths allow."""
    scale = _scale(rows)
    if scale is not None and scale > 1 and (collective is None or is_scaled(collective)):
        return scale, scale
    if factors is None:
        return None
    if collective is not None:
        return ranks_of_factor(collective, factors)
    only_all_reduce = factors[0] > 1 + 1e-6
    if only_all_reduce or factors[1] < 0.4:
        return ranks_of_factor(Collective.ALL_REDUCE, factors)
    return None


def _roundest(fewest: int, most: int, hints: Hints) -> int | None:
    """The only multiple of 8 (GPUs of a node), else the only power of two, in a range too wide to
    decide; None = several or none."""
    step = math.lcm(8, max(1, hints.ranks_per_process))
    first = -(-fewest // step) * step
    if first <= most < first + step:
        return first
    power = 1 << (max(fewest, 1) - 1).bit_length()
    return power if power <= most < 2 * power else None


def _missing_ranks(fitting: tuple[int, int] | None, hints: Hints) -> str | None:
    """That ranks have lost their entry in the device list; None = nothing shows it, or one entry alone
    was kept, as people quote an output."""
    listed, entries = hints.listed_ranks, hints.list_entries
    if listed is None or entries < 2:
        return None
    if fitting is not None and listed < fitting[0]:
        fewest, most = fitting
        fit = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        return f"the device list names {counted(entries, 'rank')}, but sizes and bandwidths are those of {fit}"
    if not hints.list_is_complete:
        few = hints.missing_ranks[:_MOST_MISSING]
        more = " …" if len(hints.missing_ranks) > len(few) else ""
        which = f", not rank {', '.join(map(str, few))}{more}" if few else ""
        return f"the device list is incomplete: it names {entries} of the {listed} ranks up to its last{which}"
    return None


def _contradictions(
    nranks: int | None,
    fitting: tuple[int, int] | None,
    hints: Hints,
    rows: Sequence[PrintedRow],
) -> list[str]:
    """What the device list, the log and the numbers disagree about."""
    listed = hints.listed_ranks
    if listed is not None:
        if fitting is not None and not fitting[0] <= listed <= fitting[1]:
            fewest, most = fitting
            fit = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            return [
                f"the device list names {counted(listed, 'rank')}, but sizes and bandwidths are those of {fit}"
            ]
        return [] if hints.list_is_complete else ["the device list is incomplete"]
    if not rows or fitting is None or fitting[0] == fitting[1]:
        return []
    fit = f"{fitting[0]} to {fitting[1]} fit the bandwidths"
    if nranks is None:
        return [f"the number of ranks is not known: {fit}"]
    if nranks not in hints.logged_ranks:
        return [f"the number of ranks is derived: {fit}, {nranks} is the round one"]
    return []
