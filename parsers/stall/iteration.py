"""Which operation of nccl-tests a number of launched operations is: the iteration in which a
benchmark hangs, by what NCCL's RAS counted.

The order is that of `src/common.cu`: warm-up, then for every size out-of-place and in-place, each
one untimed operation, the timed iterations, one operation per data check. The warm-up is of every
doubling between the smallest and the largest size; before August 2025 it was of these two alone,
and those versions do not print their number.
"""

from __future__ import annotations

from dataclasses import dataclass

from busbw.model import BenchmarkCase
from busbw.units import format_size

_PLACES = ("out-of-place", "in-place")


def place(case: BenchmarkCase, done: int, launched: tuple[int, int], version: str | None) -> str:
    """Where in the benchmark the job hangs, in words: `in iteration 7 of 20 at 64 MiB in-place`;
    empty = the counts do not fit the case.

    Args:
        done: sizes that were printed, over all cycles.
        launched: operations that the rank that is furthest behind has launched, and the one that is
        furthest ahead.
        version: of nccl-tests, as it printed it; None = it printed none.

    >>> from busbw.model import Collective, Sizes
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
    if behind != ahead:
        return _operation(case, warmup, behind).text()
    return _last_launched(case, warmup, behind) if behind > first else ""


def _of_size(case: BenchmarkCase) -> int:
    return 2 * (1 + case.iterations + case.check)


@dataclass(frozen=True, slots=True)
class _Operation:
    """One operation of a benchmark."""

    size_bytes: int
    place: str
    kind: str
    """`untimed`, `iteration` or `check`."""
    number: int
    total: int

    def text(self) -> str:
        at = f"at {format_size(self.size_bytes)} {self.place}"
        if self.kind == "untimed":
            return f"in the untimed operation {at}"
        what = "iteration" if self.kind == "iteration" else "data check"
        return f"in {what} {self.number} of {self.total} {at}"


def _operation(case: BenchmarkCase, warmup: int, index: int) -> _Operation:
    """The operation with this number, from 0 on."""
    sizes = case.sizes.planned()
    number, rest = divmod(index - warmup, _of_size(case))
    half, step = divmod(rest, _of_size(case) // 2)
    size_bytes, place = sizes[number % len(sizes)], _PLACES[half]
    if step == 0:
        return _Operation(size_bytes, place, "untimed", 0, 0)
    if step <= case.iterations:
        return _Operation(size_bytes, place, "iteration", step, case.iterations)
    return _Operation(size_bytes, place, "check", step - case.iterations, case.check)


def _last_launched(case: BenchmarkCase, warmup: int, launched: int) -> str:
    """All ranks launched the same and wait for its end: the last one where each is waited for, else
    any since the last wait."""
    last = _operation(case, warmup, launched - 1)
    if last.kind != "iteration" or case.blocking or last.number == 1:
        return last.text()
    at = f"at {format_size(last.size_bytes)} {last.place}"
    return f"in one of the first {last.number} iterations of {last.total} {at}"
