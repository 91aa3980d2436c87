"""RDMA devices as `/sys/class/infiniband` tells them, from busbw's own loop: `rdma DEV KEY VALUE` and `port DEV N KEY VALUE` lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DEVICE = re.compile(r"^rdma (\S+) (\w+) (.*)$", re.M)
_PORT = re.compile(r"^port (\S+) (\d+) (\w+) (.*)$", re.M)
_GID = re.compile(r"^gid (\S+) (\d+) (\d+) (\S+) (RoCE v2|IB/RoCE v1)$", re.M)


@dataclass(frozen=True, slots=True)
class SysfsPort:
    """One port; None = the kernel does not say."""

    number: int
    state: str | None
    """`ACTIVE`, `DOWN`, `INIT`, `ARMED`."""
    physical_state: str | None
    """`LinkUp`, `Polling`, `Disabled`…"""
    rate_gbit_s: float | None
    lanes: str | None
    """`4X NDR`."""
    link_layer: str | None
    sm_lid: int | None
    rocev2_ipv4: tuple[int, ...]
    """Indexes of RoCE v2 GIDs with an IPv4 address."""


@dataclass(frozen=True, slots=True)
class SysfsDevice:
    """One device."""

    name: str
    firmware: str | None
    board_id: str | None
    hca_type: str | None
    numa: str | None
    ports: tuple[SysfsPort, ...]


def parse(text: str) -> tuple[SysfsDevice, ...]:
    """The devices; () = the kernel lists none.

    >>> parse('''rdma mlx5_0 fw_ver 28.39.1002
    ... port mlx5_0 1 state 4: ACTIVE
    ... port mlx5_0 1 rate 400 Gb/sec (4X NDR)
    ... ''')[0].ports[0].rate_gbit_s
    400.0
    """
    fields: dict[str, dict[str, str]] = {}
    ports: dict[str, dict[int, dict[str, str]]] = {}
    gids: dict[tuple[str, int], list[int]] = {}
    for name, key, value in _DEVICE.findall(text):
        fields.setdefault(name, {})[key] = value.strip()
    for name, number, key, value in _PORT.findall(text):
        ports.setdefault(name, {}).setdefault(int(number), {})[key] = value.strip()
    for name, number, index, gid, kind in _GID.findall(text):
        if kind == "RoCE v2" and gid.startswith("0000:0000:0000:0000:0000:ffff:"):
            gids.setdefault((name, int(number)), []).append(int(index))
    return tuple(
        SysfsDevice(
            name=name,
            firmware=said.get("fw_ver") or None,
            board_id=said.get("board_id") or None,
            hca_type=said.get("hca_type") or None,
            numa=said.get("numa_node") or None,
            ports=tuple(
                _port(number, values, tuple(sorted(gids.get((name, number), ())))) for number, values in sorted(ports.get(name, {}).items())
            ),
        )
        for name, said in fields.items()
    )


def _port(number: int, values: dict[str, str], rocev2: tuple[int, ...]) -> SysfsPort:
    rate = re.match(r"([\d.]+) Gb/sec(?: \(([^)]*)\))?", values.get("rate", ""))
    lid = values.get("sm_lid", "")
    return SysfsPort(
        number=number,
        state=_named(values.get("state")),
        physical_state=_named(values.get("phys_state")),
        rate_gbit_s=float(rate[1]) if rate else None,
        lanes=rate[2] if rate else None,
        link_layer=values.get("link_layer"),
        sm_lid=int(lid, 16) if re.fullmatch(r"0x[0-9a-f]+", lid) else None,
        rocev2_ipv4=rocev2,
    )


def _named(text: str | None) -> str | None:
    """`4: ACTIVE` without its number."""
    return text.partition(":")[2].strip() or text if text else None
