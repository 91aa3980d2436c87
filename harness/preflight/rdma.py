"""RDMA devices, their ports, and the software they come with."""

from __future__ import annotations

import dataclasses
import re

from busbw.parsers.nodes import container_dev, ibverbs, libraries, ofed, rdma_sysfs
from busbw.parsers.nodes.container_dev import RdmaNodes
from busbw.parsers.nodes.ibverbs import VerbsDevices
from busbw.preflight import CheckFamily, NodeAnswer, Ruling, Section, SectionOutput, evidence_of, rdma_ports, ruled
from busbw.preflight.alike import once
from busbw.records import CheckResult, Status

_SYSFS = (
    "[ -d /sys/class/infiniband ] || exit 0; r() { v=; [ -r $2 ] && read -r v <$2 && echo $1 $v; }; for d in /sys/class/infiniband/*; do "
    '[ -d $d ] || continue; n=${d##*/}; echo rdma $n present 1; for k in fw_ver board_id hca_type; do r "rdma $n $k" $d/$k; done; '
    'r "rdma $n numa_node" $d/device/numa_node; for p in $d/ports/*; do i=${p##*/}; '
    'for k in state phys_state rate link_layer sm_lid; do r "port $n $i $k" $p/$k; done; '
    "k=0; while [ $k -lt 128 ]; do v=; [ -r $p/pkeys/$k ] && read -r v <$p/pkeys/$k; "
    'case $v in ""|0x0000) break;; esac; echo pkey $n $i pkeys/$k $v; k=$((k + 1)); done; '
    "for g in $p/gids/*; do x=${g##*/}; v=; read -r v <$g; "
    'case $v in ""|fe80:*|0000:0000:0000:0000:0000:0000:0000:0000) continue;; esac; '
    "t=; read -r t <$p/gid_attrs/types/$x; echo gid $n $i $x $v $t; done; done; done 2>/dev/null; :"
)
"""GIDs of the link alone (fe80) are left out: nothing is chosen among them."""


def present(listed: VerbsDevices, rails: tuple[str, ...]) -> Ruling:
    """The devices there are against the rails of the inventory, else against none at all."""
    expected = f"{len(rails)} RDMA devices ({', '.join(rails)})" if rails else "at least one RDMA device"
    if not listed.devices:
        said = listed.empty_text or "only the header lines"
        return Ruling("rdma.devices", Status.FAIL, f"no RDMA device ({said})", expected).with_values(count=0)
    names = tuple(device.name for device in listed.devices)
    missing = tuple(rail for rail in rails if rail not in names)
    found = f"{len(names)} devices: {', '.join(names)}" + (f"; missing {', '.join(missing)}" if missing else "")
    return Ruling("rdma.devices", Status.FAIL if missing else Status.PASS, found, expected).with_values(count=len(names))


def vendor_package(text: str) -> tuple[Ruling, ...]:
    """The vendor package, and whether its kernel part is of the same release where that is shown."""
    expected = "MLNX_OFED, DOCA-OFED or the distribution's rdma-core, equal on all nodes"
    release = ofed.parse_release(text)
    if release is None:
        return ()
    kernel = ofed.parse_kernel_package(text)
    if kernel and release.version and not ofed.same_release(release.version, kernel):
        ruling = Ruling("rdma.ofed", Status.WARN, f"{release.name}, kernel package {kernel}", expected)
        return (ruling.with_values(userspace_kernel_match=False),)
    return (Ruling("rdma.ofed", Status.PASS, release.name, expected),)


def device_nodes(nodes: RdmaNodes, *, efa: bool) -> Ruling:
    """What user space opens. EFA needs no rdma_cm."""
    expected = "/dev/infiniband/uverbsN" + ("" if efa else " and rdma_cm")
    lacking = [name for name, there in (("uverbsN", nodes.uverbs > 0), ("rdma_cm", efa or "rdma_cm" in nodes.names)) if not there]
    if lacking:
        return Ruling("rdma.container_dev", Status.FAIL, f"missing {', '.join(lacking)}", expected).with_values(dev_infiniband="missing")
    return Ruling("rdma.container_dev", Status.PASS, f"{nodes.uverbs} x uverbs", expected)


@once
def _listed(output: SectionOutput, rails: tuple[str, ...]) -> tuple[Ruling, ...]:
    listed = ibverbs.parse_devices(output.stdout, output.stderr)
    return (present(listed, rails),) if listed else ()


def _devices(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    return ruled(answer, "ibv_devices", "ibv_devices", ("rdma.devices",), lambda output: _listed(output, answer.node.rails))


def _ofed(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    output = answer.section("ofed_info")
    if output is not None and output.missing:
        # Inbox drivers are a supported choice: no vendor package is a fact, not a failure.
        found = "no vendor package (ofed_info not installed): inbox drivers"
        expected = "MLNX_OFED, DOCA-OFED or the distribution's rdma-core, equal on all nodes"
        evidence = evidence_of(answer, output)
        return (CheckResult("rdma.ofed", answer.node.name, Status.PASS, found, expected, "ofed_info -s", evidence=evidence),)
    return ruled(answer, "ofed_info", "ofed_info -s", ("rdma.ofed",), lambda output: vendor_package(output.stdout))


@once
def _sysfs(output: SectionOutput, rails: tuple[str, ...]) -> tuple[Ruling, ...]:
    devices = rdma_sysfs.parse(output.stdout)
    # Unused ports are often down: where the inventory names the rails, only they count.
    named = tuple(d for d in devices if d.name in rails)
    ports = rdma_ports.from_sysfs(named or devices)
    if not ports:
        why = "the kernel lists no RDMA device"
        return tuple(Ruling(check_id, Status.UNKNOWN, "no RDMA device", "", why) for check_id in _PORT_IDS)
    state = rdma_ports.state(ports, all_used=bool(named))
    if state.status in (Status.FAIL, Status.WARN):
        first = next(port.name for port in ports if port.active is False).partition("/")[0]
        shown = (n for n, line in enumerate(output.stdout.splitlines(), 1) if re.match(rf"port {re.escape(first)} \d+ state (?!4:)", line))
        state = dataclasses.replace(state, line_no=next(shown, None))
    return (state, rdma_ports.rate(ports), rdma_ports.gid(ports), rdma_ports.subnet_manager(ports))


def _ports(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    command = "cat /sys/class/infiniband/*/ports/*/*"
    return ruled(answer, "rdma_sysfs", command, _PORT_IDS, lambda output: _sysfs(output, answer.node.rails))


@once
def _mtu(output: SectionOutput) -> tuple[Ruling, ...]:
    devices = ibverbs.parse_devinfo(output.stdout)
    if devices:
        return (rdma_ports.mtu(rdma_ports.from_devinfo(devices)),)
    listed = ibverbs.parse_devices(output.stdout, output.stderr)
    if listed is None:
        return ()
    return (Ruling("rdma.mtu", Status.UNKNOWN, "no RDMA device", "", listed.empty_text or "ibv_devinfo lists no device"),)


@once
def _libraries(output: SectionOutput) -> tuple[Ruling, ...]:
    expected = "libibverbs.so.1 known to the linker (without it NCCL uses TCP and says nothing)"
    listed = libraries.parse(output.stdout)
    if listed is None:
        return ()
    found = "libibverbs.so.1" in listed
    ruling = Ruling("rdma.libs", Status.PASS if found else Status.FAIL, "found" if found else "libibverbs.so.1 not found", expected)
    return (ruling.with_values(libibverbs="present" if found else "missing"),)


@once
def _nodes(output: SectionOutput) -> tuple[Ruling, ...]:
    listed = container_dev.parse(output.stdout)
    if listed is None:
        expected = "/dev/infiniband/uverbsN and rdma_cm"
        return (Ruling("rdma.container_dev", Status.FAIL, "nothing in /dev/infiniband", expected).with_values(dev_infiniband="missing"),)
    return (device_nodes(listed, efa="rdmap" in output.stdout),)


_PORT_IDS = ("rdma.port_state", "rdma.rate", "rdma.gid", "rdma.sm")
CHECK = CheckFamily(
    name="rdma",
    ids=("rdma.devices", "rdma.ofed", *_PORT_IDS, "rdma.mtu", "rdma.libs", "rdma.container_dev"),
    sections=(
        Section("ibv_devices", "ibv_devices", serves=("rdma.devices",)),
        Section("ofed_info", "ofed_info -s", serves=("rdma.ofed", "cross.ofed")),
        # Always asked: the rails that the launcher's variables name.
        Section("rdma_sysfs", _SYSFS, small=True),
        Section("ibv_devinfo", "ibv_devinfo", timeout_s=20, after="ibv_devices", serves=("rdma.mtu", "cross.mtu")),
        # The whole list has a thousand lines of which these are read.
        Section(
            "ldconfig",
            "{ ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } | grep -E '^[0-9]|lib(ibverbs|mlx5|nccl|cudart|efa|fabric|mpi)[-.]'",
            serves=("rdma.libs", "efa.plugin", "sw.cuda"),
        ),
        Section(
            "rdma_nodes",
            'for n in /dev/infiniband/* /sys/class/infiniband/rdmap*; do [ -e "$n" ] && echo "${n##*/}"; done; :',
            small=True,
            serves=("rdma.container_dev",),
        ),
    ),
    judge=lambda answer: (
        *_devices(answer),
        *_ofed(answer),
        *_ports(answer),
        *ruled(answer, "ibv_devinfo", "ibv_devinfo", ("rdma.mtu",), _mtu),
        *ruled(answer, "ldconfig", "ldconfig -p", ("rdma.libs",), _libraries),
        *ruled(answer, "rdma_nodes", "ls /dev/infiniband", ("rdma.container_dev",), _nodes),
    ),
)
