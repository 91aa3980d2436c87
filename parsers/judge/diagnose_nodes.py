"""What the outputs of a node's tools say, handed in as texts, under the names that the table's expressions read.

Nobody says here which ports and links a job uses: a port that is down counts where its like are up, or where no port is up at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from busbw.parsers.judge.diagnose_evidence import Fact
from busbw.parsers.nodes.fi_info import FabricProvider
from busbw.parsers.nodes.gids import Gid
from busbw.parsers.nodes.ibstat import Ibstat
from busbw.parsers.nodes.ibverbs import VerbsInfo
from busbw.parsers.nodes.mlnx_qos import Qos
from busbw.parsers.nodes.nvidia_smi import SmiTable
from busbw.parsers.nodes.nvlink import NvlinkGpu
from busbw.parsers.nodes.pci import AcsBridge
from busbw.parsers.nodes.pkeys import PartitionKey
from busbw.parsers.nodes.topology import Topology
from busbw.parsers.symptoms.expr import Value
from busbw.records import Evidence

MOST_BYTES = 1 << 20
"""The output of a tool is smaller; of a longer text the beginning is read."""
_MARKS = (
    b"CA type:",
    b"hca_id:",
    b"NVIDIA-SMI ",
    b"\tGPU0",
    b"ACSC",
    b"PFC configuration",
    b"Priority trust state",
    b"provider: ",
    b"pkeys/",
    b"PORT\tINDEX",
    b"Link 0: ",
)
_STATES = {"initializing": "INIT", "init": "INIT", "active": "ACTIVE", "down": "DOWN", "armed": "ARMED"}
_ALIKE = 3
"""Ports of one kind, from which on one that differs from them says something."""


@dataclass(frozen=True, slots=True)
class _Port:
    """One port, whichever tool printed it."""

    device: str
    kind: str
    state: str
    physical: str | None
    link_layer: str | None
    mtu: int | None


def looks_like(head: bytes) -> bool:
    """Whether the output of such a tool is in the start of a text."""
    return any(mark in head for mark in _MARKS)


def from_nodes(artefact: str, records: Iterable[object], text: str) -> tuple[Fact, ...]:
    """The facts in what the parsers of `parsers.nodes` found in one text."""
    found: list[Fact] = []
    for record in records:
        group = record if isinstance(record, tuple) else (record,)
        for source, values, name in _facts_of(group):
            line_no = _line_of(text, name)
            found.append(Fact(f"preflight:{source}", values, Evidence(artefact, line_no, name), (name,) if name else ()))
    return tuple(found)


_Told = tuple[str, tuple[tuple[str, Value], ...], str]
"""(check, values, the name it is about: a device or a GPU)."""


def _facts_of(group: tuple[object, ...]) -> Iterator[_Told]:
    first = group[0]
    if isinstance(first, Ibstat | VerbsInfo):
        yield from _ports_told(tuple(port for record in group for port in _ports(record)))
    elif isinstance(first, SmiTable):
        yield from _smi(first)
    elif isinstance(first, NvlinkGpu):
        yield from _nvlink(group)
    elif isinstance(first, AcsBridge):
        acting = [each for each in group if isinstance(each, AcsBridge) and "SrcValid+" in (each.control or "")]
        yield "pci.acs", (("srcvalid_bridges", float(len(acting))),), acting[0].address if acting else ""
    elif isinstance(first, Gid):
        usable = sum(isinstance(each, Gid) and each.version == "v2" and each.ipv4 is not None for each in group)
        yield "rdma.gid", (("rocev2_ipv4_count", float(usable)),), ""
    elif isinstance(first, Qos):
        yield from _qos(first)
    elif isinstance(first, FabricProvider):
        domains = {each.domain for each in group if isinstance(each, FabricProvider) and each.provider == "efa"}
        yield "efa.provider", (("domains", float(len(domains))),), ""
    elif isinstance(first, PartitionKey):
        limited = first.index == 0 and not first.key & 0x8000
        yield "rdma.pkey", (("limited_at_0", limited),), ""
    elif isinstance(first, Topology):
        yield from _topology(first)


def _ports(record: object) -> Iterator[_Port]:
    if isinstance(record, Ibstat):
        for device in record.devices:
            for port in device.ports:
                yield _Port(device.name, device.ca_type or "", _state(port.state), port.physical_state, port.link_layer, None)
    elif isinstance(record, VerbsInfo):
        for verbs in record.ports:
            state = _state((verbs.state or "").removeprefix("PORT_"))
            yield _Port(record.name, str(record.vendor_part_id), state, None, verbs.link_layer, verbs.active_mtu)


def _state(printed: str | None) -> str:
    return _STATES.get((printed or "").casefold(), (printed or "unknown").upper())


def _ports_told(ports: tuple[_Port, ...]) -> Iterator[_Told]:
    active = [port for port in ports if port.state == "ACTIVE"]
    for port in ports:
        alike = sum(other.kind == port.kind and other.link_layer == port.link_layer for other in active)
        values: list[tuple[str, Value]] = [("state", port.state)]
        values += [("active_ports", float(len(active))), ("most_alike_active", alike >= _ALIKE)]
        values += [(name, value) for name, value in (("phys_state", port.physical), ("link_layer", port.link_layer)) if value is not None]
        yield "rdma.port_state", tuple(values), port.device
        if port.mtu is not None and port.state == "ACTIVE" and port.link_layer is not None:
            yield "rdma.mtu", (("active_mtu", float(port.mtu)), ("link_layer", port.link_layer)), port.device


def _smi(table: SmiTable) -> Iterator[_Told]:
    yield "gpu.driver", (("version", table.driver),), ""
    for gpu in table.gpus:
        if gpu.persistence is not None:
            yield "gpu.persistence", (("mode", "Enabled" if gpu.persistence else "Disabled"),), gpu.bus_id
        if gpu.mig is not None:
            yield "gpu.mig", (("mode", "Enabled" if gpu.mig else "Disabled"),), gpu.bus_id
        if gpu.ecc_uncorrected_volatile is not None:
            yield "gpu.ecc", (("uncorrected_volatile", float(gpu.ecc_uncorrected_volatile)),), gpu.bus_id


def _nvlink(gpus: tuple[object, ...]) -> Iterator[_Told]:
    """Links that are inactive where others of the same output are active; GPUs that are not bridged have none."""
    for gpu in gpus:
        if isinstance(gpu, NvlinkGpu) and any(rate is not None for _, rate in gpu.rates_gb_s):
            inactive = sum(rate is None for _, rate in gpu.rates_gb_s)
            yield "gpu.nvlink_status", (("inactive_links", float(inactive)),), f"GPU {gpu.index}"
        if isinstance(gpu, NvlinkGpu) and gpu.errors:
            recovered = sum(each.recovery or 0 for each in gpu.errors)
            yield "gpu.nvlink_errors", (("recovery", float(recovered)),), f"GPU {gpu.index}"


def _qos(qos: Qos) -> Iterator[_Told]:
    values: list[tuple[str, Value]] = []
    if qos.pfc_priorities is not None:
        values.append(("pfc_enabled_prio", ",".join(str(priority) for priority in qos.pfc_priorities) or "none"))
    if qos.trust is not None:
        values.append(("trust", qos.trust))
    if values:
        yield "eth.qos", tuple(values), ""


def _topology(topology: Topology) -> Iterator[_Told]:
    """GPUs that reach every NIC only across sockets, where other GPUs have a near one."""
    nics = set(topology.nics)
    whole = [row for row in topology.rows if not row.torn]
    near = [row for row in whole if any(column in nics and word not in ("SYS", "X") for column, word in row.paths)]
    if nics and near:
        yield "os.numa", (("gpus_far_from_nics", float(len(whole) - len(near))),), ""


def _line_of(text: str, name: str) -> int | None:
    """The first line with the name; None = it is about the whole."""
    at = text.find(name) if name else -1
    return None if at < 0 else text.count("\n", 0, at) + 1


def across(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """What differs between the nodes of several texts."""
    drivers: dict[str, Fact] = {}
    for fact in facts:
        if fact.source == "preflight:gpu.driver":
            drivers.setdefault(str(fact.record().get("version")), fact)
    if len(drivers) < 2:
        return ()
    return tuple(
        Fact("preflight:cross.driver", (("distinct", float(len(drivers))), ("version", version)), fact.evidence)
        for version, fact in sorted(drivers.items())
    )
