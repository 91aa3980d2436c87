"""`busbw read` on what a node's tools print: said to be what it is, errors reported, gaps declared.
Composed in each tool's format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw import cli
from busbw.errors import UnknownLayout
from busbw.parsers.logs import Document
from busbw.parsers.logs.node_tools import MOST_BYTES, read
from busbw.parsers.tools import dcgm

DOWN = "ibstat: mlx5_1 port 1 is Down"
IBSTAT = """CA 'mlx5_0'
	CA type: MT4129
	Firmware version: 28.39.1002
	Port 1:
		State: Active
		Physical state: LinkUp
		Rate: 400
		Link layer: InfiniBand
CA 'mlx5_1'
	CA type: MT4129
	Port 1:
		State: Down
		Physical state: Polling
		Rate: 10
		Link layer: InfiniBand
"""
XID = (
    "[Mon Nov 16 03:02:01 2026] NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus."
)


def told(text: str) -> Document:
    return read([text[at : at + 50].encode() for at in range(0, len(text), 50)])


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (
            IBSTAT,
            (
                ("ibstat", "mlx5_0 MT4129: port 1 Active, LinkUp, 400 Gb/s, InfiniBand"),
                ("ibstat", "mlx5_1 MT4129: port 1 Down, Polling, 10 Gb/s, InfiniBand"),
            ),
        ),
        (
            (
                "    device          \t   node GUID\n    ------          \t----------------\n   "
                " mlx5_0          \ta088c20300aabbcc\n"
            ),
            (("ibv_devices", "mlx5_0"),),
        ),
        (
            (
                "hca_id:\tmlx5_2\n\ttransport:\t\t\tInfiniBand"
                " (0)\n\tfw_ver:\t\t\t\t28.39.1002\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE"
                " (4)\n\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t1024"
                " (3)\n\t\t\tlink_layer:\t\tEthernet\n"
            ),
            (
                (
                    "ibv_devinfo",
                    "mlx5_2 firmware 28.39.1002: port 1 PORT_ACTIVE, MTU 1024, Ethernet",
                ),
            ),
        ),
        (
            "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0 \n",
            (("rdma link", "mlx5_0/1 ACTIVE LINK_UP, eth0"),),
        ),
        (
            (
                "FEC parameters for eth0:\nSupported/Configured FEC encodings: Auto\nActive FEC"
                " encoding: RS\n"
            ),
            (("ethtool --show-fec", "eth0: configured Auto, active RS"),),
        ),
        ("MLNX_OFED_LINUX-23.10-1.1.9.0:\n", (("ofed_info -s", "MLNX_OFED_LINUX-23.10-1.1.9.0"),)),
        (
            "GPU 0: NVIDIA H200 (UUID: GPU-5f1c9a3e-0000-0000-0000-000000000001)\n",
            (("nvidia-smi -L", "GPU 0: NVIDIA H200"),),
        ),
        (
            (
                "index, name, clocks.sm [MHz], mig.mode.current\n0, NVIDIA H200, 1980,"
                " Disabled\n[MiB]\n"
            ),
            (
                (
                    "nvidia-smi --query",
                    "index 0, name NVIDIA H200, clocks.sm 1980, mig.mode.current Disabled",
                ),
            ),
        ),
        (
            "provider: efa\n    fabric: efa\n    domain: rdmap16s27-rdm\n    type: FI_EP_RDM\n",
            (("fi_info", "efa rdmap16s27-rdm FI_EP_RDM"),),
        ),
    ],
)
def test_each_output_is_named_and_told_in_a_line(
    text: str, summary: tuple[tuple[str, str], ...]
) -> None:
    document = told(text)
    problems = (DOWN,) if text == IBSTAT else ()
    assert (document.kind, document.summary, document.complete, document.problems) == (
        "node-tools",
        summary,
        True,
        problems,
    )


def test_errors_that_a_tool_reports_are_faults_and_corrected_ones_are_only_told() -> None:
    corrected = "pcieport 0000:16:01.0: AER: Corrected error received: 0000:17:00.0"
    document = told(
        f"{XID}\n{corrected}\nibpanic: [77] main: stat of IB device 'mlx5_3' failed: No such file"
        f" or directory\n{IBSTAT}"
    )
    assert document.faults == (
        "ibstat: ibpanic: [77] main: stat of IB device 'mlx5_3' failed: No such file or directory",
        DOWN,
        f"line 1: {XID}",
    )
    assert ("kernel log", corrected) in document.summary
    assert document.complete


def test_a_torn_row_of_the_topology_makes_it_incomplete() -> None:
    document = told("\tGPU0\tNIC0\tNIC1\tNUMA Affinity\nGPU0\t X \tPIXNODE\t0\n")
    assert (document.complete, document.problems, document.faults) == (
        False,
        ("nvidia-smi topo -m: the row of GPU0 is torn",),
        (),
    )


def test_of_a_text_longer_than_any_tools_output_the_beginning_is_read_and_that_is_said() -> None:
    document = told(IBSTAT + "x" * 99 + "\n" + ("plain text\n" * (MOST_BYTES // 10)))
    assert len(document.records) == 1
    assert (document.complete, document.problems) == (
        False,
        (DOWN, f"outputs of tools were looked for in the first {MOST_BYTES} bytes only"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Dear all,\n",
        "gpu1:41:42 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]\n",
        "GPU 0: hot\n",
    ],
)
def test_other_texts_are_none_of_it(text: str) -> None:
    with pytest.raises(UnknownLayout, match="no output of a node's tools"):
        told(text)


def test_read_prints_them_alone_and_beside_a_log_with_the_worst_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ibstat.txt").write_text(IBSTAT)
    (tmp_path / "dmesg.txt").write_text(f"[Mon Nov 16 03:02:00 2026] x: y\n{XID}\n")
    (tmp_path / "both.txt").write_text(f"{IBSTAT}gpu1:41:42 [0] NCCL INFO Using network IB\n")
    assert cli.main(["read", str(tmp_path / "ibstat.txt")]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  ibstat                 mlx5_0 MT4129: port 1 Active, LinkUp, 400 Gb/s, InfiniBand",
        "  ibstat                 mlx5_1 MT4129: port 1 Down, Polling, 10 Gb/s, InfiniBand",
        "  FAIL rdma.port_state   mlx5_1 Down / Polling; expected: every port ACTIVE",
        f"  BAD     {DOWN}",
    ]
    assert cli.main(["read", str(tmp_path / "dmesg.txt")]) == 1
    assert f"  BAD     line 2: {XID}" in capsys.readouterr().out
    assert cli.main(["read", str(tmp_path / "both.txt"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [document["kind"], [each["kind"] for each in document["also"]]] == [
        "nccl-debug",
        ["nccl-debug", "node-tools"],
    ]
    assert (
        document["also"][1]["records"][0]["devices"][1]["ports"][0]["physical_state"] == "Polling"
    )


def test_a_failed_test_of_dcgm_is_an_error_in_json_too_in_every_document() -> None:
    head = (
        '{"DCGM GPU Diagnostic": {"version": "3.3.5", "test_categories": [{"category": "Hardware",'
    )
    text = (
        head
        + ' "tests": [{"name": "GPU Memory", "results": [{"gpu_id": "2", "status": "%s"}]}]}]}}'
    )
    document = told(f"{text % 'PASS'}\n{text % 'FAIL'}\n")
    assert document.faults == ("dcgmi diag -j: GPU Memory GPU 2: Fail",)
    assert told(text % "PASS").faults == ()
    cut = told((text % "PASS")[:-20])
    assert cut.faults == ("dcgmi diag -j: incomplete JSON: the document has no end",)


def test_a_test_that_failed_on_one_of_eight_gpus_failed() -> None:
    """dcgmi diag of DCGM 3 prints the GPUs that passed first."""
    table = (
        "| GPU Memory                | Pass - GPUs: 1, 2, 3, 4, 5, 6, 7               |\n"
        "|                           | Fail - GPU: 0                                  |\n"
        "| Warning                   | GPU 0 Thermal violations totaling 13.3 second  |\n"
    )
    (test,) = dcgm.parse_diag(table)
    assert (test.name, test.result) == ("GPU Memory", "Fail")
    assert test.warning == "Fail - GPU: 0; GPU 0 Thermal violations totaling 13.3 second"


def test_imb_without_its_last_line_was_cut(tmp_path: Path) -> None:
    head = "#    Intel(R) MPI Benchmarks 2021.7, MPI-1 part\n"
    end = "\n# All processes entering MPI_Finalize\n"
    table = (
        "# Benchmarking Allreduce\n# #processes = 4\n"
        "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
        "            4         1000         1.85         2.20         2.01\n"
    )
    statuses = []
    wrong = table.replace("2.01", "9.01")
    for text in (head + table + end, head + table, table, wrong):
        (tmp_path / "imb.txt").write_text(text)
        statuses.append(cli.main(["read", str(tmp_path / "imb.txt")]))
    assert statuses == [0, 3, 0, 3], (
        "a table that was quoted has neither; an average between its extremes"
    )
