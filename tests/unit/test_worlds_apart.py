"""Processes that no MPI joined each measure by themselves: a text of their tables, one after another,
is reported as such, and never passes."""

from __future__ import annotations

import random
from collections import Counter
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
    reduces = collective == "all_reduce"
    factor, redop, shares = (1.75, "sum", 1) if reduces else (0.875, "none", ranks)
    rows = ""
    for size in (8388608, 16777216):
        time_us = size / 400e3
        algbw = f"{size / time_us / 1e3:7.2f} {size / time_us / 1e3 * factor:7.2f}       0"
        rows += f"{size:12d} {size // 4 // shares:12d}     float {redop:>7}      -1"
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


# Random merges of whole tables, as processes that share one output print them.

MERGES = 100
MANY_MERGES = 2000
GROUPS = (
    "#                                                              out-of-place"
    "                       in-place\n"
)
UNITS = (
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)"
    "  (GB/s)  (GB/s)\n"
)
SAID = (APART, "each a world of its own")


def whole_tables(draw: random.Random, count: int) -> list[str]:
    """Tables of processes of one launch: one version, one configuration, times of their own."""
    ranks, last = draw.choice((1, 8)), draw.randint(0, 5)
    has_version, has_start, has_groups = (draw.random() < 0.5 for _ in range(3))
    sizes = [1048576 << step for step in range(last + 1)]
    tables = []
    for number in range(count):
        text = printed(f"node-{number}", 41 + number, ranks=ranks)
        above, _, below = text.partition("#       size")
        names = ("#       size" + below).partition("\n")[0] + "\n"
        above = above.replace(
            "minBytes 8388608 maxBytes 16777216", f"minBytes {sizes[0]} maxBytes {sizes[-1]}"
        )
        if not has_start:
            above = above.partition("\n")[2]
        if has_version:
            above = "# nccl-tests version 2.17.6 nccl-headers=22803 nccl-library=22803\n" + above
        if has_groups:
            above, names = above + GROUPS, names + UNITS
        tables.append(above + names + "".join(rows_of(draw, sizes, ranks)))
    return tables


def rows_of(draw: random.Random, sizes: list[int], ranks: int) -> list[str]:
    """Rows and footer of one process."""
    factor = 2 * (ranks - 1) / ranks
    lines, busbw = [], []
    for size in sizes:
        line = f"{size:12d} {size // 4:12d}     float     sum      -1"
        for _ in range(2):
            time_us = round(size / draw.uniform(200e3, 400e3), 2)
            algbw = round(size / time_us / 1e3, 2)
            busbw.append(round(algbw * factor, 2))
            line += f" {time_us:8.2f} {algbw:7.2f} {busbw[-1]:7.2f}       0"
        lines.append(line + "\n")
    average = f"# Avg bus bandwidth    : {sum(busbw) / len(busbw):g}\n"
    return [*lines, "# Out of bounds values : 0 OK\n", average]


def merged(draw: random.Random, tables: list[str], form: str, tags: list[str]) -> str:
    """The lines of the tables in one text: each table's in their order."""
    lines = [table.splitlines(keepends=True) for table in tables]
    text = ""
    while waiting := [number for number, rest in enumerate(lines) if rest]:
        number = waiting[0] if form == "after" else draw.choice(waiting)
        length = {"lines": 1, "bursts": draw.randint(1, 9), "after": 10_000}[form]
        for line in lines[number][:length]:
            text += tags[number] + line
        del lines[number][:length]
    return text


def seen_rows(text: str) -> Counter[str]:
    """The rows of a text, by size and times."""
    rows: Counter[str] = Counter()
    for result in table.parse(text):
        for row in result.rows:
            assert row.out_of_place is not None
            assert row.in_place is not None
            rows[f"{row.size_bytes} {row.out_of_place.time_us} {row.in_place.time_us}"] += 1
    return rows


def check_merge(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.choice((2, 3, 4))
    form, is_tagged = draw.choice(("lines", "bursts", "after")), draw.random() < 0.5
    tables = whole_tables(draw, count)
    tags = [f"[node-{number}] " if is_tagged else "" for number in range(count)]
    text = merged(draw, tables, form, tags)
    what = f"seed {seed}: {count} tables, {form}, {'tagged' if is_tagged else 'bare'}\n{text}"
    document = table.read([text.encode()])
    assert len(document.records) <= count, f"a ghost run: {what}"
    assert len(document.records) == count or not (is_tagged or form == "after"), what
    wanted: Counter[str] = Counter()
    for each in tables:
        wanted += seen_rows(each)
    assert seen_rows(text) == wanted, f"rows lost, changed or counted twice: {what}"
    assert any(words in problem for problem in document.problems for words in SAID), what
    assert document.faults or not document.complete, f"a pass: {what}"
    assert not any("missing" in problem for problem in document.problems), what


def test_any_merge_of_whole_tables_has_no_ghost_loses_no_row_and_is_reported() -> None:
    for seed in range(MERGES):
        check_merge(seed)


def test_a_row_that_a_mixture_lost_is_reported() -> None:
    draw = random.Random(25)
    text = merged(draw, whole_tables(draw, 3), "lines", [""] * 3)
    rows = [line for line in text.splitlines(keepends=True) if " float " in line]
    (result,) = table.parse(text.replace(draw.choice(rows), ""))
    assert not result.complete
    assert any("planned sizes were not printed" in problem for problem in result.problems)


@pytest.mark.long
def test_two_thousand_merges_of_whole_tables_have_no_ghost_and_lose_no_row() -> None:
    for seed in range(MERGES, MERGES + MANY_MERGES):
        check_merge(seed)
