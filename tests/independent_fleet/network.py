"""A fabric as a graph of links, and what flows that run at once get of it: max-min fairness by
progressive filling (Bertsekas and Gallager, Data Networks, section 6.5).

Nothing here is a formula for one topology. A flow goes through the links of its route, and what is
left of a link when some of its flows end goes to the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Routing = Literal["adaptive", "ecmp", "static"]

SAME = 0.002
"""Links whose fair shares differ by less than this fill at the same moment."""
SAME_END = 0.02
"""Flows whose ends differ by less than this end together."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which parts a fleet has and how they are joined."""

    nodes: int
    rails: int
    per_leaf: int
    """Nodes below one leaf, or below one set of leaves, a leaf for each rail."""
    rail_optimised: bool
    """The k-th NICs of a unit's nodes share a leaf; else all NICs of a node do (top of rack)."""
    spines: int
    oversubscription: float
    routing: Routing
    queue_pairs: int
    """Parts of a flow that ECMP hashes one by one; each carries as many bytes."""
    pcie_pairs: bool
    """Two rails each share a PCIe switch, and GPUs talk over PCIe; else NVLink."""
    nic_gb_s: float
    """Payload of one NIC and direction, as a good node gets it."""

    @property
    def units(self) -> int:
        """Racks, or sets of leaves."""
        return -(-self.nodes // self.per_leaf)

    @property
    def leaves(self) -> int:
        """Leaf switches."""
        return self.units * (self.rails if self.rail_optimised else 1)

    def leaf(self, node: int, nic: int) -> int:
        """The leaf switch that a NIC hangs on."""
        unit = node // self.per_leaf
        return unit * self.rails + nic if self.rail_optimised else unit

    def port(self, node: int, nic: int) -> int:
        """Which port of its leaf a NIC hangs on."""
        below = node % self.per_leaf
        return below if self.rail_optimised else below * self.rails + nic

    @property
    def cable_gb_s(self) -> float:
        """One cable from a leaf to a spine, one direction."""
        ports = self.per_leaf * (1 if self.rail_optimised else self.rails)
        return ports * self.nic_gb_s / self.oversubscription / self.spines


@dataclass(frozen=True, slots=True)
class Links:
    """The place of each link in a list of capacities."""

    layout: Layout

    @property
    def count(self) -> int:
        """All of them."""
        shape = self.layout
        return 8 * shape.nodes * shape.rails + 2 * shape.leaves * shape.spines

    def endpoint(self, kind: int, node: int, rail: int) -> int:
        """kind 0: NIC out, 1: NIC in, 2: GPU out, 3: GPU in, 4: PCIe switch out, 5: in (`rail` is
        the switch), 6: host memory out, 7: in (rail 0)."""
        return (kind * self.layout.nodes + node) * self.layout.rails + rail

    def cable(self, leaf: int, spine: int, *, down: bool) -> int:
        """A cable, from the leaf to the spine or back."""
        base = 8 * self.layout.nodes * self.layout.rails
        return base + (leaf * 2 + down) * self.layout.spines + spine


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction of one group between two neighbours of its ring."""

    source: int
    target: int
    rail: int


@dataclass(frozen=True, slots=True)
class Wiring:
    """What faults change of the routes."""

    nic_of: dict[tuple[int, int], int]
    """(node, rail) → the NIC that its traffic takes instead of its own."""
    through_host: frozenset[int]
    """Nodes without GPUDirect: all bytes pass the memory of the host."""


def hops(links: Links, flow: Flow, wiring: Wiring) -> tuple[list[int], int, int]:
    """(links at both ends, leaf of the source, leaf of the target)."""
    shape, ends = links.layout, []
    leaves = []
    for place, node in enumerate((flow.source, flow.target)):
        nic = wiring.nic_of.get((node, flow.rail), flow.rail)
        ends += [links.endpoint(place, node, nic), links.endpoint(2 + place, node, flow.rail)]
        if shape.pcie_pairs:
            ends.append(links.endpoint(4 + place, node, flow.rail // 2))
        if node in wiring.through_host:
            ends.append(links.endpoint(6 + place, node, 0))
        leaves.append(shape.leaf(node, nic))
    return ends, leaves[0], leaves[1]


@dataclass(frozen=True, slots=True)
class Routes:
    """Parts of streams and the links that they go through. A stream has bytes of its own; its parts
    share them as they can."""

    stream_of: Ints
    """Part → stream."""
    weight: Floats
    """Of each part: the streams of a flow together weigh 1."""
    part: Ints
    link: Ints
    """Part and link of each hop."""
    flow_of: Ints
    """Stream → flow."""
    share: Floats
    """Of its flow's bytes, for each stream."""
    spines: tuple[tuple[int, ...], ...]
    """Spines of each stream; () = it stays below its leaf."""
    leaves: tuple[tuple[int, int], ...]
    """Of each stream: at the source, at the target."""


def route(links: Links, flows: list[Flow], wiring: Wiring, rng: np.random.Generator) -> Routes:
    """Adaptive: a part over each spine, all of one stream. ECMP: a stream for each queue pair on a
    spine drawn for this launch. Static: the spine belongs to the port of the target at its leaf
    (destination modulo spines)."""
    shape = links.layout
    stream_of: list[int] = []
    flow_of: list[int] = []
    part: list[int] = []
    link: list[int] = []
    weight: list[float] = []
    share: list[float] = []
    spines: list[tuple[int, ...]] = []
    leaves: list[tuple[int, int]] = []
    for number, flow in enumerate(flows):
        ends, here, there = hops(links, flow, wiring)
        ways: list[tuple[int, ...]] = [()]
        if here != there and shape.routing == "adaptive":
            ways = [tuple(range(shape.spines))]
        elif here != there and shape.routing == "static":
            ways = [(shape.port(flow.target, flow.rail) % shape.spines,)]
        elif here != there:
            drawn = rng.integers(0, shape.spines, shape.queue_pairs)
            ways = [(int(spine),) for spine in drawn]
        for way in ways:
            stream = len(flow_of)
            flow_of.append(number)
            share.append(1 / len(ways))
            spines.append(way)
            leaves.append((here, there))
            for spine in way or (None,):
                number_of_part = len(stream_of)
                stream_of.append(stream)
                weight.append(1 / len(ways) / max(len(way), 1))
                over = list(ends)
                if spine is not None:
                    over += [
                        links.cable(here, spine, down=False),
                        links.cable(there, spine, down=True),
                    ]
                part += [number_of_part] * len(over)
                link += over
    return Routes(
        np.array(stream_of), np.array(weight), np.array(part), np.array(link), np.array(flow_of),
        np.array(share), tuple(spines), tuple(leaves),
    )  # fmt: skip


def fair_rates(routes: Routes, capacity: Floats, active: NDArray[np.bool_]) -> Floats:
    """Rate of each part, GB/s; 0 for parts of streams that are not `active`."""
    rate = np.zeros(len(routes.weight))
    counted = active[routes.stream_of][routes.part]
    part, link = routes.part[counted], routes.link[counted]
    left, level = capacity.copy(), 0.0
    while len(part):
        load = np.bincount(link, routes.weight[part], len(left))
        used = load > 1e-12
        room = np.full(len(left), np.inf)
        room[used] = np.maximum(left[used], 0.0) / load[used]
        step = float(room.min())
        level += step
        full = room <= step + SAME * level
        left[used] -= step * load[used]
        stopping = np.zeros(len(rate), dtype=bool)
        stopping[part[full[link]]] = True
        rate[stopping] = level * routes.weight[stopping]
        growing = ~stopping[part]
        part, link = part[growing], link[growing]
    return rate


def end_times(routes: Routes, capacity: Floats, bytes_of_flow: Floats, extra: Floats) -> Floats:
    """When each flow ends, if all begin at once. `bytes_of_flow`: in GB, `extra`: factor on the
    bytes of each stream that the wire carries, for what is sent again. Result in seconds."""
    left = bytes_of_flow[routes.flow_of] * routes.share * extra
    ends = np.zeros(len(left))
    active = np.ones(len(left), dtype=bool)
    now = 0.0
    while active.any():
        parts = fair_rates(routes, capacity, active)
        rate = np.bincount(routes.stream_of, parts, len(left))
        need = np.where(active, left / np.maximum(rate, 1e-9), np.inf)
        step = float(need.min())
        ending = active & (need <= step * (1 + SAME_END) + SAME_END * now)
        ends[ending] = now + need[ending]
        left = np.where(active, np.maximum(left - rate * step, 0.0), left)
        now += step
        active &= ~ending
    flows = np.zeros(len(bytes_of_flow))
    np.maximum.at(flows, routes.flow_of, ends)
    return flows
