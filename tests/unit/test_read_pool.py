"""Many files are read by several processes: the same answers in the same order as by one."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from busbw import intake
from busbw.cli import read_texts, why_reading
from busbw.cli.pool import read_each
from busbw.errors import ReadError, UsageError

TEXTS = {
    "a.log": (
        "gpu1:41:42 [0] NCCL INFO NET/IB : No device found.\ngpu1:41:42 [0] NCCL INFO Using network"
        " Socket\n"
    ),
    "b.log": (
        "gpu2:51:52 [1] transport/net_ib.cc:95 NCCL WARN NET/IB : Got completion from peer"
        " 10.0.0.2<47001> with error 12, opcode 0\n"
    ),
    "c.txt": "Dear all,\nit is slow.\n",
    "d.txt": "CA 'mlx5_1'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Down\n",
    "e.bin": "\x80\x04\x95\x00\x00\x00",
}


@pytest.fixture
def sources(tmp_path: Path) -> tuple[intake.Source, ...]:
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="latin-1")
    return intake.expand([str(tmp_path)])


def test_several_processes_read_what_one_reads_in_the_same_order(
    sources: tuple[intake.Source, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    for read in (read_texts.read_one, why_reading.read_one):
        assert read_each(read, sources, worth_bytes=0) == tuple(read(source) for source in sources)


def test_the_smallest_file_is_read_first_and_then_the_largest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, size in enumerate((20, 400, 30, 300, 10)):
        (tmp_path / f"{number}.log").write_text("x" * size)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr("threading.active_count", lambda: 1)  # others' tests may leave threads
    began = read_each(when, intake.expand([str(tmp_path)]), worth_bytes=0)
    assert began[4] < min(began[1], began[3])
    assert max(began[1], began[3]) <= min(began[0], began[2])


def test_workers_have_what_this_process_learnt_before(
    sources: tuple[intake.Source, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr("threading.active_count", lambda: 1)  # others' tests may leave threads
    learnt.clear()
    assert set(read_each(learn, sources, worth_bytes=0)) == {1, 2}


learnt: set[int] = set()


def learn(source: intake.Source) -> int:
    """How many processes have read a text before this one or are this one, as far as it knows."""
    learnt.add(os.getpid())
    return len(learnt)


def when(source: intake.Source) -> int:
    """Reads a text slowly, and gives when that began."""
    began = time.monotonic_ns()
    time.sleep(0.5)
    return began


def test_few_bytes_are_read_by_this_process(sources: tuple[intake.Source, ...]) -> None:
    assert set(read_each(process_id, sources)) == {os.getpid()}


def test_what_cannot_be_opened_is_told_as_such_by_the_worker_that_meets_it(
    sources: tuple[intake.Source, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    with pytest.raises(UsageError, match=r"folder\.log cannot be read") as caught:
        read_each(
            read_texts.read_one, (*sources, intake.Source("folder.log", tmp_path)), worth_bytes=0
        )
    assert (caught.value.seen, caught.value.next_step) == (
        "Is a directory",
        "check the path and its permissions",
    )


def test_a_worker_that_is_ended_from_outside_is_an_error_with_a_next_step(
    sources: tuple[intake.Source, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.map", ended)
    with pytest.raises(ReadError, match="ended from outside"):
        read_each(read_texts.read_one, sources, worth_bytes=0)


def process_id(source: intake.Source) -> int:
    return os.getpid()


def ended(*arguments: object, **named: object) -> None:
    raise BrokenProcessPool("a process in the process pool was terminated abruptly")


@pytest.mark.parametrize("read", [read_texts.read_one, why_reading.read_one])
def test_nothing_of_a_text_is_kept_in_cycles(
    read: Callable[[intake.Source], object], sources: tuple[intake.Source, ...]
) -> None:
    """A log without a table is the usual one: its records would stay until Python looks for cycles."""
    for source in sources:
        read(source)
    gc.collect()
    for source in sources:
        read(source)
    assert gc.collect() == 0
