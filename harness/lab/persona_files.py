"""What the kernel of a node with invented hardware shows in /sys, /dev and /proc: trees that
busbw.lab's scripts lay over the real ones.

Written against Linux 6.1 (Documentation/ABI/stable/sysfs-class-infiniband,
Documentation/ABI/testing/sysfs-bus-pci) and what rdma-core 44 and pciutils 3.9 read of it. No more
is made than tools ask for.
"""

from __future__ import annotations

import shlex
import shutil
import struct
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from busbw.lab import persona, persona_amd, persona_faults, persona_smi
from busbw.lab.persona import Adapter, Entry, Gpu, NodeHardware, replace_tree, text, write_tree
from busbw.lab.state import LabNode, LabState, Mode

# PCI configuration space of invented devices, as the real `lspci` reads it from sysfs.
#
# Written against the PCI Express Base Specification 5.0 (capability layouts, chapters 7.5 and
# 7.7) and pciutils 3.9.

_EXPRESS = 0x60
"""Where the PCI Express capability is put."""
_ACS_ID = 0x000D
_ACS_ALL = 0x5F
"""Source validation, translation blocking, request and completion redirect, upstream forwarding,
direct translated: what switches offer."""
_ACS_ON = 0x1D
"""What a kernel with an IOMMU switches on."""
_ENDPOINT, _DOWNSTREAM = 0x0, 0x6
SPEEDS = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe", 6: "64.0 GT/s PCIe"}
"""By PCI Express generation, as the kernel writes them."""


def endpoint(
    vendor: int,
    device: int,
    device_class: int,
    generation: int,
    width: int,
    *,
    read_request_bytes: int = 4096,
    relaxed: bool = True,
) -> bytes:
    """A device with a PCI Express link of 16 lanes, `width` of which are up."""
    space = _header(vendor, device, device_class, 0)
    control = (0x10 if relaxed else 0) | (read_request_bytes.bit_length() - 8) << 12
    _express(space, _ENDPOINT, generation, width, control)
    return bytes(space)


def bridge(bus: int, generation: int, width: int, *, acs: bool) -> bytes:
    """A downstream port of a switch with one bus behind it, with access control services."""
    space = _header(0x1000, 0xC030, 0x060400, 1)
    struct.pack_into("<BBB", space, 0x18, bus - 1, bus, bus)
    _express(space, _DOWNSTREAM, generation, width, 0)
    struct.pack_into("<IHH", space, 0x100, _ACS_ID | 1 << 16, _ACS_ALL, _ACS_ON if acs else 0)
    return bytes(space)


def _header(vendor: int, device: int, device_class: int, kind: int) -> bytearray:
    space = bytearray(4096)
    # Command: memory, bus master, parity and system errors. Status: there is a capability list.
    struct.pack_into("<HHHH", space, 0, vendor, device, 0x0146, 0x0010)
    space[9:12] = device_class.to_bytes(3, "little")
    space[0x0E] = kind
    space[0x34] = _EXPRESS
    return space


def _express(space: bytearray, port: int, generation: int, width: int, control: int) -> None:
    struct.pack_into("<BBH", space, _EXPRESS, 0x10, 0, 2 | port << 4)
    struct.pack_into("<IH", space, _EXPRESS + 0x04, 0x8000 | 2, control | 2 << 5)
    struct.pack_into(
        "<IHH", space, _EXPRESS + 0x0C, generation | 16 << 4, 0, generation | width << 4
    )
    struct.pack_into("<I", space, _EXPRESS + 0x2C, (1 << generation) - 1 << 1)
    struct.pack_into("<H", space, _EXPRESS + 0x30, generation)


_STATES = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4}
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
    return f"uverbs{_number_of(adapter)}"


def _number_of(adapter: Adapter) -> int:
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
        persona.bridge(address), 0x1000, 0xC030, _BRIDGE, numa, generation, width, config
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
        "state": f"{_STATES[adapter.state]}: {adapter.state}",
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


# What the other tools of a node with invented hardware print: those that are not free to install,
# or that need a real device.
#
# `ibstat`, `ibstatus`, `ibv_devices` and `lspci` are the real programs and are not here. Composed
# in the layouts of MLNX_OFED 5 to 24 (ofed_info,
# show_gids, mlnx_qos, ibdev2netdev, mlxfwmanager), rdma-core 44 (ibv_devinfo), util-linux 2.38
# (dmesg), systemd 252 (systemctl is-active).

_MTU_CODES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}


def tool_entries(node: NodeHardware) -> tuple[Entry, ...]:
    """One file per tool and question, below `answers`; a tool is there if it has any."""
    return tuple(_all_tools(node))


def programs(node: NodeHardware, *, devices: bool) -> tuple[str, ...]:
    """The tools that have answers on this node, sorted. Faults change what they say, never which
    there are.

    `devices` = the lab could make device files, so that the real `ibv_devices` finds some; of
    newer adapters than this machine's library knows it finds none.
    """
    names = {entry.path.split("/")[1] for entry in tool_entries(node)}
    adapters = node.persona.adapters
    if devices and adapters is not None and adapters.driver == "mlx5":
        names.discard("ibv_devices")
    return tuple(sorted(names))


def _all_tools(node: NodeHardware) -> Iterator[Entry]:
    yield text("answers/dmesg/any", *node.kernel_log)
    if node.persona.gpus.is_amd:
        yield from persona_amd.entries(node)
        yield text("answers/systemctl/active", "dbus")
    else:
        yield from persona_smi.entries(node)
        yield from _nvidia_software(node)
    if node.persona.adapters is None:
        return
    yield from _devinfo(node)
    yield text("answers/ibdev2netdev/any", *map(_netdev, node.adapters))
    if node.persona.adapters.driver != "mlx5":
        return
    yield text("answers/mlxfwmanager/any", *chain.from_iterable(map(_firmware, node.adapters)))
    if node.persona.ofed:
        yield text("answers/ofed_info/-s", f"{node.ofed}:")
    if node.persona.adapters.ethernet:
        yield text("answers/show_gids/any", *_gids(node))
        yield text("answers/mlnx_qos/any.err", "Invalid interface name")
        yield text("answers/mlnx_qos/any.status", 1)
        for adapter in node.adapters:
            yield text(f"answers/mlnx_qos/-i_{adapter.netdev}", *_qos(adapter))


def _nvidia_software(node: NodeHardware) -> Iterator[Entry]:
    release = node.persona.cuda
    yield text(
        "answers/nvcc/--version",
        "nvcc: NVIDIA (R) Cuda compiler driver",
        f"Cuda compilation tools, release {release}, V{release}.140",
    )
    services = ["nvidia-persistenced"]
    if node.fabric_manager:
        services.insert(0, "nvidia-fabricmanager")
    if node.imex_nodes:
        services.append("nvidia-imex")
        yield text("answers/nvidia-imex-ctl/-N", *_imex(node))
    yield text("answers/systemctl/active", *services)


def _imex(node: NodeHardware) -> Iterator[str]:
    """As each node sees the domain: IMEX 560 to 580."""
    yield "Nodes:"
    for number, (address, state) in enumerate(node.imex_nodes):
        yield f"Node #{number}   * {address} *   - {state:<12} - Version: {node.driver}"
    ready = all(state == "READY" for _, state in node.imex_nodes)
    state = "DOWN" if node.imex != "READY" else "UP" if ready else "DEGRADED"
    yield f"Domain State: {state}"


def _devinfo(node: NodeHardware) -> Iterator[Entry]:
    """The real one opens the device and asks it."""
    at, listed = "answers/ibv_devinfo", "answers/ibv_devices"
    if not node.verbs:
        for tool, status in ((at, 255), (listed, 1)):
            yield text(f"{tool}/any.err", "Failed to get IB devices list: Function not implemented")
            yield text(f"{tool}/any.status", status)
        return
    rows = ["    device          \t   node GUID", "    ------          \t----------------"]
    for adapter in node.adapters:
        rows.append(f"    {adapter.name:<16}\t{adapter.guid.replace(':', '')}")
    yield text(f"{listed}/any", *rows)
    if not node.adapters:
        yield text(f"{at}/any.err", "No IB devices found")
        yield text(f"{at}/any.status", 255)
        return
    yield text(f"{at}/plain", *chain.from_iterable(map(_tool_device, node.adapters)))
    names = [f"\t{adapter.name}" for adapter in node.adapters]
    yield text(f"{at}/-l", f"{len(names)} HCAs found:", *names, "")
    for adapter in node.adapters:
        yield text(f"{at}/-d_{adapter.name}", *_tool_device(adapter))


def _tool_device(adapter: Adapter) -> Iterator[str]:
    kind = adapter.kind
    yield f"hca_id:\t{adapter.name}"
    yield "\ttransport:\t\t\tInfiniBand (0)"
    yield f"\tfw_ver:\t\t\t\t{adapter.firmware}"
    yield f"\tnode_guid:\t\t\t{adapter.guid}"
    yield f"\tsys_image_guid:\t\t\t{adapter.guid}"
    vendor = 0x02C9 if kind.driver == "mlx5" else kind.pci_vendor
    yield f"\tvendor_id:\t\t\t{vendor:#06x}"
    yield f"\tvendor_part_id:\t\t\t{kind.hca_type.removeprefix('MT')}"
    yield "\thw_ver:\t\t\t\t0x0"
    yield f"\tboard_id:\t\t\t{kind.board}"
    yield "\tphys_port_cnt:\t\t\t1"
    yield "\t\tport:\t1"
    yield f"\t\t\tstate:\t\t\tPORT_{adapter.state} ({_STATES[adapter.state]})"
    yield "\t\t\tmax_mtu:\t\t4096 (5)"
    yield f"\t\t\tactive_mtu:\t\t{adapter.mtu} ({_MTU_CODES[adapter.mtu]})"
    yield f"\t\t\tsm_lid:\t\t\t{adapter.sm_lid}"
    yield f"\t\t\tport_lid:\t\t{0 if kind.ethernet else adapter.lid}"
    yield "\t\t\tport_lmc:\t\t0x00"
    yield f"\t\t\tlink_layer:\t\t{'Ethernet' if kind.ethernet else 'InfiniBand'}"
    yield ""


def _netdev(adapter: Adapter) -> str:
    state = "Up" if adapter.state == "ACTIVE" else "Down"
    return f"{adapter.name} port 1 ==> {adapter.netdev} ({state})"


def _firmware(adapter: Adapter) -> Iterator[str]:
    kind = adapter.kind
    yield f"Device #{_number_of(adapter) + 1}:"
    yield from ("----------", "")
    yield f"  Device Type:      {kind.name.replace('-', '')}"
    yield f"  Part Number:      {kind.part}"
    yield f"  PSID:             {kind.board}"
    yield f"  PCI Device Name:  {adapter.address}"
    yield "  Versions:         Current        Available"
    yield f"     FW             {adapter.firmware:<15}N/A"
    yield from ("", "  Status:           No matching image found", "")


def _gids(node: NodeHardware) -> Iterator[str]:
    yield "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV"
    yield "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---"
    count = 0
    for adapter in node.adapters:
        for index, (gid, version) in enumerate(gids(adapter)):
            address = f"{adapter.ipv4 or ''}  " if ":ffff:" in gid else "\t"
            yield f"{adapter.name}\t1\t{index}\t{gid}\t{address}\tv{version}\t{adapter.netdev}"
            count += 1
    yield f"n_gids_found={count}"


def _qos(adapter: Adapter) -> Iterator[str]:
    yield "DCBX mode: OS controlled"
    yield f"Priority trust state: {adapter.trust}"
    if adapter.trust == "dscp":
        yield "dscp2prio mapping:"
        for priority in range(8):
            codes = [f"{code:02}," for code in reversed(range(8 * priority, 8 * priority + 8))]
            yield f"\tprio:{priority} dscp:{''.join(codes)}"
    yield "default priority:"
    yield "Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,max_buffer_size=1027728"
    yield "Cable len: 7"
    yield "PFC configuration:"
    yield "\tpriority    0   1   2   3   4   5   6   7"
    flags = "".join(f"{int(priority in adapter.pfc_priorities)}   " for priority in range(8))
    yield f"\tenabled     {flags}"
    yield f"\tbuffer      {flags}"
    yield "tc: 0 ratelimit: unlimited, tsa: vendor"
    for priority in range(8):
        yield f"\t priority:  {priority}"


# The files of invented hardware on a lab's nodes: written when the lab is made, changed when a
# fault is switched. A node reads them as they are.

HARDWARE = "hardware"
"""Directory below a node's own."""
_TOOL = Path(__file__).parent / "scripts/tool.sh"


def install(state: LabState, node: LabNode, directory: Path) -> None:
    """Write what the node shows, below its own directory.

    Raises:
        LabError: the lab shows no invented hardware.
    """
    hardware = persona_faults.hardware(state, node)
    write_tree(directory / HARDWARE, _tree(hardware))
    shutil.copy(_TOOL, directory / HARDWARE / _TOOL.name)
    (directory / HARDWARE / _TOOL.name).chmod(0o755)
    for program in programs(hardware, devices=state.mode is Mode.ROOT):
        (directory / "bin" / program).symlink_to(f"../{HARDWARE}/{_TOOL.name}")


def refresh(before: LabState, after: LabState, nodes: Path) -> None:
    """Let every node show what the record says; `nodes` holds the nodes' directories."""
    if after.persona is None:
        return
    for node in after.nodes:
        old, new = persona_faults.hardware(before, node), persona_faults.hardware(after, node)
        if old != new:
            replace_tree(nodes / node.name / HARDWARE, _tree(old), _tree(new))


def _tree(node: NodeHardware) -> tuple[Entry, ...]:
    return (*sysfs_entries(node), *tool_entries(node), text("cpu-model", node.persona.cpu_model))
