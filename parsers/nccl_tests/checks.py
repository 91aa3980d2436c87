"""What makes a run of nccl-tests whole, right, and the run that was meant; everything else is named
as a problem.

>>> result_of(RunFacts()).problems[0]
'no rows: the run ended before its first size, or they are not in this text'
"""

from __future__ import annotations

import bisect
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from busbw.model.benchmark import (
    BenchmarkResult,
    Collective,
    Measurement,
    ProcessTimes,
    RankLine,
    busbw_factor,
)
from busbw.parsers.nccl_tests.layout import ELEMENT_BYTES, ReadRow, Slack

# Which collective a table is of and over how many ranks, worked out from its own numbers.
#
# busbw / algbw is a fixed factor of the number of ranks (nccl-tests `doc/PERFORMANCE.md`), and
# collectives whose buffer grows with the ranks
# print size = count × element size × ranks. Both are used with the precision the numbers were
# printed with.
#
# >>> ranks_of_factor(Collective.ALL_REDUCE, (1.8749, 1.8751))
# (16, 16)
# >>> ranks_of_factor(Collective.ALL_GATHER, (0.0, 0.0))
# (1, 1)

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
    if named is not None and (
        not candidates or named in candidates or named is Collective.ALLTOALLV
    ):
        collective = named
    elif named is not None:
        problems.append(f"the program is {named}_perf, but the rows are not of that collective")
    elif (
        candidates == (Collective.ALL_REDUCE, Collective.SENDRECV)
        and _in_place_counted(rows)
        and hints.listed_ranks in (None, 2)
    ):
        collective = Collective.ALL_REDUCE  # since 2.13.1 sendrecv leaves the in-place check out
    nranks, fitting = _count_ranks(rows, collective, hints)
    problems += _contradictions(nranks, fitting, hints, rows)
    if collective is None and nranks is not None:
        collective = _settle(candidates, rows, nranks)
    return Identity(collective, nranks, tuple(problems))


def convention(collective: Collective, nranks: int, rows: Sequence[ReadRow]) -> tuple[float, float]:
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


def _all_fit(rows: Sequence[ReadRow], share: float) -> bool:
    """Whether every algbw is this share of size / time."""
    return all(
        algbw_fits(round(read.row.size_bytes * share), value, slack)
        for read in rows
        for value, slack in read.measured()
    )


def algbw_interval(size_bytes: int, value: Measurement, slack: Slack) -> tuple[float, float] | None:
    """Lowest and highest algbw (GB/s) that the size and the printed time allow; None = the time is
    not the operation's (-C 1) or is 0."""
    if value.cputime or value.time_us <= slack.time_us:
        return None
    return (
        size_bytes / (value.time_us + slack.time_us) / 1e3,
        size_bytes / (value.time_us - slack.time_us) / 1e3,
    )


def algbw_fits(size_bytes: int, value: Measurement, slack: Slack) -> bool:
    """Whether the printed algbw is size / time within the printed precision. True where the time
    says nothing about it."""
    interval = algbw_interval(size_bytes, value, slack)
    if interval is None:
        return True
    spare = slack.algbw_gb_s * (1 + 1e-6) + _NUDGE
    return interval[0] - spare <= value.algbw_gb_s <= interval[1] + spare


def share_interval(size_bytes: int, value: Measurement, slack: Slack) -> tuple[float, float] | None:
    """Lowest and highest algbw / (size / time), which is 1 where algbw counts the whole size; None
    = nothing was moved, or -C 1."""
    interval = algbw_interval(size_bytes, value, slack)
    if interval is None or interval[0] <= 0:
        return None
    return (value.algbw_gb_s - slack.algbw_gb_s) / interval[1], (
        value.algbw_gb_s + slack.algbw_gb_s
    ) / interval[0]


def factor_interval(rows: Iterable[ReadRow]) -> tuple[float, float] | None:
    """Lowest and highest busbw / algbw that all rows allow; None = no row says anything, or they
    contradict each other."""
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
    return (
        max(0.0, value.busbw_gb_s - slack.busbw_gb_s) / high,
        (value.busbw_gb_s + slack.busbw_gb_s) / low,
    )


def ranks_of_factor(collective: Collective, factors: tuple[float, float]) -> tuple[int, int] | None:
    """Fewest and most ranks a busbw / algbw ratio allows; None = the collective's factor does not
    depend on the ranks, or none fits."""
    if collective in _UNIT_FACTOR:
        return None
    whole = 2.0 if collective is Collective.ALL_REDUCE else 1.0
    low, high = (
        whole / (whole - factor) if factor < whole else float(_MOST_RANKS) for factor in factors
    )
    fewest, most = max(1, math.ceil(low - 1e-6)), min(_MOST_RANKS, math.floor(high + 1e-6))
    return (fewest, most) if fewest <= most else None


def _scale(rows: Sequence[ReadRow]) -> int | None:
    """size / (count × element size), where it is one whole number in all rows; None = it is not, or
    all counts are 0."""
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
        return (
            (Collective.BROADCAST,)
            if scale == 1 and not _factor_is_zero(rows)
            else (Collective.SCATTER, Collective.GATHER)
        )
    if scale > 1 or not reduces:
        return (Collective.REDUCE_SCATTER,) if reduces else _gathering(rows, scale)
    if _in_place_unchecked(rows):
        return (Collective.SENDRECV,)
    factors = factor_interval(rows)
    certain = _factor_is_zero(rows) or (factors is not None and factors[0] > 1 + 1e-6)
    return (Collective.ALL_REDUCE,) if certain else (Collective.ALL_REDUCE, Collective.SENDRECV)


def _gathering(rows: Sequence[ReadRow], scale: int) -> tuple[Collective, ...]:
    """all_gather and its like. alltoall has left the in-place check out since 2.13.1, when errors
    became counts."""
    if _in_place_unchecked(rows):
        return (Collective.ALLTOALL, Collective.ALLTOALLV)
    alike = (Collective.ALL_GATHER, Collective.HYPERCUBE) + (
        () if _in_place_counted(rows) else (Collective.ALLTOALL,)
    )
    return alike if scale > 1 or _factor_is_zero(rows) else (*alike, Collective.SENDRECV)


def _factor_is_zero(rows: Sequence[ReadRow]) -> bool:
    """True = busbw is 0 beside a real algbw: one rank."""
    factors = factor_interval(rows)
    return factors is not None and factors[1] < 0.4


def _in_place_counted(rows: Sequence[ReadRow]) -> bool:
    """True = wrong elements were counted in place."""
    return any(
        read.row.in_place is not None and read.row.in_place.wrong is not None for read in rows
    )


def _in_place_unchecked(rows: Sequence[ReadRow]) -> bool:
    """True = out-of-place was checked and in-place never: alltoall, alltoallv and sendrecv since
    2.13.1."""
    both = [
        (read.row.out_of_place, read.row.in_place)
        for read in rows
        if read.row.out_of_place and read.row.in_place
    ]
    return bool(both) and all(
        out is not None and out.wrong is not None and into is not None and into.wrong is None
        for out, into in both
    )


def _settle(
    candidates: tuple[Collective, ...], rows: Sequence[ReadRow], nranks: int
) -> Collective | None:
    """One of several candidates, where the number of ranks leaves only one whose bandwidths fit."""
    factors = factor_interval(rows)
    if factors is None or any(
        value.error is not None for read in rows for value, _ in read.measured()
    ):
        # with an error column: before 2.13, whose all_gather and hypercube can print the same
        # numbers
        return None
    fitting = []
    for candidate in candidates:
        if (
            candidate in (Collective.ALLTOALLV, Collective.REDUCE_SCATTER)
            and _scale(rows) == 1
            and nranks > 1
        ):
            continue
        fewest_most = ranks_of_factor(candidate, factors)
        unit = (
            candidate in _UNIT_FACTOR and factors[0] - 1e-6 <= 1 <= factors[1] + 1e-6 and nranks > 1
        )
        if unit or (fewest_most is not None and fewest_most[0] <= nranks <= fewest_most[1]):
            fitting.append(candidate)
    if len(fitting) == 2 and fitting[1] is Collective.ALLTOALLV:
        # its options and its matrix have to be asked for: a plain alltoall is what such rows are of
        fitting.pop()
    return fitting[0] if len(fitting) == 1 else None


def _count_ranks(
    rows: Sequence[ReadRow], collective: Collective | None, hints: Hints
) -> tuple[int | None, tuple[int, int] | None]:
    """The number of ranks, and the fewest and most that the rows allow (None = they say
    nothing)."""
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
    return (
        ranks_of_factor(Collective.ALL_REDUCE, factors)
        if only_all_reduce or factors[1] < 0.4
        else None
    )


def _roundest(fewest: int, most: int, hints: Hints) -> int | None:
    """The only multiple of 8 (GPUs of a node), else the only power of two, in a range too wide to
    decide; None = several or none."""
    step = math.lcm(8, max(1, hints.ranks_per_process))
    first = -(-fewest // step) * step
    if first <= most < first + step:
        return first
    power = 1 << (max(fewest, 1) - 1).bit_length()
    return power if power <= most < 2 * power else None


def _contradictions(
    nranks: int | None, fitting: tuple[int, int] | None, hints: Hints, rows: Sequence[ReadRow]
) -> list[str]:
    """What the device list, the log and the numbers disagree about."""
    problems = []
    listed = hints.listed_ranks
    if fitting is not None and listed is not None and not fitting[0] <= listed <= fitting[1]:
        says = f"{fitting[0]}" if fitting[0] == fitting[1] else f"{fitting[0]} to {fitting[1]}"
        problems.append(
            f"the device list names {listed} ranks, but sizes and bandwidths are those of {says}"
        )
    elif listed is None and rows and fitting is not None and fitting[0] != fitting[1]:
        if nranks is None:
            problems.append(
                f"the number of ranks is not known: {fitting[0]} to {fitting[1]} fit the bandwidths"
            )
        elif nranks not in hints.logged_ranks:
            problems.append(
                f"the number of ranks is worked out: {fitting[0]} to {fitting[1]} fit the"
                f" bandwidths, {nranks} is the round one"
            )
    elif listed is not None and not hints.list_is_whole:
        problems.append("the device list is not whole")
    return problems


# What was read of one run of nccl-tests before anything is concluded from it, and the plan that
# its configuration line states.

_MOST_PLANNED = 100_000
CONFIG = re.compile(
    r"(nThread|nGpus|minBytes|maxBytes|step|warmup iters|iters|agg"
    r" iters|validation|graph|unalign):? +(\d{1,18})(\(\w+\))?"
)
"""The configuration line's pairs; the order, the colons and the last names differ by version."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """A line worth quoting."""

    line_no: int
    """From 1; 0 = the text has no lines worth counting (JSON)."""
    text: str


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run: its rows and everything printed around them."""

    rows: tuple[ReadRow, ...] = ()
    ranks: tuple[RankLine, ...] = ()
    config: tuple[tuple[str, str], ...] = ()
    program: str | None = None
    """Collective of the program's name, `all_reduce`."""
    tests_version: str | None = None
    headers_code: int | None = None
    library_code: int | None = None
    nccl_versions: tuple[str, ...] = ()
    """As NCCL printed them itself, without repeats."""
    has_header: bool = False
    """The column names are there (JSON always names its values)."""
    copies: int = 1
    """How many processes printed their own table into this text, their rows mixed beyond telling
    apart."""
    writers: int = 1
    """Ranks of one job that each printed a table, told apart by the launcher's tags."""
    out_of_bounds: int | None = None
    out_of_bounds_failed: bool = False
    average_gb_s: float | None = None
    average_failed: bool = False
    average_may_be_cut: bool = False
    """The text ends right behind the average's digits, and more could have followed."""
    ended: bool = False
    """The end is there: the average's line, or a JSON document's `end_time`."""
    end_missing: str = ""
    """Why it did not end, where the format tells more than that the end is missing."""
    ranks_per_line: int = 1
    """Ranks that one entry of `ranks` stands for: JSON lists processes."""
    footer_is_elsewhere: bool = False
    """The format has no footer: average and out-of-bounds stand in another file."""
    stated_nodes: int | None = None
    """Nodes, where the format says how many."""
    reduction_is_silent: bool = False
    """True = a sweep shortened for lack of memory shows only in that its last sizes are missing
    (JSON)."""
    reduced_to_bytes: int | None = None
    """`Reducing maxBytes to`."""
    torn: tuple[Quoted, ...] = ()
    """Rows of which cells are missing, and cells of which the row is missing."""
    not_finite: tuple[Quoted, ...] = ()
    """Rows with nan or inf among their measurements."""
    failures: tuple[Quoted, ...] = ()
    """`Test NCCL failure`, `Test CUDA failure`, `Test timeout`."""
    notes: tuple[Quoted, ...] = ()
    """What was asked for and not done: `invalid type …, defaulting to`."""
    logged_ranks: tuple[int, ...] = ()
    """`nranks` of NCCL's own lines, most frequent first."""
    last_error: str | None = None
    """`# error:` after the footer; sticky, it can stand in a run that ended well."""
    process_times: tuple[ProcessTimes, ...] = ()

    def number(self, *names: str) -> int | None:
        """A number of the configuration, under the first of these names that is there; None = none
        is."""
        values = dict(self.config)
        text = next((values[name] for name in names if name in values), "").partition("(")[0]
        return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def planned_sizes(facts: RunFacts) -> tuple[int, ...] | None:
    """The sizes the run set out to measure, in order; None = its configuration is not there, or
    there are too many to compare.

    As nccl-tests counts: from minBytes, times the factor (or plus the step), while not above
    maxBytes.
    """
    size, last = (
        facts.number("minBytes", "minimum_bytes"),
        facts.number("maxBytes", "maximum_bytes"),
    )
    last = facts.reduced_to_bytes if facts.reduced_to_bytes is not None else last
    amount = facts.number("step", "step_factor", "step_bytes")
    factor = any(
        name == "step_factor" or (name == "step" and "factor" in value)
        for name, value in facts.config
    )
    if size is None or last is None or amount is None:
        return None
    if amount <= 0 or (factor and (amount == 1 or size == 0)):
        return None
    sizes: list[int] = []
    while size <= last:
        sizes.append(size)
        if len(sizes) > _MOST_PLANNED:
            return None
        size = size * amount if factor else size + amount
    return tuple(sizes)


def library_version(code: int) -> str:
    """NCCL's version code as people write it.

    >>> library_version(23007), library_version(2804)
    ('2.30.7', '2.8.4')
    """
    if code >= 10000:
        return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    return f"{code // 1000}.{code // 100 % 10}.{code % 100}"


_QUOTE = 160
_LISTED = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    text: str
    fault: bool = False
    """True = the result is bad, however complete."""
    incomplete: bool = False
    """True = something is missing, so the result is not complete."""


def result_of(facts: RunFacts) -> BenchmarkResult:
    """The run as a result, with all its problems in words."""
    identity = identify(facts.rows, _hints(facts))
    problems = (
        *_missing_parts(facts),
        *_missing_sizes(facts, identity),
        *_wrong_data(facts),
        *_wrong_world(facts, identity),
        *_wrong_numbers(facts, identity),
        *(Problem(text) for text in identity.problems),
        *_remarks(facts),
    )
    complete = not any(problem.incomplete for problem in problems)
    failures = tuple(Problem(f"{_at(line)}", fault=complete) for line in facts.failures)
    problems = (*problems, *failures)
    return BenchmarkResult(
        collective=str(identity.collective) if identity.collective else facts.program,
        nranks=identity.nranks,
        nodes=_nodes(facts, identity.nranks),
        rows=tuple(read.row for read in facts.rows),
        ranks=facts.ranks,
        avg_busbw_gb_s=facts.average_gb_s,
        out_of_bounds=facts.out_of_bounds,
        nccl_version=(
            facts.nccl_versions[0]
            if facts.nccl_versions
            else library_version(facts.library_code)
            if facts.library_code
            else None
        ),
        tests_version=facts.tests_version,
        complete=complete,
        problems=tuple(problem.text for problem in problems),
        process_times=facts.process_times,
        config=facts.config,
        faults=tuple(problem.text for problem in problems if problem.fault),
    )


def _hints(facts: RunFacts) -> Hints:
    """What the text says about collective and ranks outside the rows."""
    mine = [line.rank for line in facts.ranks if line.group == facts.ranks[0].group]
    split = len({line.group for line in facts.ranks}) > 1
    each = facts.ranks_per_line
    listed = (len(set(mine)) * each if split else max(mine) + each) if mine else None
    per_process = (facts.number("nThread", "nthreads") or 1) * (facts.number("nGpus", "ngpus") or 1)
    return Hints(facts.program, listed, _list_is_whole(facts), facts.logged_ranks, per_process)


def _list_is_whole(facts: RunFacts) -> bool:
    """Whether the device list has every rank from 0 to its last one."""
    ranks = {line.rank for line in facts.ranks}
    each = facts.ranks_per_line
    return (
        bool(ranks)
        and len(ranks) == max(ranks) // each + 1
        and all(rank % each == 0 for rank in ranks)
    )


def _nodes(facts: RunFacts, nranks: int | None) -> int | None:
    """Hosts of the device list, where it has every rank; None = it does not, so hosts may be
    missing too."""
    listed = len({line.rank for line in facts.ranks}) * facts.ranks_per_line
    if not _list_is_whole(facts) or (nranks is not None and listed < nranks):
        return facts.stated_nodes
    return len({line.host for line in facts.ranks})


def _missing_parts(facts: RunFacts) -> Iterator[Problem]:
    """Head, rows, footer."""
    if not facts.rows:
        yield Problem(
            "no rows: the run ended before its first size, or they are not in this text",
            incomplete=True,
        )
    if not facts.has_header and facts.rows:
        yield Problem(
            "no column names above the rows: read from type and reduction, and what stood before"
            " them is missing",
            incomplete=True,
        )
    for line in facts.torn[:_LISTED]:
        yield Problem(f"part of a row is missing: {_at(line)}", incomplete=True)
    if len(facts.torn) > _LISTED:
        yield Problem(
            f"parts of {len(facts.torn) - _LISTED} more rows are missing", incomplete=True
        )
    if not facts.ended and facts.rows:
        why = (
            facts.end_missing
            or "no 'Avg bus bandwidth' line: the run was cut off, killed or did not end"
        )
        yield Problem(why, incomplete=True)
    if facts.average_may_be_cut:
        yield Problem(
            "the text ends in the middle of the 'Avg bus bandwidth' line, the average may lack"
            " digits",
            incomplete=True,
        )
    if facts.footer_is_elsewhere:
        yield Problem(
            "these records have no footer: average and out-of-bounds count stand in the program's"
            " output"
        )
    elif facts.ended and facts.out_of_bounds is None:
        yield Problem(
            "no 'Out of bounds values' line: whether the data was right is told by the rows alone"
        )


def _missing_sizes(facts: RunFacts, identity: Identity) -> Iterator[Problem]:
    """Sizes that were planned, and rows that the average counts, but that are not there."""
    if not facts.rows:
        return
    missing = _not_printed(facts, identity)
    mean = _mean_if_wrong(facts)
    if missing:
        names = ", ".join(str(size) for size in missing[:_LISTED]) + (
            " …" if len(missing) > _LISTED else ""
        )
        shortened = (
            facts.reduction_is_silent
            and mean is None
            and missing == list((planned_sizes(facts) or ())[-len(missing) :])
        )
        why = " (too little memory shortens a sweep so)" if shortened else ""
        yield Problem(
            f"{len(missing)} planned sizes were not printed: {names} bytes{why}",
            incomplete=not shortened,
        )
    if mean is not None:
        yield Problem(
            f"the average printed is {facts.average_gb_s:g} GB/s, that of the rows is {mean:.4g}"
            " GB/s: rows are missing, or the footer is of another run",
            incomplete=True,
        )


def _not_printed(facts: RunFacts, identity: Identity) -> list[int]:
    """Planned sizes without a row, over all repeats of the list."""
    plan = planned_sizes(facts)
    if not plan or facts.copies > 1:
        return []
    missing: list[int] = []
    position, block = len(plan), None
    for read in facts.rows:
        key = (read.row.type, read.row.redop, read.row.root)
        found = _planned_at(plan, read, identity, position)
        if block != key or found is None:
            missing += plan[position:]
            block, position = key, 0
            found = _planned_at(plan, read, identity, 0) or 0
        missing += plan[position:found]
        position = found + 1
    return missing + list(plan[position:])


def _planned_at(plan: tuple[int, ...], read: ReadRow, identity: Identity, start: int) -> int | None:
    """Where in the plan, from `start` on, the size is that the row was made of; None = nowhere."""
    at = max(start, bisect.bisect_left(plan, read.row.size_bytes))
    return at if at < len(plan) and plan[at] - _trim(read, identity) < read.row.size_bytes else None


def _trim(read: ReadRow, identity: Identity) -> int:
    """How far a printed size may be below the planned one: whole elements, and at most 4 elements
    or 16 bytes per rank are trimmed off."""
    element = ELEMENT_BYTES.get(read.row.type, 8)
    scaled = identity.collective not in (
        Collective.ALL_REDUCE,
        Collective.BROADCAST,
        Collective.REDUCE,
        Collective.SENDRECV,
    )
    return (
        max(element, max(16, 4 * element) * (identity.nranks or 1))
        if scaled
        else max(16, 4 * element)
    )


def _mean_if_wrong(facts: RunFacts) -> float | None:
    """Mean of all printed busbw, where it is not the printed average; None = it is, or cannot be
    compared."""
    if facts.average_gb_s is None or facts.copies > 1 or facts.not_finite or facts.torn:
        return None
    values = [pair for read in facts.rows for pair in read.measured()]
    if not values or (
        (facts.number("nThread", "nthreads") or 1) > 1
        and any(value.error is not None for value, _ in values)
    ):
        # before 2.10 each thread had its own times, and the average was over all threads
        return None
    mean = sum(value.busbw_gb_s for value, _ in values) / len(values)
    spare = (
        sum(slack.busbw_gb_s for _, slack in values) / len(values)
        + 1e-5 * abs(facts.average_gb_s)
        + 1e-9
    )
    return mean if abs(mean - facts.average_gb_s) > spare else None


def _wrong_data(facts: RunFacts) -> Iterator[Problem]:
    """Wrong elements, by row and by footer, and checks that were not made."""
    cells = [(read.row, value) for read in facts.rows for value, _ in read.measured()]
    bad = [(row, value.wrong) for row, value in cells if value.wrong]
    if bad:
        first, count = bad[0]
        where = f"first at {first.size_bytes} bytes ({count} elements)"
        yield Problem(
            f"wrong data: #wrong is not 0 in {len(bad)} measurements, {where}", fault=True
        )
    if facts.out_of_bounds_failed or facts.out_of_bounds:
        yield Problem(
            f"wrong data: Out of bounds values : {facts.out_of_bounds} FAILED", fault=True
        )
    if facts.average_failed:
        yield Problem(
            "the average is below 0.9 of NCCL_TESTS_MIN_BW: Avg bus bandwidth FAILED", fault=True
        )
    if cells and all(value.wrong is None and value.error is None for _, value in cells):
        yield Problem("the data was not checked: every #wrong is N/A (-c 0)")


def _wrong_world(facts: RunFacts, identity: Identity) -> Iterator[Problem]:
    """Communicators that are not the one meant."""
    seen = Counter(line.rank for line in facts.ranks)
    repeats = max(seen.values(), default=1)
    tables = max(repeats, facts.copies, facts.writers)
    if tables > 1:
        if facts.writers > 1:
            told = f"{facts.writers} ranks of one job each printed a table"
        else:
            told = (
                f"{repeats} device lists name rank {seen.most_common(1)[0][0]}"
                if repeats > 1
                else f"{facts.copies} headers above one set of rows"
            )
        yield Problem(
            f"{told}: {tables} processes, each a world of its own (a binary built without MPI=1, or"
            " another MPI at run time)",
            fault=True,
        )
    if identity.nranks == 1 and facts.rows:
        yield Problem("a communicator of one rank: nothing was sent, busbw is 0", fault=True)
    shared = Counter((line.host, line.device, line.bus_id) for line in facts.ranks)
    for (host, device, bus_id), count in shared.items():
        if count > 1 and repeats == 1:
            yield Problem(f"{count} ranks share device {device} [{bus_id}] of {host}")


def _wrong_numbers(facts: RunFacts, identity: Identity) -> Iterator[Problem]:
    """busbw recomputed from size, time and factor against the printed one; nan and inf."""
    for line in facts.not_finite[:_LISTED]:
        yield Problem(f"not a number: {_at(line)}", fault=True)
    share, factor = 1.0, None
    if identity.collective is not None and identity.nranks is not None:
        share, factor = convention(identity.collective, identity.nranks, facts.rows)
    wrong = [text for read in facts.rows if (text := _disagreement(read, identity, share, factor))]
    if wrong:
        more = f" (and {len(wrong) - 1} more rows)" if len(wrong) > 1 else ""
        yield Problem(wrong[0] + more, fault=True)


def _disagreement(
    read: ReadRow, identity: Identity, share: float, factor: float | None
) -> str | None:
    """What does not fit in one row; None = all does. `share` of the size is what algbw counts,
    `factor` is busbw / algbw (None = not known)."""
    row = read.row
    line = f"line {row.line_no}: " if row.line_no else ""
    for value, slack in read.measured():
        carried = round(row.size_bytes * share)
        interval = algbw_interval(carried, value, slack)
        # its algbw is of what the busiest rank moved
        exempt = identity.collective is Collective.ALLTOALLV
        if interval is not None and not exempt and not algbw_fits(carried, value, slack):
            return (
                f"{line}algbw is {value.algbw_gb_s:g} GB/s, but {carried} bytes in"
                f" {value.time_us:g} µs are {interval[0]:.4g} GB/s"
            )
        if factor is None:
            continue
        spare = slack.busbw_gb_s + factor * slack.algbw_gb_s + 1e-6 * value.busbw_gb_s + 1e-9
        if abs(value.busbw_gb_s - factor * value.algbw_gb_s) > spare:
            return (
                f"{line}busbw is {value.busbw_gb_s:g} GB/s, but algbw {value.algbw_gb_s:g} ×"
                f" {factor:g} ({identity.collective} over {identity.nranks} ranks) is"
                f" {factor * value.algbw_gb_s:.4g} GB/s"
            )
    return None


def _remarks(facts: RunFacts) -> Iterator[Problem]:
    """What is worth knowing and spoils nothing."""
    if facts.headers_code and facts.library_code and facts.headers_code != facts.library_code:
        built, used = library_version(facts.headers_code), library_version(facts.library_code)
        yield Problem(f"built against NCCL {built}, but the library loaded is {used}")
    if len(facts.nccl_versions) > 1:
        yield Problem(f"several NCCL versions in one run: {', '.join(facts.nccl_versions)}")
    if facts.reduced_to_bytes is not None:
        yield Problem(
            f"the sweep ends at {facts.reduced_to_bytes} bytes, less than asked: not enough memory"
        )
    for line in facts.notes[:_LISTED]:
        yield Problem(_at(line))
    if facts.last_error:
        yield Problem(f"NCCL's last error: {facts.last_error}")


def _at(line: Quoted) -> str:
    """A quoted line, cut to a readable length."""
    text = line.text.strip()
    where = f"line {line.line_no}: " if line.line_no else ""
    return f"{where}{text[:_QUOTE]}{'…' if len(text) > _QUOTE else ''}"
