"""Numbers that a node's tool cannot have printed, and rows that are missing, leave a gap; what only looks
strange leaves none."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def _gaps(text: str) -> str:
    return "; ".join(gap for each in tools.read(text.encode()) for gap in each.gaps)


@pytest.mark.parametrize("text", [IBSTAT, GIDS, DETAILS, HPL, OSU, f"{IBSTAT}{IBSTAT}"])
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
    ],
)  # fmt: skip
def test_a_damaged_text_has_one(text: str, gap: str) -> None:
    assert gap in _gaps(text)
