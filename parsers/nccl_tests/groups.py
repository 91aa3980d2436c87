"""What each group of a survey achieved: per-iteration bus bandwidth, from the per-process times of
nccl-tests' JSON (`-I 1 -z 3 -J`).

The printed table is process 0's group only; the JSON gathers the times of all groups. The time of a
group in one iteration is the maximum over its processes, and its bus bandwidth follows from size,
group size and that time.

nccl-tests before 2.19.5 cannot measure several groups in one launch. Then each group is a launch of
its own, all at the same time, and every line says which group it belongs to (`merge`).
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import Counter
from dataclasses import dataclass

from busbw.model import (
    BenchmarkCase,
    BenchmarkResult,
    LaunchRole,
    Medium,
    ProcessTimes,
    RankLine,
    busbw_factor,
)
from busbw.parsers.nccl_tests import table
from busbw.versions import release

SINCE = (2, 19, 5)
"""nccl-tests that times every process and iteration of all groups with a barrier before each (`-I 1
-z 3`)."""
ROWS = 5
"""Rows of a group: each gives one value out of place and one in place."""
_LINE = re.compile(r"^@(\d+) ?(.*)$")
_ENDED = re.compile(r"^exit (\d+)$")


def too_old(version: str | None) -> bool:
    """The binary cannot measure several groups in one launch. None = it prints none, as old ones
    do.

    >>> too_old("2.19.5"), too_old("2.19.4"), too_old("2.20"), too_old("2.19"), too_old(None)
    (False, True, False, True, True)
    """
    return release(version) < SINCE


def split_by_group(text: str) -> tuple[tuple[str, int | None], ...]:
    """(what one group's launch printed, its exit status), in the order of the groups; status None =
    it did not end.

    >>> split_by_group("@0 # a\\n@1 # b\\n@0 exit 0\\nstray\\n")
    (('# a\\n', 0), ('# b\\n', None))
    """
    texts: dict[int, str] = {}
    statuses: dict[int, int] = {}
    for match in filter(None, map(_LINE.match, text.splitlines())):
        group, line = int(match[1]), match[2]
        texts.setdefault(group, "")
        if status := _ENDED.match(line):
            statuses[group] = int(status[1])
        else:
            texts[group] += f"{line}\n"
    return tuple((texts[group], statuses.get(group)) for group in sorted(texts))


def merge(text: str, case: BenchmarkCase, groups: int) -> BenchmarkResult | None:
    """All groups, each measured by a launch of its own, as if one launch had measured them; None =
    not every group printed a table.

    Each row of a group is one timed value of each of its processes, at nearly the same size,
    brought to the size that was requested.

    Raises:
        ReadError: a table is not one.
    """
    results: list[BenchmarkResult] = []
    failures: list[str] = []
    for number, (printed, status) in enumerate(split_by_group(text)):
        results.append(table.parse(printed)[-1])
        if status != 0:
            failures.append(f"group {number}: exit status {status}")
    if len(results) != groups or not all(result.rows for result in results):
        return None
    ranks: list[RankLine] = []
    times: list[ProcessTimes] = []
    for number, result in enumerate(results):
        first = len(ranks)
        for line in result.ranks:
            ranks.append(dataclasses.replace(line, rank=first + line.rank, group=number))
        times += _process_times(result, ranks[first:], case.sizes.minimum_bytes)
    shortest = min(results, key=lambda result: len(result.rows))
    return dataclasses.replace(
        shortest,
        # Old tables do not name what they measured; the command line did.
        collective=shortest.collective or case.collective.value,
        nranks=None,
        ranks=tuple(ranks),
        process_times=tuple(times),
        complete=all(result.complete for result in results) and not failures,
        problems=(*(problem for result in results for problem in result.problems), *failures),
        faults=tuple(fault for result in results for fault in result.faults),
    )


def _process_times(
    result: BenchmarkResult, ranks: list[RankLine], size_bytes: int
) -> list[ProcessTimes]:
    """The rows of one group as times of each of its ranks."""
    times = []
    for in_place in (False, True):
        values = _times_us(result, size_bytes, in_place=in_place)
        for line in ranks if values else ():
            times.append(
                ProcessTimes(size_bytes, in_place, line.rank, line.host, line.group, values)
            )
    return times


def _times_us(result: BenchmarkResult, size_bytes: int, *, in_place: bool) -> tuple[float, ...]:
    """The time of each row, as if it had been of that size."""
    times = []
    for row in result.rows:
        measured = row.in_place if in_place else row.out_of_place
        if measured is not None and row.size_bytes:
            times.append(measured.time_us * size_bytes / row.size_bytes)
    return tuple(times)


@dataclass(frozen=True, slots=True)
class GroupSample:
    """One group of nodes in one launch, at one size."""

    nodes: tuple[str, ...]
    size_bytes: int
    busbw_gb_s: tuple[float, ...]
    """One value per iteration."""
    artefact: str
    line_no: int | None = None
    launch: str = ""
    """Samples of one launch ran at the same time and shared what they share; empty = the artefact
    says which."""
    role: LaunchRole = LaunchRole.PLAYBOOK
    """What its launch is for in this run; `playbook` too for samples of another run."""
    rail: int | None = None
    """The one rail the group used, counted from 0; None = all rails of its nodes."""
    collective: str = "all_reduce"
    """`alltoall`, or any other for the bytes of a ring."""
    ranks_per_node: int = 1
    concurrent_with: str = ""
    """Launches with one such name ran side by side, and shared what lies between their nodes; empty
    = no other ran."""

    medium: Medium = Medium.NETWORK
    """What carried its bytes between its nodes; of one node alone nothing left it."""
    busy: bool = False
    """Others used the CPUs of one of its nodes right before its launch, or right after it."""
    unasked: bool = False
    """Of an earlier run that left a suspicion open, and that nobody asked to count."""

    @property
    def over_network(self) -> bool:
        """Its NICs, and what lies between them, show in it."""
        return len(self.nodes) > 1 and self.medium is Medium.NETWORK

    @property
    def median_gb_s(self) -> float:
        """Median over the iterations."""
        return statistics.median(self.busbw_gb_s)

    @property
    def capacity_gb_s(self) -> float:
        """What the group can do: the upper quartile over the iterations. A passing disturbance
        lowers the median, not what the links carry."""
        if len(self.busbw_gb_s) < 4:
            return max(self.busbw_gb_s)
        return statistics.quantiles(self.busbw_gb_s, n=4)[2]

    @property
    def spread(self) -> float:
        """Robust coefficient of variation over the iterations: 1.4826 MAD / median; 0 for a single
        one."""
        middle = self.median_gb_s
        deviations = [abs(value - middle) for value in self.busbw_gb_s]
        return 1.4826 * statistics.median(deviations) / middle if middle else 0.0


def group_samples(result: BenchmarkResult, artefact: str) -> tuple[GroupSample, ...]:
    """The groups of one launch at its largest size, out-of-place and in-place iterations together,
    by the device table's hosts.

    () = the result has no per-process times, or they do not say which process belongs to which
    group.

    Raises:
        ValueError: the collective is not one of nccl-tests'.
    """
    if not result.process_times or result.collective is None:
        return ()
    size_bytes = max(entry.size_bytes for entry in result.process_times)
    members = _members(result, size_bytes)
    ranks_in = Counter(line.group for line in result.ranks)
    samples = []
    for group in sorted({group for group, _ in members}):
        placements = [members[key] for key in ((group, False), (group, True)) if key in members]
        processes = placements[0]
        factor = busbw_factor(result.collective, ranks_in.get(group) or len(processes))
        busbw: list[float] = []
        for entries in placements:
            # the time of an iteration is that of its slowest process
            for times_us in zip(*(entry.times_us for entry in entries), strict=False):
                if max(times_us) > 0:
                    busbw.append(factor * size_bytes / (max(times_us) * 1000.0))
        if not busbw:
            continue
        nodes = tuple(dict.fromkeys(entry.host for entry in processes if entry.host))
        per_node = len(processes) // max(len(nodes), 1)
        samples.append(
            GroupSample(
                nodes,
                size_bytes,
                tuple(busbw),
                artefact,
                rail=_rail(result, group) if per_node == 1 else None,
                collective=result.collective,
                ranks_per_node=per_node,
            )
        )
    return tuple(samples)


def _members(
    result: BenchmarkResult, size_bytes: int
) -> dict[tuple[int, bool], list[ProcessTimes]]:
    """The times at one size by group and placement."""
    group_of = {line.rank: line.group for line in result.ranks}
    members: dict[tuple[int, bool], list[ProcessTimes]] = {}
    for entry in result.process_times:
        group = entry.group if entry.group is not None else group_of.get(entry.process)
        if entry.size_bytes == size_bytes and group is not None and entry.host is not None:
            members.setdefault((group, entry.in_place), []).append(entry)
    return members


def _rail(result: BenchmarkResult, group: int) -> int | None:
    """The place on their nodes that all ranks of a group have, where nodes have more than one rank;
    else None.

    The k-th rank of a node has the k-th GPU, and the NIC beside it.
    """
    if max(Counter(line.host for line in result.ranks).values(), default=1) < 2:
        return None
    devices = {line.device for line in result.ranks if line.group == group}
    return devices.pop() if len(devices) == 1 else None
