"""A saved nccl-tests table by itself: what `busbw read` says of its numbers, without any other
knowledge of the cluster. The tables are composed: their shape is nccl-tests 2.17's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.model.benchmark import BenchmarkResult, BenchmarkRow, Measurement, RankLine, busbw_factor
from busbw.parsers.expect import baselines, saved
from busbw.parsers.expect.hardware import find_gpu

GIB = 1 << 30


def table(
    busbw: Callable[[int], float],
    *,
    nodes: int,
    gpu: str = "NVIDIA H100 80GB HBM3",
    per_node: int = 8,
    in_place: float = 1.0,
    sizes: tuple[int, ...] = (GIB, 2 * GIB, 4 * GIB),
) -> str:
    ranks = nodes * per_node
    factor = busbw_factor("all_reduce", ranks)  # type: ignore[arg-type]  # a StrEnum's value
    devices = "".join(
        f"#  Rank {rank:2d} Group  0 Pid  {4101 + rank} on node{rank // per_node:02d} device  {rank % per_node}"
        f" [0000:{16 + rank % per_node:02x}:00] {gpu}\n"
        for rank in range(ranks)
    )

    def cells(size: int, value: float) -> str:
        algbw = value / factor
        return f"{size / algbw / 1e3:9.2f}  {algbw:7.4f}  {value:7.4f}       0"

    rows = "".join(
        f"{size:12d} {size // 4:13d}     float     sum      -1  {cells(size, busbw(size))}"
        f"  {cells(size, busbw(size) * in_place)}\n"
        for size in sizes
    )
    mean = sum(busbw(size) * (1 + in_place) / 2 for size in sizes) / len(sizes)
    return (
        "# Collective test starting: all_reduce_perf\n"
        f"# nThread 1 nGpus 1 minBytes {sizes[0]} maxBytes {sizes[-1]} step: 2(factor) warmup iters: 1"
        " iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
        f"{devices}"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time"
        "   algbw   busbw  #wrong\n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)"
        "  (GB/s)  (GB/s)\n"
        f"{rows}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {mean:.4f}\n\n"
    )


def read(capsys: pytest.CaptureFixture[str], path: Path, text: str) -> tuple[int, str]:
    path.write_text(text)
    status = main(["read", str(path)])
    return status, capsys.readouterr().out


def test_a_number_above_physics_is_bad(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = table(lambda _: 1880.0, nodes=1)
    status, out = read(capsys, tmp_path / "one.out", one)
    assert status == 1
    assert "  BAD     busbw at 1 GiB: 1880 GB/s is above the physical limit of " in out
    assert "(1 node x 8 H100, one node)" in out
    assert main(["why", str(tmp_path / "one.out")]) == 3
    assert "above the physical limit" in capsys.readouterr().out
    status, out = read(capsys, tmp_path / "eight.out", table(lambda _: 900.0, nodes=8))
    assert status == 1
    assert "(8 nodes x 8 H100, any network behind their PCIe links)" in out


def test_a_number_that_one_nic_would_carry_is_remarked_with_the_command_that_judges_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = read(capsys, tmp_path / "slow.out", table(lambda _: 12.0, nodes=8))
    assert status == 0, "the NICs are not known: a remark, no judgement"
    assert (
        "  problem low: busbw 12.00 GB/s at 1 GiB on 8 nodes x 8 H100 needs 85 Gb/s of network per node,"
        " and most published runs of H100 have 8 x 400 Gb/s; this table does not name its NICs; not"
        " judged, busbw expect --gpu H100 --gpus-per-node 8 --nics <NxRATE> --fabric <profile>"
        " --collective all_reduce --nodes 8 --size 1073741824 --measured 12\n"
    ) in out
    status, out = read(capsys, tmp_path / "inside.out", table(lambda _: 40.0, nodes=1))
    assert status == 0
    assert "low: busbw 40.00 GB/s at 1 GiB on 1 node x 8 H100 is under 70% of" in out
    assert "if NVLink joins them all" in out
    assert "busbw expect --gpu H100 --gpus-per-node 8 --collective all_reduce --nodes 1" in out


@pytest.mark.parametrize(
    ("busbw", "nodes", "gpu"),
    [
        (360.0, 8, "NVIDIA H100 80GB HBM3"),
        (480.0, 1, "NVIDIA H100 80GB HBM3"),
        (12.0, 8, "NVIDIA H100 PCIe"),
        (1880.0, 1, "Some GPU"),
        (86.0, 2, "NVIDIA A100-SXM4-80GB"),
    ],
)
def test_usual_numbers_and_hardware_that_is_not_known_have_no_remark(
    busbw: float, nodes: int, gpu: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = read(capsys, tmp_path / "t.out", table(lambda _: busbw, nodes=nodes, gpu=gpu))
    assert (status, "problem" in out, "BAD" in out) == (0, False, False), out


def test_small_messages_are_not_called_low(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = table(lambda _: 3.0, nodes=8, sizes=(1 << 20, 2 << 20, 4 << 20))
    assert "low:" not in read(capsys, tmp_path / "t.out", small)[1]


def test_a_network_that_small_messages_fill_is_called_low_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The best of a flat table may be its smallest message: a hundredth went without a word."""
    sizes = tuple(1 << power for power in range(23, 34))
    status, out = read(
        capsys,
        tmp_path / "flat.out",
        table(lambda size: 1.2 if size < GIB else 1.19, nodes=2, sizes=sizes),
    )
    assert status == 0
    assert "problem low: busbw 1.20 GB/s at 128 MiB on 2 nodes x 8 H100 needs 5 Gb/s" in out


def test_a_curve_that_falls_at_its_end_is_remarked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last size has no second neighbour, three slow ones have no fast one: both went without a
    word."""
    sizes = tuple(1 << power for power in range(23, 34))
    last = table(lambda size: 142.0 if size == 8 * GIB else 360.0, nodes=8, sizes=sizes)
    status, out = read(capsys, tmp_path / "last.out", last)
    assert status == 0
    assert "  problem 8 GiB out of place gives 142.0 GB/s, after 360.0 GB/s at 8 MiB: some" in out
    three = table(lambda size: 142.0 if size >= 2 * GIB else 360.0, nodes=8, sizes=sizes)
    assert (
        "after 360.0 GB/s at 8 MiB, and 2 larger sizes no more: some"
        in (read(capsys, tmp_path / "three.out", three)[1])
    )
    half = table(lambda size: 190.0 if size >= 2 * GIB else 360.0, nodes=8, sizes=sizes)
    assert "largest sizes" not in read(capsys, tmp_path / "half.out", half)[1]


def test_a_dip_and_placements_far_apart_are_remarked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dip = table(lambda size: 150.0 if size == 2 * GIB else 360.0, nodes=8)
    status, out = read(capsys, tmp_path / "dip.out", dip)
    assert status == 0
    assert (
        "  problem 2 GiB out of place gives 150.0 GB/s, its neighbours 360.0 GB/s and 360.0 GB/s:"
        " busbw why size-dip\n"
    ) in out
    apart = table(lambda _: 360.0, nodes=8, in_place=0.6)
    status, out = read(capsys, tmp_path / "apart.out", apart)
    assert status == 0
    assert (
        "  problem 1 GiB gives 360.0 GB/s out of place and 216.0 GB/s in place, and 2 more sizes:"
    ) in out
    near = table(lambda size: 300.0 if size == 2 * GIB else 360.0, nodes=8, in_place=0.9)
    assert "problem" not in read(capsys, tmp_path / "near.out", near)[1]


def test_no_published_figure_is_called_impossible() -> None:
    checked = 0
    for row in baselines.load().published:
        gpu = find_gpu(row.gpu) if row.gpu is not None else None
        if gpu is None or row.busbw_gb_s is None or not row.nodes or not row.gpus_per_node:
            continue
        if row.grade is baselines.Grade.IMPLAUSIBLE or row.nodes * row.gpus_per_node < 2:
            continue
        value = Measurement(1.0, 1.0, row.busbw_gb_s.value, 0)
        ranks = tuple(
            RankLine(rank, f"n{rank // row.gpus_per_node}", rank % row.gpus_per_node, gpu.name)
            for rank in range(row.nodes * row.gpus_per_node)
        )
        rows = (BenchmarkRow(8 * GIB, 2 * GIB, "float", "sum", None, value, None),)
        result = BenchmarkResult(
            row.collective, len(ranks), row.nodes, rows, ranks, None, 0, None, None, True, ()
        )
        assert not [each for each in saved.remarks(result) if each.is_fault], row
        checked += 1
    assert checked > 100
