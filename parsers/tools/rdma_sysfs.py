"""RDMA devices as `/sys/class/infiniband` tells them, from busbw's own loop: lines of `rdma DEV KEY
VALUE`, `port DEV N KEY VALUE`, `gid DEV N INDEX GID TYPE` and `pkey DEV N pkeys/INDEX KEY`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from busbw.parsers.tools import Tool, ToolFact
from busbw.text import whole_number

_PKEY = re.compile(r"pkeys/(\d+)\b[^0\n]*(0x[0-9a-fA-F]{4})\b")
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec(?: \(([^)]*)\))?")
_HEX = re.compile(r"0x[0-9a-f]+")
_IPV4 = "0000:0000:0000:0000:0000:ffff:"
"""How a GID that holds an IPv4 address begins."""


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One key of a port's table: `/sys/class/infiniband/DEV/ports/N/pkeys/I`."""

    index: int
    key: int
    """16 bits."""

    @property
    def full_member(self) -> bool:
        """Bit 15: limited members reach full members only, never each other."""
        return bool(self.key & 0x8000)


def parse_pkeys(text: str) -> tuple[PartitionKey, ...]:
    """The keys that are set; () = none in the text. A key 0x0000 is an empty slot.

    >>> parse_pkeys("pkeys/0 0x7fff\\npkeys/1 0x0000\\n")
    (PartitionKey(index=0, key=32767),)
    """
    keys = (PartitionKey(int(index), int(key, 16)) for index, key in _PKEY.findall(text))
    return tuple(key for key in keys if key.key)


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
    netdev: str | None = None
    """The Ethernet interface of its first GID."""
    rocev2_ipv6: tuple[int, ...] = ()
    """Indexes of RoCE v2 GIDs with a global IPv6 address."""
    keys: tuple[PartitionKey, ...] = ()
    """P_Keys up to the first empty slot; () = not shown."""


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
    attributes: dict[str, dict[str, str]] = {}
    ports: dict[str, dict[int, _PortLines]] = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        words = rest.split(" ", 3)
        if kind == "rdma" and len(words) > 2:
            attributes.setdefault(words[0], {})[words[1]] = rest.split(" ", 2)[2].strip()
        elif len(words) == 4 and (number := whole_number(words[1])) is not None:
            lines = ports.setdefault(words[0], {}).setdefault(number, _PortLines())
            lines.add(kind, words[2], words[3])
    return tuple(
        SysfsDevice(
            name=name,
            firmware=own.get("fw_ver") or None,
            board_id=own.get("board_id") or None,
            hca_type=own.get("hca_type") or None,
            numa=own.get("numa_node") or None,
            ports=tuple(
                _port(number, lines)
                for number, lines in sorted(ports.get(name, {}).items())
                if lines.values
            ),
        )
        for name, own in attributes.items()
    )


@dataclass(slots=True)
class _PortLines:
    """The lines of one port, as far as they are read."""

    values: dict[str, str] = field(default_factory=dict)
    ipv4: list[int] = field(default_factory=list)
    """Indexes of RoCE v2 GIDs."""
    ipv6: list[int] = field(default_factory=list)
    keys: list[PartitionKey] = field(default_factory=list)

    def add(self, kind: str, name: str, value: str) -> None:
        """`name`: the attribute, the GID's index, or the place of the P_Key."""
        if kind == "port":
            self.values[name] = value.strip()
        elif kind == "pkey":
            self.keys.extend(parse_pkeys(f"{name} {value}"))
        elif kind == "gid" and value.endswith(" RoCE v2"):
            index = whole_number(name)
            if index is not None:
                (self.ipv4 if value.startswith(_IPV4) else self.ipv6).append(index)


def _port(number: int, lines: _PortLines) -> SysfsPort:
    values = lines.values
    rate = _RATE.match(values.get("rate", ""))
    lid = values.get("sm_lid", "")
    return SysfsPort(
        number=number,
        state=_named(values.get("state")),
        physical_state=_named(values.get("phys_state")),
        rate_gbit_s=float(rate[1]) if rate else None,
        lanes=rate[2] if rate else None,
        link_layer=values.get("link_layer"),
        sm_lid=int(lid, 16) if _HEX.fullmatch(lid) else None,
        rocev2_ipv4=tuple(sorted(lines.ipv4)),
        netdev=values.get("netdev") or None,
        rocev2_ipv6=tuple(sorted(lines.ipv6)),
        keys=tuple(lines.keys),
    )


def _named(text: str | None) -> str | None:
    """`4: ACTIVE` without its number."""
    return text.partition(":")[2].strip() or text if text else None


def _facts(keys: tuple[PartitionKey, ...]) -> tuple[ToolFact, ...]:
    first = keys[0]
    limited = first.index == 0 and not first.full_member
    return (ToolFact("rdma.pkey", (("limited_at_0", limited),)),)


TOOL = Tool(
    name="P_Key table",
    marks=("pkeys/",),
    parse=parse_pkeys,
    lines=lambda key: (f"index {key.index}: {key.key:#06x}",),
    facts=_facts,
)
