"""What each group of a survey achieved: per-iteration bus bandwidth, from the per-process times of nccl-tests' JSON (`-I 1 -z 3 -J`).

The printed table speaks for process 0's group only; the JSON gathers the times of all groups. The time of a group in one iteration is the
maximum over its processes, and its bus bandwidth follows from size, group size and that time.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.records import BenchmarkResult, busbw_factor


@dataclass(frozen=True, slots=True)
class GroupSample:
    """One group of nodes in one launch, at one size."""

    nodes: tuple[str, ...]
    size_bytes: int
    busbw_gb_s: tuple[float, ...]
    """One value per iteration."""
    artefact: str
    line_no: int | None = None

    @property
    def median_gb_s(self) -> float:
        """Median over the iterations."""
        return statistics.median(self.busbw_gb_s)

    @property
    def spread(self) -> float:
        """Robust coefficient of variation over the iterations: 1.4826 MAD / median; 0 for a single one."""
        middle = self.median_gb_s
        deviations = [abs(value - middle) for value in self.busbw_gb_s]
        return 1.4826 * statistics.median(deviations) / middle if middle else 0.0


def group_samples(result: BenchmarkResult, artefact: str, in_place: bool = False) -> tuple[GroupSample, ...]:
    """The groups of one launch at its largest size, by the device table's hosts.

    () = the result has no per-process times, or they do not say which process belongs to which group.

    Raises:
        ValueError: the collective is not one of nccl-tests'.
    """
    times = [t for t in result.process_times if t.in_place == in_place]
    if not times or result.collective is None:
        return ()
    size_bytes = max(t.size_bytes for t in times)
    rank_group = {line.rank: line.group for line in result.ranks}
    members: dict[int, list[tuple[str, tuple[float, ...]]]] = {}
    ranks_in: dict[int, int] = {}
    for line in result.ranks:
        if line.group is not None:
            ranks_in[line.group] = ranks_in.get(line.group, 0) + 1
    for entry in times:
        group = entry.group if entry.group is not None else rank_group.get(entry.process)
        if entry.size_bytes != size_bytes or group is None or entry.host is None:
            continue
        members.setdefault(group, []).append((entry.host, entry.times_us))
    samples = []
    for group in sorted(members):
        nranks = ranks_in.get(group, len(members[group]))
        factor = busbw_factor(result.collective, nranks)
        per_iteration = zip(*(series for _, series in members[group]), strict=False)
        slowest = [max(values) for values in per_iteration]
        nodes = tuple(dict.fromkeys(host for host, _ in members[group]))
        busbw = tuple(factor * size_bytes / (time_us * 1000.0) for time_us in slowest if time_us > 0)
        if busbw:
            samples.append(GroupSample(nodes, size_bytes, busbw, artefact))
    return tuple(samples)
