"""What the other tools of a node with invented hardware print: those that are not free to install, or that need a real device.

`ibstat`, `ibstatus`, `ibv_devices` and `lspci` are the real programs and are not here. Composed in the layouts of MLNX_OFED 5 to 24 (ofed_info,
show_gids, mlnx_qos, ibdev2netdev, mlxfwmanager), rdma-core 44 (ibv_devinfo), util-linux 2.38 (dmesg), systemd 252 (systemctl is-active).
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.lab import persona_smi
from busbw.lab.persona_entries import Entry, text
from busbw.lab.persona_node import Adapter, NodeHardware
from busbw.lab.persona_sysfs import gids

_MTU_CODES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
_STATE_CODES = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4}


def entries(node: NodeHardware) -> tuple[Entry, ...]:
    """One file per tool and question, below `answers`; a tool is there if it has any."""
    return tuple(_all(node))


def programs(node: NodeHardware, *, devices: bool) -> tuple[str, ...]:
    """The tools that have answers on this node, sorted. Faults change what they say, never which there are.

    `devices` = the lab could make device files, so that the real `ibv_devices` finds some.
    """
    return tuple(sorted({entry.path.split("/")[1] for entry in entries(node)} - ({"ibv_devices"} if devices else set())))


def _all(node: NodeHardware) -> Iterator[Entry]:
    yield from persona_smi.entries(node)
    yield text("answers/dmesg/any", *node.kernel_log)
    release = node.persona.cuda
    yield text(
        "answers/nvcc/--version", "nvcc: NVIDIA (R) Cuda compiler driver", f"Cuda compilation tools, release {release}, V{release}.140"
    )
    yield text("answers/systemctl/active", *(["nvidia-fabricmanager"] if node.fabric_manager else []), "nvidia-persistenced")
    if node.persona.adapters is None:
        return
    yield from _devinfo(node)
    yield text("answers/ibdev2netdev/any", *(_netdev(adapter) for adapter in node.adapters))
    yield text("answers/mlxfwmanager/any", *(line for adapter in node.adapters for line in _firmware(adapter)))
    if node.persona.ofed:
        yield text("answers/ofed_info/-s", f"{node.ofed}:")
    if node.persona.adapters.ethernet:
        yield text("answers/show_gids/any", *_gids(node))
        yield from (text("answers/mlnx_qos/any.err", "Invalid interface name"), text("answers/mlnx_qos/any.status", 1))
        yield from (text(f"answers/mlnx_qos/-i_{adapter.netdev}", *_qos(adapter)) for adapter in node.adapters)


def _devinfo(node: NodeHardware) -> Iterator[Entry]:
    """The real one opens the device and asks it."""
    at, listed = "answers/ibv_devinfo", "answers/ibv_devices"
    if not node.verbs:
        for tool, status in ((at, 255), (listed, 1)):
            yield text(f"{tool}/any.err", "Failed to get IB devices list: Function not implemented")
            yield text(f"{tool}/any.status", status)
        return
    rows = (f"    {adapter.name:<16}\t{adapter.guid.replace(':', '')}" for adapter in node.adapters)
    yield text(f"{listed}/any", "    device          \t   node GUID", "    ------          \t----------------", *rows)
    if not node.adapters:
        yield text(f"{at}/any.err", "No IB devices found")
        yield text(f"{at}/any.status", 255)
        return
    yield text(f"{at}/plain", *(line for adapter in node.adapters for line in _device(adapter)))
    yield text(f"{at}/-l", f"{len(node.adapters)} HCAs found:", *(f"\t{adapter.name}" for adapter in node.adapters), "")
    yield from (text(f"{at}/-d_{adapter.name}", *_device(adapter)) for adapter in node.adapters)


def _device(adapter: Adapter) -> Iterator[str]:
    kind = adapter.kind
    yield f"hca_id:\t{adapter.name}"
    yield "\ttransport:\t\t\tInfiniBand (0)"
    yield f"\tfw_ver:\t\t\t\t{adapter.firmware}"
    yield f"\tnode_guid:\t\t\t{adapter.guid}"
    yield f"\tsys_image_guid:\t\t\t{adapter.guid}"
    yield "\tvendor_id:\t\t\t0x02c9"
    yield f"\tvendor_part_id:\t\t\t{kind.hca_type.removeprefix('MT')}"
    yield "\thw_ver:\t\t\t\t0x0"
    yield f"\tboard_id:\t\t\t{kind.board}"
    yield "\tphys_port_cnt:\t\t\t1"
    yield "\t\tport:\t1"
    yield f"\t\t\tstate:\t\t\tPORT_{adapter.state} ({_STATE_CODES[adapter.state]})"
    yield "\t\t\tmax_mtu:\t\t4096 (5)"
    yield f"\t\t\tactive_mtu:\t\t{adapter.mtu} ({_MTU_CODES[adapter.mtu]})"
    yield f"\t\t\tsm_lid:\t\t\t{adapter.sm_lid}"
    yield f"\t\t\tport_lid:\t\t{0 if kind.ethernet else adapter.lid}"
    yield "\t\t\tport_lmc:\t\t0x00"
    yield f"\t\t\tlink_layer:\t\t{'Ethernet' if kind.ethernet else 'InfiniBand'}"
    yield ""


def _netdev(adapter: Adapter) -> str:
    return f"{adapter.name} port 1 ==> {adapter.netdev} ({'Up' if adapter.state == 'ACTIVE' else 'Down'})"


def _firmware(adapter: Adapter) -> Iterator[str]:
    kind = adapter.kind
    yield f"Device #{int(adapter.name.removeprefix('mlx5_')) + 1}:"
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
            yield f"\tprio:{priority} dscp:{','.join(f'{8 * priority + low:02}' for low in range(7, -1, -1))},"
    yield "default priority:"
    yield "Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,max_buffer_size=1027728"
    yield "Cable len: 7"
    yield "PFC configuration:"
    yield "\tpriority    0   1   2   3   4   5   6   7"
    yield "\tenabled     " + "".join(f"{int(priority in adapter.pfc_priorities)}   " for priority in range(8))
    yield "\tbuffer      " + "".join(f"{int(priority in adapter.pfc_priorities)}   " for priority in range(8))
    yield "tc: 0 ratelimit: unlimited, tsa: vendor"
    yield from (f"\t priority:  {priority}" for priority in range(8))
