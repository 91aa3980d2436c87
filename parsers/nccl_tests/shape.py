"""What the rows of one table show by themselves, without any hardware: a size far below both
neighbours, a curve that falls at its end, and in place far from out of place. And what several tables
show: one measurement, made twice, with numbers that are far apart.

>>> from busbw.model.benchmark import BenchmarkRow, Measurement
>>> def row(size, busbw):
...     value = Measurement(size / busbw / 1e3, busbw, busbw, 0)
...     return BenchmarkRow(size, size // 4, "float", "sum", None, value, None)
>>> remarks((row(1 << 24, 160.0), row(1 << 25, 90.0), row(1 << 26, 290.0)))
('32 MiB out of place gives 90.00 GB/s, its neighbours 160.0 GB/s and 290.0 GB/s: busbw why size-dip',)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from busbw.model.benchmark import BenchmarkResult, BenchmarkRow, Measurement
from busbw.units import format_bandwidth, format_size

DIP_FROM_BYTES = 1 << 20
"""Below it is latency: small sizes scatter."""
DIP_DEPTH = 0.3
"""Of the slower neighbour: a step of NCCL's tuner is rarely deeper (docs: size-dip, 15 %)."""
_FALL = 0.5
"""Of the best smaller size."""
_LARGE_FROM_BYTES = 32 << 20
"""Below it in place and out of place of collectives with a root differ by half on good fabrics."""
_FAR_APART = 0.3
"""Of the faster of both; in the recorded tables both placements are within a fifth, and launches of one
measurement on a good fabric within a tenth."""


def remarks(rows: Sequence[BenchmarkRow]) -> tuple[str, ...]:
    """What is worth a look, in words; nothing of it makes a table bad."""
    return (*_dips(rows), *_fall(rows), *_places(rows))


def _dips(rows: Sequence[BenchmarkRow]) -> Iterator[str]:
    for before, here, after in zip(rows, rows[1:], rows[2:], strict=False):
        is_rising = before.size_bytes < here.size_bytes < after.size_bytes
        if not is_rising or here.size_bytes < DIP_FROM_BYTES:
            continue
        for placement in ("out of place", "in place"):
            low, busbw, high = (_busbw(row, placement) for row in (before, here, after))
            if low is None or busbw is None or high is None:
                continue
            if busbw < (1 - DIP_DEPTH) * min(low, high):
                yield (
                    f"{format_size(here.size_bytes)} {placement} gives {format_bandwidth(busbw)},"
                    f" its neighbours {format_bandwidth(low)} and {format_bandwidth(high)}:"
                    " busbw why size-dip"
                )
                break


def _fall(rows: Sequence[BenchmarkRow]) -> Iterator[str]:
    """The size from which the bandwidth stays far below that of a smaller one, to the end."""
    if any(one.size_bytes >= other.size_bytes for one, other in pairwise(rows)):
        return
    large = [row for row in rows if row.size_bytes >= DIP_FROM_BYTES]
    for placement in ("out of place", "in place"):
        text = _fall_of(large, placement)
        if text:
            yield text
            return


def _fall_of(rows: Sequence[BenchmarkRow], placement: str) -> str:
    """In words; empty = it does not fall."""
    curve = [(row.size_bytes, _busbw(row, placement) or 0.0) for row in rows]
    best_bytes, best = max(curve, key=lambda point: point[1], default=(0, 0.0))
    low = list(takewhile(lambda point: 0 < point[1] < (1 - _FALL) * best, reversed(curve)))
    if not low:
        return ""
    size_bytes, busbw = low[-1]
    more = f", and {len(low) - 1} larger sizes no more" if len(low) > 1 else ""
    return (
        f"{format_size(size_bytes)} {placement} gives {format_bandwidth(busbw)}, after"
        f" {format_bandwidth(best)} at {format_size(best_bytes)}{more}: something disturbed or"
        " throttled the largest sizes; measure them again, alone"
    )


def _busbw(row: BenchmarkRow, placement: str) -> float | None:
    value = row.out_of_place if placement == "out of place" else row.in_place
    return None if value is None else value.busbw_gb_s


def _places(rows: Sequence[BenchmarkRow]) -> Iterator[str]:
    """The row whose placements differ most; those whose data is not checked in place are not the
    same work."""
    pairs: list[tuple[float, BenchmarkRow, Measurement, Measurement]] = []
    for row in rows:
        out, inside = row.out_of_place, row.in_place
        if out is None or inside is None or row.size_bytes < _LARGE_FROM_BYTES:
            continue
        if inside.wrong is None and out.wrong is not None:
            continue
        fast = max(out.busbw_gb_s, inside.busbw_gb_s)
        if fast > 0:
            share = min(out.busbw_gb_s, inside.busbw_gb_s) / fast
            pairs.append((share, row, out, inside))
    if not pairs:
        return
    share, row, out, inside = min(pairs, key=lambda each: each[0])
    if share > 1 - _FAR_APART:
        return
    more = sum(each[0] <= 1 - _FAR_APART for each in pairs) - 1
    others = f", and {more} more sizes" if more else ""
    yield (
        f"{format_size(row.size_bytes)} gives {format_bandwidth(out.busbw_gb_s)} out of place and"
        f" {format_bandwidth(inside.busbw_gb_s)} in place{others}: both do the same work, so that"
        " the slower one was disturbed, or its buffers lie elsewhere (registration, placement)"
    )


def contradictions(results: Sequence[BenchmarkResult]) -> tuple[str, ...]:
    """Tables of one measurement whose numbers are far apart, in words: the same collective, options,
    ranks, devices and versions."""
    alike: dict[object, list[int]] = {}
    for place, result in enumerate(results):
        if result.ranks or result.config:
            alike.setdefault(_measurement(result), []).append(place)
    texts = (_contradiction(results, places) for places in alike.values() if len(places) > 1)
    return tuple(filter(None, texts))


_ALLTOALL_SHARE = 1 / 3
"""Of what an all_reduce of the same GPUs leads one to expect: far enough from it that neither NVLink SHARP
nor a tree, which raise all_reduce alone, explains the difference. This project's own choice."""


@dataclass(frozen=True, slots=True)
class Level:
    """What one table of several nodes reaches at large sizes."""

    collective: str
    devices: str
    """Digest of its list of devices."""
    nodes: int
    per_node: int
    busbw_gb_s: float
    """The most, out of place."""


def level(result: BenchmarkResult) -> Level | None:
    """None = no all_reduce or alltoall of several nodes with as many ranks each, or no large size."""
    nodes, ranks = result.nodes or 0, result.nranks or 0
    if result.collective not in ("all_reduce", "alltoall") or not result.ranks:
        return None
    if nodes < 2 or ranks % nodes or ranks // nodes < 2:
        return None
    large = [
        row.out_of_place.busbw_gb_s
        for row in result.rows
        if row.out_of_place is not None and row.size_bytes >= _LARGE_FROM_BYTES
    ]
    if not large:
        return None
    devices = sorted(f"{line.host} {line.device} {line.bus_id}" for line in result.ranks)
    digest = hashlib.sha256("\n".join(devices).encode(errors="replace")).hexdigest()
    return Level(result.collective, digest, nodes, ranks // nodes, max(large))


def low_alltoall(levels: Sequence[Level]) -> tuple[str, ...]:
    """An alltoall far below the all_reduce of the same GPUs, in words.

    Between nodes a ring all_reduce of g GPUs a node runs at g times the rate of one GPU's network, an
    alltoall at that of one: its busbw is about 1/g.
    """
    best: dict[tuple[str, str], Level] = {}
    for each in levels:
        key = (each.collective, each.devices)
        if key not in best or each.busbw_gb_s > best[key].busbw_gb_s:
            best[key] = each
    texts = []
    for (collective, devices), low in best.items():
        high = best.get(("all_reduce", devices))
        if collective != "alltoall" or high is None:
            continue
        if 0 < low.busbw_gb_s < _ALLTOALL_SHARE * high.busbw_gb_s / low.per_node:
            texts.append(
                f"alltoall gives {format_bandwidth(low.busbw_gb_s)}, 1/{high.busbw_gb_s / low.busbw_gb_s:.0f}"
                f" of the {format_bandwidth(high.busbw_gb_s)} of all_reduce on the same {low.nodes} nodes x"
                f" {low.per_node} GPUs; with a NIC for each GPU about 1/{low.per_node} is usual: traffic between"
                " rails is slow, or a setting of alltoall (PXN, NCCL_P2P_*, channels) differs"
            )
    return tuple(texts)


def low_between(texts: Sequence[Sequence[Level]]) -> tuple[str, ...]:
    """`low_alltoall` of the tables of several texts. Of one text it stands among its own remarks."""
    if sum(map(bool, texts)) < 2:
        return ()
    return low_alltoall([level for of_text in texts for level in of_text])


def _measurement(result: BenchmarkResult) -> object:
    devices = frozenset((line.host, line.device, line.bus_id) for line in result.ranks)
    versions = (result.nccl_version, result.tests_version)
    return result.collective, result.nranks, result.config, devices, versions


def _contradiction(results: Sequence[BenchmarkResult], places: Sequence[int]) -> str:
    """The size at which these tables differ most; empty = they agree."""
    numbers: dict[tuple[int, str, object], dict[int, float]] = {}
    for place in places:
        for row in results[place].rows:
            for placement in ("out of place", "in place"):
                busbw = _busbw(row, placement)
                if busbw is None or row.size_bytes < _LARGE_FROM_BYTES:
                    continue
                key = (row.size_bytes, placement, (row.type, row.redop, row.root))
                of_run = numbers.setdefault(key, {})
                of_run[place + 1] = max(busbw, of_run.get(place + 1, 0.0))  # -N repeats sizes
    apart = []
    for (size_bytes, placement, _), by_run in numbers.items():
        slow, fast = min(by_run, key=by_run.__getitem__), max(by_run, key=by_run.__getitem__)
        low, high = by_run[slow], by_run[fast]
        if 0 < low < (1 - _FAR_APART) * high:
            apart.append((low / high, size_bytes, placement, low, slow, high, fast))
    if not apart:
        return ""
    _, size_bytes, placement, low, slow, high, fast = min(apart, key=lambda each: each[0])
    return (
        f"runs {fast} and {slow} measured the same and contradict each other: {placement} at"
        f" {format_size(size_bytes)} {format_bandwidth(high)} and {format_bandwidth(low)}; settings"
        " that no table shows differed, or one of them was disturbed"
    )
