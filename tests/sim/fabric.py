"""A fleet on a fabric as fabrics are: rail-optimised leaves, three ways of routing, spines that the
round itself loads, neighbours, drift, and noise with its parts. It shares the records of a
measurement with busbw, and nothing else.

Rail r of all nodes of a leaf hangs on that leaf's switch of rail r; such a switch has `cables` to
`spines`, each as fast as one NIC. Simultaneous groups get max-min fair shares of the cables.

What its parameters are taken from:

- leaves: 32 nodes of 8 NICs to a unit, one switch for each rail (NVIDIA DGX SuperPOD H100
  reference architecture); two-stage Clos of racks (Gangidi et al., "RDMA over Ethernet for
  Distributed AI Training at Meta Scale", SIGCOMM 2024); rails over two planes (Qian et al.,
  "Alibaba HPN", SIGCOMM 2024). Leaves of 4 and 8 nodes are small forms of these.
- oversubscription: none at the leaf, 1:7 one stage up ("The Llama 3 Herd of Models", 2024,
  section 3.3.1). The factor 2 of a leaf is an assumption.
- ECMP: few large flows collide; hashing queue pairs and spreading over several gained up to 40 % of
  all-reduce (Gangidi et al.); collisions cost 30 % of 512 GPUs' throughput (Dong et al., "C4", HPCA
  2025, arXiv 2406.04594). 1 to 4 flows a connection stand for NCCL's queue pairs.
- neighbours: production noise takes up to half of an all-reduce's goodput on an InfiniBand
  Dragonfly+ and next to nothing on Slingshot (De Sensi et al., SC 2024, arXiv 2408.14090); congestion
  lengthens runs by over 40 % on Aries (Zhang et al., "Quantifying the impact of network congestion",
  2020); runs differ by a factor of two to three (Chunduri et al., SC 2017).
- drift: 1 to 2 % over a day (Llama 3, section 3.3.4). Faster drift is an assumption.
- partial faults: redundancy hides dead parts as lost bandwidth (Xiong et al., "SuperBench", USENIX
  ATC 2024, arXiv 2402.06194); switches and cables end 8.4 % of what interrupts a run, NICs 1.7 %
  (Llama 3, table 5).
- assumptions, since nobody publishes them: how the noise between launches splits into parts (CV 1
  to 8 %, shared by the rails of a pair or not), the rates of stalls, lost groups and failed
  launches, the length of a neighbour's bursts, and what a dead NIC leaves (its share over a
  fallback network).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model import LaunchRole, Medium
from busbw.parsers.nccl_tests.groups import GroupSample

LINE_GB_S = 48.0
"""Bus bandwidth of one rail of a good pair: 400 Gbit/s without headers."""
INSIDE_GB_S = 420.0
"""Of the GPUs of one good node."""
SIZE_BYTES = 1 << 30
ITERATIONS = 20
"""Size and iterations as playbooks/day-one.yaml has them."""
BUSY_STAYS = 0.7
BUSY_COMES = 0.15
"""Of a neighbour on a leaf, from launch to launch."""
BURST_STAYS = 0.8
"""Of a neighbour's traffic, from iteration to iteration."""
EPISODE_STAYS = 0.6
"""Of a leaf that is slow for minutes, from launch to launch."""
_Link = tuple[str, ...]
Group = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """How nodes hang together."""

    nodes: int
    rails: int
    per_leaf: int
    cables: int
    """Uplinks of one leaf switch; `per_leaf` of them = not oversubscribed."""
    spines: int
    routing: str = "adaptive"
    """`adaptive`, `ecmp` (a hash of each flow, anew in each launch) or `static` (by destination)."""
    flows: int = 2
    """Queue pairs of one direction of one group."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What makes equal measurements differ; shares and standard deviations, 0.01 = 1 %."""

    iteration: float = 0.02
    launch: float = 0.0
    """Of one group from launch to launch."""
    shared: bool = True
    """The rails of a pair have their launch's noise in common."""
    placement: float = 0.0
    """Of one pair of nodes, always."""
    distance: float = 0.0
    """Loss across leaves."""
    drift: float = 0.0
    """Of everything, one launch to the next: a random walk."""
    episodes: float = 0.0
    """Chance of a leaf, in a launch, to be slow for some minutes."""
    tails: float = 0.0
    """Share of iterations with a tail of power 1.5."""
    stalls: float = 0.0
    """Share of iterations that take 10 to 50 times as long."""
    tenants: float = 0.0
    """Most that neighbours take of a leaf's uplinks."""
    lost_groups: float = 0.0
    failed_launches: float = 0.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is bad."""

    kind: str
    """`node`, `rail`, `dead`, `inside`, `leaf`, `uplink`, `cable` or `path` (of two leaves)."""
    names: tuple[str, ...]
    loss: float
    rail: int | None = None
    often: float = 1.0
    """Share of the launches in which it is bad."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What one launch is asked to measure."""

    name: str
    groups: tuple[Group, ...]
    role: LaunchRole


@dataclass(frozen=True, slots=True)
class _Flow:
    """Part of one direction of one group."""

    group: int
    demand: float
    links: tuple[_Link, ...]


@dataclass(frozen=True, slots=True)
class _Wave:
    """What holds while some launches run side by side."""

    bad: tuple[Fault, ...]
    busy: dict[str, float]
    """Leaf → what neighbours take of its uplinks in a burst."""
    bursts: dict[str, tuple[bool, ...]]
    """Leaf → iterations with the neighbours' traffic."""
    level: float
    hiccups: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Series:
    """The iterations of one group on one rail, or on all."""

    group: Group
    rail: int | None
    busbw_gb_s: tuple[float, ...]


def fair_shares(flows: Sequence[_Flow], room: dict[_Link, float]) -> list[float]:
    """Max-min fair rates: all grow together until a link or a demand is full.

    >>> link = ("up", "leaf0", "0")
    >>> fair_shares([_Flow(0, 1.0, (link,)), _Flow(1, 0.2, (link,))], {link: 1.0})
    [0.8, 0.2]
    """
    rates = [flow.demand for flow in flows]
    users: dict[_Link, set[int]] = {}
    for position, flow in enumerate(flows):
        for link in flow.links:
            users.setdefault(link, set()).add(position)
    # A link that holds all that is asked of it decides nothing.
    for link in list(users):
        if sum(flows[position].demand for position in users[link]) <= room[link] + 1e-9:
            del users[link]
    free = dict(room)
    active = {position for members in users.values() for position in members}
    while active:
        share, tightest = min(
            (free[link] / len(members), link) for link, members in users.items() if members
        )
        full = {position for position in active if flows[position].demand <= share}
        batch = full or set(users[tightest])
        for position in batch:
            rates[position] = min(share, flows[position].demand)
            for link in flows[position].links:
                if link in users:
                    free[link] = max(0.0, free[link] - rates[position])
                    users[link].discard(position)
        active -= batch
    return rates


class Fleet:
    """Measures launches."""

    def __init__(
        self,
        layout: Layout,
        noise: Noise,
        faults: tuple[Fault, ...],
        seed: int,
    ) -> None:
        self.layout, self.noise, self.faults = layout, noise, faults
        self.nodes = tuple(f"n{i:04d}" for i in range(layout.nodes))
        self.leaf = {node: f"leaf{i // layout.per_leaf}" for i, node in enumerate(self.nodes)}
        self.leaves = tuple(dict.fromkeys(self.leaf.values()))
        self._random = random.Random(seed)

        self._index = {node: i for i, node in enumerate(self.nodes)}
        self._place: dict[Group, float] = {}
        self._busy: dict[str, float] = {}
        self._slow_leaf: dict[str, float] = {}
        self._walk = 0.0

    def measure(self, launches: Sequence[Launch]) -> tuple[tuple[GroupSample, ...] | None, ...]:
        """What launches that run side by side measure; None = that launch failed."""
        wave = self._next_wave()
        groups = tuple(group for launch in launches for group in launch.groups)
        series = self._series(groups, wave)
        moment = launches[0].name if len(launches) > 1 else ""
        results: list[tuple[GroupSample, ...] | None] = []
        for launch in launches:
            if self._random.random() < self.noise.failed_launches:
                results.append(None)
                continue
            own = set(launch.groups)
            records = [_record(launch, one, moment) for one in series if one.group in own]
            kept = [each for each in records if self._random.random() >= self.noise.lost_groups]
            results.append(tuple(kept))
        return tuple(results)

    def _next_wave(self) -> _Wave:
        """Time goes on: drift, neighbours, slow leaves, faults that come and go."""
        noise, rng = self.noise, self._random
        self._walk += rng.gauss(0, noise.drift)
        for leaf in self.leaves:
            if leaf in self._slow_leaf:
                if rng.random() >= EPISODE_STAYS:
                    del self._slow_leaf[leaf]
            elif rng.random() < noise.episodes:
                self._slow_leaf[leaf] = rng.uniform(0.05, 0.2)
            if leaf in self._busy:
                if rng.random() >= BUSY_STAYS:
                    del self._busy[leaf]
            elif noise.tenants and rng.random() < BUSY_COMES:
                self._busy[leaf] = rng.uniform(0.1, noise.tenants)
        hiccups = [1.0] * ITERATIONS
        for i in range(ITERATIONS):
            if rng.random() < 0.01:
                hiccups[i] = rng.uniform(0.5, 0.95)
        return _Wave(
            tuple(fault for fault in self.faults if rng.random() < fault.often),
            dict(self._busy),
            {leaf: self._burst() for leaf in self._busy},
            math.exp(self._walk),
            tuple(hiccups),
        )

    def _burst(self) -> tuple[bool, ...]:
        on = self._random.random() < 0.5
        states = []
        for _ in range(ITERATIONS):
            if self._random.random() >= BURST_STAYS:
                on = not on
            states.append(on)
        return tuple(states)

    def _series(self, groups: tuple[Group, ...], wave: _Wave) -> list[_Series]:
        """Every group: a pair rail by rail, a ring and a single node as a whole."""
        series = []
        moods: dict[Group, float] = {}
        calm: list[list[float]] = []
        loaded: list[list[float]] = []
        paths = self._paths(groups)
        for rail in range(self.layout.rails):
            calm.append(self._rates(groups, rail, wave, paths[rail], ()))
            loaded.append(calm[-1])
            if wave.busy:
                loaded[-1] = self._rates(groups, rail, wave, paths[rail], tuple(wave.busy))
        for index, group in enumerate(groups):
            moods[group] = self._random.gauss(1, self.noise.launch)
            if len(group) == 2:
                for rail in range(self.layout.rails):
                    ways = (calm[rail][index], loaded[rail][index])
                    series.append(self._one(group, rail, ways, LINE_GB_S, moods[group], wave))
            elif len(group) == 1:
                share = _remains(wave.bad, "inside", group[0], None)
                series.append(
                    self._one(group, None, (share, share), INSIDE_GB_S, moods[group], wave)
                )
            else:
                slowest = min(rates[index] for rates in calm)
                worst = min(rates[index] for rates in loaded)
                line = LINE_GB_S * self.layout.rails
                series.append(self._one(group, None, (slowest, worst), line, moods[group], wave))
        return series

    def _one(
        self,
        group: Group,
        rail: int | None,
        ways: tuple[float, float],
        line_gb_s: float,
        mood: float,
        wave: _Wave,
    ) -> _Series:
        """`ways`: its share of the line without neighbours and in their bursts."""
        noise, rng = self.noise, self._random
        if not noise.shared:
            mood = rng.gauss(1, noise.launch)
        level = wave.level * max(0.3, mood) * self._placed(group)
        leaves = {self.leaf[node] for node in group}
        if len(leaves) > 1:
            level *= 1 - noise.distance
        if len(group) > 1:
            level *= 1 - max((self._slow_leaf.get(leaf, 0.0) for leaf in leaves), default=0.0)
        values = []
        for i, hiccup in enumerate(wave.hiccups):
            burst = any(wave.bursts[leaf][i] for leaf in leaves if leaf in wave.bursts)
            value = line_gb_s * ways[burst] * level * hiccup
            value *= max(0.05, rng.gauss(1, noise.iteration))
            if noise.tails and rng.random() < noise.tails:
                value /= 0.9 + 0.1 * rng.paretovariate(1.5)
            if noise.stalls and rng.random() < noise.stalls:
                value /= rng.uniform(10, 50)
            values.append(value)
        return _Series(group, rail, tuple(values))

    def _placed(self, group: Group) -> float:
        key = tuple(sorted(group))
        if key not in self._place:
            self._place[key] = 1 - abs(self._random.gauss(0, self.noise.placement))
        return self._place[key]

    def _paths(
        self, groups: tuple[Group, ...]
    ) -> list[list[tuple[int, str, str, tuple[_Link, ...]]]]:
        """Rail → (group, leaf, leaf, cables) of every flow between two leaves."""
        rails: list[list[tuple[int, str, str, tuple[_Link, ...]]]] = []
        for _ in range(self.layout.rails):
            flows = []
            for index, group in enumerate(groups):
                for a, b in _edges(group):
                    here, there = self.leaf[a], self.leaf[b]
                    if here != there:
                        for _ in range(self._flow_count()):
                            flows.append((index, here, there, self._links(here, there, b)))
            rails.append(flows)
        return rails

    def _flow_count(self) -> int:
        return 1 if self.layout.routing == "adaptive" else self.layout.flows

    def _links(self, here: str, there: str, target: str) -> tuple[_Link, ...]:
        """What a flow runs over. Adaptive routing spreads it over everything."""
        if self.layout.routing == "adaptive":
            return (("up", here), ("down", there), ("between", here, there))
        count, spines = self.layout.cables, self.layout.spines
        if self.layout.routing == "static":
            up = down = self._index[target] % count
        else:
            up = self._random.randrange(count)
            same_spine = [c for c in range(count) if c % spines == up % spines]
            down = self._random.choice(same_spine)
        return (("up", here, str(up)), ("down", there, str(down)))

    def _rates(
        self,
        groups: tuple[Group, ...],
        rail: int,
        wave: _Wave,
        paths: list[tuple[int, str, str, tuple[_Link, ...]]],
        busy: tuple[str, ...],
    ) -> list[float]:
        """Share of the line that each group gets on one rail."""
        demand = [self._demand(group, rail, wave.bad) for group in groups]
        count = self._flow_count()
        flows = []
        room: dict[_Link, float] = {}
        for index, here, there, links in paths:
            most = _remains(wave.bad, "path", (here, there), rail)
            flows.append(_Flow(index, min(demand[index], most) / count, links))
            for link in links:
                room.setdefault(link, self._room(link, rail, wave, busy))
        shares = fair_shares(flows, room)
        rates = list(demand)
        for flow, share in zip(flows, shares, strict=True):
            rates[flow.group] = min(rates[flow.group], share * count)
        return rates

    def _demand(self, group: Group, rail: int, bad: tuple[Fault, ...]) -> float:
        share = 1.0
        for node in group:
            share = min(share, _remains(bad, "node", node, rail))
            share = min(share, _remains(bad, "leaf", self.leaf[node], rail))
        return share

    def _room(self, link: _Link, rail: int, wave: _Wave, busy: tuple[str, ...]) -> float:
        """What a link carries. A neighbour of hashed flows holds single cables, one of spread flows
        a share of all."""
        leaf, count = link[1], self.layout.cables
        remains = _remains(wave.bad, "uplink", leaf, rail)
        cut = 1 - _remains(wave.bad, "cable", leaf, rail)
        taken = wave.busy[leaf] if leaf in busy else 0.0
        if link[0] == "between":
            return (count - cut) * remains
        if self.layout.routing == "adaptive":
            return (count * (1 - taken) - cut) * remains
        cable = int(link[2])
        room = remains - (cut if cable == 0 else 0.0)
        held = round(taken * count)
        first = sum(map(ord, leaf)) % count
        return room / 2 if (cable - first) % count < held else room


def _edges(group: Group) -> tuple[tuple[str, str], ...]:
    """The hops of the ring over a group's nodes."""
    if len(group) < 2:
        return ()
    return tuple(zip(group, (*group[1:], group[0]), strict=True))


def _remains(
    bad: tuple[Fault, ...], kind: str, name: str | tuple[str, str], rail: int | None
) -> float:
    """Share that all faults of this kind leave of one part."""
    kinds = ("node", "rail", "dead") if kind == "node" else (kind,)
    share = 1.0
    for fault in bad:
        of_rail = fault.rail is None or fault.rail == rail
        names = set(fault.names)
        same = name in names if isinstance(name, str) else set(name) == names
        if fault.kind in kinds and of_rail and same:
            share = min(share, 1 - fault.loss)
    return share


def _record(launch: Launch, one: _Series, moment: str) -> GroupSample:
    medium = Medium.INTRA_NODE if len(one.group) == 1 else Medium.NETWORK
    return GroupSample(
        one.group,
        SIZE_BYTES,
        one.busbw_gb_s,
        f"raw/cases/survey-{launch.name}/result.json",
        launch=launch.name,
        role=launch.role,
        rail=one.rail,
        ranks_per_node=1 if one.rail is not None else 8,
        concurrent_with=moment,
        medium=medium,
    )
