"""What makes a run of nccl-tests complete, right, and the run that was meant; everything else is
named as a problem.

>>> result_of(RunFacts()).problems[0]
'no rows: the run ended before its first size, or they are not in this text'
"""

from __future__ import annotations

import bisect
import statistics
from collections import Counter
from collections.abc import Iterator

from busbw.model.benchmark import BenchmarkResult, BenchmarkRow, RankLine
from busbw.parsers.nccl_tests.contradictions import wrong_numbers
from busbw.parsers.nccl_tests.identity import UNSCALED, Hints, Identity, identify
from busbw.parsers.nccl_tests.problem import LISTED, Problem, cut, quote
from busbw.parsers.nccl_tests.rows import ELEMENT_BYTES
from busbw.parsers.nccl_tests.run_facts import RunFacts
from busbw.parsers.nccl_tests.sweep_jumps import jump_of
from busbw.versions import of_nccl_code

_MOST_PLANNED = 100_000


def result_of(facts: RunFacts) -> BenchmarkResult:
    """The run as a result, with all its problems in words."""
    identity = identify(facts.rows, _hints(facts))
    problems = [
        *_missing_parts(facts),
        *_missing_sizes(facts, identity),
        *_wrong_data(facts),
        *_wrong_world(facts, identity),
        *wrong_numbers(facts, identity),
        *(
            Problem(text, text == identity.mismatch, text == identity.missing_ranks)
            for text in identity.problems
        ),
        *_doubtful(facts),
        *_two_programs(facts),
        *_unknown_unit(facts),
        *_iterations(facts),
        *_remarks(facts),
    ]
    complete = not any(problem.incomplete for problem in problems)
    # A failure explains an incomplete run; beside a complete one it is a fault of its own.
    problems += [Problem(quote(line), fault=complete) for line in facts.failures]
    return BenchmarkResult(
        collective=str(identity.collective) if identity.collective else facts.program,
        nranks=identity.nranks,
        nodes=_nodes(facts, identity.nranks),
        rows=tuple(printed.row for printed in facts.rows),
        ranks=facts.ranks,
        avg_busbw_gb_s=facts.average_gb_s,
        out_of_bounds=facts.out_of_bounds,
        nccl_version=_nccl_version(facts),
        tests_version=facts.tests_version,
        complete=complete,
        problems=tuple(problem.text for problem in problems),
        process_times=facts.process_times,
        config=facts.config,
        faults=tuple(problem.text for problem in problems if problem.fault),
    )


def quoted_lines(facts: RunFacts) -> frozenset[int]:
    """Numbers of the lines that the problems of the run quote."""
    listed = (
        *facts.torn[:LISTED],
        *facts.not_finite[:LISTED],
        *facts.doubtful[:LISTED],
        *facts.notes[:LISTED],
    )
    return frozenset(line.line_no for line in (*listed, *facts.failures))


def _nccl_version(facts: RunFacts) -> str | None:
    if facts.nccl_versions:
        return facts.nccl_versions[0]
    return of_nccl_code(facts.library_code) if facts.library_code else None


def _hints(facts: RunFacts) -> Hints:
    """What the text says about collective and ranks outside the rows."""
    return Hints(
        facts.program,
        _listed_ranks(facts.ranks, facts.ranks_per_line),
        len({line.rank for line in facts.ranks}) * facts.ranks_per_line,
        _is_list_complete(facts),
        _missing_ranks(facts),
        facts.logged_ranks
        if facts.logged_ranks or not facts.quoted_ranks
        else (facts.quoted_ranks,),
        _ranks_per_process(facts),
    )


def _listed_ranks(lines: tuple[RankLine, ...], ranks_per_line: int) -> int | None:
    """Ranks that the device list names in process 0's group; None = no list."""
    if not lines:
        return None
    ranks = [line.rank for line in lines if line.group == lines[0].group]
    if len({line.group for line in lines}) > 1:
        return len(set(ranks)) * ranks_per_line
    return max(ranks) + ranks_per_line


def _ranks_per_process(facts: RunFacts) -> int:
    return _threads(facts) * (facts.number("nGpus", "ngpus") or 1)


def _threads(facts: RunFacts) -> int:
    return facts.number("nThread", "nthreads") or 1


def _is_list_complete(facts: RunFacts) -> bool:
    """Whether the device list has every rank from 0 to its last one."""
    ranks = {line.rank for line in facts.ranks}
    step = facts.ranks_per_line
    if not ranks or len(ranks) != max(ranks) // step + 1:
        return False
    return all(rank % step == 0 for rank in ranks)


def _missing_ranks(facts: RunFacts) -> tuple[int, ...]:
    """Ranks up to the last of the list that it does not name; () = of several groups."""
    listed = {line.rank for line in facts.ranks}
    if not listed or len({line.group for line in facts.ranks}) > 1:
        return ()
    every = range(0, max(listed) + 1, facts.ranks_per_line)
    return tuple(rank for rank in every if rank not in listed)[:100]


def _nodes(facts: RunFacts, nranks: int | None) -> int | None:
    """Hosts of the device list, where it has every rank; None = it does not, so hosts may be
    missing too."""
    listed = len({line.rank for line in facts.ranks}) * facts.ranks_per_line
    if not _is_list_complete(facts) or (nranks is not None and listed < nranks):
        return facts.stated_nodes
    return len({line.host for line in facts.ranks})


def _missing_parts(facts: RunFacts) -> Iterator[Problem]:
    """Head, rows, footer."""
    if not facts.rows:
        yield Problem(
            "no rows: the run ended before its first size, or they are not in this text",
            incomplete=True,
        )
    elif not facts.has_header:
        yield Problem(
            "no column names above the rows: the columns are derived from type and reduction, and"
            " what stood above is missing",
            incomplete=True,
        )
    for line in facts.torn[:LISTED]:
        yield Problem(f"part of a row is missing: {quote(line)}", incomplete=True)
    if len(facts.torn) > LISTED:
        yield Problem(f"parts of {len(facts.torn) - LISTED} more rows are missing", incomplete=True)
    if not facts.ended and facts.rows:
        yield Problem(
            facts.end_missing
            or "no 'Avg bus bandwidth' line: the run was interrupted, killed or did not end",
            incomplete=True,
        )
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
    elif facts.ended and facts.out_of_bounds is None and not facts.doubtful:
        yield Problem(
            "no 'Out of bounds values' line: only the rows show whether the data was right"
        )


def _doubtful(facts: RunFacts) -> Iterator[Problem]:
    """What the program does not write: whether the rest is as it wrote it is not known."""
    for each in facts.doubtful[:LISTED]:
        yield Problem(f"not as the program writes it: {quote(each)}", incomplete=True)


def _two_programs(facts: RunFacts) -> Iterator[Problem]:
    """A head and an end that were put together."""
    if facts.ended_as and facts.program and facts.ended_as != facts.program:
        yield Problem(
            f"the text starts as {facts.program}_perf and ends as {facts.ended_as}_perf: its lines"
            " are of two runs",
            fault=True,
        )


def _missing_sizes(facts: RunFacts, identity: Identity) -> Iterator[Problem]:
    """Sizes that were planned, and rows that the average counts, but that are not there."""
    if not facts.rows:
        return
    missing = _not_printed(facts, identity)
    mean_gb_s = _mean_if_wrong(facts)
    jump = None if planned_sizes(facts) else jump_of([each.row.size_bytes for each in facts.rows])
    if jump is not None:
        yield Problem(
            f"the sizes grow by a factor of {jump.factor}, but the sweep jumps from"
            f" {jump.from_bytes} to {jump.to_bytes} bytes: rows are missing",
            incomplete=True,
        )
    if missing:
        # JSON does not say that too little memory shortened the sweep.
        last_planned = list((planned_sizes(facts) or ())[-len(missing) :])
        shortened = facts.reduction_is_silent and mean_gb_s is None and missing == last_planned
        why = " (too little memory shortens a sweep so)" if shortened else ""
        names = ", ".join(str(size) for size in missing[:LISTED])
        more = " …" if len(missing) > LISTED else ""
        yield Problem(
            f"{len(missing)} planned sizes were not printed: {names}{more} bytes{why}",
            incomplete=not shortened,
        )
    if mean_gb_s is not None:
        yield Problem(
            f"the average printed is {facts.average_gb_s:g} GB/s, that of the rows is"
            f" {mean_gb_s:.4g} GB/s: rows are missing, or the footer is of another run",
            incomplete=True,
        )


def planned_sizes(facts: RunFacts) -> tuple[int, ...] | None:
    """The sizes the run set out to measure, in order; None = its configuration is not there, or
    there are too many to compare.

    As nccl-tests counts: from minBytes, times the factor (or plus the step), while not above
    maxBytes.
    """
    size = facts.number("minBytes", "minimum_bytes")
    last = facts.number("maxBytes", "maximum_bytes")
    if facts.reduced_to_bytes is not None:
        last = facts.reduced_to_bytes
    step = facts.number("step", "step_factor", "step_bytes")
    if size is None or last is None or step is None or step <= 0:
        return None
    by_factor = _step_is_factor(facts)
    if by_factor and (step == 1 or size == 0):
        return None
    sizes: list[int] = []
    while size <= last:
        sizes.append(size)
        if len(sizes) > _MOST_PLANNED:
            return None
        size = size * step if by_factor else size + step
    return tuple(sizes)


def _step_is_factor(facts: RunFacts) -> bool:
    config = dict(facts.config)
    return "step_factor" in config or "factor" in config.get("step", "")


def _not_printed(facts: RunFacts, identity: Identity) -> list[int]:
    """Planned sizes without a row, over all repeats of the list."""
    plan = planned_sizes(facts)
    if not plan:
        return []
    if facts.copies > 1:
        return _not_printed_by_all(plan, facts, identity)
    missing: list[int] = []
    position, block = len(plan), None
    for printed in facts.rows:
        row_block = (printed.row.type, printed.row.redop, printed.row.root)
        place = _place_in_plan(plan, printed.row, identity, position)
        if block != row_block or place is None:
            missing += plan[position:]
            block, position = row_block, 0
            place = _place_in_plan(plan, printed.row, identity, 0) or 0
        missing += plan[position:place]
        position = place + 1
    return missing + list(plan[position:])


def _not_printed_by_all(plan: tuple[int, ...], facts: RunFacts, identity: Identity) -> list[int]:
    """Planned sizes with fewer rows than processes, of several processes in one text."""
    counts = Counter(_place_in_plan(plan, printed.row, identity, 0) for printed in facts.rows)
    missing = []
    for place, size in enumerate(plan):
        if not counts[place] or counts[place] % facts.copies:
            missing.append(size)
    return missing


def _place_in_plan(
    plan: tuple[int, ...], row: BenchmarkRow, identity: Identity, start: int
) -> int | None:
    """Where in the plan, from `start` on, the size is that the row was made of; None = nowhere."""
    place = max(start, bisect.bisect_left(plan, row.size_bytes))
    if place < len(plan) and plan[place] - _trim(row, identity) < row.size_bytes:
        return place
    return None


def _trim(row: BenchmarkRow, identity: Identity) -> int:
    """How far a printed size may be below the planned one: whole elements, and at most 4 elements
    or 16 bytes per rank are trimmed off."""
    element = ELEMENT_BYTES.get(row.type, 8)
    per_rank = max(16, 4 * element)
    if identity.collective in UNSCALED:
        return per_rank
    return per_rank * (identity.nranks or 1)


def _mean_if_wrong(facts: RunFacts) -> float | None:
    """Mean of all printed busbw, where it is not the printed average; None = it is, or cannot be
    compared."""
    if facts.average_gb_s is None or facts.copies > 1 or facts.not_finite or facts.torn:
        return None
    values = [pair for printed in facts.rows for pair in printed.measured()]
    if not values:
        return None
    if _threads(facts) > 1 and any(value.error is not None for value, _ in values):
        # before 2.10 each thread had its own times, and the average was over all threads
        return None
    mean = statistics.fmean(value.busbw_gb_s for value, _ in values)
    rounding = statistics.fmean(slack.busbw_gb_s for _, slack in values)
    spare = rounding + 1e-5 * abs(facts.average_gb_s) + 1e-9
    return mean if abs(mean - facts.average_gb_s) > spare else None


def _wrong_data(facts: RunFacts) -> Iterator[Problem]:
    """Wrong elements, by row and by footer, and checks that were not made."""
    cells = [(printed.row, value) for printed in facts.rows for value, _ in printed.measured()]
    wrong = [(row.size_bytes, value.wrong) for row, value in cells if value.wrong]
    if wrong:
        size_bytes, elements = wrong[0]
        yield Problem(
            f"wrong data: #wrong is not 0 in {len(wrong)} measurements, first at {size_bytes} bytes"
            f" ({elements} elements)",
            fault=True,
        )
    if facts.out_of_bounds_failed or facts.out_of_bounds:
        yield Problem(
            f"wrong data: Out of bounds values : {facts.out_of_bounds} FAILED", fault=True
        )
    if facts.average_failed:
        yield Problem(
            "the average is below 0.9 of NCCL_TESTS_MIN_BW: Avg bus bandwidth FAILED", fault=True
        )
    if facts.number("validation") == 0 and any(value.wrong is not None for _, value in cells):
        yield Problem("the configuration says validation: 0, so that #wrong checked nothing")
    if cells and all(value.wrong is None and value.error is None for _, value in cells):
        checked = facts.number("validation")
        # Rows of mscclpp-test, which prints no average, may lack the cell.
        if checked and not facts.has_no_average:
            yield Problem(
                f"every #wrong is N/A, though the configuration says validation: {checked}",
                incomplete=True,
            )
        else:
            yield Problem("the data was not checked: every #wrong is N/A (-c 0)")
    else:
        yield from _unchecked_rows(facts)


def _unchecked_rows(facts: RunFacts) -> Iterator[Problem]:
    """Rows without a count where others have one. In place alone is never checked by some
    collectives, so that each placement is compared with itself."""
    for name in ("out_of_place", "in_place"):
        values = [(row.row.size_bytes, getattr(row.row, name)) for row in facts.rows]
        measured = [(size_bytes, value) for size_bytes, value in values if value is not None]
        unchecked = [size for size, value in measured if value.wrong is value.error is None]
        if unchecked and len(unchecked) < len(measured):
            # nccl-tests checks all rows or none; mscclpp-test, which prints no average, some.
            yield Problem(
                f"the data of {len(unchecked)} of {len(measured)} rows was not checked"
                f" {name.replace('_', ' ')}, first at {unchecked[0]} bytes: #wrong is N/A",
                incomplete=bool(facts.number("validation")) and not facts.has_no_average,
            )


def _wrong_world(facts: RunFacts, identity: Identity) -> Iterator[Problem]:
    """Communicators that are not the one meant."""
    entries = Counter(line.rank for line in facts.ranks)
    repeats = max(entries.values(), default=1)
    tables = max(repeats, facts.copies, facts.writers)
    if tables > 1:
        if facts.writers > 1:
            sign = f"{facts.writers} ranks of one job each printed a table"
        elif repeats > 1:
            sign = f"{repeats} device lists name rank {entries.most_common(1)[0][0]}"
        else:
            sign = f"{facts.copies} headers above one set of rows"
        yield Problem(
            f"{sign}: {tables} processes, each a world of its own (a binary built without MPI=1, or"
            " another MPI at run time)",
            fault=True,
        )
    if identity.nranks == 1 and facts.rows:
        yield Problem("a communicator of one rank: nothing was sent, busbw is 0", fault=True)
    # A bus number without its PCI domain can be that of several GPUs.
    addresses = (line for line in facts.ranks if ":" in (line.bus_id or ""))
    shared = Counter((line.host, line.device, line.bus_id) for line in addresses)
    for (host, device, bus_id), count in shared.items():
        if count > 1 and repeats == 1:
            yield Problem(f"{count} ranks share device {device} [{bus_id}] of {host}")


def _unknown_unit(facts: RunFacts) -> Iterator[Problem]:
    """Another unit than GB/s in the line under the column names."""
    if facts.unknown_unit:
        yield Problem(
            f"the unit ({cut(facts.unknown_unit)}) of the bandwidths is not known: they were read"
            " as GB/s",
            incomplete=True,
        )
    elif facts.bandwidth_unit != "GB/s":
        yield Problem(f"the bandwidths are printed in {facts.bandwidth_unit}, shown in GB/s here")


FEWEST_ITERATIONS = 3
"""Of each size: of fewer, one late start of a rank is the number. Gates of a run want as many
(`assess.gates`)."""


def timed_iterations(config: tuple[tuple[str, str], ...]) -> int | None:
    """How often each size was timed, by a run's configuration: iterations, times the operations of
    each, times the replays of a graph; None = it does not say."""
    facts = RunFacts(config=config)
    iterations = facts.number("iters", "iterations")
    if iterations is None:
        return None
    each = facts.number("agg iters", "aggregated_iterations") or 1
    return iterations * each * (facts.number("graph", "graph_launches") or 1)


def _iterations(facts: RunFacts) -> Iterator[Problem]:
    """Numbers of no iteration, or of so few that they say little."""
    timed = timed_iterations(facts.config)
    if timed is None or timed >= FEWEST_ITERATIONS or not facts.rows:
        return
    if timed == 0:
        yield Problem("no iteration was timed (iters: 0), and the rows have times", fault=True)
        return
    times = "one iteration" if timed == 1 else f"{timed} iterations"
    yield Problem(f"{times} of each size timed: one late start of a rank decides such a number")


def _remarks(facts: RunFacts) -> Iterator[Problem]:
    """What is worth knowing and spoils nothing."""
    is_text = facts.number("minBytes") is not None
    if is_text and facts.number("iters") is None:
        yield Problem("the configuration line is broken off: its iterations are not known")
    unnamed = sum(not line.device_name for line in facts.ranks)
    if is_text and unnamed:
        yield Problem(f"the list of devices is broken off: {unnamed} entries name no GPU model")
    if facts.headers_code and facts.library_code and facts.headers_code != facts.library_code:
        headers, library = of_nccl_code(facts.headers_code), of_nccl_code(facts.library_code)
        yield Problem(f"built against NCCL {headers}, but the library loaded is {library}")
    if len(facts.nccl_versions) > 1:
        yield Problem(f"several NCCL versions in one run: {', '.join(facts.nccl_versions)}")
    if facts.reduced_to_bytes is not None:
        yield Problem(
            f"the sweep ends at {facts.reduced_to_bytes} bytes, less than requested: not enough"
            " memory"
        )
    for line in facts.notes[:LISTED]:
        yield Problem(quote(line))
    if facts.last_error:
        yield Problem(f"NCCL's last error: {facts.last_error}")
