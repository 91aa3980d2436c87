"""How many texts are read at once: by worker processes where that pays, in the order given either
way."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from busbw import intake
from busbw.errors import ReadError

T = TypeVar("T")

WORTH_WORKERS = 64 << 20
"""Bytes in several files from which on worker processes pay."""
_CHUNKS = 256
"""Of files at most: to hand one over takes 0.3 ms."""
_RARELY = 200_000
"""Containers made before Python looks for cycles, instead of 700: reading makes records by the
hundred thousand and no cycles."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Makes Python look for cycles seldom, and not among what there is already: that saves a tenth of
    the time of reading a large log."""
    before = gc.get_threshold()
    gc.set_threshold(_RARELY)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def read_each(
    read: Callable[[intake.Source], T],
    sources: Sequence[intake.Source],
    *,
    worth_bytes: int = WORTH_WORKERS,
    kept: Callable[[T], T] = lambda each: each,
) -> tuple[T, ...]:
    """What `read`, a function of a module, gives for each text, in the order of the texts. At most
    as many processes as this one may use CPUs; the largest files are read first, so that none is
    left alone at the end. The smallest is read before them, by this process.

    kept: makes of what a process gave, as soon as it is here, what is kept of it.

    Raises:
        ReadError: a worker was ended from outside.
    """
    workers = min(len(sources), len(os.sched_getaffinity(0)))
    sizes = [source.path.stat().st_size for source in sources]
    if workers < 2 or sum(sizes) < worth_bytes:
        with rarely_collected():
            return tuple(kept(read(source)) for source in sources)
    import multiprocessing  # 20 ms that most calls do not need
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    largest_first = sorted(range(len(sources)), key=lambda number: -sizes[number])
    texts: dict[int, T] = {}
    method = "spawn"
    try:
        with rarely_collected():
            if threading.active_count() == 1:
                # Forked workers have what this process imported, compiled and learnt for one text.
                method = "fork"
                smallest = largest_first.pop()
                texts[smallest] = kept(read(sources[smallest]))
            with ProcessPoolExecutor(
                workers, multiprocessing.get_context(method), gc.set_threshold, (_RARELY,)
            ) as pool:
                others = [sources[number] for number in largest_first]
                read_there = pool.map(read, others, chunksize=1 + len(others) // _CHUNKS)
                texts.update(zip(largest_first, map(kept, read_there), strict=True))
    except BrokenProcessPool as error:
        raise ReadError(
            "a process that read some of the files was ended from outside",
            seen=str(error),
            next_step="check free memory; name fewer files, or read them one at a time",
        ) from error
    return tuple(texts[number] for number in range(len(sources)))
