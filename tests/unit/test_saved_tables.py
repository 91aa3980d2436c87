"""A saved nccl-tests table by itself: what `busbw read` says of its numbers, without any other
knowledge of the cluster. The tables are composed: their shape is nccl-tests 2.17's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.model.benchmark import BenchmarkResult, BenchmarkRow, Measurement, RankLine, busbw_factor
from busbw.parsers.expect import figures, saved
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
        "  remark  low: busbw 12.00 GB/s at 1 GiB on 8 nodes x 8 H100 needs 85 Gb/s of network per node,"
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
    assert (status, "remark" in out, "BAD" in out) == (0, False, False), out


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
    assert "remark  low: busbw 1.20 GB/s at 128 MiB on 2 nodes x 8 H100 needs 5 Gb/s" in out


def test_a_curve_that_falls_at_its_end_is_remarked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last size has no second neighbour, three slow ones have no fast one: both went without a
    word."""
    sizes = tuple(1 << power for power in range(23, 34))
    last = table(lambda size: 142.0 if size == 8 * GIB else 360.0, nodes=8, sizes=sizes)
    status, out = read(capsys, tmp_path / "last.out", last)
    assert status == 0
    assert "  remark  8 GiB out of place gives 142.0 GB/s, after 360.0 GB/s at 8 MiB: some" in out
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
        "  remark  2 GiB out of place gives 150.0 GB/s, its neighbours 360.0 GB/s and 360.0 GB/s:"
        " busbw why size-dip\n"
    ) in out
    apart = table(lambda _: 360.0, nodes=8, in_place=0.6)
    status, out = read(capsys, tmp_path / "apart.out", apart)
    assert status == 0
    assert (
        "  remark  1 GiB gives 360.0 GB/s out of place and 216.0 GB/s in place, and 2 more sizes:"
    ) in out
    near = table(lambda size: 300.0 if size == 2 * GIB else 360.0, nodes=8, in_place=0.9)
    assert "remark" not in read(capsys, tmp_path / "near.out", near)[1]


def test_no_published_figure_is_called_impossible() -> None:
    checked = 0
    for row in figures.load().published:
        gpu = find_gpu(row.gpu) if row.gpu is not None else None
        if gpu is None or row.busbw_gb_s is None or not row.nodes or not row.gpus_per_node:
            continue
        if row.grade is figures.Grade.IMPLAUSIBLE or row.nodes * row.gpus_per_node < 2:
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


def test_tables_of_one_measurement_that_contradict_each_other_are_remarked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.out"
    remark = (
        "runs 1 and 2 measured the same and contradict each other: out of place at 1 GiB 475.0 GB/s"
        " and 300.0 GB/s; settings that no table shows differed, or one of them was disturbed"
    )
    status, out = read(
        capsys, path, table(lambda _: 475.0, nodes=8) + table(lambda _: 300.0, nodes=8)
    )
    assert (status, f"  remark  {remark}\n" in out) == (0, True)
    assert main(["why", str(path)]) == 0
    assert f"/two.out: {remark}\n" in capsys.readouterr().out
    for other in (
        table(lambda _: 450.0, nodes=8),
        table(lambda _: 300.0, nodes=4),
        table(lambda _: 300.0, nodes=8).replace("iters: 20", "iters: 50"),
        table(lambda _: 300.0, nodes=8).replace("node00", "other0"),
    ):
        assert "contradict" not in read(capsys, path, table(lambda _: 475.0, nodes=8) + other)[1]


def test_sizes_that_a_run_repeats_are_one_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-N` runs the list again, and the first cycle is cold."""
    one = table(lambda _: 475.0, nodes=8)
    rows = [line for line in one.splitlines(keepends=True) if "float" in line]
    cold = [
        line
        for line in table(lambda _: 100.0, nodes=8).splitlines(keepends=True)
        if "float" in line
    ]
    cycles = one.replace("".join(rows), "".join(cold + rows)).replace(": 475.0", ": 287.5")
    assert "contradict" not in read(capsys, tmp_path / "c.out", cycles + cycles)[1]


@pytest.mark.parametrize("kept", ["half of each node", "half of the nodes"])
def test_a_device_list_that_lost_ranks_is_incomplete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: str
) -> None:
    lines = table(lambda _: 360.0, nodes=8).splitlines(keepends=True)
    listed = [line for line in lines if line.startswith("#  Rank")]
    lost = listed[1::2] if kept == "half of each node" else listed[32:]
    text = "".join(line for line in lines if line not in lost)
    status, out = read(capsys, tmp_path / "half.out", text)
    why = "the device list names 32 ranks, but sizes and bandwidths are those of 64"
    assert (status, f"  problem {why}\n" in out, "INCOMPLETE" in out) == (3, True, True)
    assert main(["why", str(tmp_path / "half.out")]) == 3
    out = capsys.readouterr().out
    assert out.startswith("UNKNOWN: no line reports a failure, but the evidence is incomplete\n")
    assert why in out


@pytest.mark.parametrize(
    ("unit", "share"), [("Gb/s", 8.0), ("Gbps", 8.0), ("MB/s", 1000.0), ("GiB/s", 1e9 / (1 << 30))]
)
def test_bandwidths_in_another_unit_are_converted_and_reported_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: str, share: float
) -> None:
    text = table(lambda _: 240.0, nodes=8)
    algbw = 240.0 / 1.96875
    text = text.replace("(GB/s)", f"({unit})")
    text = text.replace(f"{algbw:7.4f}", f"{algbw * share:.4f}")
    text = text.replace("240.0000", f"{240 * share:.4f}")
    status, out = read(capsys, tmp_path / "unit.out", text)
    assert f"  remark  the bandwidths are printed in {unit}, shown in GB/s here\n" in out
    assert (status, "best busbw out of place 240.00 GB/s" in out) == (0, True)
    assert "average 240 GB/s" in out


def test_a_unit_that_the_numbers_contradict_is_bad_and_an_unknown_one_is_not_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = table(lambda _: 360.0, nodes=8)
    status, out = read(capsys, tmp_path / "unit.out", text.replace("(GB/s)", "(Gb/s)"))
    assert (status, "BAD     line 71: algbw is 22.8571 GB/s, but 1073741824 bytes" in out) == (
        1,
        True,
    )
    status, out = read(capsys, tmp_path / "unit.out", text.replace("(GB/s)", "(furlong/s)"))
    assert status == 3
    assert (
        "problem the unit (furlong/s) of the bandwidths is not known: they were read as GB/s" in out
    )
    glued = text.replace("algbw   busbw", "algbw(Gb/s) busbw(Gb/s)")
    glued = "".join(
        line for line in glued.splitlines(keepends=True) if not line.startswith("#        (B)")
    )
    assert "printed in Gb/s" in read(capsys, tmp_path / "unit.out", glued)[1]


@pytest.mark.parametrize(
    ("iters", "status", "said"),
    [
        ("iters: 0", 1, "BAD     no iteration was timed (iters: 0), and the rows have times"),
        ("iters: 1", 0, "remark  one iteration of each size timed: one late start of a rank"),
        ("iters: 2", 0, "remark  2 iterations of each size timed"),
        ("iters: 1 agg iters: 20 ", 0, ""),
    ],
)
def test_few_timed_iterations_are_remarked_and_none_is_bad(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], iters: str, status: int, said: str
) -> None:
    text = table(lambda _: 360.0, nodes=8)
    if "agg" in iters:
        text = text.replace(" iters: 20 agg iters: 1 ", f" {iters}")
    else:
        text = text.replace(" iters: 20 ", f" {iters} ")
    assert read(capsys, tmp_path / "few.out", text)[0] == status
    out = read(capsys, tmp_path / "few.out", text)[1]
    assert said in out if said else "of each size timed" not in out


def alltoall_and_all_reduce(alltoall_gb_s: float, all_reduce_gb_s: float) -> list[str]:
    """Two composed outputs of 64 ranks on 8 nodes: an alltoall without in-place check, and an all_reduce."""
    all_reduce = table(lambda _: all_reduce_gb_s, nodes=8)
    rows = []
    total = 0.0
    for line in all_reduce.splitlines():
        cells = line.split()
        if not line.startswith("#") and "float" in cells:
            size = int(cells[0])
            algbw = alltoall_gb_s * 64 / 63
            side = f"{size / algbw / 1e3:9.2f}  {algbw:7.4f}  {alltoall_gb_s:7.4f}"
            line = f"{size}  {size // 256}  float  none  -1  {side}  0  {side}  N/A"
            total = alltoall_gb_s
        if line.startswith("# Avg bus bandwidth"):
            line = f"# Avg bus bandwidth    : {total:.4f}"
        rows.append(line)
    command = "$ mpirun -np 64 ./build/alltoall_perf -b 1G -e 4G -f 2\n"
    alltoall = "\n".join(rows).replace("all_reduce_perf", "alltoall_perf")
    return [all_reduce, f"{command}{alltoall}\n"]


@pytest.mark.parametrize(("alltoall_gb_s", "is_low"), [(9.0, True), (40.0, False)])
def test_an_alltoall_far_below_the_all_reduce_of_the_same_gpus_is_remarked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], alltoall_gb_s: float, is_low: bool
) -> None:
    files = []
    for place, text in enumerate(alltoall_and_all_reduce(alltoall_gb_s, 370.0)):
        files.append(tmp_path / f"{place}.out")
        files[-1].write_text(text)
    says = "alltoall gives 9.00 GB/s, 1/41 of the 370.0 GB/s of all_reduce on the same 8 nodes x 8 GPUs"
    for names in (files, [tmp_path]):
        main(["read", *map(str, names)])
        out = capsys.readouterr().out
        assert "alltoall · 64 ranks · 8 nodes" in out
        assert out.count(says) == int(is_low)
        main(["why", *map(str, names)])
        assert capsys.readouterr().out.count(says) == int(is_low)
    both = tmp_path / "both.log"
    both.write_text("".join(path.read_text() for path in files))
    for command in ("read", "why"):
        main([command, str(both)])
        assert capsys.readouterr().out.count(says) == int(is_low)


def test_a_node_with_fewer_ranks_than_the_others_is_remarked() -> None:
    ranks = tuple(
        RankLine(rank, f"node{min(rank // 8, 2)}", rank % 8, "NVIDIA H100 80GB HBM3")
        for rank in range(20)
    )
    even = BenchmarkResult("all_reduce", 16, 2, (), ranks[:16], None, None, None, None, True, ())
    odd = BenchmarkResult("all_reduce", 20, 3, (), ranks, None, None, None, None, True, ())
    assert saved.uneven_nodes(even) == ""
    assert saved.uneven_nodes(odd) == "node2 has 4 ranks, node[0-1] 8 each"
