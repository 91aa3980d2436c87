"""A cluster that is not there: what groups of its nodes would measure. Shares the records of a
measurement with busbw, and nothing else.

Nodes hang on leaves, rail r of all nodes of a leaf on that leaf's switch of rail r, and each such
switch has uplinks. Rates are shares of one rail's line rate. Groups that share uplinks get max-min
fair portions (`adaptive`), or each flow is put on one of the uplinks by a hash, anew in each
launch, and flows on one uplink share it (`hashed`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from busbw.parsers.nccl_tests.groups import GroupSample

LINE_GB_S = 48.0


@dataclass(frozen=True, slots=True)
class Culprit:
    """Something that is bad."""

    kind: str
    """`node`, `rail`, `path`, `uplink` (all of a leaf) or `cable` (one of a leaf's uplinks of one
    rail)."""
    names: tuple[str, ...]
    left: float
    """Share of its capacity that is left."""
    rail: int | None = None
    every: int = 1
    """Bad in every n-th launch only, the first included."""


@dataclass(frozen=True, slots=True)
class World:
    """What the fabric and its noise are like."""

    nodes: int
    rails: int = 8
    per_leaf: int = 32
    routing: str = "adaptive"
    uplinks: float = 1.0
    """Uplink capacity of a leaf and rail over what its nodes can send: 1 = not oversubscribed."""
    cv: float = 0.05
    """Of one iteration."""
    iterations: int = 10
    drift: float = 0.01
    """Of all levels, launch by launch."""
    spine_load: float = 0.0
    """Groups across leaves lose up to this share to others' traffic, each at random."""
    lost_shards: float = 0.0
    """Share of shards of 32 nodes whose output is missing."""
    spikes: float = 0.02
    """Share of iterations in which the whole system hiccups."""
    jitter: float = 0.0
    """Share of groups that run 5 to 30 % below their rate for a whole launch, for no reason that
    any part has (a loaded machine)."""
    wobble: float = 0.0
    """Standard deviation of what all groups of one rail have in common in one launch."""
    culprits: tuple[Culprit, ...] = ()
    seed: int = 0


class Cluster:
    """Measures rounds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = random.Random(world.seed)
        self.nodes = tuple(f"n{i:04d}" for i in range(world.nodes))
        self.leaf = {node: f"leaf{i // world.per_leaf}" for i, node in enumerate(self.nodes)}
        self.launches = 0

    def measure(self, groups: tuple[tuple[str, ...], ...]) -> tuple[GroupSample, ...]:
        """One launch: every pair on every rail."""
        world, rng = self.world, self.random
        self.launches += 1
        bad = [c for c in world.culprits if (self.launches - 1) % c.every == 0]
        level = LINE_GB_S * (1 + rng.gauss(0, world.drift))
        spike = [
            rng.uniform(0.4, 0.9) if rng.random() < world.spikes else 1.0
            for _ in range(world.iterations)
        ]
        lost = {shard for shard in range(0, len(groups), 16) if rng.random() < world.lost_shards}
        samples = []
        for rail in range(world.rails):
            common = rng.gauss(1, world.wobble)
            rates = [rate * common * self._mood() for rate in self._rates(groups, rail, bad)]
            for index, group in enumerate(groups):
                if index - index % 16 in lost:
                    continue
                times = tuple(
                    level * rates[index] * s * max(0.05, rng.gauss(1, world.cv)) for s in spike
                )
                name = f"launch-{self.launches}"
                samples.append(
                    GroupSample(
                        group,
                        1 << 30,
                        times,
                        f"raw/cases/{name}/result.json",
                        launch=name,
                        rail=rail,
                    )
                )
        return tuple(samples)

    def _mood(self) -> float:
        if not self.world.jitter or self.random.random() >= self.world.jitter:
            return 1.0
        return self.random.uniform(0.7, 0.95)

    def _rates(
        self, groups: tuple[tuple[str, ...], ...], rail: int, bad: list[Culprit]
    ) -> list[float]:
        node_left: dict[str, float] = {}
        path_left: dict[frozenset[str], float] = {}
        for c in bad:
            if c.kind in ("node", "rail") and c.rail in (None, rail):
                node_left[c.names[0]] = min(node_left.get(c.names[0], 1.0), c.left)
            if c.kind == "path" and c.rail in (None, rail):
                path_left[frozenset(c.names)] = c.left
        wanted = [
            min(path_left.get(frozenset(g), 1.0), *(node_left.get(node, 1.0) for node in g))
            for g in groups
        ]
        crossing = [i for i, (a, b) in enumerate(groups) if self.leaf[a] != self.leaf[b]]
        for i in crossing:
            wanted[i] *= 1 - self.random.uniform(0, self.world.spine_load)
        if self.world.routing == "hashed":
            return self._hashed(groups, crossing, wanted, rail, bad)
        return self._fair(groups, crossing, wanted, rail, bad)

    def _capacity(self, leaf: str, rail: int, bad: list[Culprit]) -> float:
        cables = self.world.per_leaf * self.world.uplinks
        for c in bad:
            if c.names[0] == leaf and c.rail in (None, rail):
                if c.kind == "uplink":
                    cables *= c.left
                if c.kind == "cable":
                    cables -= 1 - c.left
        return cables

    def _fair(
        self,
        groups: tuple[tuple[str, ...], ...],
        crossing: list[int],
        wanted: list[float],
        rail: int,
        bad: list[Culprit],
    ) -> list[float]:
        """Max-min fair rates by filling: raise all rates together until an uplink or a group is
        full."""
        rates = list(wanted)
        open_groups = set(crossing)
        room = {
            leaf: self._capacity(leaf, rail, bad)
            for i in crossing
            for leaf in map(self.leaf.__getitem__, groups[i])
        }
        while open_groups:
            users: dict[str, int] = {}
            for i in open_groups:
                for node in groups[i]:
                    users[self.leaf[node]] = users.get(self.leaf[node], 0) + 1
            share = {leaf: room[leaf] / count for leaf, count in users.items()}
            tightest = min(share, key=share.__getitem__)
            small = [i for i in open_groups if wanted[i] <= share[tightest]]
            done = small or [
                i
                for i in open_groups
                if tightest in (self.leaf[groups[i][0]], self.leaf[groups[i][1]])
            ]
            for i in done:
                rates[i] = wanted[i] if small else share[tightest]
                for node in groups[i]:
                    room[self.leaf[node]] = max(0.0, room[self.leaf[node]] - rates[i])
                open_groups.discard(i)
        return rates

    def _hashed(
        self,
        groups: tuple[tuple[str, ...], ...],
        crossing: list[int],
        wanted: list[float],
        rail: int,
        bad: list[Culprit],
    ) -> list[float]:
        """Each flow on one cable at either end; a cable's flows share it equally."""
        rates = list(wanted)
        count = max(1, round(self.world.per_leaf * self.world.uplinks))
        on: dict[tuple[str, int], list[int]] = {}
        for i in crossing:
            for node in groups[i]:
                on.setdefault((self.leaf[node], self.random.randrange(count)), []).append(i)
        for (leaf, cable), users in on.items():
            left = 1.0
            for c in bad:
                if (
                    c.names[0] == leaf
                    and c.rail in (None, rail)
                    and (c.kind == "uplink" or (c.kind == "cable" and cable == 0))
                ):
                    left = min(left, c.left)
            for i in users:
                rates[i] = min(rates[i], left / len(users))
        return rates
