"""Numbers that a node's tool cannot have printed, and rows that are missing, leave a gap; what only looks
strange leaves none."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli import main
from busbw.parsers import tools

HEALTHY = Path(__file__).parents[1] / "fixtures/healthy"
IBSTAT = (HEALTHY / "ibstat.txt").read_text()
GIDS = (HEALTHY / "show-gids.txt").read_text()
DETAILS = """==============NVSMI LOG==============

GPU 00000000:1B:00.0
    Temperature
        GPU Current Temp                  : 31 C
        GPU Shutdown T.Limit Temp         : -8 C
    Clocks Event Reasons
        HW Slowdown                       : Not Active
    GPU Power Readings
        Power Draw                        : 71.20 W
"""
HPL = """T/V                N    NB     P     Q               Time                 Gflops
WR02L2L2      100352   224     2     1              29.80              2.261e+04
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0036928 ...... PASSED
End of Tests.
"""
OSU = "# OSU MPI Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)\n" + "".join(
    f"{1 << power:<20} {(1 << power) * 0.9:.2f}\n" for power in range(12)
)


IMB = """# Benchmarking Allreduce
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            4         1000         1.85         2.20         2.01
         1024         1000         3.11         3.52         3.30
"""
MATRIX = """Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 1581.40 274.50
     1 274.70 1581.40
"""
PINGPONG = """bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64      10      =10      1.2k        0.00s      0.33     192.60       0.01
1m      10      =10      20m         0.00s   8943.00     117.25       0.01
"""
NVLINK = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
\t Link 0: 26.562 GB/s
\t Link 1: 26.562 GB/s
"""
TRANSFERS = """TransferBench v1.66.00
Test 1:
 Executor: GPU 00    │  56.299 GB/s │    4.768 ms │    268435456 bytes │  56.309 GB/s (sum)
 Transfer 0          │  56.309 GB/s │    4.767 ms │    268435456 bytes │ G0 -> G0:4 -> G1
 Aggregate (CPU)     │  55.015 GB/s │    4.879 ms │    268435456 bytes │ Overhead 0.111 ms
"""
IPERF = """Client connecting to node-b, TCP port 5001
[  3] local 192.0.2.1 port 41214 connected with 192.0.2.2 port 5001
[  4] local 192.0.2.1 port 41216 connected with 192.0.2.2 port 5001
[  3]  0.0-10.0 sec  13.6 GBytes  11.7 Gbits/sec
[  4]  0.0-10.0 sec  13.8 GBytes  11.9 Gbits/sec
[SUM]  0.0-10.0 sec  27.4 GBytes  23.5 Gbits/sec
"""


def _gaps(text: str) -> str:
    return "; ".join(gap for each in tools.read(text.encode()) for gap in each.gaps)


@pytest.mark.parametrize(
    "text",
    [
        IBSTAT,
        GIDS,
        DETAILS,
        HPL,
        OSU,
        IMB,
        MATRIX,
        PINGPONG,
        NVLINK,
        TRANSFERS,
        IPERF,
        f"{IBSTAT}{IBSTAT}",
    ],
)
def test_a_healthy_text_has_no_gap(text: str) -> None:
    assert tools.read(text.encode())
    assert _gaps(text) == ""


@pytest.mark.parametrize(
    ("text", "gap"),
    [
        ("".join(2 * line for line in IBSTAT.splitlines(True)), "no port of mlx5_0"),
        (IBSTAT.replace("Rate: 400", "Rate: nan"), "a rate that is a number"),
        (IBSTAT.replace("\t\tState: Active\n", ""), "lacks a state"),
        (GIDS.replace("\tv2", "", 1), "a row is torn"),
        (DETAILS.replace("71.20 W", "nan W"), "a row is torn, or has other than numbers"),
        (DETAILS.replace("71.20 W", "-71.20 W"), "a row is torn, or has other than numbers"),
        (HPL.replace("29.80", "9.80"), "are 68749.7 Gflop/s, not 22610"),
        (HPL.replace("2.261e+04", "2,261e+04"), "a row is torn"),
        (OSU.replace(f"{64:<20}", f"[==>  ] 50% {64:<20}"), "a row is torn"),
        ("".join(line for line in OSU.splitlines(True) if not line.startswith("64 ")), "between 32 and 128 bytes"),
        (OSU + OSU.splitlines(True)[-1], "2048 bytes stand twice"),
        (OSU.replace("1024 ", "1,024"), "a row is torn"),
        (IMB.replace(" 1024", "1.024"), "a row is torn"),
        (IMB.replace("t_max[usec]", "t_max[sec]"), "a row is torn"),
        (MATRIX.replace("GB/s", "Gb/s"), "its unit is not GB/s"),
        (MATRIX.replace("274.50", "274.50 274.50"), "no number in the row 0"),
        (PINGPONG.replace("8943.00", "9943.00"), "are 8943.08 MB/s, not 9943"),
        (NVLINK.replace("GB/s", "Gb/s", 1), "a row is torn"),
        ("Final Summary::HPCG result is VALID with a GFLOP/s rating of=63,65\n", "truncated in its result"),
        (TRANSFERS.replace("Transfer 0 ", "Transfer   "), "a row is torn"),
        (TRANSFERS.replace("Transfer 0 ", "Transfer 268435456 "), "a row is torn"),
        (IPERF.replace("13.8 GBytes  11.9", "3.8 GBytes  3.26"), "not to the row [SUM]"),
    ],
)  # fmt: skip
def test_a_damaged_text_has_one(text: str, gap: str) -> None:
    assert gap in _gaps(text)


@pytest.mark.parametrize(
    "words", ["...", "[...]", "<snip>", "… ", "[12 lines omitted]", "--More--"]
)
def test_a_text_that_says_that_a_part_was_left_out_is_not_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    path = tmp_path / "ibstat.txt"
    path.write_text(f"{IBSTAT}{words}\n{GIDS}")
    assert main(["read", str(path)]) == 3
    assert f"a part of the text was left out: '{words.strip()}'" in capsys.readouterr().out
    assert main(["why", str(path)]) == 3
    assert "a part of the text was left out" in capsys.readouterr().out


def test_a_text_whose_lines_were_cut_at_one_column_is_not_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ibstat.txt"
    lines = IBSTAT.splitlines(True)
    path.write_text("".join(line if len(line) < 20 else f"{line[:20]}...\n" for line in lines))
    assert main(["read", str(path)]) == 3
    assert "a part of the text was left out" in capsys.readouterr().out


def test_a_table_whose_long_lines_were_wrapped_is_read_with_a_remark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = (HEALTHY.parent / "nccl_tests/all_reduce.txt").read_text()
    path = tmp_path / "nccl.out"
    path.write_text(table)
    status = main(["read", str(path)])
    assert "broken off" not in capsys.readouterr().out
    path.write_text(table.replace(" iters: ", "\n iters: ", 1).replace("] ", "]\n"))
    assert main(["read", str(path)]) == status
    out = capsys.readouterr().out
    assert "the configuration line is broken off: its iterations are not known" in out
    assert "the list of devices is broken off: 4 entries name no GPU model" in out
