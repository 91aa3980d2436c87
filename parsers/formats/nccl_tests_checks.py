"""What makes a run of nccl-tests whole, right, and the run that was meant; everything else is named as a problem.

>>> result_of(RunFacts()).problems[0]
'no rows: the run ended before its first size, or they are not in this text'
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.formats.nccl_tests_facts import Quoted, RunFacts, library_version, planned_sizes
from busbw.parsers.formats.nccl_tests_identity import Hints, Identity, algbw_fits, algbw_interval, convention, identify
from busbw.parsers.formats.nccl_tests_layout import ELEMENT_BYTES, ReadRow
from busbw.records.benchmark import BenchmarkResult, Collective

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
        nccl_version=facts.nccl_versions[0] if facts.nccl_versions else library_version(facts.library_code) if facts.library_code else None,
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
    return bool(ranks) and len(ranks) == max(ranks) // each + 1 and all(rank % each == 0 for rank in ranks)


def _nodes(facts: RunFacts, nranks: int | None) -> int | None:
    """Hosts of the device list, where it has every rank; None = it does not, so hosts may be missing too."""
    listed = len({line.rank for line in facts.ranks}) * facts.ranks_per_line
    if not _list_is_whole(facts) or (nranks is not None and listed < nranks):
        return facts.stated_nodes
    return len({line.host for line in facts.ranks})


def _missing_parts(facts: RunFacts) -> Iterator[Problem]:
    """Head, rows, footer."""
    if not facts.rows:
        yield Problem("no rows: the run ended before its first size, or they are not in this text", incomplete=True)
    if not facts.has_header and facts.rows:
        yield Problem(
            "no column names above the rows: read from type and reduction, and what stood before them is missing", incomplete=True
        )
    for line in facts.torn[:_LISTED]:
        yield Problem(f"part of a row is missing: {_at(line)}", incomplete=True)
    if len(facts.torn) > _LISTED:
        yield Problem(f"parts of {len(facts.torn) - _LISTED} more rows are missing", incomplete=True)
    if not facts.ended and facts.rows:
        why = facts.end_missing or "no 'Avg bus bandwidth' line: the run was cut off, killed or did not end"
        yield Problem(why, incomplete=True)
    if facts.average_may_be_cut:
        yield Problem("the text ends in the middle of the 'Avg bus bandwidth' line, the average may lack digits", incomplete=True)
    if facts.footer_is_elsewhere:
        yield Problem("these records have no footer: average and out-of-bounds count stand in the program's output")
    elif facts.ended and facts.out_of_bounds is None:
        yield Problem("no 'Out of bounds values' line: whether the data was right is told by the rows alone")


def _missing_sizes(facts: RunFacts, identity: Identity) -> Iterator[Problem]:
    """Sizes that were planned, and rows that the average counts, but that are not there."""
    if not facts.rows:
        return
    missing = _not_printed(facts, identity)
    mean = _mean_if_wrong(facts)
    if missing:
        names = ", ".join(str(size) for size in missing[:_LISTED]) + (" …" if len(missing) > _LISTED else "")
        shortened = facts.reduction_is_silent and mean is None and missing == list((planned_sizes(facts) or ())[-len(missing) :])
        why = " (too little memory shortens a sweep so)" if shortened else ""
        yield Problem(f"{len(missing)} planned sizes were not printed: {names} bytes{why}", incomplete=not shortened)
    if mean is not None:
        yield Problem(
            f"the average printed is {facts.average_gb_s:g} GB/s, that of the rows is {mean:.4g} GB/s: "
            "rows are missing, or the footer is of another run",
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
    """How far a printed size may be below the planned one: whole elements, and at most 4 elements or 16 bytes per rank are trimmed off."""
    element = ELEMENT_BYTES.get(read.row.type, 8)
    scaled = identity.collective not in (Collective.ALL_REDUCE, Collective.BROADCAST, Collective.REDUCE, Collective.SENDRECV)
    return max(element, max(16, 4 * element) * (identity.nranks or 1)) if scaled else max(16, 4 * element)


def _mean_if_wrong(facts: RunFacts) -> float | None:
    """Mean of all printed busbw, where it is not the printed average; None = it is, or cannot be compared."""
    if facts.average_gb_s is None or facts.copies > 1 or facts.not_finite or facts.torn:
        return None
    values = [pair for read in facts.rows for pair in read.measured()]
    if not values or ((facts.number("nThread", "nthreads") or 1) > 1 and any(value.error is not None for value, _ in values)):
        return None  # before 2.10 each thread had its own times, and the average was over all threads
    mean = sum(value.busbw_gb_s for value, _ in values) / len(values)
    spare = sum(slack.busbw_gb_s for _, slack in values) / len(values) + 1e-5 * abs(facts.average_gb_s) + 1e-9
    return mean if abs(mean - facts.average_gb_s) > spare else None


def _wrong_data(facts: RunFacts) -> Iterator[Problem]:
    """Wrong elements, by row and by footer, and checks that were not made."""
    cells = [(read.row, value) for read in facts.rows for value, _ in read.measured()]
    bad = [(row, value.wrong) for row, value in cells if value.wrong]
    if bad:
        first, count = bad[0]
        where = f"first at {first.size_bytes} bytes ({count} elements)"
        yield Problem(f"wrong data: #wrong is not 0 in {len(bad)} measurements, {where}", fault=True)
    if facts.out_of_bounds_failed or facts.out_of_bounds:
        yield Problem(f"wrong data: Out of bounds values : {facts.out_of_bounds} FAILED", fault=True)
    if facts.average_failed:
        yield Problem("the average is below 0.9 of NCCL_TESTS_MIN_BW: Avg bus bandwidth FAILED", fault=True)
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
            f"{told}: {tables} processes, each a world of its own (a binary built without MPI=1, or another MPI at run time)", fault=True
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


def _disagreement(read: ReadRow, identity: Identity, share: float, factor: float | None) -> str | None:
    """What does not fit in one row; None = all does. `share` of the size is what algbw counts, `factor` is busbw / algbw (None = not known)."""
    row = read.row
    line = f"line {row.line_no}: " if row.line_no else ""
    for value, slack in read.measured():
        carried = round(row.size_bytes * share)
        interval = algbw_interval(carried, value, slack)
        exempt = identity.collective is Collective.ALLTOALLV  # its algbw is of what the busiest rank moved
        if interval is not None and not exempt and not algbw_fits(carried, value, slack):
            return f"{line}algbw is {value.algbw_gb_s:g} GB/s, but {carried} bytes in {value.time_us:g} µs are {interval[0]:.4g} GB/s"
        if factor is None:
            continue
        spare = slack.busbw_gb_s + factor * slack.algbw_gb_s + 1e-6 * value.busbw_gb_s + 1e-9
        if abs(value.busbw_gb_s - factor * value.algbw_gb_s) > spare:
            return (
                f"{line}busbw is {value.busbw_gb_s:g} GB/s, but algbw {value.algbw_gb_s:g} × {factor:g} ({identity.collective} over "
                f"{identity.nranks} ranks) is {factor * value.algbw_gb_s:.4g} GB/s"
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
        yield Problem(f"the sweep ends at {facts.reduced_to_bytes} bytes, less than asked: not enough memory")
    for line in facts.notes[:_LISTED]:
        yield Problem(_at(line))
    if facts.last_error:
        yield Problem(f"NCCL's last error: {facts.last_error}")


def _at(line: Quoted) -> str:
    """A quoted line, cut to a readable length."""
    text = line.text.strip()
    where = f"line {line.line_no}: " if line.line_no else ""
    return f"{where}{text[:_QUOTE]}{'…' if len(text) > _QUOTE else ''}"
