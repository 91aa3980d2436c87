"""Processes that no MPI joined each measure by themselves: a text of their tables, one after another,
is reported as such, and never passes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from busbw import cli
from busbw.parsers.nccl_tests import table

GPUS = 8


def printed(
    host: str, pid: int, *, bus: int = 0, collective: str = "all_reduce", ranks: int = GPUS
) -> str:
    """Composed as nccl-tests 2.17 prints it: one process with several GPUs."""
    devices = "".join(
        f"#  Rank {rank:2d} Group  0 Pid {pid:6d} on {host:>10} device {rank:2d}"
        f" [0000:{bus + rank:02x}:00] NVIDIA H200\n"
        for rank in range(ranks)
    )
    factor = 1.75 if collective == "all_reduce" else 0.875
    rows = ""
    for size in (8388608, 16777216):
        time_us = size / 400e3
        algbw = f"{size / time_us / 1e3:7.2f} {size / time_us / 1e3 * factor:7.2f}       0"
        rows += f"{size:12d} {size // 4:12d}     float     sum      -1"
        rows += f" {time_us:8.2f} {algbw} {time_us:8.2f} {algbw}\n"
    return (
        f"# Collective test starting: {collective}_perf\n"
        f"# nThread 1 nGpus {ranks} minBytes 8388608 maxBytes 16777216 step: 2(factor) warmup"
        " iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
        f"# Using devices\n{devices}"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
        "     time   algbw   busbw  #wrong\n"
        f"{rows}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {400 * factor:g}\n"
    )


APART = "runs of one process each that never formed one job"


@pytest.mark.parametrize("command", ["read", "why"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_whole_tables_of_several_hosts_are_no_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, count: int
) -> None:
    path = tmp_path / "out.txt"
    path.write_text("".join(printed(f"node-{number}", 41 + number) for number in range(count)))
    status, out = cli.main([command, str(path)]), capsys.readouterr().out
    if command == "why" and "[no-mpi-build]" in out:
        assert status == 1, out
    else:
        assert status == 3, out
        assert f"{count} {APART}" in out


@pytest.mark.parametrize("command", ["read", "why"])
@pytest.mark.parametrize(
    "tables",
    [
        [printed("node-a", 41)],
        [printed("node-a", 41), printed("node-a", 42)],
        [printed("node-a", 41), printed("node-b", 42, collective="all_gather")],
    ],
    ids=["one", "repeated on the same GPUs", "another collective"],
)
def test_runs_of_their_own_are_no_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, tables: list[str]
) -> None:
    path = tmp_path / "out.txt"
    path.write_text("".join(tables))
    status, out = cli.main([command, str(path)]), capsys.readouterr().out
    assert (status, APART in out) == (0, False), out


def test_prefixes_of_hosts_mixed_line_by_line_leave_each_table_whole() -> None:
    draw = random.Random(25)
    tables = {f"node-{number}": printed(f"node-{number}", 41 + number) for number in range(3)}
    lines = {host: text.splitlines() for host, text in tables.items()}
    mixed = []
    while any(lines.values()):
        host = draw.choice([host for host in lines if lines[host]])
        mixed.append(f"[{host}] {lines[host].pop(0)}\n")
    document = table.read(["".join(mixed).encode()])
    assert [len(result.rows) for result in table.parse("".join(mixed))] == [2, 2, 2]
    assert document.problems == (table.runs_apart(table.parse("".join(mixed))),)
    assert f"3 {APART}" in document.problems[0]
