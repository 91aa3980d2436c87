"""Before a table begins only the lines that say something are read; what is read is the same."""

from __future__ import annotations

import random
import re
import runpy
from pathlib import Path

import pytest

from busbw.parsers.logs import scan_literals
from busbw.parsers.logs.scan_literals import Marks
from busbw.parsers.nccl_tests import lines
from busbw.parsers.nccl_tests.lines import candidates
from busbw.parsers.nccl_tests.rows import PlainRows
from busbw.parsers.nccl_tests.runs import runs_of
from busbw.parsers.nccl_tests.torn_rows import RowJoiner

GENERATOR = runpy.run_path(str(Path(__file__).parents[1] / "bench" / "gen_varied.py"))
SAYINGS = (
    "# nccl-tests version 2.17.6 nccl-headers=22703 nccl-library=22703",
    "NCCL version 2.21.5+cuda12.4",
    "node000:41000:42000 [0] NCCL INFO comm 0x7f rank 0 nranks 8 cudaDev 0 - Init COMPLETE",
    "node1: Test NCCL failure common.cu:958 'unhandled system error'",
    "invalid type foo, defaulting to float",
    "all_reduce_perf: option -R is not supported",
    "# Reducing maxBytes to 1073741824 due to memory limitation",
    "#                                                              out-of-place",
    "1048576 262144 mytype sum -1 61.20 17.13 17.13 0",
    "8388608|2097152|float|sum|-1|96.41|87.01|163.14|0|95.88|87.49|164.05|0",
    "size,count,type,redop,root,time,algbw,busbw,#wrong",
)


def text_of(seed: int) -> bytes:
    """A log with a table somewhere in it, decorated, or without one."""
    rng = random.Random(seed)
    writer = GENERATOR["Writer"](seed)
    log = [writer.line() for _ in range(rng.randrange(200, 3000))]
    log += rng.sample(SAYINGS, rng.randrange(len(SAYINGS)))
    log += [init_line(rng) for _ in range(rng.randrange(60))]
    rng.shuffle(log)
    if rng.random() < 0.8:
        at = rng.randrange(len(log))
        table = GENERATOR["table"](writer).split("\n")
        if rng.random() < 0.5:
            table = table[: rng.randrange(len(table))]
        log[at:at] = [decorated(line, seed) for line in table]
    return "\n".join(log).encode()


def init_line(rng: random.Random) -> str:
    """What a process logs of a communicator; the number of ranks is counted."""
    rank, nranks = rng.randrange(4), rng.choice((4, 8, 16))
    front = rng.choice(("", f"[1,{rank}]<stdout>:", "\x1b[32m"))
    return (
        f"{front}node{rank}:41{rank}:42000 [{rank}] NCCL INFO ncclCommInitRank comm 0x7f rank {rank}"
        f" nranks {nranks} cudaDev {rank} busId 1b000 commId 0xab - Init COMPLETE"
    )


def decorated(line: str, seed: int) -> str:
    """A line as terminals, launchers and people write it down."""
    ways = (
        line,
        f"\x1b[32m{line}\x1b[0m",
        line.replace(" ", "\u00a0"),
        line.replace("  ", " \x1b[0m "),
        f"[1,0]<stdout>:{line}",
        f'{{"log":"{line}\\n"}}',
        line.replace(" ", "&nbsp;"),
        f"2026-03-01T10:00:00Z stdout F {line}\r",
    )
    return ways[seed % len(ways)]


@pytest.mark.parametrize("seed", range(40))
def test_the_runs_are_the_same_as_if_every_line_were_read(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of(seed)
    fast = runs_of(candidates([text]))
    monkeypatch.setattr(lines, "_SPEAKING", Marks((r"[\s\S]",)))
    assert fast == runs_of(candidates([text]))


@pytest.mark.parametrize("seed", range(40))
def test_rows_read_at_once_are_those_read_cell_by_cell(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = disturbed(text_of(seed), seed)
    fast = runs_of(candidates([text]))
    monkeypatch.setattr(PlainRows, "row", lambda *_: None)
    monkeypatch.setattr(lines, "_PLAIN_ROW", re.compile(rb"(?!)"))
    assert fast == runs_of(candidates([text]))


def test_whole_rows_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = GENERATOR["table"](GENERATOR["Writer"](3)).encode()
    monkeypatch.setattr(RowJoiner, "take", None)
    (run,) = runs_of(candidates([table]))
    assert len(run.rows) == 25


def disturbed(text: bytes, seed: int) -> bytes:
    """Cells changed to what versions, faults and terminals print."""
    rng = random.Random(seed)
    rows = text.split(b"\n")
    for _ in range(60):
        number = rng.randrange(len(rows))
        cells = rows[number].split(b" ")
        cells[rng.randrange(len(cells))] = rng.choice(
            (
                b"nan",
                b"inf",
                b"N/A",
                b"1e400",
                b"1.2e+07",
                b"",
                b"7",
                b"none",
                b"0.",
                b"-3",
                b"9" * 19,
            )
        )
        rows[number] = b" ".join(cells) + rng.choice((b"", b"  ", b"x", b"\t", b" gpu1:41:42 [0]"))
    return b"\n".join(rows)


@pytest.mark.parametrize("seed", range(0, 40, 8))
def test_the_runs_are_the_same_without_the_library(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of(seed)
    fast = runs_of(candidates([text]))
    monkeypatch.setattr(scan_literals, "_IS_HERE", False)
    assert fast == runs_of(candidates([text]))


def test_most_lines_of_a_log_without_a_table_are_not_looked_at() -> None:
    writer = GENERATOR["Writer"](7)
    log = "\n".join(writer.line() for _ in range(5000))
    assert len(lines._SPEAKING.lines_in(log.encode())) < log.count("\n") / 5


def test_numbers_of_ranks_are_given_only_where_something_of_a_table_is() -> None:
    starts = (
        b"n1:41:42 [0] NCCL INFO comm 0x7f rank 0 nranks 8 cudaDev 0 - Init COMPLETE\n"
        b"n1:41:42 [0] NCCL INFO comm 0x80 rank 0 nranks 8 cudaDev 0 - Init COMPLETE\n"
    )
    config = (
        b"# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 1 iters: 20\n"
    )
    assert list(candidates([b"bandwidth\n" + starts])) == []
    for text in (starts + config, config + starts):
        (run,) = runs_of(candidates([text]))
        assert run.logged_ranks == (8,)
