"""Which fleets there are: drawn from continuous ranges by a seed, what is wrong with each, by which
names a finding may call it, and whether a perfect observer could see it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from independent_fleet.fleet import Fault, FaultKind, Fleet, Launch, Noise
from independent_fleet.network import Layout, Routing

from busbw.model import Component, ComponentKind, LaunchRole
from busbw.parsers.nccl_tests.groups import GroupSample

HEALTHY = "healthy"
KINDS = (
    "nic", "dead", "node", "gpu", "inside", "pcie", "cable", "leaf", "loss", "setting", "several", "intermittent",
)  # fmt: skip
SINGLE: tuple[FaultKind, ...] = (
    "nic", "dead", "node", "gpu", "inside", "pcie", "cable", "leaf", "loss",
)  # fmt: skip
ROUTINGS: tuple[Routing, ...] = ("adaptive", "ecmp", "static")
BUDGET_LAUNCHES = 20
"""The survey's ten minutes (playbooks/day-one.yaml) at half a minute each."""
FEW_LAUNCHES = 8
"""Of the observer at 128 nodes, where a launch takes long to simulate: the noise of the mean is that
of the budget all the same."""
SEEN = 3.0
"""Times the noise of the mean that a fault must exceed to be visible."""


@dataclass(frozen=True, slots=True)
class Truth:
    """One fault as findings may name it."""

    options: tuple[frozenset[Component], ...]
    """Each of these sets is a full answer."""
    allowed: frozenset[Component]
    """May be named besides: slow for the same reason."""
    names: frozenset[str]
    """Nodes and leaves that are bad: another part made of nothing else is near."""
    rail: int | None
    """None = all rails of `names` are."""
    loads: tuple[str, ...]
    """Nodes whose groups pass it."""
    rails: tuple[int, ...]
    inside: bool = False
    """Only single nodes show it."""
    crossing: bool = False
    """Only groups between leaves do."""

    def near(self, part: Component) -> bool:
        """Names what is bad by another extent."""
        rails = part.rail is None or self.rail is None or part.rail == self.rail
        return bool(part.names) and set(part.names) <= self.names and rails


@dataclass(frozen=True, slots=True)
class Case:
    """One fleet and all that is wrong with it."""

    size: str
    kind: str
    index: int
    fleet: Fleet
    truths: tuple[Truth, ...]
    passing: frozenset[Component]
    """Names of what throttles for some minutes: no fault, and not good either."""
    stated: tuple[tuple[str, float], ...]
    """(leaf, oversubscription) as the labels say; () = they do not."""


def seed_of(size: str, kind: str, index: int, base: int) -> int:
    """Seeds were written down before the first run: the base, then 1,000 for each kind."""
    sizes = {"8x4": 0, "32x8": 1, "128x8": 2}
    return base + 100_000 * sizes[size] + 1_000 * ([HEALTHY, *KINDS].index(kind)) + index


def case(size: str, kind: str, index: int, base: int) -> Case:
    """The fleet of that seed."""
    seed = seed_of(size, kind, index, base)
    rng = np.random.default_rng((seed, 11))
    layout = _layout(size, kind, rng)
    fleet = Fleet(layout, _noise(rng), _faults(kind, layout, rng), seed)
    stated = tuple(
        (leaf, layout.oversubscription)
        for leaf in dict.fromkeys(map(fleet.unit_of, range(layout.nodes)))
    )
    throttling = fleet.throttling()
    passing: frozenset[Component] = frozenset()
    if throttling is not None:
        passing = _all_of(fleet, throttling[0].node)
    truths = tuple(truth_of(fleet, fault) for fault in fleet.faults)
    return Case(size, kind, index, fleet, truths, passing, stated if rng.random() < 0.5 else ())


def _layout(size: str, kind: str, rng: np.random.Generator) -> Layout:
    nodes, rails = (int(part) for part in size.split("x"))
    below = {8: (4, 8), 32: (8, 16), 128: (16, 32)}[nodes]
    per_leaf = int(rng.choice(below))
    rail_optimised = bool(rng.random() < 0.5)
    if kind == "cable" or (kind == "leaf" and not rail_optimised):
        per_leaf = below[0]
    spines = int(rng.choice({8: (2, 4), 32: (4, 8), 128: (8, 8)}[nodes]))
    return Layout(
        nodes, rails, per_leaf, rail_optimised, spines, float(rng.choice((1.0, 1.0, 1.0, 1.5, 2.0))),
        ROUTINGS[rng.integers(3)], int(rng.choice((1, 2, 4))), bool(kind == "pcie" or rng.random() < 0.3),
        float(rng.choice((24.0, 47.0))),
    )  # fmt: skip


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    """Uniform in its logarithm."""
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _noise(rng: np.random.Generator) -> Noise:
    """Ranges around the published figures that `fleet.py` names."""
    others = rng.random() < 0.6
    return Noise(
        iteration=_between(rng, 0.003, 0.025),
        tail=_between(rng, 0.001, 0.02),
        everywhere=_between(rng, 0.001, 0.01),
        node_lasting=_between(rng, 0.002, 0.012),
        rail_lasting=_between(rng, 0.002, 0.012),
        pair_lasting=float(rng.uniform(0, 0.004)),
        launch=_between(rng, 0.002, 0.02),
        node_launch=_between(rng, 0.003, 0.03),
        rail_launch=_between(rng, 0.003, 0.03),
        group_launch=_between(rng, 0.002, 0.02),
        drift=float(rng.uniform(0, 0.06)),
        leaf_drift=float(rng.uniform(0, 0.03)),
        neighbours=float(rng.uniform(0.05, 0.4)) if others else 0.0,
        neighbour_load=float(rng.uniform(0.1, 0.6)),
        neighbour_stay=_between(rng, 2, 24),
        bursts=float(rng.uniform(0.3, 1.0)),
        pauses=float(rng.uniform(0, 0.08)),
        throttled=0.04,
        across=float(rng.uniform(0, 0.02)),
        lost_group=_between(rng, 0.0005, 0.01),
        failed_launch=float(rng.uniform(0, 0.03)),
        cut_short=0.005,
    )


def _faults(kind: str, layout: Layout, rng: np.random.Generator) -> tuple[Fault, ...]:
    nodes = [int(node) for node in rng.permutation(layout.nodes)]
    if kind == HEALTHY:
        return ()
    if kind == "setting":
        count = int(rng.integers(1, max(2, min(4, layout.nodes // 8) + 2)))
        no_gpudirect = bool(rng.random() < 0.5)
        left = float(rng.uniform(0.3, 0.85) if no_gpudirect else rng.uniform(0.88, 0.945))
        return tuple(
            Fault("host" if no_gpudirect else "mtu", node, left=left) for node in nodes[:count]
        )
    if kind == "several":
        kinds: tuple[FaultKind, ...] = ("nic", "dead", "node", "gpu", "inside", "loss")
        count = int(rng.integers(2, 4))
        return tuple(
            _fault(kinds[rng.integers(len(kinds))], node, layout, rng) for node in nodes[:count]
        )
    if kind == "intermittent":
        fault = _fault("nic" if rng.random() < 0.6 else "node", nodes[0], layout, rng)
        return (replace(fault, duty=float(rng.uniform(0.3, 0.7)), stay=_between(rng, 1, 6)),)
    for each in SINGLE:
        if kind == each:
            in_fabric = kind == "loss" and layout.units > 1 and rng.random() < 0.25
            fault = _fault(each, nodes[0], layout, rng)
            if in_fabric:
                cable = _fault("cable", nodes[0], layout, rng)
                return (replace(cable, kind="loss", loss=fault.loss, left=1.0),)
            return (fault,)
    raise ValueError(f"expected one of {KINDS}, found {kind!r}")


def _fault(kind: FaultKind, node: int, layout: Layout, rng: np.random.Generator) -> Fault:
    rail = int(rng.integers(layout.rails))
    if kind == "dead":
        if rng.random() < 0.5:
            return Fault(kind, node, rail, left=float(rng.uniform(0.02, 0.12)))
        return Fault(kind, node, rail, borrowed=rail ^ 1)
    if kind == "cable":
        leaf = layout.leaf(node, rail)
        return Fault(
            kind,
            leaf=leaf,
            spine=int(rng.integers(layout.spines)),
            left=float(rng.uniform(0.1, 0.8)),
        )
    if kind == "leaf":
        return Fault(kind, leaf=layout.leaf(node, rail), left=float(rng.uniform(0.5, 0.92)))
    if kind == "loss":
        return Fault(kind, node, rail, loss=_between(rng, 3e-4, 1e-2))
    ranges: dict[str, tuple[float, float]] = {
        "nic": (0.25, 0.9), "node": (0.5, 0.92), "gpu": (0.4, 0.9), "inside": (0.4, 0.9), "pcie": (0.4, 0.9),
    }  # fmt: skip
    return Fault(
        kind, node, rail // 2 if kind == "pcie" else rail, left=float(rng.uniform(*ranges[kind]))
    )


def _all_of(fleet: Fleet, node: int) -> frozenset[Component]:
    name = (fleet.names[node],)
    rails = {Component(ComponentKind.RAIL, name, rail) for rail in range(fleet.layout.rails)}
    return frozenset(
        rails | {Component(ComponentKind.NODE, name), Component(ComponentKind.INTRA_NODE, name)}
    )


def _rails(names: tuple[str, ...], rails: tuple[int, ...]) -> frozenset[Component]:
    return frozenset(
        Component(ComponentKind.RAIL, (name,), rail) for name in names for rail in rails
    )


def truth_of(fleet: Fleet, fault: Fault) -> Truth:
    """How a finding may name it."""
    every = tuple(range(fleet.layout.rails))
    if fault.leaf >= 0:
        return _truth_of_switch(fleet, fault)
    name = (fleet.names[fault.node],)
    inside = Component(ComponentKind.INTRA_NODE, name)
    nothing: frozenset[Component] = frozenset()
    if fault.kind == "inside":
        return Truth(
            (frozenset({inside}),), nothing, frozenset(name), None, name, every, inside=True
        )
    if fault.kind in ("node", "host", "mtu"):
        whole = frozenset({Component(ComponentKind.NODE, name)})
        allowed = frozenset({inside}) if fault.kind == "node" else nothing
        return Truth((whole, _rails(name, every)), allowed, frozenset(name), None, name, every)
    rails: tuple[int, ...] = (fault.rail,)
    allowed = nothing
    if fault.kind == "pcie":
        rails = (2 * fault.rail, 2 * fault.rail + 1)
    elif fault.kind == "gpu":
        allowed = frozenset({inside})
    elif fault.borrowed >= 0:
        allowed = _rails(name, (fault.borrowed,))
    one = fault.rail if fault.kind != "pcie" else None
    return Truth((_rails(name, rails),), allowed, frozenset(name), one, name, rails)


def _truth_of_switch(fleet: Fleet, fault: Fault) -> Truth:
    layout = fleet.layout
    unit, rail = divmod(fault.leaf, layout.rails) if layout.rail_optimised else (fault.leaf, None)
    first = unit * layout.per_leaf
    members = fleet.names[first : first + layout.per_leaf]
    every = tuple(range(layout.rails))
    rails = every if rail is None else (rail,)
    leaf, others = f"leaf{unit}", sorted(f"leaf{u}" for u in range(layout.units))
    if fault.kind != "leaf":
        sets = tuple(frozenset({part}) for part in _cables(layout, leaf, others, (rail,)))
        carried = tuple(r for r in every if r % layout.spines == fault.spine)
        if rail is None and layout.routing == "static" and layout.rails % layout.spines == 0:
            # Static routing by ports gives each cable of a rack certain rails, and those alone.
            sets += tuple(
                frozenset(Component(part.kind, part.names, r) for r in carried)
                for option in sets
                for part in option
            )
        allowed = _cables(layout, leaf, others, rails)
        return Truth(sets, allowed, frozenset((leaf,)), rail, members, rails, crossing=True)
    answers = [frozenset({Component(ComponentKind.LEAF, (leaf,), rail)}), _rails(members, rails)]
    if rail is None:
        answers.append(frozenset(Component(ComponentKind.NODE, (name,)) for name in members))
    elif layout.units == 1:
        answers.append(frozenset({Component(ComponentKind.RAIL_PLANE, (), rail)}))
    # Its cables are as slow as its other ports.
    named = tuple(dict.fromkeys((rail, *rails)))
    cables = _cables(layout, leaf, others, named)
    return Truth(tuple(answers), cables, frozenset((leaf, *members)), rail, members, rails)


def _cables(
    layout: Layout, leaf: str, others: list[str], rails: tuple[int | None, ...]
) -> frozenset[Component]:
    """What leaves a leaf, by each of these rails; with two leaves in all it has no other name than
    that of both."""
    parts = {Component(ComponentKind.UPLINK, (leaf,), rail) for rail in rails}
    if layout.units == 2:
        parts |= {Component(ComponentKind.LEAF_PAIR, tuple(others), rail) for rail in rails}
    return frozenset(parts)


def effects(one: Case) -> tuple[float, ...]:
    """For each fault: its effect on the times that a perfect observer sees, in units of the noise of
    the mean.

    The observer measures the fleet and its healthy twin with the same randomness in as many launches
    as the budget has, every node with a new partner, and compares the groups that pass the fault with
    the others of their launch: all of them, or those inside leaves, where that shows more. Noise:
    what that difference scatters by in the healthy twin, over the root of the launches, and what its
    node lasts apart from others. Nobody has a healthy twin: where adaptive routing leads all that leaves
    its leaf over the fault, only a stated design tells what it should get, and without one there is no
    effect to see.
    """
    faulty = replace(one.fleet, step=0, _states={})
    healthy = replace(faulty, faults=(), _states={})
    rng = np.random.default_rng((one.fleet.seed, 12))
    alone = all(truth.inside for truth in one.truths)
    mixed = any(truth.inside for truth in one.truths)
    steps: dict[tuple[int, bool], list[tuple[float | None, float | None]]] = {}
    for _ in range(FEW_LAUNCHES if one.fleet.layout.nodes >= 128 else BUDGET_LAUNCHES):
        order = [one.fleet.names[i] for i in rng.permutation(len(one.fleet.names))]
        groups = () if alone else tuple(zip(order[::2], order[1::2], strict=False))
        singles = tuple((name,) for name in order) if mixed else ()
        seen: list[list[GroupSample]] = []
        for twin in (faulty, healthy):
            twin.noise = replace(twin.noise, failed_launch=0.0, lost_group=0.0)
            # Pairs and single nodes use different links: measured at once they do not meet.
            parts: list[Launch] = [("pairs", groups, LaunchRole.PAIRS)] if groups else []
            parts += [("alone", singles, LaunchRole.ALONE)] if singles else []
            seen.append([sample for result in twin.measure(parts) for sample in result or ()])
        for number, truth in enumerate(one.truths):
            for inner in (False, True):
                now = (
                    _contrast(one, truth, seen[0], inner=inner),
                    _contrast(one, truth, seen[1], inner=inner),
                )
                steps.setdefault((number, inner), []).append(now)
    return tuple(
        max(_effect(one, truth, steps[number, inner]) for inner in (False, True))
        for number, truth in enumerate(one.truths)
    )


def _contrast(one: Case, truth: Truth, samples: list[GroupSample], *, inner: bool) -> float | None:
    """Mean logarithm of the rate of the groups that pass the fault, less that of the others. `inner`:
    of groups inside leaves alone."""
    leaf = {name: one.fleet.unit_of(node) for node, name in enumerate(one.fleet.names)}
    mine: list[float] = []
    rest: list[float] = []
    for sample in samples:
        if (len(sample.nodes) == 1) != truth.inside:
            continue
        crosses = len({leaf[name] for name in sample.nodes}) > 1
        if (inner and crosses) or (truth.crossing and not crosses):
            continue
        passes = bool(set(sample.nodes) & set(truth.loads)) and (
            sample.rail is None or sample.rail in truth.rails
        )
        (mine if passes else rest).append(math.log(sample.median_gb_s))
    alike = truth.crossing and not rest and one.fleet.layout.routing == "adaptive"
    if not mine or (alike and not one.stated):
        return None
    return float(np.mean(mine) - (np.mean(rest) if rest else 0.0))


def _effect(one: Case, truth: Truth, steps: list[tuple[float | None, float | None]]) -> float:
    pairs = [(bad, good) for bad, good in steps if bad is not None and good is not None]
    if len(pairs) < 3:
        return 0.0
    noise = one.fleet.noise
    count = math.sqrt(len(truth.loads) * len(truth.rails))
    lasting = noise.node_lasting / math.sqrt(len(truth.loads)) + noise.rail_lasting / count
    scatter = float(np.std([good for _, good in pairs], ddof=1))
    scatter /= math.sqrt(len(pairs) * BUDGET_LAUNCHES / len(steps))
    return float(np.mean([good - bad for bad, good in pairs])) / math.hypot(scatter, lasting)


def visible(found: tuple[float, ...]) -> bool:
    """A perfect observer sees all faults of a fleet."""
    return all(effect > SEEN for effect in found)
