"""Outputs of tools that users' trials brought: composed from the tools' own sources, no recordings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.parsers.logs import node_tools

SCHMOO = """TransferBench v1.64.00
[Schmoo Related]
SWEEP_MAX            =            {last} : Max number of subExecutors to use

Bytes to transfer: 268435456 Local GPU: 0 Remote GPU: 1
       | Local Read  | Local Write | Local Copy  | Remote Read | Remote Write| Remote Copy |
  #CUs |G00->G00->N00|N00->G00->G00|G00->G00->G00|G01->G00->N00|N00->G00->G01|G00->G00->G01|
|------|-------------|-------------|-------------|-------------|-------------|-------------|
     1        39.412        25.108        25.090        18.220        19.871        18.204
     2        78.605        50.211        50.180        36.020        39.422        35.990
"""
ONE_TO_ALL = """TransferBench v1.64.00
[One-To-All Related]
SWEEP_MAX            =            3 : Maximum number of peers

Executing (G0 -> G0 -> G*)
   GPU 1        GPU 2
--------------------------
    46.210                 1 4 (G0 G0 G1)
                 23.010    1 4 (G0 G0 G2)
    45.100       22.800    2 4 (G0 G0 G1) (G0 G0 G2)
"""
HBM = """TransferBench v1.66.00
[HBM Bandwidth Related]
Testing on at least 1073741824 bytes (24 configs per GPU): ........
┌──────┬─────┬──────────────┬──────────────┬──────────────┐
│ Rank │ GPU │ MaxBw (GB/s) │ AvgBw (GB/s) │ MinBw (GB/s) │
├──────┼─────┼──────────────┼──────────────┼──────────────┤
│    0 │   0 │      4312.20 │      4201.11 │      4002.80 │
│    0 │   1 │      3120.33 │      3010.08 │      2900.10 │
└──────┴─────┴──────────────┴──────────────┴──────────────┘
"""
POD = """TransferBench v1.66.00
Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
┌─────────────┬────────────┬──────────┬──────────┐
│ SRC+EXE\\DST │            │ Rank 00  │ Rank 01  │
│             │ Mem Device │  GPU 00  │  GPU 00  │
├─────────────┼────────────┼──────────┼──────────┤
│     Rank 00 │     GPU 00 │  2101.20 │   150.11 │
├─────────────┼────────────┼──────────┼──────────┤
│     Rank 01 │     GPU 00 │   305.00 │  2100.30 │
└─────────────┴────────────┴──────────┴──────────┘
"""
UCX_SERVER = """Waiting for connection...
Accepted connection from 10.0.0.1:41234
+--------------------------------------------------------------------------------+
| API:          protocol layer                                                   |
| Test:         tag match bandwidth                                              |
| Data layout:  (automatic)                                                      |
| Message size: 1048576                                                          |
+--------------------------------------------------------------------------------+
"""
MLXLINK = """Operational Info
----------------
State                              : Active
Speed                              : IB-NDR
Width                              : 4x
FEC                                : Standard_RS-FEC - (544,514)

Troubleshooting Info
--------------------
Status Opcode                      : 0
Recommendation                     : No issue was observed

Module Info
-----------
Temperature [C]                    : 52 [0..75]
Rx Power Current [dBm]             : 1.5,-9.8,1.4,1.6 [-12..7]
Rx LOS [per lane]                  : 0,1,0,0

Physical Counters and BER Info
------------------------------
Symbol BER                         : 4E-14
Link Down Counter                  : 4
Link Error Recovery Counter        : 2
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            SCHMOO.format(last=2),
            (
                "schmoo GPU 0 with GPU 1, 2 CUs: local read 78.605, local write 50.211, local copy"
                " 50.18, remote read 36.02, remote write 39.422, remote copy 35.99 GB/s",
            ),
        ),
        (
            ONE_TO_ALL,
            (
                "one-to-all G0 -> G0 -> G*, to 1 at once: 23.01 to 46.21 GB/s each",
                "one-to-all G0 -> G0 -> G*, to 2 at once: 22.8 to 45.1 GB/s each",
            ),
        ),
        (HBM, ("HBM read of 2 GPUs: 3010.08 (rank 0 GPU 1) to 4201.11 GB/s on average",)),
        (
            POD,
            (
                "Unidirectional [Local read / Remote write] (GPU-Executor: GFX): 2 GPU to GPU, 150.11"
                " to 305 GB/s, least Rank 00 GPU 00 to Rank 01 GPU 00",
            ),
        ),
        (
            UCX_SERVER,
            ("server of tag match bandwidth of 1048576 bytes: its client prints the result",),
        ),
        (
            MLXLINK,
            (
                "Active IB-NDR 4x, FEC Standard_RS-FEC - (544,514)",
                "since the counters were cleared: link down 4 times, retrained 2 times, symbol BER 4e-14",
                "module: 52 °C, Rx -9.8 to 1.6 dBm",
                "module: no signal was received on lane 1 (Rx LOS)",
            ),
        ),
    ],
)
def test_the_figures_of_an_output_are_read(text: str, lines: tuple[str, ...]) -> None:
    document = node_tools.read([text.encode()])
    assert tuple(line for _, line in document.summary) == lines
    assert (document.problems, document.complete) == ((), True)


@pytest.mark.parametrize(
    ("text", "gap"),
    [
        (SCHMOO.format(last=32), "the schmoo test ends at 2 of 32 CUs"),
        (SCHMOO.partition("Bytes to")[0], "the schmoo test is truncated before its table"),
        (
            ONE_TO_ALL.rpartition("    45.100")[0],
            "one-to-all G0 -> G0 -> G*: ends at 1 of 2 peers",
        ),
        (HBM.partition("┌")[0], "the HBM test is truncated before its table"),
    ],
)
def test_an_output_that_is_cut_off_is_incomplete(text: str, gap: str) -> None:
    assert node_tools.read([text.encode()]).problems == (gap,)


def test_counters_of_a_link_are_no_line_that_reports_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mlxlink.txt"
    path.write_text(MLXLINK)
    assert main(["read", str(path)]) == 0
    assert "BAD" not in capsys.readouterr().out


def diag(*tests: dict[str, object], **more: object) -> bytes:
    categories = [{"category": "Hardware", "tests": list(tests)}]
    return json.dumps({"DCGM Diagnostic": {"test_categories": categories}, **more}).encode()


def test_a_test_of_dcgm_4_that_only_its_summary_calls_failed_is_bad() -> None:
    gpu = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"}
    summary = {"status": "Fail", "warnings": [{"warning": "the plugin crashed"}]}
    failed = diag({"name": "diagnostic", "results": [gpu], "test_summary": summary})
    assert node_tools.read([failed]).faults == (
        "dcgmi diag -j: diagnostic: Fail (the plugin crashed)",
    )
    passed = diag({"name": "diagnostic", "results": [gpu], "test_summary": {"status": "Pass"}})
    assert node_tools.read([passed]).problems == ()


def test_dcgm_on_several_hosts_names_the_host() -> None:
    result = {
        "host_id": 1,
        "entity_group": "GPU",
        "entity_id": 3,
        "status": "Fail",
        "warnings": [{"warning": "below the threshold"}],
    }
    text = json.dumps(
        {
            "DCGM Diagnostic": "DCGM Multi-Node Diagnostic",
            "hosts": [{"host_id": 0, "hostname": "node1"}, {"host_id": 1, "hostname": "node2"}],
            "test_categories": [{"tests": [{"name": "MNUBERGEMM", "results": [result]}]}],
        }
    )
    assert node_tools.read([text.encode()]).faults == (
        "dcgmi diag -j: MNUBERGEMM node2 GPU 3: Fail (below the threshold)",
    )
