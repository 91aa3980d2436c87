"""Which operation of nccl-tests a number of launched operations is: the iteration in which a benchmark hangs, by what NCCL's RAS counted.

The order is that of `src/common.cu`: warm-up, then for every size out-of-place and in-place, each one untimed operation, the timed iterations,
one operation per data check. The warm-up is of every doubling between the smallest and the largest size; before August 2025 it was of these two
alone, and those versions do not print their number.
"""

from __future__ import annotations

from busbw.records import BenchmarkCase
from busbw.units import format_size

_PLACES = ("out-of-place", "in-place")


def place(case: BenchmarkCase, done: int, launched: tuple[int, int], version: str | None) -> str:
    """Where in the benchmark the job hangs, in words: `in iteration 7 of 20 at 64 MiB in-place`; empty = the counts do not fit the case.

    Args:
        done: sizes that were printed, over all cycles.
        launched: operations that the rank that is furthest behind has launched, and the one that is furthest ahead.
        version: of nccl-tests, as it printed it; None = it printed none.

    >>> from busbw.records import Collective, Sizes
    >>> case = BenchmarkCase("a", Collective.ALL_REDUCE, Sizes(1024, 4096, 2), iterations=20, warmup=1, check=1)
    >>> place(case, 1, (3 + 44 + 7, 3 + 44 + 20), "2.19.6")
    'in iteration 7 of 20 at 2 KiB out-of-place'
    """
    behind, ahead = launched
    doublings = (case.sizes.maximum_bytes // case.sizes.minimum_bytes).bit_length()
    warmup = case.warmup * (doublings if version is not None else 2)
    first = warmup + done * _of_size(case)
    if not done and (behind < warmup or 0 < warmup == behind == ahead):
        return f"in warm-up operation {min(behind + 1, ahead)} of {warmup}"
    if not first <= behind <= first + _of_size(case):
        return ""
    return _standing(case, warmup, first, behind) if behind == ahead else _named(case, warmup, behind)


def _of_size(case: BenchmarkCase) -> int:
    return 2 * (1 + case.iterations + case.check)


def _named(case: BenchmarkCase, warmup: int, index: int) -> str:
    """What the operation with this number, from 0 on, is."""
    sizes = case.sizes.planned()
    number, inside = divmod(index - warmup, _of_size(case))
    which, step = divmod(inside, _of_size(case) // 2)
    at = f"at {format_size(sizes[number % len(sizes)])} {_PLACES[which]}"
    if step == 0:
        return f"in the untimed operation {at}"
    if step <= case.iterations:
        return f"in iteration {step} of {case.iterations} {at}"
    return f"in data check {step - case.iterations} of {case.check} {at}"


def _standing(case: BenchmarkCase, warmup: int, first: int, launched: int) -> str:
    """All ranks launched the same and wait for its end: the last one where each is waited for, else any since the last wait."""
    if launched == first:
        return ""
    named = _named(case, warmup, launched - 1)
    step = int(named.split()[2]) if named.startswith("in iteration") and not case.blocking else 1
    return named if step == 1 else named.replace(f"in iteration {step} of", f"in one of the first {step} iterations of")
