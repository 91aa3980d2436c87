"""`busbw diff` of outputs of nccl-tests that somebody kept: each table is one launch."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_saved_tables import table as saved_table

from busbw.cli import main

SIZES = (1048576, 16777216)


def table(busbw: float, *, gpu: str = "NVIDIA H200", wrong: int = 0, pid: int = 41011) -> str:
    rows = "".join(
        f"{size:12d} {size // 4:13d}     float     sum      -1   {size / busbw / 1e3:7.2f}  {busbw:6.2f}"
        f"  {busbw:6.2f}       {wrong}   {size / busbw / 1e3:7.2f}  {busbw:6.2f}  {busbw:6.2f}       0\n"
        for size in SIZES
    )
    verdict = "OK" if not wrong else "FAILED"
    return (
        "# Collective test starting: all_reduce_perf\n"
        "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 16777216 step: 16(factor) warmup iters: 1 iters: 20"
        " agg iters: 1 validation: 1 graph: 0\n"
        "#\n# Using devices\n"
        f"#  Rank  0 Group  0 Pid  {pid} on     node-a device  0 [0000:18:00] {gpu}\n"
        f"#  Rank  1 Group  0 Pid  {pid} on     node-a device  1 [0000:2a:00] {gpu}\n"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time"
        "   algbw   busbw  #wrong\n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)"
        "  (GB/s)  (GB/s)\n"
        f"{rows}# Out of bounds values : {wrong} {verdict}\n"
        f"# Avg bus bandwidth    : {busbw:.3f}\n\n"
    )


def kept(path: Path, numbers: Sequence[float], **named: object) -> str:
    launches = enumerate(numbers, 41011)
    path.write_text("".join(table(number, pid=pid, **named) for pid, number in launches))  # type: ignore[arg-type]
    return str(path)


def diff(capsys: pytest.CaptureFixture[str], *files: str) -> tuple[int, str, str]:
    status = main(["diff", *files])
    out, err = capsys.readouterr()
    return status, out, err


def test_launches_that_are_slower_beyond_their_scatter_are_a_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = kept(tmp_path / "before.out", (17.0, 17.1, 16.9, 17.05, 17.0))
    after = kept(tmp_path / "after.out", (15.0, 15.1, 14.9, 15.05, 15.0))
    status, out, _ = diff(capsys, after, before)
    assert status == 1
    assert out.startswith("SLOWER")
    assert re.search(
        r"(?m)^  next: busbw run -w '\S+' --survey --nccl-tests PATH   # names the node or link$",
        out,
    )
    status, out, _ = diff(capsys, before, after)
    assert (status, out.split()[0]) == (0, "NO")


def test_one_launch_each_is_inconclusive_and_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = kept(tmp_path / "before.out", (17.0,)), kept(tmp_path / "after.out", (16.9,))
    status, out, _ = diff(capsys, after, before)
    assert status == 3
    assert "next: run each several times and keep the outputs in one file" in out


def test_what_the_numbers_show_by_themselves_is_no_reason_to_refuse_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def text(*launches: float) -> str:
        return "".join(saved_table(lambda _, value=each: value, nodes=8) for each in launches)  # type: ignore[misc]

    low, again = tmp_path / "low.out", tmp_path / "again.out"
    low.write_text(text(12.0, 12.01, 12.02))
    again.write_text(text(12.0, 12.01, 12.03))
    main(["read", str(low)])
    assert "low: busbw" in capsys.readouterr().out
    assert diff(capsys, str(low), str(again))[0] == 0


def test_other_gpus_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = kept(tmp_path / "before.out", (17.0, 17.1, 16.9))
    after = kept(tmp_path / "after.out", (17.0, 17.1, 16.9), gpu="NVIDIA B200")
    status, out, _ = diff(capsys, after, before)
    assert status == 3
    assert "GPUs: NVIDIA B200 here, NVIDIA H200 in" in out


def test_what_is_wrong_cut_off_or_no_table_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = kept(tmp_path / "good.out", (17.0, 17.1))
    wrong = kept(tmp_path / "wrong.out", (17.0, 17.1), wrong=3)
    cut = tmp_path / "cut.out"
    cut.write_text((table(17.0) + table(17.1))[:-330])
    failed = tmp_path / "failed.out"
    failed.write_text(
        table(17.0) + "node-a: Test NCCL failure common.cu:958 'unhandled system error'\n"
    )
    other, few = tmp_path / "other.out", tmp_path / "few.out"
    other.write_text(table(17.0).replace("all_reduce_perf", "all_gather_perf"))
    few.write_text(table(17.0).replace(" iters: 20 ", " iters: 1 "))
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear all,\nit is slow.\n")
    for path, says in (
        (wrong, "launch 1 of 2 is bad: its numbers are not compared"),
        (str(other), "the rows are not of that collective"),
        (str(few), "one iteration of each size timed"),
        (str(cut), "launch 2 of 2 is incomplete"),
        (str(failed), "unhandled system error"),
        (str(letter), "holds no results of a benchmark"),
    ):
        status, _, err = diff(capsys, path, good)
        assert status == 2
        assert says in err


def test_what_was_measured_before_must_be_measured_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = kept(tmp_path / "before.out", (17.0, 17.1, 16.9))
    after = tmp_path / "after.out"
    lines = "".join(table(number) for number in (17.0, 17.1, 16.9)).splitlines(keepends=True)
    small = [line for line in lines if not line.lstrip().startswith(str(SIZES[1]))]
    after.write_text("".join(small).replace("maxBytes 16777216", "maxBytes 1048576"))
    status, out, _ = diff(capsys, str(after), before)
    assert status == 3
    assert "not measured now: all_reduce 16 MiB (-n 20 -w 1 -c 1 float sum)" in out
    assert "✓ all_reduce 1 MiB" in out


def of_sizes(path: Path, low: int, numbers: Sequence[float], first: int = 41011) -> str:
    """A composed output that measured only `SIZES[low]`."""
    text = "".join(table(number, pid=pid) for pid, number in enumerate(numbers, first))
    lines = [
        line
        for line in text.splitlines(keepends=True)
        if not line.lstrip().startswith(str(SIZES[1 - low]))
    ]
    ends = f"minBytes {SIZES[low]} maxBytes {SIZES[low]}"
    path.write_text("".join(lines).replace("minBytes 1048576 maxBytes 16777216", ends))
    return str(path)


def test_outputs_without_a_common_size_are_inconclusive_and_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = of_sizes(tmp_path / "before.out", 0, (17.0, 17.1, 16.9))
    after = of_sizes(tmp_path / "after.out", 1, (17.0, 17.1, 16.9))
    status, out, _ = diff(capsys, after, before)
    assert status == 3
    assert out.splitlines()[0] == (
        "INCONCLUSIVE  no size in common: before all_reduce 1 MiB, now all_reduce 16 MiB"
    )
    assert f"next: measure again with the sizes and options of {before}" in out


def one_each(folder: Path, name: str, numbers: Sequence[float], first: int) -> list[str]:
    files = []
    for pid, number in enumerate(numbers, first):
        files.append(folder / f"{name}{pid}.out")
        files[-1].write_text(table(number, pid=pid))
    return list(map(str, files))


def test_several_outputs_of_both_sides_are_launches_of_two_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = one_each(tmp_path, "before", (17.0, 17.1, 16.9), 1)
    after = one_each(tmp_path, "after", (15.0, 15.1, 14.9), 11)
    status, out, _ = diff(capsys, *after, "--before", *before)
    assert status == 1, out
    assert out.splitlines()[1] == f"{after[0]} to {after[-1]} against {before[0]} to {before[-1]}"
    assert "n=3/3" in out
    status, out, _ = diff(capsys, *before, "--before", *after)
    assert status == 0


def test_outputs_of_which_nobody_says_which_are_from_before_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = one_each(tmp_path, "before", (17.0, 17.1, 16.9), 1)
    after = one_each(tmp_path, "after", (15.0, 15.1, 14.9), 11)
    status, _, err = diff(capsys, *after, *before)
    assert status == 2
    assert "6 saved outputs: which of them are those from before?" in err
    assert "next: busbw diff after*.out --before before*.out" in err
    status, _, err = diff(capsys, *after, "--before", str(tmp_path))
    assert (status, "is no saved output" in err) == (2, True)


def test_files_of_several_launches_before_stay_runs_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [
        kept(tmp_path / "monday.out", (17.0, 17.1, 16.9)),
        kept(tmp_path / "tuesday.out", (17.0, 17.05, 16.95)),
    ]
    after = kept(tmp_path / "after.out", (16.9, 17.0, 17.05))
    status, out, _ = diff(capsys, after, "--before", *before)
    assert status == 0, out
    assert f"against 2 runs, {before[0]} to {before[1]}" in out


def test_a_launch_that_is_there_twice_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = kept(tmp_path / "before.out", (17.0, 17.1, 16.9))
    copied = tmp_path / "after.out"
    copied.write_text(table(17.0) * 3)
    status, _, err = diff(capsys, str(copied), before)
    assert status == 2
    assert "launch 2 of 3 is a copy of launch 1" in err
    assert "the same processes, and the same number in every row" in err


@pytest.mark.parametrize("name", ["after.out", "copy.out"])
def test_an_output_on_both_sides_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = kept(tmp_path / "before.out", (17.0, 17.1, 16.9))
    after = kept(tmp_path / "after.out", (15.0,))
    later = kept(tmp_path / "later.out", (15.1, 14.9))
    shared = after if name == "after.out" else shutil.copy(after, tmp_path / name)
    status, _, err = diff(capsys, after, later, "--before", before, str(shared))
    assert status == 2
    assert "after.out is on both sides: its launches would hide what changed" in err


def test_an_output_is_not_compared_with_a_copy_of_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = kept(tmp_path / "before.out", (17.0, 17.1, 16.9))
    after = kept(tmp_path / "after.out", (17.0, 17.1, 16.9))
    status, _, err = diff(capsys, after, before)
    assert status == 2
    assert "cannot be compared with itself" in err


def pairs(path: Path, *launches: str) -> str:
    path.write_text("".join(launches))
    return str(path)


def launch(number: float, pair: int = 0, nccl: str = "22803", **named: object) -> str:
    text = saved_table(lambda _: number, nodes=2, **named).replace("node0", f"gpu-{pair}")  # type: ignore[arg-type]
    return f"# nccl-tests version 2.17.6 nccl-headers={nccl} nccl-library={nccl}\n{text}"


NUMBERS = (361.0, 361.5, 360.8, 361.2, 361.1)


def test_what_the_outputs_print_of_a_change_stands_above_the_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = pairs(tmp_path / "before.out", *map(launch, NUMBERS))
    after = pairs(tmp_path / "after.out", *(launch(n + 0.1, 3, "22907") for n in NUMBERS))
    status, out, _ = diff(capsys, after, before)
    assert status == 0
    changes = out.splitlines()[2:5]
    assert changes == [
        "  what changed (it coincides; that is no proof of a cause)",
        "    NCCL                     2.28.3  ->  2.29.7",
        "    nodes                    2  ->  2, 2 of them new: gpu-[30-31]",
    ]
    unsaid = pairs(tmp_path / "unsaid.out", *(launch(n + 0.1).split("\n", 1)[1] for n in NUMBERS))
    assert "NCCL                     2.28.3  ->  not known" in diff(capsys, unsaid, before)[1]


@pytest.mark.parametrize(
    ("other", "options"),
    [({"per_node": 4}, "8 ranks"), ({"nccl": "22907"}, "NCCL 2.29.7")],
    ids=["ranks", "NCCL"],
)
def test_launches_of_several_kinds_are_not_one_side_of_a_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other: dict[str, object], options: str
) -> None:
    """A mean over both kinds would hide what became of either."""
    first, *rest = NUMBERS
    mixture = [launch(first + 0.1, **other), *(launch(n + 0.1) for n in rest)]  # type: ignore[arg-type]
    before = pairs(tmp_path / "before.out", *map(launch, NUMBERS))
    after = pairs(tmp_path / "after.out", *mixture)
    status, out, _ = diff(capsys, after, before)
    assert status == 3
    assert (
        f"is not compared with another measurement: -n 20 -w 1 -c 1 {options} float sum here" in out
    )
    like = [launch(n - 0.23, **other) for n in NUMBERS], [launch(n, **other) for n in NUMBERS]  # type: ignore[arg-type]
    sides = (
        pairs(tmp_path / name, *kind, *(launch(n + more) for n in NUMBERS))
        for name, kind, more in (("a.out", like[0], 0.11), ("b.out", like[1], 0.04))
    )
    status, out, _ = diff(capsys, *sides)
    assert (status, out.count("n=5/5"), out.splitlines()[-1].count(" 6 same of 6")) == (0, 6, 1)
    # Each row says which of two it is.
    assert f"all_reduce 1 GiB {options}" in out
    names = [line[2:29] for line in out.splitlines() if "n=5/5" in line]
    assert len(set(names)) == len(names)


def test_what_is_not_comparable_is_the_first_thing_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = pairs(tmp_path / "before.out", *map(launch, NUMBERS))
    after = pairs(tmp_path / "after.out", *(launch(n, gpu="NVIDIA H200") for n in NUMBERS))
    status, out, _ = diff(capsys, after, before)
    assert status == 3
    assert out.startswith("INCONCLUSIVE  not comparable: GPUs: NVIDIA H200 here, NVIDIA H100 80GB")
    assert "  next: outputs of the same GPUs, nodes and ranks on both sides\n" in out
