"""One simulated fleet: its links with their faults, its noise, and the times that a launch gives.

Where the sizes of the noise come from (`fleets.py` draws each from a range around them):

- Between nodes and GPUs: Sinha et al., "Not All GPUs Are Created Equal" (SC 2022, arXiv 2208.11035):
  8 % between the compute rates of like GPUs, outliers 1.5 times slower. Transfers depend on clocks
  far less: 0.2 to 1.5 % here.
- Between launches: nodes, rails and groups share a CV of 1 to 5 %, an assumption around the goals of
  surveys.
- Tails: De Sensi et al., "Noise in the Clouds" (POMACS 6 (3), 2022, arXiv 2210.15315): noise of network
  and system is one-sided and long-tailed. Pareto here.
- Other jobs: De Sensi et al., "Exploring GPU-to-GPU Communication" (SC 2024, arXiv 2408.14090):
  Slingshot lost next to nothing, InfiniBand of Leonardo up to half of an all-reduce. Wu et al.,
  "Greyhound" (USENIX ATC 2025): congestion in 40 % of large jobs, 24 minutes in the mean, from under
  a minute to ten hours; throttling and CPU contention in less than 2 %, 10 minutes in the mean.
- Collisions: Gangidi et al., "RDMA over Ethernet for Distributed AI Training at Meta Scale" (SIGCOMM
  2024): more queue pairs and hashing on them gave all-reduce up to 40 %; placement cost over 30 % on
  uplinks. Dong et al., "C4" (HPCA 2025, arXiv 2406.04594): 30 % lost at 512 GPUs. They are not a
  parameter: they follow from the routes.
- Lost packets: Zhuo et al., "Understanding and Mitigating Packet Corruption" (SIGCOMM 2017): a bad
  link's rate of corruption is steady and does not depend on its load. Go-back-N sends a window again
  for each loss: efficiency (1 − p) / (1 − p + p W) (Leon-Garcia and Widjaja, Communication Networks,
  5.2). RoCE was measured to have next to nothing left beyond 1 % ("Error Recovery of RDMA Packets
  in Data Center Networks").
- MTU: 1,024 of 1,106 bytes on the wire against 4,096 of 4,178, by RoCEv2's headers (0.945).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from independent_fleet.network import Floats, Flow, Layout, Links, Wiring, end_times, route

from busbw.model import LaunchRole, Medium
from busbw.parsers.nccl_tests.groups import GroupSample

FaultKind = Literal[
    "nic", "dead", "node", "gpu", "inside", "pcie", "cable", "leaf", "loss", "host", "mtu"
]
Launch = tuple[str, tuple[tuple[str, ...], ...], LaunchRole]
"""Id, groups, role."""
SIZE_BYTES = 1 << 30
WINDOW = 122
"""Packets of 4 KiB under way on 50 GB/s with a round trip of 10 µs."""
LAUNCH_MINUTES = 0.5
"""One launch: an assumption that tests/bench/survey_sim.py shares."""
STEPS = 120
"""Launches for which states are drawn; no survey takes as many."""
ITERATIONS = 40
"""20 out of place, 20 in place."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    kind: FaultKind
    node: int = -1
    rail: int = -1
    """Or the PCIe switch of `pcie`."""
    leaf: int = -1
    spine: int = -1
    left: float = 1.0
    """Share of the capacity that is left."""
    loss: float = 0.0
    """Chance of a packet to be lost."""
    duty: float = 1.0
    """Share of the time in which it is there; below 1 it comes and goes."""
    stay: float = 1.0
    """Launches that it stays in the mean, if it comes and goes."""
    borrowed: int = -1
    """The NIC that carries the traffic of a dead one; -1 = sockets do."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations are shares of a time; see the module for sources."""

    iteration: float
    tail: float
    """Chance of an iteration of a group to be late, by a Pareto time."""
    everywhere: float
    """Chance of an iteration to be late in all groups at once."""
    node_lasting: float
    rail_lasting: float
    pair_lasting: float
    launch: float
    node_launch: float
    rail_launch: float
    group_launch: float
    drift: float
    """Of all nodes, from the first launch to the last of an hour."""
    leaf_drift: float
    neighbours: float
    """Share of the time in which other jobs load the cables of a leaf."""
    neighbour_load: float
    """Most of a cable's capacity that they take."""
    neighbour_stay: float
    """Launches that they stay in the mean."""
    bursts: float
    """Share of the iterations in which the load is there."""
    pauses: float
    """Most that other jobs take from what crosses a loaded leaf, by pauses."""
    throttled: float
    """Chance of a fleet to have a node that throttles for some minutes."""
    across: float
    """Lost by the longer way through a spine."""
    lost_group: float
    failed_launch: float
    cut_short: float


@dataclass(frozen=True, slots=True)
class _Row:
    """One group, or one rail of a pair."""

    launch: int
    nodes: list[int]
    rail: int | None
    ranks_per_node: int
    flows: list[int]


@dataclass(slots=True)
class Fleet:
    """A fleet and the launch it is at."""

    layout: Layout
    noise: Noise
    faults: tuple[Fault, ...]
    seed: int
    step: int = 0
    _states: dict[str, Floats] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Of its nodes."""
        return tuple(f"n{node:04d}" for node in range(self.layout.nodes))

    def unit_of(self, node: int) -> str:
        """What busbw is told as the leaf of a node."""
        return f"leaf{node // self.layout.per_leaf}"

    def draws(self, *key: int) -> np.random.Generator:
        """Randomness of one purpose: the same whatever else was drawn."""
        return np.random.default_rng((self.seed, *key))

    def comes_and_goes(self, key: int, count: int, share: float, stay: float) -> Floats:
        """Which of `count` things are on at each launch: launches × things of 0 and 1. `share` of
        the time, for `stay` launches in the mean."""
        name = f"{key} {count} {share} {stay}"
        if name not in self._states:
            rng = self.draws(1, key)
            on = np.zeros((STEPS, count))
            on[0] = rng.random(count) < share
            stay = max(stay, 1.0)
            leave, enter = 1 / stay, min(1.0, share / max(1 - share, 1e-9) / stay)
            for step in range(1, STEPS):
                change = rng.random(count)
                on[step] = np.where(on[step - 1] > 0, change >= leave, change < enter)
            self._states[name] = on
        return self._states[name]

    def _acting(self) -> tuple[Fault, ...]:
        """Faults that are there in this launch, and a node that throttles."""
        acting = []
        for number, fault in enumerate(self.faults):
            on = (
                self.comes_and_goes(100 + number, 1, fault.duty, fault.stay)
                if fault.duty < 1
                else None
            )
            if on is None or on[self.step, 0]:
                acting.append(fault)
        throttling = self.throttling()
        if throttling is not None and throttling[1] <= self.step < throttling[2]:
            acting.append(throttling[0])
        return tuple(acting)

    def throttling(self) -> tuple[Fault, int, int] | None:
        """(what throttles, first launch, launch in which it is over); None = nothing does."""
        rng = self.draws(2)
        if rng.random() >= self.noise.throttled:
            return None
        node, left = int(rng.integers(self.layout.nodes)), float(rng.uniform(0.7, 0.92))
        begin = int(rng.integers(0, 15))
        return (
            Fault("node", node, left=left),
            begin,
            begin + 2 + int(rng.exponential(10 / LAUNCH_MINUTES / 2)),
        )

    def _levels(self) -> Floats:
        """What the GPUs of each node and rail give in this launch, of a good one: nodes × rails."""
        shape, noise = self.layout, self.noise
        lasting, now = self.draws(3), self.draws(4, self.step)
        level = lasting.normal(0, noise.node_lasting, (shape.nodes, 1))
        level = level + lasting.normal(0, noise.rail_lasting, (shape.nodes, shape.rails))
        level = (
            level + now.normal(0, noise.launch) + now.normal(0, noise.node_launch, (shape.nodes, 1))
        )
        level = level + now.normal(0, noise.rail_launch, (shape.nodes, shape.rails))
        slow = self.draws(5)
        hours = self.step * LAUNCH_MINUTES / 60
        level = level + slow.normal(0, noise.drift) * hours
        units = slow.normal(0, noise.leaf_drift, shape.units) * hours
        level = level + np.repeat(units, shape.per_leaf)[: shape.nodes, None]
        return np.minimum(np.exp(level), 1.12)

    def _capacity(
        self, links: Links, acting: tuple[Fault, ...], *, loaded: bool
    ) -> tuple[Floats, Floats]:
        """(of each link, of the NVLink or PCIe ring inside each node by GPU), GB/s."""
        shape = self.layout
        level = self._levels()
        size = shape.nodes * shape.rails
        good = shape.nic_gb_s
        capacity = np.full(links.count, np.inf)
        # The wire carries a little more than what a good node gets of it.
        capacity[: 2 * size] = 1.06 * good
        capacity[2 * size : 3 * size] = capacity[3 * size : 4 * size] = good * level.ravel()
        capacity[4 * size : 6 * size] = 2.2 * good
        capacity[8 * size :] = shape.cable_gb_s * 1.06
        inside = (30.0 if shape.pcie_pairs else 365.0) * level
        if loaded:
            self._neighbours(links, capacity)
        for fault in acting:
            n, r = fault.node, fault.rail
            both = [links.endpoint(kind, n, r) for kind in (0, 1)]
            gpus = [links.endpoint(kind, n, rail) for kind in (2, 3) for rail in range(shape.rails)]
            if fault.kind in ("nic", "dead") and fault.borrowed < 0:
                capacity[both] = good * fault.left
            elif fault.kind in ("node", "mtu"):
                capacity[gpus] *= fault.left
                inside[n] *= fault.left if fault.kind == "node" else 1.0
            elif fault.kind == "gpu":
                capacity[[links.endpoint(kind, n, r) for kind in (2, 3)]] *= fault.left
                inside[n, r] *= fault.left
            elif fault.kind == "inside":
                inside[n, r] *= fault.left
            elif fault.kind == "pcie":
                capacity[[links.endpoint(kind, n, r) for kind in (4, 5)]] = 2 * good * fault.left
            elif fault.kind == "host":
                capacity[[links.endpoint(kind, n, 0) for kind in (6, 7)]] = (
                    shape.rails * good * fault.left
                )
            elif fault.kind == "cable":
                capacity[
                    [links.cable(fault.leaf, fault.spine, down=down) for down in (False, True)]
                ] *= fault.left
            elif fault.kind == "leaf":
                self._slow_leaf(links, capacity, fault)
        return np.maximum(capacity, 1e-3), inside

    def _slow_leaf(self, links: Links, capacity: Floats, fault: Fault) -> None:
        """All ports of a switch."""
        shape = self.layout
        for node in range(shape.nodes):
            for rail in range(shape.rails):
                if shape.leaf(node, rail) == fault.leaf:
                    capacity[[links.endpoint(kind, node, rail) for kind in (0, 1)]] = (
                        shape.nic_gb_s * fault.left
                    )
        first = links.cable(fault.leaf, 0, down=False)
        capacity[first : first + 2 * shape.spines] *= fault.left

    def _neighbours(self, links: Links, capacity: Floats) -> None:
        """What other jobs take from the cables of some leaves, and by pauses from their ports."""
        shape, noise = self.layout, self.noise
        on = self.comes_and_goes(50, shape.leaves, noise.neighbours, noise.neighbour_stay)[
            self.step
        ]
        rng = self.draws(6)
        load = rng.uniform(0.05, max(noise.neighbour_load, 0.06), (shape.leaves, 2, shape.spines))
        pause = rng.uniform(0.0, noise.pauses, shape.leaves)
        taken = (load * on[:, None, None]).ravel()
        capacity[8 * shape.nodes * shape.rails :] *= 1 - taken
        for node in range(shape.nodes):
            for rail in range(shape.rails):
                leaf = shape.leaf(node, rail)
                if on[leaf]:
                    for kind in (0, 1):
                        capacity[links.endpoint(kind, node, rail)] *= 1 - pause[leaf]

    def measure(self, launches: list[Launch]) -> list[tuple[GroupSample, ...] | None]:
        """Launches that run side by side; None = it failed. Moves on to the next moment."""
        names = self.names
        number = {name: node for node, name in enumerate(names)}
        flows: list[Flow] = []
        rows: list[_Row] = []
        for place, (_, groups, _) in enumerate(launches):
            for group in groups:
                rows += self._rows(place, [number[name] for name in group], flows)
        acting = self._acting()
        loaded, free, inside, lossy = self._times(Links(self.layout), acting, flows)
        rng = self.draws(8, self.step)
        failed = rng.random(len(launches)) < self.noise.failed_launch
        late = rng.random(ITERATIONS) < self.noise.everywhere
        system = np.where(late, 1 + rng.pareto(2.0, ITERATIONS), 1.0)
        busy = rng.random(ITERATIONS) < self.noise.bursts
        results: list[list[GroupSample]] = [[] for _ in launches]
        moment = launches[0][0] if len(launches) > 1 else ""
        for row in rows:
            rate = np.full(ITERATIONS, np.inf)
            if row.flows:
                seconds = np.where(busy, loaded[row.flows].max(), free[row.flows].max())
                rate = row.ranks_per_node / seconds
            if row.rail is None:
                rate = np.minimum(rate, inside[row.nodes].min())
            spread = max((lossy[flow] for flow in row.flows), default=0.0)
            busbw = rate / self._late(rng, spread) / system
            if rng.random() < self.noise.cut_short:
                busbw = busbw[: rng.integers(5, ITERATIONS)]
            if rng.random() < self.noise.lost_group:
                continue
            name, _, role = launches[row.launch]
            medium = Medium.NETWORK if row.flows else Medium.INTRA_NODE
            results[row.launch].append(
                GroupSample(
                    tuple(names[node] for node in row.nodes), SIZE_BYTES,
                    tuple(map(float, busbw)), f"cases/{name}", launch=name, role=role,
                    rail=row.rail, ranks_per_node=row.ranks_per_node, concurrent_with=moment,
                    medium=medium,
                )
            )  # fmt: skip
        self.step += 1
        return [
            None if bad else tuple(samples) for bad, samples in zip(failed, results, strict=True)
        ]

    def _rows(self, launch: int, nodes: list[int], flows: list[Flow]) -> list[_Row]:
        """What one group of nodes gives: a pair a row for each rail, others one. Adds to `flows`."""
        width = self.layout.rails
        if len(nodes) == 1:
            return [_Row(launch, nodes, None, width, [])]
        first = len(flows)
        for place, node in enumerate(nodes):
            target = nodes[(place + 1) % len(nodes)]
            flows += [Flow(node, target, rail) for rail in range(width)]
        if len(nodes) > 2:
            return [_Row(launch, nodes, None, width, list(range(first, len(flows))))]
        return [
            _Row(launch, nodes, rail, 1, [first + rail, first + width + rail])
            for rail in range(width)
        ]

    def _late(self, rng: np.random.Generator, lossy: float) -> Floats:
        """Factors on the time of each iteration of one group."""
        noise = self.noise
        factor = np.exp(
            rng.normal(0, noise.iteration, ITERATIONS) + rng.normal(0, noise.group_launch)
        )
        late = rng.random(ITERATIONS) < noise.tail
        factor = factor * np.where(late, 1 + 0.3 * rng.pareto(1.5, ITERATIONS), 1.0)
        return factor * np.exp(rng.normal(0, lossy, ITERATIONS))

    def _times(
        self, links: Links, acting: tuple[Fault, ...], flows: list[Flow]
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """(seconds per GB of each flow with the load of other jobs, without it, GB/s inside the
        nodes, spread of each flow by lost packets)."""
        shape = self.layout
        _, inside = self._capacity(links, acting, loaded=False)
        if not flows:
            return np.zeros(0), np.zeros(0), inside, np.zeros(0)
        wiring = Wiring(
            {(f.node, f.rail): f.borrowed for f in acting if f.kind == "dead" and f.borrowed >= 0},
            frozenset(f.node for f in acting if f.kind == "host"),
        )
        routes = route(links, flows, wiring, self.draws(7, self.step))
        losses = [f for f in acting if f.kind == "loss"]
        chance = np.zeros(len(routes.flow_of))
        for stream in range(len(chance) if losses else 0):
            flow = flows[routes.flow_of[stream]]
            chance[stream] = sum(
                _lost(f, flow, routes.spines[stream], routes.leaves[stream]) for f in losses
            )
        again = (1 - chance + chance * WINDOW) / (1 - chance)
        pairs = [sorted((flow.source, flow.target)) for flow in flows]
        lasting = np.array([abs(self._of_pair(a, b)) for a, b in pairs])
        crossing = np.array(
            [shape.leaf(f.source, f.rail) != shape.leaf(f.target, f.rail) for f in flows]
        )
        size = 1 + self.noise.pair_lasting * lasting + self.noise.across * crossing
        bytes_gb = np.ones(len(flows))
        capacity, _ = self._capacity(links, acting, loaded=True)
        with_load = without = end_times(routes, capacity, bytes_gb, again) * size
        if self.noise.neighbours > 0:
            capacity, _ = self._capacity(links, acting, loaded=False)
            without = end_times(routes, capacity, bytes_gb, again) * size
        spread = np.zeros(len(flows))
        np.maximum.at(spread, routes.flow_of, 0.15 * (1 - 1 / again))
        return with_load, without, inside, spread

    def _of_pair(self, a: int, b: int) -> float:
        """Standard normal, the same whenever the two meet."""
        key = a * 4096 + b + self.seed
        first, second = _scrambled(key), _scrambled(_scrambled(key) ^ 0x5BD1E995)
        radius = math.sqrt(-2 * math.log(max(first / 0xFFFFFFFF, 1e-9)))
        return radius * math.cos(2 * math.pi * second / 0xFFFFFFFF)


def _scrambled(number: int) -> int:
    return (number * 2654435761) & 0xFFFFFFFF


def _lost(fault: Fault, flow: Flow, spines: tuple[int, ...], leaves: tuple[int, int]) -> float:
    """Chance of a packet of a stream to be lost there; over several spines only some pass it."""
    if fault.leaf >= 0:
        return fault.loss / len(spines) if fault.spine in spines and fault.leaf in leaves else 0.0
    return (
        fault.loss if flow.rail == fault.rail and fault.node in (flow.source, flow.target) else 0.0
    )
