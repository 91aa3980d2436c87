"""Nodes with AMD's GPUs, and the trays of an NVL72: what the checks say of them. All texts are
composed by the lab's personas after public facts; no such machine was at hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from busbw.checks import NodeAnswer, Policy, SectionOutput, frame
from busbw.checks.frame import families
from busbw.checks.software import facts
from busbw.cli.check_text import check_lines
from busbw.lab import node_hardware, persona, persona_faults, persona_tools
from busbw.lab.node_hardware import NodeHardware
from busbw.lab.state import Fault
from busbw.model import CheckResult, Node, Status
from busbw.parsers import verdict
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.gpu_words import Gpus, gpus_of
from busbw.parsers.tools import amd_smi, gpus, read
from busbw.run.checking import CheckReport

ALL = Policy("t", ("*",), ())
STATIC = "static_--asic_--bus_--vbios_--limit_--driver_--numa_--json"
METRIC = "metric_--power_--temperature_--ecc_--pcie_--mem-usage_--usage_--throttle_--json"
SOFTWARE = "rocm=6.3.0\ndriver=6.10.5\nkernel=5.15.0-164-generic\n"


def hardware(name: str, number: int = 1, rack: str = "leaf1", *faults: str) -> NodeHardware:
    node = node_hardware.invent(persona.load(name), f"node{number}", number, rack)
    return persona_faults.broken(node, [Fault(kind, node.node, "", index=7) for kind in faults])


def texts(node: NodeHardware) -> dict[str, str]:
    return {
        entry.path.removeprefix("answers/"): (entry.content or b"").decode()
        for entry in persona_tools.tool_entries(node)
    }


def answer(node: NodeHardware, **more: str) -> NodeAnswer:
    """What such a node answers."""
    said = texts(node)
    if node.persona.gpus.is_amd:
        smi = {name.removeprefix("amd-smi/"): text for name, text in said.items()}
        sections = {
            "nvidia_smi_list": smi["list_--json"],
            "gpu_query": smi[STATIC] + smi[METRIC],
            "gpu_remap": smi["bad-pages_--json"],
            "gpu_apps": smi["process_--json"],
            "amd_xgmi": smi["xgmi_--link-status_--json"],
            "amd_software": SOFTWARE + "peer=/sys/kernel/mm/memory_peers/amdkfd\n",
            "nccl_library": f"nccl /opt/rocm/lib/librccl.so.{node.rccl}\n",
        }
    else:
        sections = {
            "gpu_details": said["nvidia-smi/-q"],
            "gpu_query": "index, name\n" + "".join(f"{i}, NVIDIA GB200\n" for i in range(4)),
            "imex": said["nvidia-imex-ctl/-N"],
            "services": "inactive\n",
        }
    outputs = {
        name: SectionOutput(name, text, "", 0, 1) for name, text in {**sections, **more}.items()
    }
    return NodeAnswer(
        Node(node.node, gpus=len(node.persona.gpu_addresses)), outputs, "raw/x.txt", None
    )


def results(*answers: NodeAnswer) -> Mapping[tuple[str, str], CheckResult]:
    judged = frame.judge(families(), answers, ALL)
    return {(r.node, r.check_id): r for r in judged}


def seen(check_id: str, *answers: NodeAnswer) -> tuple[Status, str]:
    result = results(*answers)[answers[0].node.name, check_id]
    return result.status, result.seen


@pytest.mark.parametrize("name", ["mi300x", "mi325x", "mi355x"])
def test_a_whole_node_passes_and_every_command_is_of_amds_tools(name: str) -> None:
    judged = results(answer(hardware(name)))
    model = persona.load(name).gpus.model
    assert judged["node1", "gpu.count"].seen == f"8 x {model}"
    wanted = [
        "gpu.count",
        "gpu.driver",
        "gpu.mig",
        "gpu.ecc",
        "gpu.power",
        "gpu.pcie_link",
        "gpu.throttle",
        "gpu.temp",
        "gpu.remap",
        "gpu.procs",
        "gpu.xgmi",
        "gpu.peermem",
    ]
    assert {judged["node1", each].status for each in wanted} == {Status.PASS}
    assert [each for each in wanted if "nvidia" in judged["node1", each].command] == []
    skipped = (
        "gpu.nvlink_status gpu.fabric_state gpu.fabricmanager gpu.imex gpu.persistence sw.cuda"
    )
    assert {judged["node1", each].status for each in skipped.split()} == {Status.SKIPPED}


@pytest.mark.parametrize(
    ("fault", "check_id", "status", "text"),
    [
        ("gpu-missing", "gpu.count", Status.FAIL, "7 x AMD Instinct MI300X"),
        ("gpu-lost", "gpu.count", Status.FAIL, "7 x AMD Instinct MI300X"),
        ("partitioned", "gpu.mig", Status.FAIL, "GPUs in parts: CPX"),
        ("ecc-errors", "gpu.ecc", Status.FAIL, "uncorrected errors: GPU 7: 3"),
        ("power-capped", "gpu.power", Status.WARN, "lower: GPU 7: 375 of 750 W"),
        ("pcie-narrow", "gpu.pcie_link", Status.FAIL, "GPU 7: x8 of x16"),
        ("clocks-throttled", "gpu.throttle", Status.FAIL, "GPU 7: socket thermal"),
        ("gpu-hot", "gpu.temp", Status.WARN, "too close: GPU 7"),
        ("rows-pending", "gpu.remap", Status.FAIL, "GPU 7: 1 until the driver is loaded again"),
        ("gpu-busy", "gpu.procs", Status.WARN, "in use by 1 processes"),
        ("xgmi-down", "gpu.xgmi", Status.FAIL, "down: GPU 7 link 2"),
        ("rccl-odd", "sw.rocm", Status.WARN, "ROCm 6.3.0, librccl.so.1.0.60201"),
    ],
)
def test_each_fault_of_an_amd_node_is_found_by_its_check(
    fault: str, check_id: str, status: Status, text: str
) -> None:
    assert seen(check_id, answer(hardware("mi300x", 1, "leaf1", fault))) == (status, text)


def test_a_node_with_another_rccl_differs_from_the_others() -> None:
    odd = answer(hardware("mi300x", 1, "leaf1", "rccl-odd"))
    others = [answer(hardware("mi300x", number)) for number in (2, 3)]
    assert seen("cross.nccl_version", odd, *others) == (Status.FAIL, "RCCL 1.0.60201")
    result = results(odd, *others)["node1", "cross.gpu_model"]
    assert (result.status, result.command) == (Status.PASS, "amd-smi static --asic")


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("kernel=5.15.0\npeer=/sys/kernel/mm/memory_peers/amdkfd\n", Status.PASS, "memory_peers"),
        (
            "kernel=6.8.0\noption=CONFIG_DMABUF_MOVE_NOTIFY\noption=CONFIG_PCI_P2PDMA\nconfig=1\n",
            Status.PASS,
            "RCCL takes it by itself",
        ),
        (
            "kernel=5.15.0\noption=CONFIG_DMABUF_MOVE_NOTIFY\noption=CONFIG_PCI_P2PDMA\nconfig=1\n",
            Status.PASS,
            "NCCL_DMABUF_ENABLE=1",
        ),
        ("kernel=6.8.0\noption=CONFIG_PCI_P2PDMA\nconfig=1\n", Status.FAIL, "DMABUF_MOVE_NOTIFY"),
        ("kernel=6.8.0\n", Status.UNKNOWN, "not shown"),
        ("kernel=6.8.0\nrdma=none\n", Status.SKIPPED, "no RDMA device"),
    ],
)
def test_the_ways_of_gpudirect_rdma_on_amd(text: str, status: Status, words: str) -> None:
    result = seen("gpu.peermem", answer(hardware("mi300x"), amd_software="rocm=6.3.0\n" + text))
    assert (result[0], words in result[1]) == (status, True)


def test_a_release_without_link_states_is_judged_by_type_and_rate() -> None:
    metric = texts(hardware("mi300x"))["amd-smi/xgmi_--metric_--json"]
    assert seen("gpu.xgmi", answer(hardware("mi300x"), amd_xgmi=metric)) == (
        Status.PASS,
        "8 GPUs over XGMI at 32 Gb/s a lane",
    )
    over_pcie = metric.replace('"link_type": "XGMI"', '"link_type": "PCIE"', 1)
    assert seen("gpu.xgmi", answer(hardware("mi300x"), amd_xgmi=over_pcie)) == (
        Status.FAIL,
        "not over XGMI: GPU 0: PCIE",
    )


def test_ranks_and_rows_come_from_amd_smi_too() -> None:
    node = answer(hardware("mi325x"))
    assert facts(node).gpus == 8
    rows = gpus.rows(node.sections["gpu_query"].stdout)
    assert rows is not None
    assert [row.text("name") for row in rows] == ["AMD Instinct MI325X"] * 8
    assert gpus.process_ids(node.sections["gpu_apps"].stdout) == ()


def test_what_is_cut_off_or_no_json_is_never_taken_for_a_node_without_gpus() -> None:
    whole = texts(hardware("mi300x"))["amd-smi/list_--json"]
    assert len(amd_smi.parse(whole[: len(whole) // 2])) == 4
    assert amd_smi.parse("[{") == ()
    broken = answer(hardware("mi300x"), nvidia_smi_list="[]\n")
    assert seen("gpu.count", broken)[0] is Status.FAIL


def test_rocm_smi_is_read_where_amd_smi_is_not_there() -> None:
    text = (
        '{"card0": {"Card Series": "AMD Instinct MI300X", "VBIOS version": "113-M3000100-102",'
        ' "PCI Bus": "0000:0C:00.0", "Max Graphics Package Power (W)": "750.0"},'
        ' "system": {"Driver version": "6.7.0"}}'
    )
    (gpu,) = amd_smi.parse(text)
    assert (gpu.model, gpu.driver, gpu.power_limit_w) == ("AMD Instinct MI300X", "6.7.0", 750.0)


def test_read_says_which_links_are_down() -> None:
    text = texts(hardware("mi300x", 1, "leaf1", "xgmi-down"))["amd-smi/xgmi_--link-status_--json"]
    (reading,) = read(text)
    assert (reading.tool, reading.errors) == (
        "amd-smi xgmi",
        ("GPU 7 0000:df:00.0: 6 XGMI links up, down: 2",),
    )


def trays(*faults: str) -> list[NodeAnswer]:
    """Two racks of two trays; the first tray has the faults."""
    made = [hardware("gb200", 1, "rack1", *faults)]
    made += [hardware("gb200", n, f"rack{1 + (n > 2)}") for n in (2, 3, 4)]
    members = {1: (1, 2), 2: (1, 2), 3: (3, 4), 4: (3, 4)}
    imex = {
        number: "".join(
            f"Node #{i}   * 10.77.0.{each} *   - READY        - Version: 570.133.20\n"
            for i, each in enumerate(pair)
        )
        + "Domain State: UP\n"
        for number, pair in members.items()
    }
    return [answer(node, imex=imex[int(node.node[4:])]) for node in made]


def test_trays_of_two_racks_are_in_the_domain_of_their_rack() -> None:
    judged = results(*trays())
    assert {judged[f"node{n}", "cross.nvlink_domain"].seen for n in range(1, 5)} == {
        "one of 2 nodes"
    }
    assert judged["node1", "gpu.imex"].status is Status.PASS
    assert judged["node1", "gpu.fabricmanager"].status is Status.SKIPPED


def test_a_tray_outside_the_domain_of_its_rack_is_named() -> None:
    judged = results(*trays("domain-missing"))
    assert judged["node1", "cross.nvlink_domain"].status is Status.FAIL
    assert judged["node1", "gpu.fabric_state"].seen.startswith(
        "GPU 0, 1, 2, 3: Completed / Insufficient Resources"
    )
    assert judged["node3", "cross.nvlink_domain"].status is Status.PASS
    assert judged["node2", "cross.nvlink_domain"].seen == (
        "alone in its NVLink domain; node1 in no domain"
    )
    for check_id, shown in (
        ("cross.nvlink_domain", "ClusterUUID"),
        ("gpu.fabric_state", "Insufficient Resources"),
    ):
        assert shown in said(judged["node1", check_id])


def said(check: CheckResult) -> str:
    """The line that shows what is wrong, not the head of the text."""
    assert check.evidence is not None
    return check.evidence.text


def test_a_tray_in_the_domain_of_another_rack_is_named() -> None:
    answers = trays()
    labelled = [
        NodeAnswer(
            Node(each.node.name, labels=(("rack", "r1"),)), each.sections, each.artefact, None
        )
        for each in [answers[0], answers[1], answers[2]]
    ]
    judged = results(*labelled)
    status = [judged[f"node{n}", "cross.nvlink_domain"].status for n in (1, 2, 3)]
    assert status == [Status.PASS, Status.PASS, Status.FAIL]


def test_imex_that_joins_fewer_nodes_than_nvlink_is_named() -> None:
    answers = trays()
    alone = "Node #0 * 10.77.0.1 * - READY - Version: 570\nDomain State: UP\n"
    first = answer(hardware("gb200", 1, "rack1"), imex=alone)
    assert seen("cross.nvlink_domain", first, *answers[1:]) == (
        Status.FAIL,
        "IMEX joins 1 of its 2 nodes",
    )


@pytest.mark.parametrize(
    ("health", "status"),
    [
        ("Healthy", Status.PASS),
        ("Not Supported", Status.PASS),
        ("Limited Capacity", Status.WARN),
        ("Unhealthy", Status.FAIL),
    ],
)
def test_the_health_of_the_fabric_is_judged(health: str, status: Status) -> None:
    details = texts(hardware("gb200"))["nvidia-smi/-q"].replace("Healthy", health, 1)
    assert seen("gpu.fabric_state", answer(hardware("gb200"), gpu_details=details))[0] is status


NOT_AMDS = ("nvidia", "mlxfw", "xid", "mig off", "cuda", "nvlink", "fabricmanager")


@pytest.mark.parametrize("fault", ["gpu-missing", "xgmi-down", "partitioned", "rccl-odd"])
def test_the_fix_on_an_amd_node_is_in_amds_words(fault: str) -> None:
    good = answer(hardware("mi300x", 2)), answer(hardware("mi300x", 3))
    judged = results(answer(hardware("mi300x", 1, "leaf1", fault)), *good)
    bad = tuple(each for each in judged.values() if each.status in (Status.FAIL, Status.WARN))
    assert bad, fault
    assert {gpus_of((each,)) for each in bad} == {Gpus.AMD}
    nodes = ("node1", "node2", "node3")
    report = CheckReport("", "r", "0", "rocev2", "", Status.FAIL, 1, "", nodes, (), bad)
    printed = [str(line) for line in check_lines(report, "runs/r")]
    steps = [step for each in verdict.check_findings(bad) for step in each.fixes]
    told = printed + [text for step in steps for text in (step.summary, *step.commands)]
    assert not [line for line in told if any(word in line.lower() for word in NOT_AMDS)], told


def test_the_steps_for_the_gpus_of_the_other_maker_are_left_out() -> None:
    commands = {
        gpus: [line for step in catalogue.fixes("gpu.mig", gpus=gpus) for line in step.commands]
        for gpus in Gpus
    }
    assert commands == {
        Gpus.NVIDIA: ["nvidia-smi -mig 0"],
        Gpus.AMD: ["amd-smi set --gpu all --compute-partition SPX"],
    }


def test_an_xgmi_link_that_is_down_is_shown_with_the_states_of_its_gpu() -> None:
    judged = results(answer(hardware("mi300x", 1, "leaf1", "xgmi-down")))
    text = said(judged["node1", "gpu.xgmi"])
    assert (text[:16], text.count('"U"'), text.count('"D"')) == ('"link_status": [', 6, 1)


def test_adapters_that_mlnx_qos_does_not_know_are_reported_as_unknown() -> None:
    hidden = "mtu - rp_filter - arp_ignore - arp_announce - ecn_np - ecn_rp -"
    others = f"rdmanet ionic_0 ens14np0 {hidden}\n"
    node = answer(hardware("mi355x"), netdevs=others)
    node.sections["mlnx_qos"] = SectionOutput("mlnx_qos", "", "sh: mlnx_qos: not found", 127, 1)
    judged = results(node)
    for check_id in ("eth.qos", "eth.ecn"):
        result = judged["node1", check_id]
        assert (result.status, "nicctl" in result.reason) == (Status.UNKNOWN, True), result
