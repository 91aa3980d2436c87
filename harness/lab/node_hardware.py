"""The invented hardware of one node: what a persona says of all, with serial numbers, GUIDs and
addresses made from the node's number, so that every tool on a node tells of the same hardware, and
the state that faults change. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from busbw.lab.persona import AdapterKind, GpuKind, Persona

IDLE = 0x1
"""Clocks event reason of a GPU without work: nvml.h."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of a node."""

    index: int
    address: str
    """`0000:1b:00.0`."""
    numa: int
    uuid: str
    serial: str
    kind: GpuKind
    vbios: str
    power_limit_w: int
    temperature_c: int
    pcie_width: int = 16
    persistence: bool = True
    mig: bool = False
    ecc_uncorrected: int = 0
    rows_pending: bool = False
    event_reasons: int = IDLE
    links_down: tuple[int, ...] = ()
    fabric_state: str = "Completed"
    cluster: str = ""
    """UUID of the NVLink domain that several nodes share; empty = its fabric ends at the node."""
    fabric_health: str = "Healthy"
    memory_used_mib: int = 4
    process: int | None = None
    """Process id of somebody's job on it; None = it is free."""
    lost: bool = False
    """True = it fell off the bus: its driver has no answer."""

    @property
    def bus_id(self) -> str:
        """As nvidia-smi writes it: `00000000:1B:00.0`."""
        return f"0000{self.address}".upper()


@dataclass(frozen=True, slots=True)
class Adapter:
    """One RDMA adapter of a node, with its one port."""

    name: str
    """`mlx5_0`."""
    address: str
    numa: int
    guid: str
    """`b83f:d203:0001:0000`."""
    lid: int
    kind: AdapterKind
    firmware: str
    rate_gbit_s: int
    lanes: str
    netdev: str
    """Its network interface, which no node of the lab really has: `ibp24s0`, `ens24np0`."""
    ipv4: str | None
    """Of that interface; RoCE only."""
    state: str = "ACTIVE"
    physical_state: str = "LinkUp"
    mtu: int = 4096
    sm_lid: int = 1
    pcie_width: int = 16
    pkey: int = 0xFFFF
    trust: str = "dscp"
    pfc_priorities: tuple[int, ...] = (3,)


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """Everything a node shows."""

    node: str
    persona: Persona
    driver: str
    ofed: str
    gpus: tuple[Gpu, ...]
    adapters: tuple[Adapter, ...]
    verbs: bool
    """False = the kernel has no RDMA class at all, as without its modules."""
    peermem: bool
    fabric_manager: bool
    acs: bool = False
    """True = the bridges validate sources and send traffic between devices up to the root
    complex."""
    kernel_log: tuple[str, ...] = ()
    bios: str = ""
    read_request_bytes: int = 4096
    relaxed_ordering: bool = True
    """Of PCI Express: what the adapters ask for at once, and whether the order of writes may
    change."""
    far_nics: bool = False
    """True = GPUs and adapters are paired across the sockets."""
    rccl: str = ""
    partition: str = "SPX"
    """Of AMD's GPUs: `SPX` whole, `CPX` in eight parts."""
    imex: str = "READY"
    """State of its own IMEX daemon."""
    imex_nodes: tuple[tuple[str, str], ...] = ()
    """(address, state) of the nodes of its IMEX domain; () = it is in none."""


def invent(persona: Persona, node: str, number: int, rack: str = "") -> NodeHardware:
    """The hardware of node `number` (from 1) in a rack, whole and well. The same number gives the
    same hardware."""
    return NodeHardware(
        node=node,
        persona=persona,
        driver=persona.driver,
        ofed=persona.ofed,
        gpus=tuple(
            _gpu(persona, number, index, rack) for index in range(len(persona.gpu_addresses))
        ),
        adapters=tuple(
            _adapter(persona.adapters, persona, number, index)
            for index in range(len(persona.adapter_addresses))
        ),
        verbs=persona.adapters is not None,
        peermem=persona.adapters is not None and not persona.open_modules,
        fabric_manager=persona.gpus.nvswitch and not persona.gpus.joins_nodes,
        bios=persona.bios,
        rccl=persona.rccl,
        imex_nodes=((f"10.77.0.{number}", "READY"),) if persona.gpus.joins_nodes else (),
    )


def _gpu(persona: Persona, number: int, index: int, rack: str) -> Gpu:
    seed = hashlib.sha256(f"{persona.name}/{number}/{index}".encode()).hexdigest()
    return Gpu(
        index=index,
        address=persona.gpu_addresses[index],
        numa=index * persona.numa_nodes // len(persona.gpu_addresses),
        uuid=f"GPU-{seed[:8]}-{seed[8:12]}-{seed[12:16]}-{seed[16:20]}-{seed[20:32]}",
        serial=f"165{number:04}{index:06}",
        kind=persona.gpus,
        vbios=persona.gpus.vbios,
        power_limit_w=persona.gpus.power_w,
        temperature_c=28 + (number + index) % 5,
        cluster=_domain(rack) if persona.gpus.joins_nodes else "",
    )


def _domain(rack: str) -> str:
    """The UUID of a rack's NVLink domain."""
    seed = hashlib.sha256(f"domain/{rack}".encode()).hexdigest()
    return f"{seed[:8]}-{seed[8:12]}-{seed[12:16]}-{seed[16:20]}-{seed[20:32]}"


def _adapter(kind: AdapterKind | None, persona: Persona, number: int, index: int) -> Adapter:
    assert kind is not None  # the reader of personas holds addresses and kind together
    address = persona.adapter_addresses[index]
    domain, bus = (int(part, 16) for part in address.split(":")[:2])
    place = f"P{domain}p{bus}s0" if domain else f"p{bus}s0"
    return Adapter(
        name=f"{kind.driver}{'' if kind.driver == 'bnxt_re' else '_'}{index}",
        address=address,
        numa=index * persona.numa_nodes // len(persona.adapter_addresses),
        guid=f"b83f:d203:{number:04x}:{index:04x}",
        lid=16 * number + index,
        kind=kind,
        firmware=kind.firmware,
        rate_gbit_s=kind.rate_gbit_s,
        lanes=kind.lanes,
        netdev=f"ens{bus}np0" if kind.ethernet else f"ib{place}",
        ipv4=f"172.{16 + index}.{number >> 8}.{number & 255}" if kind.ethernet else None,
        sm_lid=0 if kind.ethernet else 1,
    )
