"""How fast nccl-tests tables are read out of a job's log. `python tests/bench/read_tables.py [--mb
N]` prints MB per second of processor time.

The log is composed: NCCL lines of 1,024 ranks before and inside one table, other programs' lines,
tables alone. Processor time is taken so that a busy machine says the same; caches shared with other
work still show.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from busbw.parsers.nccl_tests import table

HEADER = (
    b"#       size         count      type   redop    root     time   algbw   busbw  #wrong    "
    b" time   algbw   busbw  #wrong \n"
)
ROW = (
    b"     8388608       2097152     float     sum      -1    96.41   87.01  163.14       0   "
    b" 95.88   87.49  164.05       0\n"
)
FOOTER = b"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 163.595 \n"
CHUNK = 1 << 18


def channel(number: int) -> bytes:
    """A connection line, as a job prints them by the hundred thousand before its table."""
    rank, device = number % 1024, number % 8
    return b"gpu-%03d:%d:%d [%d] NCCL INFO Channel %02d/0 : %d[%d] -> %d[%d] via NET/IB/%d/GDRDMA\n" % (
        number % 128, 40000 + rank, 41000 + number % 777, device, number % 16, rank, device, rank * 7 % 1024, device, device,
    )  # fmt: skip


def collective(number: int) -> bytes:
    """A line of NCCL_DEBUG_SUBSYS=COLL, as they stand inside a table."""
    return b"gpu-%03d:%d:%d [%d] NCCL INFO AllReduce: opCount %x sendbuff 0x7f00aa000000 recvbuff 0x7f10aa000000 count 262144 datatype 7 op 0\n" % (
        number % 128, 40000 + number % 1024, 41000, number % 8, number,
    )  # fmt: skip


def foreign(number: int) -> bytes:
    """A line of another library."""
    return b"[1720000000.%06d] [gpu-%03d:%d:%d] ucp_worker.c:1783 UCX INFO ep_cfg[%d]: tag(rc_mlx5/mlx5_%d:1)\n" % (
        number, number % 128, number % 7, number % 9, number % 5, number % 8,
    )  # fmt: skip


def filled(line: Callable[[int], bytes], size: int) -> bytes:
    """`size` bytes of such lines."""
    lines: list[bytes] = []
    total = 0
    while total < size:
        lines.append(line(len(lines)))
        total += len(lines[-1])
    return b"".join(lines)


HOSTILE = {
    "words of a device list": b"Rank 1 Pid 1 on ",
    "words of a header": b"size count ",
    "halves of rows": b"8 2 float sum -1 1 1 1 0 ",
    "rows in one line": b"8 2 float sum -1 1 1 1 0 1 1 1 0\\n",
    "cells": b"1 ",
    "prefixes": b"[1,0]<stdout>:",
    "opened escapes": b"\x1b]",
    "bars": b"1|",
}
"""Pieces of which lines of 64 KiB are made that a careless expression would search for hours."""


def main() -> None:
    """Print one line per kind of text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=32, help="size of each text")
    size = parser.parse_args().mb << 20
    texts = {
        "NCCL log before the table": (filled(channel, size) + HEADER + ROW + FOOTER, 1),
        "NCCL log inside the table": (HEADER + filled(collective, size) + ROW + FOOTER, 1),
        "other log before the table": (filled(foreign, size) + HEADER + ROW + FOOTER, 1),
        "other log inside the table": (HEADER + filled(foreign, size // 4) + ROW + FOOTER, 1),
        "rows alone": (HEADER + ROW * 10000 + FOOTER, 10000),
    }
    for name, (text, rows) in texts.items():
        started = time.process_time()
        (result,) = table.parse(text[at : at + CHUNK] for at in range(0, len(text), CHUNK))
        seconds = time.process_time() - started
        if len(result.rows) != rows:
            raise SystemExit(f"{name}: {len(result.rows)} rows read, {rows} written")
        print(
            f"{name:28} {len(text) / 1e6:6.1f} MB {len(text) / 1e6 / seconds:8.1f} MB/s, complete"
            f" {result.complete}"
        )
    for name, piece in HOSTILE.items():
        text = HEADER + (piece * (65000 // len(piece)) + b"\n") * 16
        started = time.process_time()
        table.parse(text)
        print(f"hostile: {name:22} {(time.process_time() - started) / len(text) * 1e6:8.2f} s/MB")


if __name__ == "__main__":
    main()
