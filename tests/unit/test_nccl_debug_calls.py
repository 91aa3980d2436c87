"""How far each process got, against a naive reading of every line."""

from __future__ import annotations

import random
import re

import pytest

from busbw.model import CollectiveCall, CommCalls, ProcessActivity
from busbw.parsers.logs.nccl_debug_calls import read_activity

CALL = (
    "{host}:{pid}:{tid} [{dev}] NCCL INFO {name}: opCount {op:x} sendbuff 0x1 recvbuff 0x2 count"
    " {count} datatype 7 op 0 root {root} comm 0x{comm} [nranks=4] stream 0x{stream}"
)


def composed(lines: int, seed: int, burst: int) -> list[str]:
    """Four processes with two communicators each, in bursts, with other lines between."""
    rng = random.Random(seed)
    counters: dict[tuple[int, int], int] = {}
    made: list[str] = []
    while len(made) < lines:
        rank, which = rng.randrange(4), rng.randrange(2)
        prefix = f"gpu{rank // 2}:{40 + rank}:{50 + rank + which}"
        for _ in range(rng.randrange(1, burst + 1)):
            if rng.random() < 0.3:
                made.append(
                    f"{prefix} [{rank % 2}] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
                )
                continue
            count = counters[rank, which] = counters.get((rank, which), -1) + 1
            made.append(
                CALL.format(
                    host=f"gpu{rank // 2}",
                    pid=40 + rank,
                    tid=50 + rank + which,
                    dev=rank % 2,
                    name=rng.choice(("AllReduce", "AllGather")),
                    op=count,
                    count=rng.randrange(1, 9999),
                    root=0,
                    comm=f"7f{rank}{which}",
                    stream="56aa",
                )
            )
        if rng.random() < 0.1:
            made.append("a line of something else")
    return made


def naive(lines: list[str]) -> tuple[ProcessActivity, ...]:
    counts: dict[str, int] = {}
    last: dict[str, dict[str, CollectiveCall]] = {}
    for line_no, line in enumerate(lines, 1):
        prefix = re.match(r"(\w+:\d+):\d+ ", line)
        if prefix is None:
            continue
        counts[prefix[1]] = counts.get(prefix[1], 0) + 1
        call = re.search(
            r"(\w+): opCount (\w+) .* count (\d+) datatype (\d+) op (\d+) root (-?\d+) comm (\w+) ",
            line,
        )
        if call is not None:
            numbers = [int(each) for each in call.groups()[2:6]]
            last.setdefault(prefix[1], {})[call[7]] = CollectiveCall(
                line_no, call[1], int(call[2], 16), *numbers
            )
    return tuple(
        ProcessActivity(
            process,
            count,
            tuple(
                CommCalls(pointer, call) for pointer, call in sorted(last.get(process, {}).items())
            ),
        )
        for process, count in sorted(counts.items())
    )


@pytest.mark.parametrize("burst", [1, 3, 40])
@pytest.mark.parametrize("seed", range(4))
def test_counts_and_last_calls_are_those_of_a_naive_reading(burst: int, seed: int) -> None:
    lines = composed(5000, seed, burst)
    data = "\n".join(lines).encode()
    assert read_activity(data[at : at + 70_001] for at in range(0, len(data), 70_001)) == naive(
        lines
    )


def test_the_process_that_is_behind_is_seen_by_its_last_call() -> None:
    lines = [
        CALL.format(
            host="n",
            pid=pid,
            tid=9,
            dev=0,
            name="AllReduce",
            op=op,
            count=64,
            root=0,
            comm="ab",
            stream="cd",
        )
        for pid, operations in ((1, 12), (2, 11))
        for op in range(operations)
    ]
    behind, ahead = sorted(
        read_activity(["\n".join(lines).encode()]),
        key=lambda each: each.communicators[0].last.op_count,
    )
    assert (behind.process, behind.communicators[0].last.op_count) == ("n:2", 10)
    assert (ahead.process, ahead.communicators[0].last.op_count) == ("n:1", 11)


def test_a_log_without_calls_or_prefixes_is_no_error() -> None:
    assert read_activity([b"hello\n", b": opCount 1 2 3\n"]) == ()
    assert read_activity([]) == ()
    assert read_activity([b"n:1:2 [0] NCCL INFO Using network IB\n"]) == (
        ProcessActivity("n:1", 1, ()),
    )
