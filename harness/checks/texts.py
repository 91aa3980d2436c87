"""Judging texts that somebody hands in: the rules of the families, chosen by what a text was read
as."""

from __future__ import annotations

from busbw.checks import RuleResult, cloud, ethernet, gpu_fabric, pcie, rdma
from busbw.checks import gpu as gpu_state
from busbw.model import Status
from busbw.parsers.tools.dcgm import DiagTest
from busbw.parsers.tools.fi_info import FabricProvider
from busbw.parsers.tools.gids import Gid
from busbw.parsers.tools.ibstat import Ibstat
from busbw.parsers.tools.ibverbs import VerbsDevice, VerbsDevices, VerbsInfo
from busbw.parsers.tools.mlnx_qos import Qos
from busbw.parsers.tools.nvidia_smi import NvlinkGpu, SmiTable, Topology
from busbw.parsers.tools.ofed import OfedRelease
from busbw.parsers.tools.os_facts import RdmaNodes
from busbw.parsers.tools.pci import AcsBridge, LinkAttributes
from busbw.parsers.tools.rdma_link import RdmaLink
from busbw.parsers.tools.rdma_sysfs import PartitionKey


def judge(text: str, records: tuple[object, ...]) -> tuple[RuleResult, ...]:
    """What the rules say of a text and its records (`parsers.tools.recognise.read`); () = no rule
    reads any of them."""
    efa = any(
        isinstance(r, tuple) and r and isinstance(r[0], VerbsInfo) and r[0].is_efa for r in records
    )
    return tuple(rule_result for record in records for rule_result in _one(text, record, efa))


def _one(text: str, record: object, efa: bool) -> tuple[RuleResult, ...]:
    match record:
        case VerbsDevices():
            return (rdma.present(record, ()),)
        case Ibstat():
            return _ibstat(record)
        case OfedRelease():
            return (*rdma.vendor_package(text), _alone("cross.ofed", record.name))
        case SmiTable():
            return _smi(record)
        case Topology():
            return (
                gpu_fabric.affinity(record),
                _alone("cross.rail_map", f"{len(record.gpus)} GPUs, {len(record.nics)} NICs"),
            )
        case Qos():
            return (ethernet.qos((record,)),)
        case LinkAttributes():
            return (pcie.one_link(record),)
        case RdmaNodes():
            return (
                rdma.device_nodes(record, efa=efa),
                *((cloud.efa_devices(record.uverbs),) if efa else ()),
            )
        case tuple() if record:
            return _several(record)
        case _:
            return ()


def _several(records: tuple[object, ...]) -> tuple[RuleResult, ...]:
    match records[0]:
        case VerbsInfo():
            return _devinfo(tuple(r for r in records if isinstance(r, VerbsInfo)))
        case RdmaLink():
            links = tuple(r for r in records if isinstance(r, RdmaLink))
            listed = VerbsDevices(
                tuple(VerbsDevice(name, "") for name in dict.fromkeys(k.device for k in links)),
                None,
            )
            return (rdma.present(listed, ()), rdma.port_state(rdma.from_links(links)))
        case Gid():
            gids = tuple(r for r in records if isinstance(r, Gid))
            indexes = sorted({f"{g.device} {g.index}" for g in gids if g.routable})
            return (rdma.listed_gids(gids), _alone("cross.gid_index", ", ".join(indexes) or "none"))
        case PartitionKey():
            return (rdma.partitions(tuple(r for r in records if isinstance(r, PartitionKey))),)
        case FabricProvider():
            return (cloud.efa_domains(tuple(r for r in records if isinstance(r, FabricProvider))),)
        case NvlinkGpu():
            return _nvlink(tuple(r for r in records if isinstance(r, NvlinkGpu)))
        case AcsBridge():
            return (pcie.acs(tuple(r for r in records if isinstance(r, AcsBridge))),)
        case DiagTest():
            return gpu_fabric.not_initialized(tuple(r for r in records if isinstance(r, DiagTest)))
        case _:
            return ()


def _ibstat(listed: Ibstat) -> tuple[RuleResult, ...]:
    ports = rdma.from_ibstat(listed)
    there = VerbsDevices(tuple(VerbsDevice(device.name, "") for device in listed.devices), None)
    # A device that vanishes while it is listed was there when the list began.
    rails = (*(device.name for device in listed.devices), listed.missing) if listed.missing else ()
    firmware = ", ".join(
        sorted({f"{device.ca_type} {device.firmware}" for device in listed.devices})
    )
    return (
        rdma.present(there, rails),
        rdma.port_state(ports),
        rdma.port_rate(ports),
        _alone("cross.nic_fw", firmware),
    )


def _devinfo(devices: tuple[VerbsInfo, ...]) -> tuple[RuleResult, ...]:
    ports = rdma.from_devinfo(devices)
    listed = VerbsDevices(tuple(VerbsDevice(device.name, "") for device in devices), None)
    firmware = ", ".join(
        sorted({f"{device.board_id or device.name} {device.firmware}" for device in devices})
    )
    mtu = () if all(device.is_efa for device in devices) else (rdma.mtu(ports),)
    return (
        rdma.present(listed, ()),
        rdma.port_state(ports),
        *mtu,
        _alone("cross.nic_fw", firmware),
    )


def _smi(table: SmiTable) -> tuple[RuleResult, ...]:
    gpus = gpu_state.from_table(table)
    expected = "GPUs, as many as on the other nodes"
    count = RuleResult(
        "gpu.count", Status.PASS if gpus else Status.FAIL, f"{len(gpus)} GPUs", expected
    )
    cuda = RuleResult(
        "sw.cuda",
        Status.SKIPPED,
        f"driver supports CUDA {table.cuda}",
        "",
        "no binary to compare it with",
    )
    return (count, *gpu_state.rule(gpus), gpu_state.processes(table.processes, gpus), cuda)


def _nvlink(gpus: tuple[NvlinkGpu, ...]) -> tuple[RuleResult, ...]:
    found = [gpu_fabric.nvlinks(gpus)]
    for name in ("replay", "recovery", "crc"):
        counts = [
            count
            for gpu in gpus
            for errors in gpu.errors
            if (count := getattr(errors, name)) is not None
        ]
        if counts:
            # Counters since the driver was loaded: only a rise during a run is judged; recovery is
            # judged above.
            status = Status.WARN if sum(counts) else Status.PASS
            found.append(RuleResult(f"counter:nvlink_{name}_errors", status, str(sum(counts)), "0"))
    return tuple(found)


def _alone(check_id: str, found: str) -> RuleResult:
    return RuleResult(
        check_id,
        Status.SKIPPED,
        found,
        "the same on all nodes",
        "one node alone: nothing to compare it with",
    )
