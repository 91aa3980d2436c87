"""How the nodes of a cluster are cabled: links with both ends, what they run at, what they counted,
and which rail ends on which leaf."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EndKind(StrEnum):
    """What a cable ends in."""

    NIC = "nic"
    SWITCH = "switch"
    ROUTER = "router"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """One end of a link."""

    kind: EndKind
    name: str
    """As the fabric names it: the node description (`gpu-001 mlx5_0`, `MF0;leaf01:MQM9700/U1`) or
    the LLDP system name."""
    port: str
    """As printed: `1`, `1/3/1`, `swp12`."""
    guid: str | None = None
    """Node GUID, or port GUID where the tool prints that one: 16 hexadecimal digits; None = not
    printed."""
    lid: int | None = None
    """None = not printed, or none was given (0)."""
    node: str | None = None
    """The inventory's name of the node; None = a switch, or no node of the inventory."""
    device: str | None = None
    """The node's own name of the adapter or interface: `mlx5_0`, `eth0`; None = not reported."""

    def label(self) -> str:
        """For people: `gpu-001 mlx5_0`, `leaf01 port 12`."""
        if self.node is not None:
            return f"{self.node} {self.device}" if self.device else f"{self.node} port {self.port}"
        return f"{self.name} port {self.port}"


@dataclass(frozen=True, slots=True)
class PortErrors:
    """What one port counted since its counters were last cleared."""

    end: LinkEnd
    counters: tuple[tuple[str, int], ...]
    """Names as the tool prints them (`SymbolErrorCounter`), those above its thresholds only."""
    line_no: int | None = None
    source: str = ""
    """File it was read from, as given or inside the run directory."""


@dataclass(frozen=True, slots=True)
class FabricLink:
    """One cable, or one port without a peer port."""

    a: LinkEnd
    """The adapter's end where one end is an adapter."""
    b: LinkEnd | None
    """None = nothing answers at the peer port."""
    state: str | None = None
    """`Active`, `Down`, `Initialize`, `Armed`; None = not printed (a text that lists only what is
    up)."""
    physical_state: str | None = None
    """`LinkUp`, `Polling`, `Disabled`; None = not printed."""
    width: str | None = None
    """`4X`; None = not printed."""
    speed: str | None = None
    """Per lane, by name: `NDR`, `HDR`; None = not printed."""
    rate_gbit_s: float | None = None
    """Data rate of all lanes in Gb/s; None = not known."""
    hint: str = ""
    """What the tool says the link could be: `Could be 4X`."""
    line_no: int | None = None
    source: str = ""

    def label(self) -> str:
        """For people: `gpu-001 mlx5_0 – leaf01 port 12`."""
        return (
            f"{self.a.label()} – {self.b.label()}"
            if self.b is not None
            else f"{self.a.label()} – nothing"
        )


@dataclass(frozen=True, slots=True)
class TopologyNic:
    """One adapter of a node and where it is plugged in."""

    node: str
    device: str
    rail: int | None
    """Position among the node's rails from 0; None = no rail of the inventory's list."""
    leaf: str | None
    """Name of the switch; None = no peer port is known."""
    leaf_port: str | None


@dataclass(frozen=True, slots=True)
class Leaf:
    """A switch that nodes are plugged into."""

    name: str
    guid: str | None
    nodes: tuple[str, ...]
    """Who shares it, in the order of the inventory."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The fabric as its own tools tell it."""

    nodes: tuple[str, ...]
    """Nodes of the inventory that were found in it, in the inventory's order."""
    nics: tuple[TopologyNic, ...]
    leaves: tuple[Leaf, ...]
    links: tuple[FabricLink, ...]
    errors: tuple[PortErrors, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    """Nodes that are to share their leaves, as the inventory's labels `group` or `leaf` state it;
    () = not stated, to be seen from the cabling."""
    missing: tuple[str, ...] = ()
    """Nodes of the inventory of which the fabric's tools show nothing."""
    sources: tuple[str, ...] = ()
    """What was read, as `iblinkinfo: raw/fabric/gpu-001.txt`."""
    problems: tuple[str, ...] = ()
    """What could not be read, or not wholly."""

    def leaf_of(self, node: str, rail: int) -> str | None:
        """The leaf that a rail of a node ends on; None = not known."""
        return next((nic.leaf for nic in self.nics if nic.node == node and nic.rail == rail), None)

    def together(self, a: str, b: str) -> bool | None:
        """Whether two nodes reach each other under one leaf on every rail both have; None = not
        known."""
        rails = {nic.rail for nic in self.nics if nic.node in (a, b) and nic.rail is not None}
        pairs = [(self.leaf_of(a, rail), self.leaf_of(b, rail)) for rail in rails]
        if not pairs or any(None in pair for pair in pairs):
            return None
        return all(one == other for one, other in pairs)
