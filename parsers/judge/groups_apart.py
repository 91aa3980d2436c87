"""Groups that were measured by launches of their own at the same time, for binaries that cannot measure several in one (nccl-tests before 2.19.5).

Every line of such a launch says which group it belongs to. The tables become one result, as if one launch had measured all groups: each row of a
group is one timed value of each of its processes, at nearly the same size, brought to the size that was asked for.
"""

from __future__ import annotations

import dataclasses
import re

from busbw.parsers.formats import nccl_tests_table
from busbw.records import BenchmarkCase, BenchmarkResult, Measurement, ProcessTimes, RankLine

SINCE = (2, 19, 5)
"""nccl-tests that times every process and iteration of all groups with a barrier before each (`-I 1 -z 3`)."""
ROWS = 5
"""Rows of a group: each gives one value out of place and one in place."""
_LINE = re.compile(r"^@(\d+) ?(.*)$")
_ENDED = re.compile(r"^exit (\d+)$")


def too_old(version: str | None) -> bool:
    """The binary cannot measure several groups in one launch. None = it prints none, as old ones do.

    >>> too_old("2.19.5"), too_old("2.19.4"), too_old("2.20"), too_old("2.19"), too_old(None)
    (False, True, False, True, True)
    """
    numbers = tuple(int(each) for each in re.findall(r"\d+", version or "")[:3])
    return numbers < SINCE


def separated(text: str) -> tuple[tuple[str, int | None], ...]:
    """(what one group's launch printed, its exit status), in the order of the groups; status None = it did not end.

    >>> separated("@0 # a\\n@1 # b\\n@0 exit 0\\nstray\\n")
    (('# a\\n', 0), ('# b\\n', None))
    """
    lines: dict[int, list[str]] = {}
    ended: dict[int, int] = {}
    for match in filter(None, map(_LINE.match, text.splitlines())):
        group, line = int(match[1]), match[2]
        status = _ENDED.match(line)
        mine = lines.setdefault(group, [])
        if status:
            ended[group] = int(status[1])
        else:
            mine.append(line)
    return tuple(("".join(f"{line}\n" for line in lines[group]), ended.get(group)) for group in sorted(lines))


def merged(text: str, case: BenchmarkCase, groups: int) -> BenchmarkResult | None:
    """All groups of one such launch as one result; None = not every group printed a table.

    Raises:
        ReadError: a table is not one.
    """
    parts = separated(text)
    tables = [(nccl_tests_table.parse(part), status) for part, status in parts]
    if len(tables) != groups or not all(found and found[-1].rows for found, _ in tables):
        return None
    results = [found[-1] for found, _ in tables]
    failed = tuple(f"group {number}: exit status {status}" for number, (_, status) in enumerate(tables) if status != 0)
    ranks: list[RankLine] = []
    times: list[ProcessTimes] = []
    for number, result in enumerate(results):
        first = len(ranks)
        mine = [dataclasses.replace(line, rank=first + line.rank, group=number) for line in result.ranks]
        ranks += mine
        for in_place in (False, True):
            values = _values(result, case.sizes.minimum_bytes, in_place=in_place)
            times += [ProcessTimes(case.sizes.minimum_bytes, in_place, line.rank, line.host, number, values) for line in mine if values]
    shortest = min(results, key=lambda result: len(result.rows))
    return dataclasses.replace(
        shortest,
        # Old tables do not name what they measured; the command line did.
        collective=shortest.collective or case.collective.value,
        nranks=None,
        ranks=tuple(ranks),
        process_times=tuple(times),
        complete=all(result.complete for result in results) and not failed,
        problems=(*(problem for result in results for problem in result.problems), *failed),
        faults=tuple(fault for result in results for fault in result.faults),
    )


def _values(result: BenchmarkResult, size_bytes: int, *, in_place: bool) -> tuple[float, ...]:
    """Microseconds of each row, as if it had been of that size."""
    found: list[tuple[int, Measurement]] = []
    for row in result.rows:
        measured = row.in_place if in_place else row.out_of_place
        if measured is not None and row.size_bytes:
            found.append((row.size_bytes, measured))
    return tuple(measured.time_us * size_bytes / size for size, measured in found)
