"""Which fleets there are to survey: sizes, kinds of faults, kinds of noise, and the points of the
parameters in between, of which a hash holds half out.

Whoever changes the blame or the plan looks at the half `develop` only; figures of the other half are
then those of a first run.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from dataclasses import dataclass, replace

from .fabric import ITERATIONS, Fault, Fleet, Layout, Noise

HALVES = ("develop", "held-out")
FRESH = 4
"""Launches that measure a suspect again, in `visible`."""
SIZES = {
    "8x4": (8, 4, (8, 4)),
    "16x8": (16, 8, (16, 8, 4)),
    "32x8": (32, 8, (16, 8)),
    "128x8": (128, 8, (32, 16)),
    "1000x8": (1000, 8, (32,)),
}
"""Name → nodes, rails, nodes of a leaf."""
_LAUNCH_CV = (0.01, 0.02, 0.03, 0.05, 0.08)
_CALM = Noise(iteration=0.02)
KINDS = (
    "none",
    "node",
    "rail",
    "dead",
    "inside",
    "leaf",
    "uplink",
    "cable",
    "path",
    "two",
    "several",
    "flaky",
)
"""Of faults: `two` on one leaf, `several` = 1 to 5 nodes and rails, `flaky` = a rail that is bad in
half of the launches."""
NOISES = {
    "calm": _CALM,
    "pair": _CALM,
    "group": _CALM,
    "tails": replace(_CALM, tails=0.1, stalls=0.005),
    "drift": replace(_CALM, drift=0.01),
    "ecmp": _CALM,
    "static": _CALM,
    "tenants": replace(_CALM, tenants=0.5),
    "losses": replace(_CALM, lost_groups=0.03, failed_launches=0.05),
    "real": Noise(
        iteration=0.03,
        placement=0.01,
        distance=0.02,
        drift=0.005,
        episodes=0.01,
        tails=0.03,
        stalls=0.001,
        tenants=0.4,
        lost_groups=0.01,
        failed_launches=0.02,
    ),
}
"""`pair` and `group`: noise between launches, shared by the rails of a pair or not. `real` has all
of it, `pair` or `group` by chance."""
_NEEDS_LEAVES = ("leaf", "uplink", "cable", "path")
_LOSSES = {
    "none": (0.0,),
    "dead": (0.94,),
    "cable": (0.5, 1.0),
    "uplink": (0.3, 0.5),
    "leaf": (0.2, 0.3, 0.5),
    "path": (0.3, 0.5),
}
_USUAL_LOSSES = (0.1, 0.2, 0.3, 0.5)


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the parameters; its fleets differ by the seed."""

    size: str
    kind: str
    noise: str
    loss: float
    cv: float
    """Of one group between launches."""
    per_leaf: int
    oversubscription: int
    routing: str
    flows: int

    @property
    def half(self) -> str:
        """The half it belongs to."""
        return HALVES[hashlib.sha256(repr(self).encode()).digest()[0] & 1]


def design_stated(seed: int) -> bool:
    """The inventory of this fleet says how wide the uplinks are: that of every other fleet."""
    return seed % 2 == 0


def visible(point: Point, *, stated: bool = True) -> bool:
    """The fault exceeds three times the noise of a mean of FRESH launches; False for a healthy
    fleet, where hashed or static flows make what leaves a leaf a matter of luck, and for the only
    uplinks of a fleet whose design is not stated."""
    effect = point.loss
    only = SIZES[point.size][0] == 2 * point.per_leaf
    if only and point.kind in ("uplink", "path") and not stated:
        return False
    if point.kind == "cable":
        effect /= max(1, point.per_leaf // point.oversubscription)
    if point.kind in ("cable", "uplink", "path") and point.routing != "adaptive":
        return False
    noise = NOISES[point.noise]
    one = math.hypot(point.cv, noise.placement, noise.iteration / math.sqrt(ITERATIONS))
    return effect > 3 * one / math.sqrt(FRESH)


@dataclass(frozen=True, slots=True)
class Truth:
    """What is bad: by the names that a finding may give it, and what lies inside it."""

    labels: frozenset[str]
    """Any of them is right; several where nothing measured could tell them apart."""
    akin: tuple[str, ...]
    """Nodes or leaves: a finding that names one of them has another extent, and nothing good."""


@dataclass(frozen=True, slots=True)
class Case:
    """One fleet to survey, and what is bad in it."""

    point: Point
    index: int
    seed: int
    fleet: Fleet
    truths: tuple[Truth, ...]


def points(size: str, kind: str, noise: str, half: str) -> tuple[Point, ...]:
    """Those of one cell and one half, shuffled the same way each time; () = no such fault there."""
    _, _, leaves = SIZES[size]
    nodes = SIZES[size][0]
    if kind in _NEEDS_LEAVES:
        leaves = tuple(per_leaf for per_leaf in leaves if per_leaf < nodes)
    cvs = _LAUNCH_CV if noise in ("pair", "group", "real") else (0.0,)
    over = (1, 2) if noise in ("real", "ecmp", "static") else (1,)
    flows = (1, 2, 4) if noise in ("ecmp", "real") else (2,)
    ways: tuple[str, ...] = ("adaptive",)
    if noise in ("ecmp", "static"):
        ways = (noise,)
    elif noise == "real":
        ways = ("adaptive", "ecmp", "static")
    losses = _LOSSES.get(kind, _USUAL_LOSSES)
    grid = itertools.product(losses, cvs, leaves, over, ways, flows)
    chosen = []
    for values in grid:
        point = Point(size, kind, noise, *values)
        if point.half == half:
            chosen.append(point)
    random.Random(f"{size} {kind} {noise} {half}").shuffle(chosen)
    return tuple(chosen)


def case(point: Point, index: int) -> Case:
    """The same fleet each time."""
    seed = int.from_bytes(hashlib.sha256(f"{point!r} {index}".encode()).digest()[:6])
    rng = random.Random(seed)
    nodes, rails, _ = SIZES[point.size]
    cables = max(1, point.per_leaf // point.oversubscription)
    layout = Layout(
        nodes,
        rails,
        point.per_leaf,
        cables,
        max(1, cables // 2),
        point.routing,
        point.flows,
    )
    shared = point.noise == "pair" or (point.noise == "real" and rng.random() < 0.5)
    noise = replace(NOISES[point.noise], launch=point.cv, shared=shared)
    faults = _faults(point, layout, rng)
    fleet = Fleet(layout, noise, faults, rng.randrange(1 << 30))
    truths = tuple(_truth(fault, fleet) for fault in faults)
    return Case(point, index, seed, fleet, truths)


def _faults(point: Point, layout: Layout, rng: random.Random) -> tuple[Fault, ...]:
    names = [f"n{i:04d}" for i in range(layout.nodes)]
    leaves = [f"leaf{i}" for i in range(-(-layout.nodes // layout.per_leaf))]
    rail, loss = rng.randrange(layout.rails), point.loss
    match point.kind:
        case "none":
            return ()
        case "node" | "inside":
            return (Fault(point.kind, (rng.choice(names),), loss),)
        case "rail" | "dead":
            return (Fault(point.kind, (rng.choice(names),), loss, rail),)
        case "flaky":
            return (Fault("rail", (rng.choice(names),), loss, rail, often=0.5),)
        case "leaf" | "uplink":
            return (Fault(point.kind, (rng.choice(leaves),), loss),)
        case "cable":
            return (Fault("cable", (rng.choice(leaves),), loss, rail),)
        case "path":
            return (Fault("path", tuple(sorted(rng.sample(leaves, 2))), loss),)
        case "two":
            first = point.per_leaf * rng.randrange(len(leaves))
            below = names[first : first + point.per_leaf]
            a, b = rng.sample(below, 2)
            return (Fault("node", (a,), loss), Fault("rail", (b,), loss, rail))
    several = []
    for name in rng.sample(names, rng.randint(1, min(5, layout.nodes // 4))):
        own = None if rng.random() < 0.5 else rng.randrange(layout.rails)
        several.append(Fault("node" if own is None else "rail", (name,), loss, own))
    return tuple(several)


def _truth(fault: Fault, fleet: Fleet) -> Truth:
    """Two leaves have one way between them: its ends cannot be told apart."""
    name = fault.names[0]
    comma = "" if fault.rail is None else f", rail {fault.rail}"
    rail = "" if fault.rail is None else f" rail {fault.rail}"
    match fault.kind:
        case "inside":
            return Truth(frozenset({f"{name} intra-node"}), (name,))
        case "leaf":
            return Truth(frozenset({f"leaf {name}"}), fault.names)
        case "uplink" | "cable" | "path":
            labels = {f"uplinks of {name}{comma}"}
            if len(fleet.leaves) == 2:
                labels = {f"uplinks between {' and '.join(fleet.leaves)}{comma}"}
            elif fault.kind == "path":
                labels = {f"uplinks between {' and '.join(fault.names)}{comma}"}
            return Truth(frozenset(labels), fault.names)
    return Truth(frozenset({f"{name}{rail}"}), (name,))
