"""Faults of invented hardware: each changes what one node shows, from the intact hardware to the
broken one. Pure; the lab switches them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from busbw import codec
from busbw.errors import LabError, UsageError
from busbw.lab.node_hardware import Adapter, Gpu, NodeHardware, invent
from busbw.lab.persona import Persona
from busbw.lab.state import Fault, LabNode, LabState

_OF = {"gpu": "one GPU: ", "adapter": "one adapter: ", "node": ""}
_LIVE = (
    ("memlock-small", "locked memory limited to 64 KiB, for real"),
    ("errors-grow", "one adapter: error counters that grow"),
)
"""Faults of processes on the node, which busbw.lab.faults makes itself."""
IMEX_OFF = "imex-not-ready"
"""Seen by the other nodes of the rack, too."""
_Change = Callable[[NodeHardware, int], NodeHardware]


@dataclass(frozen=True, slots=True)
class HardwareFault:
    """One kind of fault."""

    kind: str
    text: str
    """For people: what is broken."""
    of: str
    """`gpu` or `adapter`: it breaks one of them; `node`."""
    change: _Change
    needs: Callable[[Persona], str] = lambda persona: ""
    """What else such hardware may lack for it; empty = nothing."""

    def impossible(self, persona: Persona) -> str:
        """Why such hardware cannot have it; empty = it can."""
        reason = self.needs(persona)
        if not reason and self.of == "adapter":
            reason = _needs_adapters(persona)
        return reason


def kinds() -> tuple[tuple[str, str], ...]:
    """Every kind that can be switched on, and what it breaks."""
    return (*((fault.kind, f"{_OF[fault.of]}{fault.text}") for fault in FAULTS), *_LIVE)


def hardware(state: LabState, node: LabNode) -> NodeHardware:
    """What the node shows, with the faults that are on.

    Raises:
        LabError: the lab shows no invented hardware.
    """
    if state.persona is None:
        raise LabError(
            f"the lab {state.name!r} shows no hardware that could break",
            seen="it was brought up without --persona",
            next_step=(
                f"busbw lab down --name {state.name} && busbw lab up -n {len(state.nodes)} --name"
                f" {state.name} --persona h100"
            ),
        )
    number = state.nodes.index(node) + 1
    faults = [fault for fault in state.faults if fault.target == node.name]
    whole = invent(state.persona, node.name, number, node.leaf)
    return replace(broken(whole, faults), imex_nodes=_imex_nodes(state, node))


def _imex_nodes(state: LabState, node: LabNode) -> tuple[tuple[str, str], ...]:
    """The IMEX domain as this node sees it: the nodes of its rack, each with the state that its own
    faults leave."""
    if state.persona is None or not state.persona.gpus.joins_nodes:
        return ()
    silent = {fault.target for fault in state.faults if fault.kind == IMEX_OFF}
    return tuple(
        (each.address, "UNAVAILABLE" if each.name in silent else "READY")
        for each in state.nodes
        if each.leaf == node.leaf
    )


def broken(node: NodeHardware, faults: Iterable[Fault]) -> NodeHardware:
    """The hardware with these faults, in their order; faults of links and processes change nothing
    of it."""
    by_kind = {fault.kind: fault for fault in FAULTS}
    for fault in faults:
        if fault.kind in by_kind:
            node = by_kind[fault.kind].change(node, fault.index or 0)
    return node


def make(state: LabState, kind: str, node: str, index: int | None) -> Fault:
    """The fault to switch on: of GPU or adapter `index`, by default the last.

    Raises:
        UsageError: there is no such kind.
        LabError: no such node, GPU or adapter, or such hardware cannot have the fault.
    """
    fault = next((fault for fault in FAULTS if fault.kind == kind), None)
    if fault is None:
        raise UsageError(
            codec.unknown("hardware fault", kind, (name for name, _ in kinds())),
            next_step="busbw lab fault hw",
        )
    node_hardware = hardware(state, state.node(node))
    why = fault.impossible(node_hardware.persona)
    if why:
        raise LabError(
            f"{kind} is no fault of the persona {node_hardware.persona.name}",
            seen=why,
            next_step="busbw lab fault hw",
        )
    devices = {
        "gpu": tuple(f"GPU {gpu.index}" for gpu in node_hardware.gpus),
        "adapter": tuple(a.name for a in node_hardware.adapters),
        "node": (),
    }[fault.of]
    if fault.of == "node":
        return Fault(kind, node, fault.text)
    position = len(devices) - 1 if index is None else index
    if not 0 <= position < len(devices):
        seen = f"it has {devices[0]} to {devices[-1]}" if devices else f"it has no {fault.of}"
        raise LabError(
            f"{node} has no {fault.of} number {position}",
            seen=seen,
            next_step=f"busbw lab fault hw {kind} {node}",
        )
    return Fault(kind, node, f"{devices[position]}: {fault.text}", index=position)


def adapter(state: LabState, node: str, index: int | None) -> tuple[int, str]:
    """Place and name of an adapter of a node, by default the last.

    Raises:
        LabError: the lab shows no hardware, or the node has no such adapter.
    """
    adapters = hardware(state, state.node(node)).adapters
    position = len(adapters) - 1 if index is None else index
    if not 0 <= position < len(adapters):
        raise LabError(
            f"{node} has no adapter number {position}",
            seen=f"it has {len(adapters)}",
            next_step="busbw lab status",
        )
    return position, adapters[position].name


def _gpu(change: Callable[[Gpu], Gpu]) -> _Change:
    def apply(node: NodeHardware, index: int) -> NodeHardware:
        gpus = tuple(change(gpu) if gpu.index == index else gpu for gpu in node.gpus)
        return replace(node, gpus=gpus)

    return apply


def _adapter(change: Callable[[Adapter], Adapter]) -> _Change:
    def apply(node: NodeHardware, index: int) -> NodeHardware:
        return replace(
            node,
            adapters=tuple(
                change(a) if position == index else a for position, a in enumerate(node.adapters)
            ),
        )

    return apply


def _node(change: Callable[[NodeHardware], NodeHardware]) -> _Change:
    return lambda node, index: change(node)


def _without_gpu(node: NodeHardware, index: int) -> NodeHardware:
    remaining = [gpu for gpu in node.gpus if gpu.index != index]
    gpus = tuple(replace(gpu, index=position) for position, gpu in enumerate(remaining))
    return replace(node, gpus=gpus)


def _lost_gpu(node: NodeHardware, index: int) -> NodeHardware:
    lost = _gpu(lambda gpu: replace(gpu, lost=True))(node, index)
    if node.persona.gpus.is_amd:
        address = node.gpus[index].address if index < len(node.gpus) else ""
        line = f"[Fri Nov 20 03:12:44 2026] amdgpu {address}: amdgpu: device lost from bus!"
        return replace(lost, kernel_log=(*node.kernel_log, line))
    return _logged(lost, index, "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")


def _logged(node: NodeHardware, index: int, xid: str) -> NodeHardware:
    lines = tuple(
        f"[Fri Nov 20 03:12:44 2026] NVRM: Xid (PCI:{gpu.address.removesuffix('.0')}): {xid}"
        for gpu in node.gpus
        if gpu.index == index
    )
    return replace(node, kernel_log=node.kernel_log + lines)


def _all_gpus(change: Callable[[Gpu], Gpu]) -> _Change:
    return lambda node, index: replace(node, gpus=tuple(map(change, node.gpus)))


def _all_adapters(change: Callable[[Adapter], Adapter]) -> _Change:
    return lambda node, index: replace(node, adapters=tuple(map(change, node.adapters)))


def _half_rate(adapter: Adapter) -> Adapter:
    return replace(adapter, rate_gbit_s=adapter.kind.half_gbit_s, lanes=adapter.kind.half_lanes)


def _down(adapter: Adapter) -> Adapter:
    # A port without a link shows the lowest rate there is.
    return replace(
        adapter, state="DOWN", physical_state="Polling", rate_gbit_s=10, lanes="4X SDR", sm_lid=0
    )


def _odd_firmware(adapter: Adapter) -> Adapter:
    head, _, last = adapter.kind.firmware.rpartition(".")
    return replace(adapter, firmware=f"{head}.{int(last) - 2:04}")


def _odd_vbios(gpu: Gpu) -> Gpu:
    head, _, last = gpu.kind.vbios.rpartition(".")
    return replace(gpu, vbios=f"{head}.{int(last, 16) + 4:02X}")


def _busy(gpu: Gpu) -> Gpu:
    return replace(gpu, process=41417, memory_used_mib=gpu.kind.memory_mib * 3 // 4)


def _needs_adapters(persona: Persona) -> str:
    return "" if persona.adapters else "it has no RDMA adapter"


def _needs_matrix(persona: Persona) -> str:
    return (
        "amd-smi has no matrix of GPUs and adapters"
        if persona.gpus.is_amd
        else _needs_adapters(persona)
    )


def _needs_infiniband(persona: Persona) -> str:
    if persona.adapters and not persona.adapters.ethernet:
        return ""
    return "it has no InfiniBand adapter"


def _needs_roce(persona: Persona) -> str:
    return "" if persona.adapters and persona.adapters.ethernet else "it has no RoCE adapter"


def _needs_qos(persona: Persona) -> str:
    if persona.adapters and persona.adapters.driver != "mlx5":
        return "mlnx_qos shows adapters of mlx5 only"
    return _needs_roce(persona)


def _needs_fabric_manager(persona: Persona) -> str:
    if persona.gpus.joins_nodes:
        return "its fabric manager runs on the switch trays"
    return _needs_nvswitch(persona)


def _needs_package(persona: Persona) -> str:
    return "" if persona.odd_ofed else "it has no vendor package"


def _needs_nvidia(persona: Persona) -> str:
    return "its GPUs are AMD's" if persona.gpus.is_amd else ""


def _needs_amd(persona: Persona) -> str:
    return "" if persona.gpus.is_amd else "its GPUs are not AMD's"


def _needs_domain(persona: Persona) -> str:
    return "" if persona.gpus.joins_nodes else "NVLink does not join its nodes"


def _needs_nvlink(persona: Persona) -> str:
    return "" if persona.gpus.nvlinks else "its GPUs have no NVLink"


def _needs_nvswitch(persona: Persona) -> str:
    return "" if persona.gpus.nvswitch else "its GPUs are not behind an NVSwitch"


def _needs_peermem(persona: Persona) -> str:
    if persona.adapters is None:
        return "it has no RDMA adapter"
    return "with the open kernel modules dma-buf takes its place" if persona.open_modules else ""


FAULTS = (
    HardwareFault("gpu-missing", "not there", "gpu", _without_gpu),
    HardwareFault("gpu-lost", "fell off the bus, does not answer", "gpu", _lost_gpu),
    HardwareFault(
        "driver-odd",
        "another driver than the other nodes",
        "node",
        _node(lambda n: replace(n, driver=n.persona.odd_driver)),
    ),
    HardwareFault("vbios-odd", "another VBIOS", "gpu", _gpu(_odd_vbios)),
    HardwareFault(
        "persistence-off",
        "persistence mode off",
        "gpu",
        _gpu(lambda gpu: replace(gpu, persistence=False)),
        _needs_nvidia,
    ),
    HardwareFault(
        "mig-on", "MIG mode on", "gpu", _gpu(lambda gpu: replace(gpu, mig=True)), _needs_nvidia
    ),
    HardwareFault(
        "partitioned",
        "AMD's GPUs in parts (CPX)",
        "node",
        _node(lambda n: replace(n, partition="CPX")),
        _needs_amd,
    ),
    HardwareFault(
        "xgmi-down",
        "an XGMI link down",
        "gpu",
        _gpu(lambda gpu: replace(gpu, links_down=(2,))),
        _needs_amd,
    ),
    HardwareFault(
        "rccl-odd",
        "RCCL of another ROCm release than the other nodes",
        "node",
        _node(lambda n: replace(n, rccl=n.persona.odd_rccl)),
        _needs_amd,
    ),
    HardwareFault(
        "domain-missing",
        "not in the NVLink domain of its rack",
        "node",
        _all_gpus(lambda gpu: replace(gpu, cluster="")),
        _needs_domain,
    ),
    HardwareFault(
        "fabric-unhealthy",
        "fabric health Unhealthy",
        "gpu",
        _gpu(lambda gpu: replace(gpu, fabric_health="Unhealthy")),
        _needs_domain,
    ),
    HardwareFault(
        IMEX_OFF,
        "its IMEX daemon is not ready",
        "node",
        _node(lambda n: replace(n, imex="UNAVAILABLE")),
        _needs_domain,
    ),
    HardwareFault(
        "ecc-errors",
        "uncorrected ECC errors",
        "gpu",
        _gpu(lambda gpu: replace(gpu, ecc_uncorrected=3)),
    ),
    HardwareFault(
        "rows-pending",
        "row remapping pending",
        "gpu",
        _gpu(lambda gpu: replace(gpu, rows_pending=True)),
    ),
    HardwareFault(
        "power-capped",
        "power limit lowered",
        "gpu",
        _gpu(lambda gpu: replace(gpu, power_limit_w=gpu.kind.power_w // 2)),
    ),
    HardwareFault(
        "clocks-throttled",
        "slowed down by its hardware",
        "gpu",
        _gpu(lambda gpu: replace(gpu, event_reasons=0x48)),
    ),
    HardwareFault(
        "gpu-hot",
        "2 °C below its limit",
        "gpu",
        _gpu(lambda gpu: replace(gpu, temperature_c=gpu.kind.slowdown_c - 2)),
    ),
    HardwareFault("gpu-busy", "somebody's job on it", "gpu", _gpu(_busy)),
    HardwareFault(
        "pcie-narrow", "8 of 16 PCIe lanes", "gpu", _gpu(lambda gpu: replace(gpu, pcie_width=8))
    ),
    HardwareFault(
        "nvlink-down",
        "NVLink 4 inactive",
        "gpu",
        _gpu(lambda gpu: replace(gpu, links_down=(4,))),
        _needs_nvlink,
    ),
    HardwareFault(
        "fabric-not-ready",
        "not in the NVSwitch fabric",
        "gpu",
        _gpu(lambda gpu: replace(gpu, fabric_state="In Progress")),
        _needs_nvswitch,
    ),
    HardwareFault(
        "fabric-manager-off",
        "the fabric manager does not run",
        "node",
        _node(lambda n: replace(n, fabric_manager=False)),
        _needs_fabric_manager,
    ),
    HardwareFault(
        "xid-in-log",
        "Xid 74 (NVLink) in the kernel log",
        "gpu",
        lambda n, i: _logged(n, i, "74, pid=2204, NVLink: fatal error"),
        _needs_nvlink,
    ),
    HardwareFault(
        "peermem-missing",
        "nvidia_peermem not loaded",
        "node",
        _node(lambda n: replace(n, peermem=False)),
        _needs_peermem,
    ),
    HardwareFault(
        "acs-on", "ACS on at every bridge", "node", _node(lambda n: replace(n, acs=True))
    ),
    HardwareFault(
        "max-read-small",
        "PCIe read requests of 512 bytes",
        "node",
        _node(lambda n: replace(n, read_request_bytes=512)),
        _needs_adapters,
    ),
    HardwareFault(
        "relaxed-off",
        "no PCIe relaxed ordering",
        "node",
        _node(lambda n: replace(n, relaxed_ordering=False)),
        _needs_adapters,
    ),
    HardwareFault(
        "bios-odd",
        "another BIOS than the other nodes",
        "node",
        _node(lambda n: replace(n, bios=f"{n.bios}-rc1")),
    ),
    HardwareFault(
        "hca-missing",
        "not there",
        "adapter",
        lambda n, i: replace(n, adapters=n.adapters[:i] + n.adapters[i + 1 :]),
    ),
    HardwareFault(
        "hcas-missing",
        "no RDMA adapter at all",
        "node",
        _node(lambda n: replace(n, adapters=())),
        _needs_adapters,
    ),
    HardwareFault(
        "rdma-unloaded",
        "no RDMA modules in the kernel",
        "node",
        _node(lambda n: replace(n, verbs=False)),
        _needs_adapters,
    ),
    HardwareFault("port-down", "no link", "adapter", _adapter(_down)),
    HardwareFault(
        "port-init",
        "link without subnet manager",
        "adapter",
        _adapter(lambda a: replace(a, state="INIT", sm_lid=0)),
        _needs_infiniband,
    ),
    HardwareFault("half-rate", "half its rate", "adapter", _adapter(_half_rate)),
    HardwareFault("mtu-small", "MTU 2048", "adapter", _adapter(lambda a: replace(a, mtu=2048))),
    HardwareFault(
        "pkey-odd",
        "limited member of its partition",
        "adapter",
        _adapter(lambda a: replace(a, pkey=0x7FFF)),
        _needs_infiniband,
    ),
    HardwareFault("firmware-odd", "older firmware", "adapter", _adapter(_odd_firmware)),
    HardwareFault(
        "nic-pcie-narrow",
        "8 of 16 PCIe lanes",
        "adapter",
        _adapter(lambda a: replace(a, pcie_width=8)),
    ),
    HardwareFault(
        "sm-missing",
        "no subnet manager",
        "adapter",
        _adapter(lambda a: replace(a, sm_lid=0)),
        _needs_infiniband,
    ),
    HardwareFault(
        "gid-missing",
        "no IP address, so no RoCE v2 GID with one",
        "adapter",
        _adapter(lambda a: replace(a, ipv4=None)),
        _needs_roce,
    ),
    HardwareFault(
        "pfc-off",
        "priority flow control off",
        "node",
        _all_adapters(lambda a: replace(a, pfc_priorities=())),
        _needs_qos,
    ),
    HardwareFault(
        "trust-pcp",
        "trusts PCP, not DSCP",
        "node",
        _all_adapters(lambda a: replace(a, trust="pcp")),
        _needs_qos,
    ),
    HardwareFault(
        "ofed-odd",
        "another OFED than the other nodes",
        "node",
        _node(lambda n: replace(n, ofed=n.persona.odd_ofed)),
        _needs_package,
    ),
    HardwareFault(
        "nics-crossed",
        "GPUs and adapters on different sockets",
        "node",
        _node(lambda n: replace(n, far_nics=True)),
        _needs_matrix,
    ),
)
