"""What the other tools of a node with invented hardware print: those that are not free to install,
or that need a real device.

`ibstat`, `ibstatus`, `ibv_devices` and `lspci` are the real programs and are not here. Composed
in the layouts of MLNX_OFED 5 to 24 (ofed_info, show_gids, mlnx_qos, ibdev2netdev, mlxfwmanager),
rdma-core 44 (ibv_devinfo), util-linux 2.38 (dmesg), systemd 252 (systemctl is-active).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from busbw.lab import persona_amd, persona_smi
from busbw.lab.file_tree import Entry, text
from busbw.lab.node_hardware import Adapter, NodeHardware
from busbw.lab.persona_sysfs import STATES, gids, number_of

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
    yield f"\t\t\tstate:\t\t\tPORT_{adapter.state} ({STATES[adapter.state]})"
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
    yield f"Device #{number_of(adapter) + 1}:"
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
