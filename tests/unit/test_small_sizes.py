"""Small sizes are compared by their time: nccl-tests prints their bandwidth with one digit, or as 0.00.

All tables here are composed: the layout of nccl-tests 2.13, 64 ranks on 8 nodes, times as of an H100 cluster.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.model.benchmark import BenchmarkResult, Measurement
from busbw.parsers.nccl_tests import rates
from busbw.parsers.stats import regression

RANKS = 64
SIZES = tuple(8 << step for step in range(18))
"""8 B to 1 MiB."""
Time = Callable[[int], float]


def launch(time_us: Time, seed: int, sizes: Sequence[int] = SIZES) -> str:
    """A table as nccl-tests prints it, both columns rounded."""
    rows, rates_gb_s = [], []
    for size in sizes:
        time = time_us(size) * (1 + 0.002 * ((seed * 7 + size.bit_length()) % 5 - 2))
        shown = (
            f"{time:7.0f}" if time >= 10000 else f"{time:7.1f}" if time >= 100 else f"{time:7.2f}"
        )
        rate = size / time / 1e3
        rates_gb_s.append(rate * 2 * (RANKS - 1) / RANKS)
        side = f"{shown} {rate:7.2f} {rate * 2 * (RANKS - 1) / RANKS:7.2f}      0"
        rows.append(f"{size:12d} {size // 4:13d}     float     sum      -1 {side} {side}\n")
    ranks = "".join(
        f"#  Rank {rank:2d} Group  0 Pid {41000 + rank + 100 * seed} on gpu-{rank // 8:03d} device {rank % 8}"
        " [0x1b] NVIDIA H100 80GB HBM3\n"
        for rank in range(RANKS)
    )
    return (
        f"# nThread 1 nGpus 1 minBytes {sizes[0]} maxBytes {sizes[-1]} step: 2(factor) warmup iters: 5"
        " iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n"
        f"# Using devices\n{ranks}#\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
        f"{''.join(rows)}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {statistics.fmean(rates_gb_s):.4f}\n#\n\n"
    )


def latency(us: float) -> Time:
    return lambda size: us if size <= 64 << 10 else 39.0 + size / 50e3


def kept(path: Path, time_us: Time, first: int = 0, **named: object) -> str:
    path.write_text("".join(launch(time_us, first + seed, **named) for seed in range(3)))  # type: ignore[arg-type]
    return str(path)


def diff(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = main(["diff", *words])
    return status, "".join(capsys.readouterr())


def test_a_latency_within_the_floor_is_no_regression_though_the_rounded_bandwidth_falls_by_a_third(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = kept(tmp_path / "before", latency(40.1))
    after = kept(tmp_path / "after", latency(40.8), 3)
    # 512 B: 0.03 GB/s before, 0.02 GB/s now, as printed.
    status, out = diff(capsys, after, before)
    assert status == 0, out
    (row,) = (line.split() for line in out.splitlines() if "all_reduce 512 B" in line)
    assert (row[0], row[5], row[7], row[8]) == ("✓", "µs", "µs", "+1.6%")
    assert "slower" not in out


def test_a_latency_that_more_than_doubles_is_slower_at_every_size_whose_bandwidth_prints_as_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = kept(tmp_path / "before", latency(38.0))
    after = kept(tmp_path / "after", latency(92.0), 3)
    status, out = diff(capsys, after, before)
    assert status == 1, out
    assert out.startswith("SLOWER  all_reduce ")
    assert "37.9 µs to 92.1 µs, +142.6%" in out.splitlines()[0]
    for size in ("8 B", "16 B", "64 B", "128 B", "64 KiB"):
        assert f"✖ all_reduce {size} " in out
    assert "14 slower, 4 same of 18 numbers, worst +142." in out.splitlines()[-1]


def test_a_time_of_a_sixth_more_is_slower_where_the_rounded_bandwidth_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = kept(tmp_path / "before", latency(38.0))
    after = kept(tmp_path / "after", latency(43.7), 3)
    status, out = diff(capsys, after, before)
    assert status == 1
    assert "✖ all_reduce 128 B " in out


def test_equal_rounded_values_are_no_proof_of_no_noise() -> None:
    same = ((0.03,) * 3,)
    shift = regression.shift(same, (0.02,) * 3, rounding=0.005 / 0.02)
    assert shift.change.value == "inconclusive"
    assert regression.shift(((300.0,) * 3,), (200.0,) * 3).change.value == "slower"


def test_a_slow_network_is_compared_to_more_digits_than_its_column_has() -> None:
    table = BenchmarkResult("all_reduce", RANKS, 8, (), (), None, None, None, None, True, ())
    # 1 MiB in 4.20 ms: 0.4915 GB/s, printed as 0.49.
    seen = rates.busbw_gb_s(table, 1 << 20, Measurement(4200.0, 0.25, 0.49, 0))
    assert seen == pytest.approx(0.49152, abs=1e-4)
    # A column that does not fit its time is another convention: the printed number counts.
    assert rates.busbw_gb_s(table, 1 << 20, Measurement(4200.0, 0.25, 0.25, 0)) == 0.25


def test_a_contract_about_a_small_size_counts_its_bandwidth_to_more_digits_than_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = tmp_path / "contract.yaml"
    terms.write_text(
        "nodes: 8\ncriteria:\n"
        "  - {id: rate, case: all-reduce, size: 512, busbw_gb_s: 0.027, trials: 3}\n"
        "  - {id: time, case: all-reduce, size: 8, time_us: 41, trials: 3}\n"
    )
    outputs = kept(tmp_path / "out", latency(40.1))
    # 512 B give 0.0251 GB/s, printed as 0.03; 8 B take 40.1 µs, and their bandwidth is printed as 0.00.
    status = main(["read", "--contract", str(terms), outputs])
    out = capsys.readouterr().out
    assert status == 1, out
    assert "1 of 2 criteria met" in out
    (failed,) = (line for line in out.splitlines() if "✖ fail" in line)
    assert "0.0251 ± 0.0003 GB/s" in failed
    assert failed.endswith("-6.9% against the limit")
