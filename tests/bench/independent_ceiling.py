"""What an observer who does not know the routes could tell of a missed cable: the posterior of the true
uplinks, marginal over which cable each flow takes.

    python tests/bench/independent_ceiling.py --base 43000000 JOURNAL

Known are the kind of routing, the number of cables, what other jobs load and all noises, so that no
survey can tell more. With static routing a flow's cable belongs to its target for the whole survey,
where flows are hashed it is drawn for each launch. The sum over all such assignments is taken over
those that a Gibbs sampler visits, alike for each hypothesis. Hypotheses: all cables are good, or one of
a rail's (of all rails' where they share a switch) carries less. What groups inside leaves say is left
out: they rule out nodes.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import independent_fleets as bench
from independent_fleet.fleet import ITERATIONS, Fault, Fleet
from independent_fleet.fleets import Case, case
from independent_fleet.network import Flow, Links, Wiring, end_times, route
from independent_oracle import FREEDOM, Recorded

SIZES = (0.75, 0.6, 0.45, 0.3, 0.15)
"""What is left of the one cable."""
SWEEPS = 3
CHAINS = 2
Key = tuple[Hashable, ...]
"""What one draw decides: a flow of one launch and its queue pair, or a target."""


@dataclass(frozen=True, slots=True)
class Part:
    """Groups across leaves of one launch that share cables."""

    step: int
    flows: tuple[Flow, ...]
    keys: tuple[tuple[Key, ...], ...]
    """Of each flow, one for each of its streams."""
    seen: tuple[float, ...]
    """Logarithm of what each group got; its flows are two in turn."""


class _Drawn:
    """In place of randomness: the spines of each flow in turn."""

    def __init__(self, spines: list[tuple[int, ...]]) -> None:
        self._spines = iter(spines)

    def integers(self, _low: int, _high: int, _count: int) -> tuple[int, ...]:
        return next(self._spines)


class Observer:
    """Likelihoods of what one fleet gave, by its rails of uplinks."""

    def __init__(self, fleet: Recorded) -> None:
        layout = fleet.layout
        self._static = layout.routing == "static"
        pairs = 1 if self._static else layout.queue_pairs
        self._layout = replace(layout, routing="ecmp", queue_pairs=pairs)
        self._fleet, self._links = fleet, Links(layout)
        noise = fleet.noise
        ends = noise.node_launch**2 + noise.rail_launch**2
        ends += noise.node_lasting**2 + noise.rail_lasting**2
        own = noise.group_launch**2 + 1.57 / ITERATIONS * noise.iteration**2 + 0.003**2
        self._scale = math.sqrt(own + 0.6 * ends + noise.launch**2)
        self._quiet = replace(
            noise, launch=0, node_lasting=0, rail_lasting=0, node_launch=0, rail_launch=0, drift=0,
            leaf_drift=0, throttled=0,
        )  # fmt: skip
        self.parts: dict[int | None, list[Part]] = defaultdict(list)
        for step, launches, results in fleet.log:
            for _, samples in zip(launches, results, strict=True):
                self._add(step, samples or ())

    def _add(self, step: int, samples: tuple[bench.GroupSample, ...]) -> None:
        """The groups of one launch, by the cables that they share."""
        layout = self._fleet.layout
        number = {name: node for node, name in enumerate(self._fleet.names)}
        shared: dict[int | None, list[bench.GroupSample]] = defaultdict(list)
        for sample in samples:
            units = {self._fleet.unit_of(number[name]) for name in sample.nodes}
            if len(sample.nodes) == 2 and len(units) == 2:
                shared[sample.rail if layout.rail_optimised else None].append(sample)
        for rail, groups in shared.items():
            flows, keys = [], []
            for sample in groups:
                a, b = (number[name] for name in sample.nodes)
                for source, target in ((a, b), (b, a)):
                    flows.append(Flow(source, target, sample.rail or 0))
                    of_launch = [
                        (step, source, target, sample.rail, i)
                        for i in range(self._layout.queue_pairs)
                    ]
                    keys.append(tuple([(target, sample.rail)] if self._static else of_launch))
            seen = tuple(math.log(sample.median_gb_s / layout.nic_gb_s) for sample in groups)
            self.parts[rail].append(Part(step, tuple(flows), tuple(keys), seen))

    def evidence(self, rail: int | None, left: float | None) -> float:
        """Logarithm of the marginal likelihood. `left`: of one cable; None = all are good."""
        blocks = [self.parts[rail]] if self._static else [[part] for part in self.parts[rail]]
        return sum(self._summed(block, rail, left) for block in blocks)

    def _summed(self, block: list[Part], rail: int | None, left: float | None) -> float:
        """Over the assignments that the sampler visits."""
        rng = np.random.default_rng((self._fleet.seed, 17, block[0].step))
        capacities = [self._capacity(part.step, rail, left) for part in block]
        keys = sorted({key for part in block for keys in part.keys for key in keys}, key=repr)
        of_part = [{k for keys in part.keys for k in keys} for part in block]
        spines = self._layout.spines
        visited: dict[tuple[int, ...], float] = {}
        for _ in range(CHAINS):
            now = {key: int(rng.integers(spines)) for key in keys}
            logs = [self._fit(p, c, now) for p, c in zip(block, capacities, strict=True)]
            visited[tuple(now.values())] = sum(logs)
            for key in [key for _ in range(SWEEPS) for key in keys]:
                options = []
                for spine in range(spines):
                    trial, new = {**now, key: spine}, list(logs)
                    if spine != now[key]:
                        for i, part in enumerate(block):
                            if key in of_part[i]:
                                new[i] = self._fit(part, capacities[i], trial)
                    visited[tuple(trial.values())] = sum(new)
                    options.append((trial, new))
                totals = np.array([sum(new) for _, new in options])
                chances = np.exp(totals - totals.max())
                now, logs = options[int(rng.choice(spines, p=chances / chances.sum()))]
        prior = -len(keys) * math.log(spines)
        return prior + float(np.logaddexp.reduce(list(visited.values())))

    def _capacity(self, step: int, rail: int | None, left: float | None) -> np.ndarray:
        """Of each link in this launch."""
        leaf = rail or 0
        faults = () if left is None else (Fault("cable", leaf=leaf, spine=0, left=left),)
        fleet = self._fleet
        twin = Fleet(fleet.layout, self._quiet, faults, fleet.seed, step, fleet._states)
        capacity, _ = twin._capacity(self._links, faults, loaded=fleet.noise.bursts >= 0.5)
        return capacity

    def _fit(self, part: Part, capacity: np.ndarray, spine_of: dict[Key, int]) -> float:
        """Logarithm of the likelihood of one launch with these routes."""
        drawn = _Drawn([tuple(spine_of[key] for key in keys) for keys in part.keys])
        links = Links(self._layout)
        routes = route(links, list(part.flows), Wiring({}, frozenset()), drawn)  # type: ignore[arg-type]
        seconds = end_times(
            routes, capacity, np.ones(len(part.flows)), np.ones(len(routes.flow_of))
        )
        slower = seconds.reshape(-1, 2).max(axis=1) * (1 + self._fleet.noise.across)
        apart = (np.array(part.seen) + np.log(slower * self._layout.nic_gb_s)) / self._scale
        return float((-(FREEDOM + 1) / 2 * np.log1p(apart**2 / FREEDOM)).sum())

    def posterior(self) -> float:
        """Of the uplinks in which the fault is."""
        fault = self._fleet.faults[0]
        true = fault.leaf % self._fleet.layout.rails if self._fleet.layout.rail_optimised else None
        odds = {}
        for rail in self.parts:
            good = self.evidence(rail, None)
            logs = [self.evidence(rail, left) - good for left in SIZES]
            odds[rail] = float(np.logaddexp.reduce(logs)) - math.log(len(logs))
        everything = float(np.logaddexp.reduce([0.0, *odds.values()]))
        return math.exp(odds[true] - everything)


def tells(one: Case) -> float:
    """The posterior of the truth without routes, with what the survey measured."""
    fleet = Recorded(one.fleet.layout, one.fleet.noise, one.fleet.faults, one.fleet.seed)
    bench.Survey(replace(one, fleet=fleet)).run()
    return Observer(fleet).posterior()


def main() -> None:
    """Print what could be told of each missed cable without routes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("journal", type=Path)
    parser.add_argument("--base", type=int, required=True, help="that of the journal")
    args = parser.parse_args()
    for each in bench.load(args.journal):
        one = case(each.size, each.kind, each.index, args.base)
        known = one.fleet.layout.routing == "adaptive" or one.fleet.layout.units != 2
        if each.kind == "cable" and each.visible and each.end != "right" and not known:
            print(
                f"{each.end} | seed {each.seed} | {each.truth[0]} | {each.fabric} | {tells(one):.3f}"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
