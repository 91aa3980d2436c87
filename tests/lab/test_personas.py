"""Invented hardware in the lab: nothing fails while it is whole; each fault, one at a time, is
found by the right check on the right node.

GPUs, adapters and what the shims print are invented; `ibstat`, `ibstatus`, `ibv_devices`, `lspci`
and everything busbw does are real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from busbw.checks.counters import snapshot
from busbw.errors import LabError
from busbw.lab import enter, faults, persona, persona_faults, processes
from busbw.lab import state as states
from busbw.lab.state import LabState
from busbw.model.counters import CounterSnapshot
from busbw.parsers.tools import counters, ibstat, ibverbs

pytestmark = pytest.mark.lab

MACHINE = {"os.cgroup", "os.cpu_load", "os.dstate", "os.psi", "os.time", "ssh.cmd_time"}
"""What depends on the machine that carries the lab and on its load."""
WITHOUT_ADAPTERS = {
    f"rdma.{name}": "UNKNOWN" for name in ("gid", "mtu", "port_state", "rate", "sm")
} | {f"cross.{name}": "UNKNOWN" for name in ("active_ports", "mtu", "nic_fw", "pkey", "rate")}
INFINIBAND = {
    "gpu-missing": {
        "gpu.count": "FAIL",
        "cross.gpu_model": "FAIL",
        "cross.rail_map": "FAIL",
    },
    "gpu-lost": {
        "gpu.driver": "FAIL",
        "gpu.ecc": "UNKNOWN",
        "gpu.fabric_state": "FAIL",
        "gpu.power": "SKIPPED",
        "os.kernel_log": "FAIL",
    },
    "driver-odd": {"cross.driver": "FAIL"},
    "vbios-odd": {"cross.vbios": "WARN"},
    "persistence-off": {"gpu.persistence": "WARN"},
    "mig-on": {"gpu.mig": "FAIL"},
    "ecc-errors": {"gpu.ecc": "FAIL"},
    "rows-pending": {"gpu.remap": "FAIL"},
    "power-capped": {"gpu.power": "WARN"},
    "clocks-throttled": {"gpu.throttle": "FAIL"},
    "gpu-hot": {"gpu.temp": "WARN"},
    "gpu-busy": {"gpu.procs": "WARN"},
    "pcie-narrow": {"gpu.pcie_link": "FAIL"},
    "nvlink-down": {"gpu.nvlink_status": "FAIL"},
    "fabric-not-ready": {"gpu.fabric_state": "FAIL"},
    "fabric-manager-off": {"gpu.fabricmanager": "FAIL"},
    "xid-in-log": {"os.kernel_log": "FAIL"},
    "peermem-missing": {"gpu.peermem": "FAIL"},
    "acs-on": {"pci.acs": "WARN"},
    "max-read-small": {"pci.maxreadreq": "WARN"},
    # Only AMD's processors and virtual machines need it.
    "relaxed-off": {"pci.relaxed_ordering": "SKIPPED"},
    "bios-odd": {"cross.bios": "WARN"},
    "hca-missing": {
        "rdma.devices": "FAIL",
        "cross.active_ports": "FAIL",
        "cross.pkey": "FAIL",
        "cross.rail_map": "FAIL",
        "cross.rate": "FAIL",
        "os.numa": "WARN",
    },
    "hcas-missing": (
        WITHOUT_ADAPTERS
        | {
            "rdma.devices": "FAIL",
            "rdma.container_dev": "FAIL",
            "cross.rail_map": "UNKNOWN",
            "os.numa": "SKIPPED",
        }
        | {f"pci.{name}": "SKIPPED" for name in ("link_nic", "maxreadreq", "relaxed_ordering")}
    ),
    "rdma-unloaded": WITHOUT_ADAPTERS | {"rdma.devices": "FAIL", "rdma.container_dev": "FAIL"},
    "port-down": {
        "rdma.port_state": "FAIL",
        "cross.active_ports": "FAIL",
        "cross.pkey": "FAIL",
        "cross.rate": "FAIL",
    },
    "port-init": {
        "rdma.port_state": "FAIL",
        "cross.active_ports": "FAIL",
        "cross.pkey": "FAIL",
        "cross.rate": "FAIL",
    },
    "half-rate": {"rdma.rate": "FAIL", "cross.rate": "FAIL"},
    "mtu-small": {"rdma.mtu": "WARN", "cross.mtu": "FAIL"},
    "pkey-odd": {"cross.pkey": "FAIL"},
    "firmware-odd": {"cross.nic_fw": "WARN"},
    "nic-pcie-narrow": {"pci.link_nic": "FAIL"},
    "sm-missing": {"rdma.sm": "FAIL"},
    "ofed-odd": {"cross.ofed": "WARN"},
    "nics-crossed": {"os.numa": "WARN", "cross.rail_map": "FAIL"},
    "memlock-small": {"os.limits.memlock": "FAIL", "cross.limits": "WARN"},
}
ROCE = {
    "gid-missing": {"rdma.gid": "FAIL"},
    "pfc-off": {"eth.qos": "WARN"},
    "trust-pcp": {"eth.qos": "FAIL"},
    "port-down": {
        "rdma.port_state": "FAIL",
        "cross.active_ports": "FAIL",
        "cross.pkey": "FAIL",
        "cross.rate": "FAIL",
    },
}


AMD = {
    "gpu-missing": {
        "gpu.count": "FAIL",
        "cross.gpu_model": "FAIL",
    },
    "xgmi-down": {"gpu.xgmi": "FAIL"},
    "partitioned": {"gpu.count": "FAIL", "gpu.mig": "FAIL"},
    "rccl-odd": {"cross.nccl_version": "FAIL", "sw.rocm": "WARN"},
    "port-down": {
        "rdma.port_state": "FAIL",
        "cross.active_ports": "FAIL",
        "cross.pkey": "FAIL",
        "cross.rate": "FAIL",
    },
}
NVL72 = {
    "domain-missing": {
        "node1": {"cross.nvlink_domain": "WARN"},
        "node2": {"cross.nvlink_domain": "FAIL", "gpu.fabric_state": "FAIL"},
    },
    "imex-not-ready": {"node1": {"gpu.imex": "FAIL"}, "node2": {"gpu.imex": "FAIL"}},
    "fabric-unhealthy": {"node2": {"gpu.fabric_state": "FAIL"}},
    "nvlink-down": {"node2": {"gpu.nvlink_status": "FAIL"}},
}


@dataclass(frozen=True)
class Bench:
    """A lab, its checker, and what the checks say while nothing is broken."""

    lab: LabState
    check: Callable[[], Any]
    whole: Any

    def changed(self) -> dict[str, dict[str, str]]:
        """{node: {check: status}} of what is different from the whole lab."""
        before = {
            (check["check_id"], check["node"]): check["status"]
            for check in self.whole.report["checks"]
        }
        found: dict[str, dict[str, str]] = {}
        for check in self.check().report["checks"]:
            if (
                check["check_id"] not in MACHINE
                and before.get((check["check_id"], check["node"])) != check["status"]
            ):
                found.setdefault(check["node"], {})[check["check_id"]] = check["status"]
        return found


@pytest.fixture(scope="module")
def labs(
    needs_lab: None, make_labs: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Brings labs up for the whole module."""
    with make_labs(tmp_path_factory.mktemp("personas") / "labs") as up:
        yield up


@pytest.fixture(scope="module")
def h100(
    labs: Any, start_checker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """Four nodes of eight H100 on InfiniBand. Leave them as they were."""
    lab = labs(nodes=4, name="h100", persona=persona.load("h100"))
    with start_checker(lab, tmp_path_factory.mktemp("h100")) as check:
        yield Bench(lab, check, check())


@pytest.fixture(scope="module")
def roce(
    labs: Any, start_checker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """Three nodes of eight H100 on RoCE. Leave them as they were."""
    lab = labs(nodes=3, name="roce", persona=persona.load("h100-roce"))
    with start_checker(lab, tmp_path_factory.mktemp("roce")) as check:
        yield Bench(lab, check, check())


@pytest.fixture(scope="module")
def amd(labs: Any, start_checker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Three nodes of eight MI300X on RoCE. Leave them as they were."""
    lab = labs(nodes=3, name="amd", persona=persona.load("mi300x"))
    with start_checker(lab, tmp_path_factory.mktemp("amd")) as check:
        yield Bench(lab, check, check())


@pytest.fixture(scope="module")
def nvl72(
    labs: Any, start_checker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """Two racks of two GB200 trays. Leave them as they were."""
    lab = labs(nodes=4, leaves=2, name="nvl72", persona=persona.load("gb200"))
    with start_checker(lab, tmp_path_factory.mktemp("nvl72")) as check:
        yield Bench(lab, check, check())


def test_whole_hardware_fails_nothing_and_is_declared_invented(h100: Bench) -> None:
    report = h100.whole.report
    assert (h100.whole.failed, h100.whole.exit_status, report["verdict"], report["profile"]) == (
        set(),
        0,
        "PASS",
        "infiniband",
    )
    invented = "8 x NVIDIA H100 80GB HBM3, 8 x ConnectX-7 (400 Gb/s InfiniBand) per node"
    assert (
        report["emulated"]
        == f"Emulated: the nodes are not real hardware. Invented is what they show: {invented}."
    )
    answered = {check["check_id"] for check in report["checks"] if check["status"] == "PASS"}
    assert set().union(*INFINIBAND.values()) - answered == {"rdma.gid"}, (
        "a check that cannot pass proves nothing when it fails"
    )


@pytest.mark.parametrize("kind", sorted(INFINIBAND))
def test_each_fault_is_found_by_its_check_on_its_node(h100: Bench, kind: str) -> None:
    faults.hardware(h100.lab, kind, "node2")
    try:
        assert h100.changed() == {"node2": INFINIBAND[kind]}
    finally:
        faults.clear(h100.lab)


@pytest.mark.parametrize("kind", sorted(ROCE))
def test_each_fault_of_roce_is_found_by_its_check_on_its_node(roce: Bench, kind: str) -> None:
    assert roce.whole.failed == set()
    faults.hardware(roce.lab, kind, "node3")
    try:
        assert roce.changed() == {"node3": ROCE[kind]}
    finally:
        faults.clear(roce.lab)


@pytest.mark.parametrize("kind", sorted(AMD))
def test_each_fault_of_amd_is_found_by_its_check_on_its_node(amd: Bench, kind: str) -> None:
    assert amd.whole.failed == set()
    assert amd.whole.said("gpu.xgmi", "node2")[:2] == ("PASS", "7 links up per GPU")
    faults.hardware(amd.lab, kind, "node2")
    try:
        assert amd.changed() == {"node2": AMD[kind]}
    finally:
        faults.clear(amd.lab)


@pytest.mark.parametrize("kind", sorted(NVL72))
def test_each_fault_of_an_nvl72_is_found_and_no_other_rack_is_accused(
    nvl72: Bench, kind: str
) -> None:
    assert nvl72.whole.failed == set()
    assert nvl72.whole.said("cross.nvlink_domain", "node3")[:2] == ("PASS", "one of 2 nodes")
    faults.hardware(nvl72.lab, kind, "node2")
    try:
        assert nvl72.changed() == NVL72[kind]
    finally:
        faults.clear(nvl72.lab)


def test_every_fault_is_tried_here_and_its_text_names_the_device(h100: Bench) -> None:
    assert {kind for kind, _ in persona_faults.kinds()} == {
        *INFINIBAND,
        *ROCE,
        *AMD,
        *NVL72,
        "errors-grow",
    }
    lab = faults.hardware(h100.lab, "port-down", "node4", 3)
    lab = faults.hardware(lab, "port-down", "node4", 5)
    assert [f"{fault.target}: {fault.kind} {fault.detail}" for fault in lab.faults] == [
        "node4: port-down mlx5_3: no link",
        "node4: port-down mlx5_5: no link",
    ]
    try:
        assert (
            h100.check().said("rdma.port_state", "node4")[1]
            == "mlx5_3 DOWN / Polling, mlx5_5 DOWN / Polling"
        )
    finally:
        faults.clear(h100.lab, "node4")
    assert h100.changed() == {}


@pytest.mark.parametrize("name", ["a100", "b200", "ethernet", "h200", "mi325x", "mi355x"])
def test_every_other_persona_is_whole_too(
    labs: Any, start_checker: Any, tmp_path: Path, name: str
) -> None:
    lab = labs(nodes=2, name=name, persona=persona.load(name))
    with start_checker(lab, tmp_path) as check:
        seen = check()
        assert (seen.failed, seen.exit_status, seen.report["verdict"]) == (set(), 0, "PASS")
        shown = len(lab.persona.gpu_addresses), lab.persona.gpus.model
        assert seen.said("gpu.count", "node1") == ("PASS", f"{shown[0]} x {shown[1]}", "")
        assert seen.report["profile"] == lab.persona.fabric


def test_no_adapter_has_three_texts_and_all_are_read_right(
    h100: Bench, on_node: Callable[..., Any]
) -> None:
    def said(command: str) -> tuple[int, str, str]:
        ran = on_node(h100.lab, "node1", command)
        return ran.exit_status, ran.out, ran.err.strip()

    header = "    device          \t   node GUID\n    ------          \t----------------\n"
    try:
        faults.hardware(h100.lab, "rdma-unloaded", "node1")
        unloaded = said("ibv_devices"), said("ibstat"), said("ibstatus")
        assert h100.check().said("rdma.devices", "node1")[:2] == (
            "FAIL",
            "no RDMA device (Failed to get IB devices list: Function not implemented)",
        )
        faults.clear(h100.lab)
        faults.hardware(h100.lab, "hcas-missing", "node1")
        empty = said("ibv_devices"), said("ibstat"), said("/usr/bin/ibv_devinfo")
        assert h100.check().said("rdma.devices", "node1")[:2] == (
            "FAIL",
            "no RDMA device (only the header lines)",
        )
    finally:
        faults.clear(h100.lab)
    assert unloaded == (
        (1, "", "Failed to get IB devices list: Function not implemented"),
        (0, "", ""),
        (255, "Fatal error:  No devices\n", ""),
    )
    assert empty == ((0, header, ""), (0, "", ""), (255, "", "No IB devices found"))
    for status, out, err in (unloaded[0], empty[0]):
        listed = ibverbs.parse_devices(out, err)
        assert listed is not None, status
        assert listed.devices == ()
    assert ibstat.parse(empty[1][1]) is None


def test_the_real_tools_tell_what_the_record_says(h100: Bench, on_node: Callable[..., Any]) -> None:
    shown = persona_faults.hardware(h100.lab, h100.lab.nodes[2])
    listed = ibstat.parse(on_node(h100.lab, "node3", "ibstat").out)
    devices = ibverbs.parse_devices(on_node(h100.lab, "node3", "ibv_devices").out, "")
    described = ibverbs.parse_devinfo(on_node(h100.lab, "node3", "ibv_devinfo").out)
    assert listed is not None
    assert devices is not None
    assert [
        (
            d.name,
            d.ca_type,
            d.firmware,
            d.ports[0].state,
            d.ports[0].rate_gbit_s,
            d.ports[0].base_lid,
        )
        for d in listed.devices
    ] == [(a.name, "MT4129", "28.39.1002", "Active", 400.0, a.lid) for a in shown.adapters]
    guids = {a.name: a.guid.replace(":", "") for a in shown.adapters}
    assert {device.name: device.node_guid for device in devices.devices} == guids
    assert {info.name: (info.node_guid or "").replace(":", "") for info in described} == guids
    opened = on_node(h100.lab, "node3", "/usr/bin/ibv_devinfo -d mlx5_0")
    assert (opened.exit_status, opened.err.strip()) == (
        1,
        "Failed to open device",
    ), "nobody takes these for real devices"


def test_error_counters_grow_until_the_fault_is_cleared(
    h100: Bench, on_node: Callable[..., Any]
) -> None:
    script = (snapshot("").stdin or b"").decode()

    def look() -> CounterSnapshot:
        return counters.parse(on_node(h100.lab, "node2", script).out, "node2")

    def moved(before: CounterSnapshot) -> set[tuple[str, str]]:
        changes = counters.deltas(before, look())
        return {
            (change.device, change.counter)
            for change in changes
            if change.device.startswith("mlx5") and change.delta
        }

    growing = {
        ("mlx5_6", name) for name in ("symbol_error", "port_rcv_errors", "local_ack_timeout_err")
    }
    before = look()
    faults.hardware(h100.lab, "errors-grow", "node2", 6, seconds=60)
    try:
        for _ in processes.polling(20):
            if moved(before) == growing:
                break
        assert moved(before) == growing
    finally:
        faults.clear(h100.lab)
    assert moved(look()) == set()
    assert on_node(h100.lab, "node2", "pgrep -fc busbw-lab-error[s]").out.strip() == "0"


def test_a_lab_without_hardware_refuses_its_faults_and_says_how_to_have_some(labs: Any) -> None:
    lab = labs(nodes=1, name="bare")
    with pytest.raises(LabError) as caught:
        faults.hardware(lab, "port-down", "node1")
    assert caught.value.lines() == (
        "error: the lab 'bare' shows no hardware that could break",
        "seen: it was brought up without --persona",
        "next: busbw lab down --name bare && busbw lab up -n 1 --name bare --persona h100",
    )
    assert states.load_directory(lab.path).faults == ()


def test_a_record_of_what_runs_where_reaches_nothing_outside(
    h100: Bench, in_head: Callable[..., Any]
) -> None:
    assert enter.inside_lab() is False
    head = in_head(h100.lab, "ls", "/sys/class")
    assert "infiniband" not in head.out.split() or Path("/sys/class/infiniband").exists(), (
        "only nodes show invented hardware"
    )
