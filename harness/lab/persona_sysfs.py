"""What the kernel of a node with invented hardware shows in /sys, /dev and /proc: trees that
busbw.lab's scripts lay over the real ones.

Written against Linux 6.1 (Documentation/ABI/stable/sysfs-class-infiniband,
Documentation/ABI/testing/sysfs-bus-pci) and what rdma-core 44 and pciutils 3.9 read of it. No more
is made than tools ask for.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from busbw.lab import persona, persona_amd
from busbw.lab.file_tree import Entry, text
from busbw.lab.node_hardware import Adapter, Gpu, NodeHardware
from busbw.lab.pci_config import SPEEDS, bridge, endpoint

STATES = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4}
_PHYSICAL = {"Sleep": 1, "Polling": 2, "Disabled": 3, "LinkUp": 5}
COUNTERS = (
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
)
HARDWARE_COUNTERS = (
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "rp_cnp_handled",
    "rx_icrc_encapsulated",
)
_BRIDGE = 0x060400
_GROWING = (
    "counters/symbol_error",
    "counters/port_rcv_errors",
    "hw_counters/local_ack_timeout_err",
)
_UNCORRECTABLE = (
    "Undefined",
    "DLP",
    "SDES",
    "TLP",
    "FCP",
    "CmpltTO",
    "CmpltAbrt",
    "UnxCmplt",
    "RxOF",
    "MalfTLP",
    "ECRC",
    "UnsupReq",
    "ACSViol",
)
_AER = {
    "correctable": (
        "RxErr",
        "BadTLP",
        "BadDLLP",
        "Rollover",
        "Timeout",
        "NonFatalErr",
        "CorrIntErr",
        "HeaderOF",
        "TOTAL_ERR_COR",
    ),
    "nonfatal": (*_UNCORRECTABLE, "TOTAL_ERR_NONFATAL"),
    "fatal": (*_UNCORRECTABLE, "TOTAL_ERR_FATAL"),
}
_OFF_THE_BUS = b"\xff" * 4096
"""What a device that no longer answers reads as; lspci shows it as revision ff."""


def sysfs_entries(node: NodeHardware) -> tuple[Entry, ...]:
    """Everything below the trees `sys`, `dev` and `proc`."""
    return tuple(_all(node))


def _all(node: NodeHardware) -> Iterator[Entry]:
    for tree in ("sys/class", "sys/bus/pci/devices", "sys/module", "dev/infiniband", "proc"):
        yield Entry(tree)
    for gpu in node.gpus:
        yield from _gpu(node, gpu)
    for adapter in node.adapters:
        yield from _card(node, adapter)
    if node.verbs:
        yield Entry("sys/class/infiniband")
        yield Entry("sys/class/infiniband_verbs")
        yield text("sys/class/infiniband_verbs/abi_version", 6)
        kind = node.persona.adapters
        module = "mlx5_core" if kind is None or kind.driver == "mlx5" else kind.driver
        driver = node.ofed.partition("-")[2].removeprefix("internal-")
        yield text(f"sys/module/{module}/version", driver)
        for adapter in node.adapters:
            yield from _adapter(node, adapter)
        for name in ("rdma_cm", *map(_verbs_name, node.adapters)):
            yield Entry(f"dev/infiniband/{name}", device=_number(name))
    yield text("sys/class/dmi/id/bios_version", node.bios)
    yield text("sys/class/dmi/id/product_name", node.persona.product)
    yield text("sys/class/dmi/id/sys_vendor", node.persona.vendor)
    if node.persona.gpus.is_amd:
        yield from persona_amd.sysfs(node)
        return
    if node.peermem:
        yield text("sys/module/nvidia_peermem/refcnt", 0)
    yield text("sys/module/nvidia/version", node.driver)
    modules = (
        "Open Kernel Module for x86_64" if node.persona.open_modules else "x86_64 Kernel Module"
    )
    yield text(
        "proc/nvidia/version",
        f"NVRM version: NVIDIA UNIX {modules}  {node.driver}  Release Build",
        "GCC version:  gcc version 12.2.0",
    )


def _verbs_name(adapter: Adapter) -> str:
    return f"uverbs{number_of(adapter)}"


def number_of(adapter: Adapter) -> int:
    return int(adapter.name[len(adapter.kind.driver) :].strip("_"))


def _number(name: str) -> tuple[int, int]:
    """Of a device file. No driver ever has this major number: whoever asks finds the device,
    whoever opens it is told that there is none."""
    if name.startswith("uverbs"):
        return 4095, int(name.removeprefix("uverbs"))
    return 4095, 255


def _gpu(node: NodeHardware, gpu: Gpu) -> Iterator[Entry]:
    kind = gpu.kind
    generation, width = kind.pcie_generation, gpu.pcie_width
    # Class of a display without a screen; of AMD's, processing accelerator.
    ids = (
        (0x1002, kind.pci_device, 0x120000) if kind.is_amd else (0x10DE, kind.pci_device, 0x030200)
    )
    config = _OFF_THE_BUS if gpu.lost else endpoint(*ids, generation, width)
    yield from _device(gpu.address, *ids, gpu.numa, generation, width, config)
    yield from _bridge(node, gpu.address, gpu.numa, generation, width)


def _bridge(
    node: NodeHardware, address: str, numa: int, generation: int, width: int
) -> Iterator[Entry]:
    bus = int(address.split(":")[1], 16)
    config = bridge(bus, generation, width, acs=node.acs)
    yield from _device(
        persona.bridge_above(address), 0x1000, 0xC030, _BRIDGE, numa, generation, width, config
    )


def _device(
    address: str,
    vendor: int,
    device: int,
    device_class: int,
    numa: int,
    generation: int,
    width: int,
    config: bytes,
) -> Iterator[Entry]:
    at = f"sys/bus/pci/devices/{address}"
    family, subfamily = device_class >> 16, device_class >> 8 & 255
    values = {
        "vendor": f"{vendor:#06x}",
        "device": f"{device:#06x}",
        "class": f"{device_class:#08x}",
        "irq": 0,
        "numa_node": numa,
        "current_link_speed": SPEEDS[generation],
        "max_link_speed": SPEEDS[generation],
        "current_link_width": width,
        "max_link_width": 16,
        "modalias": (
            f"pci:v{vendor:08X}d{device:08X}sv{vendor:08X}sd00000000"
            f"bc{family:02x}sc{subfamily:02x}i00"
        ),
    }
    yield from _texts(at, values)
    yield text(f"{at}/resource", *["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 7)
    yield Entry(f"{at}/config", config)
    if device_class != _BRIDGE:
        for severity, names in _AER.items():
            zeros = "".join(f"{name} 0\n" for name in names)
            yield Entry(f"{at}/aer_dev_{severity}", zeros.encode(), counts=True)


def _texts(at: str, values: Mapping[str, object]) -> Iterator[Entry]:
    """A file below `at` for each value."""
    for name, value in values.items():
        yield text(f"{at}/{name}", value)


def _card(node: NodeHardware, adapter: Adapter) -> Iterator[Entry]:
    """The adapter as PCI shows it, whether a driver speaks for it or not."""
    kind = adapter.kind
    generation, width = kind.pcie_generation, adapter.pcie_width
    ids = (kind.pci_vendor, kind.pci_device, 0x020000 if kind.ethernet else 0x020700)
    config = endpoint(
        *ids,
        generation,
        width,
        read_request_bytes=node.read_request_bytes,
        relaxed=node.relaxed_ordering,
    )
    yield from _device(adapter.address, *ids, adapter.numa, generation, width, config)
    yield from _bridge(node, adapter.address, adapter.numa, generation, width)


def _adapter(node: NodeHardware, adapter: Adapter) -> Iterator[Entry]:
    kind = adapter.kind
    pci = f"../../../bus/pci/devices/{adapter.address}"
    yield Entry(f"sys/bus/pci/devices/{adapter.address}/net/{adapter.netdev}")
    verbs = f"sys/class/infiniband_verbs/{_verbs_name(adapter)}"
    major, minor = _number(_verbs_name(adapter))
    yield text(f"{verbs}/ibdev", adapter.name)
    yield text(f"{verbs}/dev", f"{major}:{minor}")
    yield text(f"{verbs}/abi_version", 1)
    yield Entry(f"{verbs}/device", link=pci)
    at = f"sys/class/infiniband/{adapter.name}"
    yield Entry(f"{at}/device", link=pci)
    values = {
        "hca_type": kind.hca_type,
        "fw_ver": adapter.firmware,
        "hw_rev": 0,
        "board_id": kind.board,
        "node_guid": adapter.guid,
        "sys_image_guid": adapter.guid,
        "node_type": "1: CA",
        "node_desc": f"{node.node} {adapter.name}",
    }
    yield from _texts(at, values)
    yield from _port(f"{at}/ports/1", adapter)


_INFINIBAND = {"cap_mask": "0xa751e848", "link_layer": "InfiniBand"}
_ETHERNET = {"lid": "0x0", "cap_mask": "0x00010000", "link_layer": "Ethernet"}


def _port(at: str, adapter: Adapter) -> Iterator[Entry]:
    values = {
        "state": f"{STATES[adapter.state]}: {adapter.state}",
        "phys_state": f"{_PHYSICAL[adapter.physical_state]}: {adapter.physical_state}",
        "rate": f"{adapter.rate_gbit_s} Gb/sec ({adapter.lanes})",
        "lid": f"{adapter.lid:#x}",
        "lid_mask_count": 0,
        "sm_lid": f"{adapter.sm_lid:#x}",
        "sm_sl": 0,
        "pkeys/0": f"{adapter.pkey:#06x}",
        **(_ETHERNET if adapter.kind.ethernet else _INFINIBAND),
    }
    yield from _texts(at, values)
    for index, (gid, version) in enumerate(gids(adapter)):
        yield text(f"{at}/gids/{index}", gid)
        yield text(f"{at}/gid_attrs/types/{index}", "RoCE v2" if version == 2 else "IB/RoCE v1")
        if adapter.kind.ethernet:
            yield text(f"{at}/gid_attrs/ndevs/{index}", adapter.netdev)
    for name in COUNTERS:
        yield Entry(f"{at}/counters/{name}", b"0\n", counts=True)
    for name in HARDWARE_COUNTERS:
        yield Entry(f"{at}/hw_counters/{name}", b"0\n", counts=True)


def gids(adapter: Adapter) -> tuple[tuple[str, int], ...]:
    """(GID, RoCE version) in the order of their indexes; InfiniBand has one, RoCE two per
    address."""
    local = f"fe80:0000:0000:0000:{adapter.guid}"
    if not adapter.kind.ethernet:
        return ((local, 1),)
    local_gids = ((local, 1), (local, 2))
    if adapter.ipv4 is None:
        return local_gids
    a, b, c, d = (int(part) for part in adapter.ipv4.split("."))
    mapped = f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"
    return (*local_gids, (mapped, 1), (mapped, 2))


def growing(adapter: str, seconds: float, mark: str) -> str:
    """A shell line for the node that lets the error counters of a port grow, in the background and
    for so long at most; `mark` is its last word."""
    # A reader sees the old number or the new one, never an empty file.
    count = "read -r v <$f && echo $((v + 7)) >${f%/*}/.next && mv ${f%/*}/.next $f || exit"
    loop = f"while :; do for f in {' '.join(_GROWING)}; do {count}; done; sleep 0.1; done"
    ports = f"/sys/class/infiniband/{adapter}/ports/1"
    return (
        f"cd {ports} || exit; setsid timeout -s KILL {seconds:g} sh -c {shlex.quote(loop)} {mark}"
        " </dev/null >/dev/null 2>&1 &"
    )
