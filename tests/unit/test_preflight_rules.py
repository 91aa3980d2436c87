"""Every rule: what fails, what warns, what cannot be told; and the comparison of the nodes."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.checks import (
    CheckFamily,
    NodeAnswer,
    Policy,
    SectionOutput,
    ethernet,
    frame,
    gpu_bench,
    gpu_fabric,
    gpu_rules,
    pcie,
    rdma_rules,
    script,
)
from busbw.checks.fabric_side import LOCAL
from busbw.checks.frame import families
from busbw.checks.gpu_rules import GpuState
from busbw.model import CheckResult, Confidence, Node, Status
from busbw.parsers.tools import mlnx_qos, nvidia_smi_nvlink, nvidia_smi_topology, pci, rdma_sysfs
from busbw.parsers.verdict import check_findings

ROOT = Path(__file__).parents[2]
GOOD = GpuState(
    0, "NVIDIA H100 80GB HBM3", "550.54.14", True, False, 0, 700.0, 700.0, 4.0, 16.0, 16.0
)
ALL = Policy("test", ("*",), ())
HEAD = "index, name, driver_version, vbios_version\n"


def answer(node: str = "n1", **sections: str | tuple[str, str, int]) -> NodeAnswer:
    """An answer of these sections: standard output alone, or (output, error, exit status)."""
    outputs = {}
    for name, value in sections.items():
        out, err, status = (value, "", 0) if isinstance(value, str) else value
        outputs[name] = SectionOutput(name, out, err, status, 1)
    return NodeAnswer(Node(node), outputs, f"raw/preflight/{node}.txt", None)


def results(check_id: str, *answers: NodeAnswer) -> tuple[CheckResult, ...]:
    return tuple(r for r in frame.judge(families(), answers, ALL) if r.check_id == check_id)


def verdict(check_id: str, **sections: str | tuple[str, str, int]) -> tuple[Status, str]:
    (result,) = results(check_id, answer(**sections))
    return result.status, result.seen


@pytest.mark.parametrize(
    ("change", "check_id", "status", "text"),
    [
        ({}, "gpu.driver", Status.PASS, "driver 550.54.14"),
        ({"broken": True}, "gpu.driver", Status.FAIL, "GPU 0: [Unknown Error]; driver unknown"),
        ({"persistence": False}, "gpu.persistence", Status.WARN, "Disabled on GPU 0"),
        ({"persistence": None}, "gpu.persistence", Status.UNKNOWN, "not shown"),
        ({"mig": True}, "gpu.mig", Status.FAIL, "MIG is on: GPU 0"),
        ({"mig": None}, "gpu.mig", Status.PASS, "off"),
        ({"ecc_uncorrected": 3}, "gpu.ecc", Status.FAIL, "uncorrected errors: GPU 0: 3"),
        ({"ecc_uncorrected": None}, "gpu.ecc", Status.UNKNOWN, "not counted"),
        ({"power_limit_w": 500.0}, "gpu.power", Status.WARN, "lower: GPU 0: 500 of 700 W"),
        ({"power_default_w": None}, "gpu.power", Status.SKIPPED, "not shown"),
    ],
)
def test_a_gpu_that_is_not_well_is_named(
    change: dict[str, object], check_id: str, status: Status, text: str
) -> None:
    gpu = dataclasses.replace(GOOD, **change)  # type: ignore[arg-type]  # the fields are named by the table above
    rule_result = {r.check_id: r for r in gpu_rules.rule((gpu,))}[check_id]
    assert (rule_result.status, rule_result.seen) == (status, text)


def test_leftover_memory_and_foreign_processes_warn() -> None:
    busy_gpu = dataclasses.replace(GOOD, memory_used_mib=40000.0)
    assert gpu_rules.processes((4711,), (GOOD,)).seen == "in use by 1 processes"
    assert (
        gpu_rules.processes((), (busy_gpu,)).seen
        == "more than 1024 MiB held on GPU 0 by no process that is shown"
    )
    assert gpu_rules.processes((), (GOOD,)).status is Status.PASS


def test_a_narrow_pcie_link_fails() -> None:
    assert gpu_rules.pcie_width((dataclasses.replace(GOOD, width=8.0),)).seen == "GPU 0: x8 of x16"


def test_links_down_or_missing_from_an_sxm_card_fail_and_a_pcie_card_may_have_none() -> None:
    twelve = "".join(f"\t Link {i}: 25 GB/s\n" for i in range(12))
    assert (
        gpu_fabric.nvlinks(
            nvidia_smi_nvlink.parse(f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n{twelve}")
        ).status
        is Status.PASS
    )
    few = gpu_fabric.nvlinks(
        nvidia_smi_nvlink.parse(f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n{twelve}")
    )
    assert (few.status, few.seen) == (Status.FAIL, "links missing: GPU 0: 12 of 18")
    assert verdict("gpu.nvlink_status", gpu_nvlink="GPU 0: NVIDIA L40S (UUID: GPU-1)\n") == (
        Status.SKIPPED,
        "no NVLink",
    )


def test_the_line_of_the_link_that_is_down_is_the_evidence() -> None:
    good = "".join(f"\t Link {i}: 26.562 GB/s\n" for i in range(18))
    bad = good.replace("Link 4: 26.562 GB/s", "Link 4: <inactive>")
    text = f"GPU 0: NVIDIA H200 (UUID: GPU-1)\n{good}GPU 1: NVIDIA H200 (UUID: GPU-2)\n{bad}"
    (result,) = results("gpu.nvlink_status", answer(gpu_nvlink=text))
    assert result.seen == "inactive: GPU 1 link 4"
    assert result.evidence is not None
    assert result.evidence.text == "Link 4: <inactive>"


@pytest.mark.parametrize(
    ("mask", "status"),
    [("0x0000000000000001", Status.PASS), ("0x0000000000000000", Status.PASS), ("0x0000000000000004", Status.PASS),
     ("0x0000000000000020", Status.WARN), ("0x0000000000000048", Status.FAIL), ("0x0000000000000080", Status.FAIL)],
)  # fmt: skip
def test_only_heat_brake_and_hardware_slowdown_count_as_throttling(
    mask: str, status: Status
) -> None:
    assert (
        verdict(
            "gpu.throttle",
            gpu_query=f"index, name, clocks_event_reasons.active\n0, NVIDIA H100, {mask}\n",
        )[0]
        is status
    )


def test_remapping_that_failed_or_waits_fails() -> None:
    head = (
        "gpu_uuid, remapped_rows.correctable, remapped_rows.uncorrectable, remapped_rows.pending,"
        " remapped_rows.failure\n"
    )
    assert verdict("gpu.remap", gpu_remap=head + "GPU-1, 0, 0, 0, 0\n") == (Status.PASS, "none")
    assert verdict("gpu.remap", gpu_remap=head + "GPU-1, 0, 1, 1, 0\n") == (
        Status.FAIL,
        "GPU 0: pending until the GPU is reset",
    )
    assert (
        verdict("gpu.remap", gpu_remap=head + "GPU-1, [N/A], [N/A], [N/A], [N/A]\n")[0]
        is Status.SKIPPED
    )


def test_an_upgraded_driver_without_a_reboot_fails() -> None:
    error = "Failed to initialize NVML: Driver/library version mismatch\n"
    assert verdict("gpu.driver", gpu_query=(error, "", 18))[0] is Status.FAIL


SYSFS = """\
rdma mlx5_0 present 1
rdma mlx5_0 fw_ver 28.39.1002
rdma mlx5_0 board_id MT_0000000838
port mlx5_0 1 state 4: ACTIVE
port mlx5_0 1 phys_state 5: LinkUp
port mlx5_0 1 rate 400 Gb/sec (4X NDR)
port mlx5_0 1 link_layer InfiniBand
port mlx5_0 1 sm_lid 0x1
"""


@pytest.mark.parametrize(
    ("old", "new", "check_id", "text"),
    [
        ("4: ACTIVE", "1: DOWN", "rdma.port_state", "mlx5_0 DOWN / LinkUp"),
        ("4: ACTIVE", "2: INIT", "rdma.port_state", "mlx5_0 INIT / LinkUp"),
        ("400 Gb/sec (4X NDR)", "50 Gb/sec (1X HDR)", "rdma.rate", "lanes missing: mlx5_0 1X HDR"),
        ("0x1\n", "0x0\n", "rdma.sm", "none on mlx5_0"),
    ],
)
def test_a_port_that_is_not_well_fails_and_is_named(
    old: str, new: str, check_id: str, text: str
) -> None:
    assert verdict(check_id, rdma_sysfs=SYSFS)[0] is Status.PASS
    assert verdict(check_id, rdma_sysfs=SYSFS.replace(old, new)) == (Status.FAIL, text)


def test_a_slow_port_among_fast_ones_fails_on_its_own_node() -> None:
    both = SYSFS + SYSFS.replace("mlx5_0", "mlx5_1").replace("400 Gb/sec", "200 Gb/sec")
    assert verdict("rdma.rate", rdma_sysfs=both) == (
        Status.FAIL,
        "mlx5_1 200 Gb/s; the others 400 Gb/s",
    )


def test_a_port_that_is_no_rail_of_the_inventory_may_be_down() -> None:
    both = SYSFS + SYSFS.replace("mlx5_0", "mlx5_9").replace("4: ACTIVE", "1: DOWN")
    railed = dataclasses.replace(answer(rdma_sysfs=both), node=Node("n1", rails=("mlx5_0",)))
    assert [r.status for r in results("rdma.port_state", railed)] == [Status.PASS]
    assert verdict("rdma.port_state", rdma_sysfs=both) == (
        Status.WARN,
        "mlx5_9 DOWN / LinkUp",
    ), "nobody said that it is used"
    broken = dataclasses.replace(answer(rdma_sysfs=both), node=Node("n1", rails=("mlx5_9",)))
    assert [r.status for r in results("rdma.port_state", broken)] == [Status.FAIL]


def test_a_roce_port_needs_an_ipv4_gid_of_version_two() -> None:
    roce = SYSFS.replace("InfiniBand", "Ethernet")
    gid = "gid mlx5_0 1 3 0000:0000:0000:0000:0000:ffff:0a00:0001 RoCE v2\n"
    assert verdict("rdma.gid", rdma_sysfs=roce) == (Status.FAIL, "none on mlx5_0 (no IP address)")
    assert verdict("rdma.gid", rdma_sysfs=roce + gid) == (Status.PASS, "on 1 port")
    assert verdict("rdma.gid", rdma_sysfs=SYSFS)[0] is Status.SKIPPED
    assert rdma_rules.from_sysfs(rdma_sysfs.parse(roce + gid))[0].rocev2_ipv4 == (3,)


def test_an_adapter_on_half_its_lanes_fails_and_an_idle_gpu_is_not_an_adapter() -> None:
    line = "pci 0000:1a:00.0 0x15b3 0x020700 width {} 16 speed 32.0 32.0 numa 0\n"
    assert pcie.adapter_links(pci.parse_devices(line.format(16))).status is Status.PASS
    assert pcie.adapter_links(pci.parse_devices(line.format(8))).seen == "0000:1a:00.0 x8 of x16"
    assert (
        pcie.adapter_links(
            pci.parse_devices(line.replace("0x15b3 0x020700", "0x10de 0x030200").format(8))
        ).status
        is Status.SKIPPED
    )


def test_acs_without_the_right_to_see_it_is_unknown_and_says_which_right() -> None:
    rule_result = pcie.acs(
        pci.parse_acs("40:01.1 PCI bridge: Some\n\tCapabilities: <access denied>\n")
    )
    assert (rule_result.status, rule_result.reason) == (
        Status.UNKNOWN,
        "only root sees PCI capabilities (lspci -vvv as root, busbw check --sudo)",
    )


def test_roce_without_flow_control_warns_and_with_the_wrong_trust_fails() -> None:
    text = (
        "Priority trust state: {}\nPFC configuration:\n\tenabled     0   0   0   {}   0   0   0 "
        "  0\n"
    )
    statuses = [
        ethernet.qos((item,)).status
        for trust, bit in (("dscp", 1), ("dscp", 0), ("pcp", 1))
        if (item := mlnx_qos.parse(text.format(trust, bit)))
    ]
    assert statuses == [Status.PASS, Status.WARN, Status.FAIL]


def test_a_gpu_far_from_every_nic_warns() -> None:
    matrix = nvidia_smi_topology.parse(
        "\tGPU0\tGPU1\tNIC0\tNUMA Affinity\nGPU0\t X \tNV18\tPIX\t0\nGPU1\tNV18\t X \tSYS\t1\n"
    )
    assert matrix is not None
    assert gpu_fabric.affinity(matrix).seen == "GPU1: only SYS to every NIC"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.", Status.FAIL),
        ("NVRM: Xid (PCI:0000:9b:00): 31, pid=7, MMU Fault", Status.WARN),
        ("mlx5_core 0000:1a:00.0 ens1: Link down", Status.WARN),
        ("docker0: port 1(veth1) entered disabled state", Status.PASS),
    ],
)
def test_the_kernel_log_is_judged_by_what_it_names(line: str, status: Status) -> None:
    assert verdict("os.kernel_log", kernel_log=f"[1.0] {line}\n")[0] is status


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        (
            "NVRM: Xid (PCI:0000:9d:00): 74, pid=2204, NVLink: fatal error",
            "Xid 74 NVLink on 0000:9d:00",
        ),
        ("NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.", "Xid 79 on 0000:1b:00"),
    ],
)
def test_the_kernel_log_says_on_which_device_it_happened(line: str, seen: str) -> None:
    assert verdict("os.kernel_log", kernel_log=f"[1.0] {line}\n")[1] == seen


def test_a_peer_memory_module_that_is_not_there_shows_what_was_looked_for() -> None:
    seen = "loaded_modules=looked for nvidia_peermem and nv_peer_mem among: nvidia mlx5_core"
    text = f"nvidia=NVRM version: 535.161.08\nkernel=5.4.0-42-generic\n{seen}\n"
    (result,) = results("gpu.peermem", answer(gpu_modules=text))
    assert result.evidence is not None
    assert (result.status, result.evidence.text) == (Status.FAIL, seen)


def test_of_nics_of_one_board_the_odd_firmware_is_named_with_its_device() -> None:
    def sysfs(*versions: str) -> str:
        return "".join(
            f"rdma mlx5_{number} board_id MT_0000000838\nrdma mlx5_{number} fw_ver {version}\n"
            for number, version in enumerate(versions)
        )

    alike, odd = "28.39.1002", "28.36.1010"
    nodes = [answer(f"n{n}", rdma_sysfs=sysfs(alike, alike, alike)) for n in (1, 2)]
    nodes.append(answer("n3", rdma_sysfs=sysfs(alike, odd, alike)))
    found = {each.node: each for each in results("cross.nic_fw", *nodes)}
    assert (found["n3"].status, found["n3"].seen) == (
        Status.WARN,
        f"MT_0000000838 {odd} (mlx5_1), MT_0000000838 {alike}",
    )
    assert (found["n1"].status, found["n1"].seen) == (Status.PASS, f"MT_0000000838 {alike}")


def test_a_kernel_log_that_may_not_be_read_is_unknown_and_says_which_right() -> None:
    (result,) = results(
        "os.kernel_log",
        answer(kernel_log=("", "dmesg: read kernel buffer failed: Operation not permitted\n", 1)),
    )
    assert (result.status, result.reason.partition(":")[0]) == (
        Status.UNKNOWN,
        "the kernel log may not be read",
    )


def test_a_dead_mount_fails_as_such() -> None:
    assert verdict("os.disk", disks=("", "", 124)) == (
        Status.FAIL,
        "df did not end: a mount that does not answer",
    )


def test_small_shared_memory_fails_and_a_full_disk_warns() -> None:
    text = (
        "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/a 100 98 2 98% /\ntmpfs"
        " 65536 0 65536 0% /dev/shm\n"
    )
    assert verdict("os.shm", disks=text) == (Status.FAIL, "64 MiB")
    assert verdict("os.disk", disks=text) == (Status.WARN, "full: /")


def test_variables_left_in_the_session_are_named_without_their_values() -> None:
    assert verdict("sw.env_leftovers", environment="NCCL_DEBUG=INFO\nUCX_TLS=secret\n") == (
        Status.WARN,
        "NCCL_DEBUG, UCX_TLS",
    )


def test_output_that_was_cut_off_is_unknown() -> None:
    (result,) = results(
        "gpu.count",
        answer(nvidia_smi_list="GPU 0: NVIDIA H100 (UUID: GPU-1)\n" + "x" * (256 << 10)),
    )
    assert (result.status, result.reason) == (
        Status.UNKNOWN,
        "nvidia-smi -L printed more than 256 KiB; the rest was not read",
    )


def test_the_odd_node_out_fails_and_the_majority_is_what_is_expected() -> None:
    nodes = [answer(f"n{i}", gpu_query=HEAD + "0, NVIDIA H100, 550.54.14, 96\n") for i in range(3)]
    nodes.append(answer("n3", gpu_query=HEAD + "0, NVIDIA H100, 535.161.08, 96\n"))
    by_node = {r.node: (r.status, r.seen, r.expected) for r in results("cross.driver", *nodes)}
    expected = "the same on all nodes: 1 x 550.54.14 (3 of 4)"
    assert by_node["n0"] == (Status.PASS, "1 x 550.54.14", expected)
    assert by_node["n3"] == (Status.FAIL, "1 x 535.161.08", expected)


def test_the_row_that_is_not_well_is_what_is_shown() -> None:
    head = (
        "index, name, ecc.errors.uncorrected.volatile.total, pcie.link.width.current,"
        " pcie.link.width.max\n"
    )
    rows = ["0, NVIDIA H100, 0, 16, 16\n", "1, NVIDIA H100, 3, 16, 16\n"]
    table = head + "".join(rows) + "2, NVIDIA H100, 0, 8, 16\n"

    def shown(check_id: str, **sections: str) -> tuple[int | None, str]:
        (result,) = results(check_id, answer(**sections))
        assert result.evidence is not None
        return result.evidence.line_no, result.evidence.text

    assert shown("gpu.ecc", gpu_query=table) == (3, rows[1].strip())
    assert shown("gpu.pcie_link", gpu_query=table) == (4, "2, NVIDIA H100, 0, 8, 16")
    assert shown("gpu.mig", gpu_query=table)[0] == 1, "what is well is shown by the table"
    quality = (
        "== {}\nDCBX mode: OS controlled\nPriority trust state: dscp\nPFC configuration:\n"
        "\tpriority    0   1   2   3   4   5   6   7\n\tenabled     0   0   0   {}   0   0   0   0\n"
    )
    settings = quality.format("ens1np0", 1) + quality.format("ens2np0", 0)
    line_no, text = shown("eth.qos", mlnx_qos=settings)
    assert (line_no, text.split()) == (12, ["enabled", *"00000000"])
    assert verdict("eth.qos", mlnx_qos=settings)[1].endswith(": ens2np0")


def test_a_node_that_lacks_a_part_differs_in_the_count_alone() -> None:
    rows = [f"{i}, NVIDIA H100, 550.1, 96\n" for i in range(8)]
    nodes = [answer(f"n{i}", gpu_query=HEAD + "".join(rows)) for i in range(3)]
    nodes.append(answer("n3", gpu_query=HEAD + "".join(rows[:7])))
    odd = [*rows[:6], "6, NVIDIA H100, 535.1, 96\n"]
    nodes.append(answer("n4", gpu_query=HEAD + "".join(odd)))

    def of(check_id: str) -> dict[str, Status]:
        return {r.node: r.status for r in results(check_id, *nodes)}

    assert of("cross.driver")["n3"] is Status.PASS, "the version is the others'"
    assert of("cross.gpu_model")["n3"] is Status.FAIL, "which compares how many there are, too"
    assert of("cross.driver")["n4"] is Status.FAIL, "a version of its own is none of the others'"


def test_without_a_majority_nobody_is_called_right() -> None:
    nodes = [answer(f"n{i}", gpu_query=HEAD + f"0, NVIDIA H100, 55{i}.1, 96\n") for i in range(2)]
    assert [(r.status, r.expected) for r in results("cross.driver", *nodes)] == [
        (Status.FAIL, "the same on all nodes (no majority)")
    ] * 2
    (finding,) = check_findings(results("cross.driver", *nodes))
    assert (finding.where, finding.confidence) == (("n0", "n1"), Confidence.POSSIBLE)
    assert finding.title == "cross.driver: 1 x 550.1 on n0; 1 x 551.1 on n1"


def test_with_a_majority_the_odd_node_is_named() -> None:
    nodes = [answer(f"n{i}", gpu_query=HEAD + "0, NVIDIA H100, 550.1, 96\n") for i in range(2)]
    nodes.append(answer("n2", gpu_query=HEAD + "0, NVIDIA H100, 551.1, 96\n"))
    (finding,) = check_findings(results("cross.driver", *nodes))
    assert (finding.where, finding.confidence) == (("n2",), Confidence.CERTAIN)


def test_a_node_that_does_not_say_is_unknown_among_those_that_do() -> None:
    nodes = [answer(f"n{i}", gpu_query=HEAD + "0, NVIDIA H100, 550.1, 96\n") for i in range(2)]
    nodes.append(answer("n2", gpu_query=("", "sh: 1: nvidia-smi: not found\n", 127)))
    by_node = {r.node: (r.status, r.reason) for r in results("cross.driver", *nodes)}
    assert by_node["n2"] == (Status.UNKNOWN, "the node did not report it")


def test_one_node_alone_is_not_compared() -> None:
    (result,) = results("cross.driver", answer(gpu_query=HEAD + "0, NVIDIA H100, 550.1, 96\n"))
    assert (result.status, result.reason) == (
        Status.SKIPPED,
        "fewer than two nodes report it: nothing to compare",
    )


def test_every_family_gives_a_result_for_each_of_its_checks_whatever_a_node_printed() -> None:
    for family in families():
        rulers: tuple[CheckFamily, ...] = (family,)
        for text in ("", "garbage\x00\n", "== \n", "GPU 0: x\n"):
            sections = {s.name: text for f in families() for s in f.sections}
            texts = {
                r.check_id
                for r in frame.judge(rulers, (answer(**sections),), Policy("t", family.ids, ()))
            }
            assert texts >= set(family.ids) - {"cross.mpi"}, family.name


def test_the_page_of_checks_is_current() -> None:
    generated = subprocess.run(
        [sys.executable, ROOT / "docs" / "tools" / "checks_page.py"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    assert page == generated, "python docs/tools/checks_page.py > docs/checks.md"


def test_every_check_is_declared_once() -> None:
    ids = [check.id for family in families() for check in family.checks]
    assert sorted(set(ids)) == sorted(ids)


def test_sections_have_one_name_each_and_ask_after_one_that_exists_before_them() -> None:
    names = [section.name for family in families() for section in family.sections]
    assert len(names) == len(set(names))
    for family in families():
        for section in family.sections:
            assert section.after == "" or names.index(section.after) < names.index(section.name), (
                section
            )


LOADED_BY_NAME = {
    "connect",
    "counters",
    "gpu_vendor",
    "lease",
    "listen",
    "login",
    "nccl",
    "pingpong",
    "prologue",
    "python",
    "rails",
}


def test_every_program_is_run_by_a_section_or_loaded_by_name() -> None:
    folder = ROOT / "harness" / "checks"
    files = {path.stem for path in (*folder.glob("sh/*.sh"), *folder.glob("py/*.py"))}
    every = (*families(), LOCAL, gpu_bench.family(None))
    sections = [section for family in every for section in family.sections]
    programs = {section.name for section in sections if not section.command}
    assert files - LOADED_BY_NAME == programs


def test_a_shorter_limit_shortens_every_section() -> None:
    text = script.build(families(), "run-1", 4.0, at_most_s=2).stdin.decode()
    assert "ask nvidia_smi_list 2 " in text
    assert "ask disks 2 " in text
