"""Invented hardware without a lab: personas, what nodes get from them, what the shims print, how
faults change it."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import os
import subprocess
from pathlib import Path

import pytest

from busbw.cli import lab
from busbw.errors import LabError, UsageError
from busbw.lab import (
    file_tree,
    node_hardware,
    pci_config,
    persona,
    persona_faults,
    persona_files,
    persona_sysfs,
    persona_tools,
)
from busbw.lab.file_tree import Entry, replace_tree, write_tree
from busbw.lab.node_hardware import NodeHardware
from busbw.lab.state import Fault
from busbw.parsers.tools import (
    amd_smi,
    gids,
    ibverbs,
    mlnx_qos,
    nvidia_smi,
    nvidia_smi_details,
    nvidia_smi_nvlink,
    nvidia_smi_query,
    nvidia_smi_topology,
    ofed,
)

H100 = persona.load("h100")
TOOL = Path(persona_files.__file__).parent / "scripts/tool.sh"


def answer(node: NodeHardware, path: str) -> str:
    """The composed text of one question."""
    (answer_bytes,) = [
        entry.content
        for entry in persona_tools.tool_entries(node)
        if entry.path == f"answers/{path}"
    ]
    return (answer_bytes or b"").decode()


def whole(name: str = "h100", number: int = 1) -> NodeHardware:
    return node_hardware.invent(persona.load(name), f"node{number}", number)


def with_fault(node: NodeHardware, kind: str, index: int | None = None) -> NodeHardware:
    return persona_faults.broken(node, (Fault(kind, node.node, "", index=index),))


def test_the_personas_of_the_issue_are_there_and_name_their_fabric() -> None:
    assert {name: persona.load(name).fabric for name in persona.names()} == {
        "a100": "infiniband",
        "b200": "infiniband",
        "ethernet": "tcp",
        "gb200": "infiniband",
        "h100": "infiniband",
        "h100-roce": "rocev2",
        "h200": "infiniband",
        "mi300x": "rocev2",
        "mi325x": "thor2",
        "mi355x": "pollara",
    }


def test_an_unknown_persona_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        persona.load("mi999")
    assert caught.value.lines() == (
        "error: unknown persona 'mi999'; known: a100, b200, ethernet, gb200, h100, h100-roce, h200,"
        " mi300x, mi325x, mi355x",
        "next: docs/lab.md says what each shows; one of your own is a YAML file",
    )


def test_the_help_names_every_persona() -> None:
    parser = argparse.ArgumentParser()
    lab.register(parser)
    with pytest.raises(SystemExit), contextlib.redirect_stdout(io.StringIO()) as output:
        parser.parse_args(["up", "--help"])
    assert [name for name in persona.names() if name not in output.getvalue()] == []


def test_a_persona_of_ones_own_is_read_from_a_file_and_every_problem_is_reported(
    tmp_path: Path,
) -> None:
    text = (Path(persona.__file__).parent / "personas/ethernet.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert persona.load(str(path)) == dataclasses.replace(persona.load("ethernet"), name="mine")
    path.write_text(
        text.replace('"0000:41:00.0", "0000:81:00.0"', '"0000:01:00.0", "81"').replace(
            "fabric: tcp", "fabric: tpc"
        )
    )
    with pytest.raises(LabError) as caught:
        persona.load(str(path))
    message = "\n".join(caught.value.lines())
    assert "0000:01:00.0 is taken by another device" in message
    assert "expected an address such as 0000:1b:00.0, found '81'" in message
    assert "unknown fabric profile 'tpc'; did you mean 'tcp'?" in message


def test_nodes_of_a_persona_differ_in_what_is_unique_and_in_nothing_else() -> None:
    one, two = whole(number=1), whole(number=2)
    unique = {
        *(gpu.uuid for node in (one, two) for gpu in node.gpus),
        *(gpu.serial for node in (one, two) for gpu in node.gpus),
        *(adapter.guid for node in (one, two) for adapter in node.adapters),
    }
    assert len(unique) == 2 * 8 * 3
    assert len({adapter.lid for node in (one, two) for adapter in node.adapters}) == 16
    assert [gpu.address for gpu in one.gpus] == [gpu.address for gpu in two.gpus]
    assert whole(number=1) == one


NVIDIA = [name for name in persona.names() if not persona.load(name).gpus.is_amd]
AMD = [name for name in persona.names() if persona.load(name).gpus.is_amd]


@pytest.mark.parametrize("name", NVIDIA)
def test_every_text_of_nvidia_smi_is_read_by_the_parsers_and_agrees_with_the_record(
    name: str,
) -> None:
    node = whole(name)
    kind = node.persona.gpus
    table = nvidia_smi.parse_table(answer(node, "nvidia-smi/plain"))
    assert table is not None
    assert (table.driver, table.cuda, table.processes) == (node.driver, node.persona.cuda, ())
    assert [
        (g.index, g.model, g.power_cap_w, g.memory_total_mib, g.persistence, g.mig)
        for g in table.gpus
    ] == [(gpu.index, kind.model, kind.power_w, kind.memory_mib, True, False) for gpu in node.gpus]
    assert [(g.model, g.uuid) for g in nvidia_smi.parse_list(answer(node, "nvidia-smi/-L"))] == [
        (kind.model, g.uuid) for g in node.gpus
    ]
    fabric = ("Completed", "Success") if kind.nvswitch else (None, None)
    details = nvidia_smi_details.parse(answer(node, "nvidia-smi/-q"))
    assert [(d.bus_id, d.fabric_state, d.fabric_status) for d in details] == [
        (gpu.bus_id, *fabric) for gpu in node.gpus
    ]
    assert all((d.headroom_c or (d.slowdown_c or 0) - (d.temperature_c or 0)) > 40 for d in details)
    links = nvidia_smi_nvlink.parse(answer(node, "nvidia-smi/nvlink_-s"))
    assert [len(gpu.rates_gb_s) for gpu in links] == (
        [kind.nvlinks] * len(node.gpus) if kind.nvlinks else []
    )
    matrix = nvidia_smi_topology.parse(answer(node, "nvidia-smi/topo_-m"))
    assert matrix is not None
    assert (len(matrix.gpus), len(matrix.nics), len(matrix.rows)) == (
        len(node.gpus),
        len(node.adapters),
        len(node.gpus),
    )
    assert [row.nics_at("PIX") for row in matrix.rows] == [
        (f"NIC{i}",) if node.adapters else () for i in range(len(node.gpus))
    ]
    counted = nvidia_smi_details.parse_performance(answer(node, "nvidia-smi/-q_-d_PERFORMANCE,ECC"))
    assert {(one.counter, one.value) for one in counted if one.index == 0} >= {
        ("throttle_hw_thermal_us", 0),
        ("ecc_uncorrected_volatile", 0),
    }


@pytest.mark.parametrize("name", AMD)
def test_every_text_of_amd_smi_is_read_by_the_parsers_and_agrees_with_the_record(name: str) -> None:
    node = whole(name)
    kind = node.persona.gpus
    static = "static_--asic_--bus_--vbios_--limit_--driver_--numa_--json"
    metric = "metric_--power_--temperature_--ecc_--pcie_--mem-usage_--usage_--throttle_--json"
    texts = answer(node, f"amd-smi/{static}") + answer(node, f"amd-smi/{metric}")
    assert [
        (g.model, g.bus_id, g.target, g.partition, g.power_limit_w, g.width, g.ecc_uncorrected)
        for g in amd_smi.parse(texts)
    ] == [(kind.model, gpu.address, kind.target, "SPX", kind.power_w, 16, 0) for gpu in node.gpus]
    listed = amd_smi.parse(answer(node, "amd-smi/list_--json"))
    assert [f"GPU-{g.uuid}" for g in listed] == [gpu.uuid for gpu in node.gpus]
    links = amd_smi.parse_xgmi(answer(node, "amd-smi/xgmi_--link-status_--json"))
    assert [(g.states.count("U"), g.down) for g in links] == [(kind.xgmi_links, ())] * 8
    rates = amd_smi.parse_xgmi(answer(node, "amd-smi/xgmi_--metric_--json"))
    assert {(g.rate_gbit_s, g.link_type) for g in rates} == {(kind.xgmi_gbit_s, "XGMI")}
    assert amd_smi.parse_processes(answer(node, "amd-smi/process_--json")) == ()
    assert {
        (p.pending, p.retired)
        for p in amd_smi.parse_pages(answer(node, "amd-smi/bad-pages_--json"))
    } == {(0, 0)}


def test_the_trays_of_a_rack_share_their_nvlink_domain_and_those_of_another_do_not() -> None:
    trays = [
        node_hardware.invent(persona.load("gb200"), f"node{number}", number, rack)
        for number, rack in ((1, "leaf1"), (2, "leaf1"), (3, "leaf2"))
    ]
    cliques = [
        {gpu.fabric_clique for gpu in nvidia_smi_details.parse(answer(tray, "nvidia-smi/-q"))}
        for tray in trays
    ]
    assert [len(each) for each in cliques] == [1, 1, 1]
    assert cliques[0] == cliques[1] != cliques[2]
    outside = with_fault(trays[0], "domain-missing")
    assert {
        (gpu.fabric_clique, gpu.fabric_status)
        for gpu in nvidia_smi_details.parse(answer(outside, "nvidia-smi/-q"))
    } == {("", "Insufficient Resources")}


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("mi300x", ("mlx5_0", "sys/module/mlx5_core/version")),
        ("mi325x", ("bnxt_re0", "sys/module/bnxt_re/version")),
        ("mi355x", ("ionic_0", "sys/module/ionic/version")),
    ],
)
def test_adapters_have_the_names_of_their_driver(name: str, devices: tuple[str, str]) -> None:
    node = whole(name)
    assert node.adapters[0].name == devices[0]
    assert devices[1] in {entry.path for entry in persona_sysfs.sysfs_entries(node)}


@pytest.mark.parametrize("name", ["a100", "b200", "h100", "h100-roce", "h200", "gb200", "mi300x"])
def test_every_text_of_the_adapters_tools_agrees_with_the_record(name: str) -> None:
    node = whole(name)
    described = ibverbs.parse_devinfo(answer(node, "ibv_devinfo/plain"))
    layer = "Ethernet" if node.persona.fabric == "rocev2" else "InfiniBand"
    assert [
        (
            d.name,
            d.firmware,
            d.node_guid,
            d.ports[0].state,
            d.ports[0].active_mtu,
            d.ports[0].link_layer,
        )
        for d in described
    ] == [(a.name, a.firmware, a.guid, "PORT_ACTIVE", 4096, layer) for a in node.adapters]
    release = ofed.parse_release(answer(node, "ofed_info/-s"))
    assert release is not None
    assert release.name == node.ofed
    if layer == "Ethernet":
        listed = gids.parse(answer(node, "show_gids/any"))
        assert [(g.device, g.index, g.ipv4, g.netdev) for g in listed if g.routable] == [
            (a.name, 3, a.ipv4, a.netdev) for a in node.adapters
        ]
        qos = mlnx_qos.parse(answer(node, f"mlnx_qos/-i_{node.adapters[0].netdev}"))
        assert qos is not None
        assert (qos.trust, qos.pfc_priorities, dict(qos.dscp_priorities)[26]) == ("dscp", (3,), 3)


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """nvidia-smi of a node, its answers in a directory of the test."""
    write_tree(
        tmp_path / "hardware", persona_tools.tool_entries(with_fault(whole(), "gpu-lost", 2))
    )
    (tmp_path / "nvidia-smi").write_text(TOOL.read_text().replace("/run/node", str(tmp_path)))
    (tmp_path / "nvidia-smi").chmod(0o755)
    (tmp_path / "systemctl").symlink_to("nvidia-smi")
    return tmp_path


def run(program: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        (str(program), *words), capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_the_shim_answers_any_choice_of_fields_in_the_formats_of_the_real_one(shim: Path) -> None:
    fields = "index,name,power.limit,clocks.sm"
    status, out, _ = run(shim / "nvidia-smi", f"--query-gpu={fields}", "--format=csv,nounits")
    rows = nvidia_smi_query.parse(out)
    assert rows is not None
    assert (status, out.splitlines()[0]) == (0, "index, name, power.limit [W], clocks.sm [MHz]")
    assert [row.broken for row in rows] == [False, False, True, False, False, False, False, False]
    assert rows[0].number("power.limit") == 700
    last = run(shim / "nvidia-smi", "--format=csv,noheader", "--query-gpu=index,power.limit")[
        1
    ].splitlines()[7]
    assert last == "7, 700.00 W"


def test_the_shim_refuses_what_the_real_one_refuses_and_says_what_it_cannot(shim: Path) -> None:
    smi = shim / "nvidia-smi"
    assert run(smi, "--query-gpu=index,nonsense", "--format=csv") == (
        2,
        'Field "nonsense" is not a valid field to query.\n\n',
        "",
    )
    assert run(smi, "--query-gpu=index")[0] == 2
    assert run(smi, "-r") == (
        2,
        "",
        "nvidia-smi: the lab has composed no answer to this command line\n",
    )
    assert run(shim / "systemctl", "is-active", "nvidia-fabricmanager", "ufw.service") == (
        0,
        "active\ninactive\n",
        "",
    )
    assert run(shim / "systemctl", "is-active", "ufw") == (3, "inactive\n", "")


def test_a_fault_changes_its_device_alone_and_every_tool_tells_of_it() -> None:
    down = with_fault(whole(), "port-down", 3)
    assert [adapter.state for adapter in down.adapters] == ["ACTIVE"] * 3 + ["DOWN"] + [
        "ACTIVE"
    ] * 4
    assert (
        ibverbs.parse_devinfo(answer(down, "ibv_devinfo/-d_mlx5_3"))[0].ports[0].state
        == "PORT_DOWN"
    )
    files = {entry.path: entry.content for entry in persona_sysfs.sysfs_entries(down)}
    assert files["sys/class/infiniband/mlx5_3/ports/1/state"] == b"1: DOWN\n"
    missing = with_fault(whole(), "gpu-missing", 2)
    assert [(gpu.index, gpu.address) for gpu in missing.gpus][1:3] == [
        (1, H100.gpu_addresses[1]),
        (2, H100.gpu_addresses[3]),
    ]
    matrix = nvidia_smi_topology.parse(answer(missing, "nvidia-smi/topo_-m"))
    assert matrix is not None
    assert matrix.rows[2].nics_at("PIX") == ("NIC3",), (
        "a GPU keeps its NIC when one before it is gone"
    )


def test_a_switched_tree_equals_one_written_anew_and_counters_stay(tmp_path: Path) -> None:
    def tree(root: Path) -> dict[str, object]:
        return {
            str(path.relative_to(root)): (
                os.readlink(path)
                if path.is_symlink()
                else path.read_bytes()
                if path.is_file()
                else None
            )
            for path in sorted(root.rglob("*"))
            if not path.is_char_device()
        }

    good = (*persona_sysfs.sysfs_entries(whole()), *persona_tools.tool_entries(whole()))
    bad = with_fault(with_fault(whole(), "hca-missing", 3), "half-rate", 0)
    broken = (*persona_sysfs.sysfs_entries(bad), *persona_tools.tool_entries(bad))
    write_tree(tmp_path / "a", good)
    count = tmp_path / "a/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error"
    count.write_text("77\n")
    replace_tree(tmp_path / "a", good, broken)
    assert count.read_text() == "77\n"
    assert not (tmp_path / "a/sys/class/infiniband/mlx5_3").exists()
    count.write_text("0\n")
    write_tree(tmp_path / "b", broken)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    replace_tree(tmp_path / "a", broken, good)
    replace_tree(tmp_path / "c", (), good)
    assert tree(tmp_path / "a") == tree(tmp_path / "c")


def test_a_directory_that_is_listed_outlives_what_was_in_it(tmp_path: Path) -> None:
    full = (Entry("dev"), file_tree.text("dev/a", 1), file_tree.text("other/b", 2))
    replace_tree(tmp_path, (), full)
    number = (tmp_path / "dev").stat().st_ino
    replace_tree(tmp_path, full, (Entry("dev"),))
    assert ((tmp_path / "dev").stat().st_ino, list(tmp_path.iterdir())) == (
        number,
        [tmp_path / "dev"],
    )


@pytest.mark.parametrize(
    ("persona_name", "kind", "why"),
    [
        ("b200", "peermem-missing", "with the open kernel modules dma-buf takes its place"),
        ("ethernet", "port-down", "it has no RDMA adapter"),
        ("ethernet", "nvlink-down", "its GPUs have no NVLink"),
        ("h100", "gid-missing", "it has no RoCE adapter"),
        ("h100-roce", "sm-missing", "it has no InfiniBand adapter"),
    ],
)
def test_hardware_that_cannot_have_a_fault_says_why(persona_name: str, kind: str, why: str) -> None:
    (fault,) = [fault for fault in persona_faults.FAULTS if fault.kind == kind]
    assert fault.impossible(persona.load(persona_name)) == why


@pytest.mark.parametrize("kind", [fault.kind for fault in persona_faults.FAULTS])
def test_every_fault_changes_some_hardware_and_can_be_seen(kind: str) -> None:
    (fault,) = [fault for fault in persona_faults.FAULTS if fault.kind == kind]
    able = [name for name in persona.names() if not fault.impossible(persona.load(name))]
    assert able
    for name in able:
        node = whole(name)
        broken = with_fault(node, kind, 1)
        assert broken != node
    # One persona stands for all: drawing the files of a node takes some ms.
    assert persona_tools.programs(broken, devices=True) == persona_tools.programs(
        node, devices=True
    )
    assert (*persona_sysfs.sysfs_entries(broken), *persona_tools.tool_entries(broken)) != (
        *persona_sysfs.sysfs_entries(node),
        *persona_tools.tool_entries(node),
    )


def test_configuration_space_has_its_fields_where_pci_express_puts_them() -> None:
    space = pci_config.endpoint(
        0x15B3, 0x1021, 0x020700, 5, 8, read_request_bytes=512, relaxed=False
    )
    express = space[0x34]
    assert (space[:4], space[9:12], space[0x0E]) == (b"\xb3\x15\x21\x10", b"\x00\x07\x02", 0)
    assert (space[express], space[express + 0x12] | space[express + 0x13] << 8) == (
        0x10,
        5 | 8 << 4,
    )
    control = space[express + 8] | space[express + 9] << 8
    assert (control >> 12 & 7, control >> 4 & 1) == (2, 0)
    bridge = pci_config.bridge(0x1B, 5, 16, acs=True)
    assert (bridge[0x18:0x1B], bridge[0x100:0x102], bridge[0x106] & 1) == (
        b"\x1a\x1b\x1b",
        b"\x0d\x00",
        1,
    )
