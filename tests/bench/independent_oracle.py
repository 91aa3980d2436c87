"""Which surveys of tests/independent_fleet could have named the fault with what they measured: the
posterior over all single faults, for each survey of a journal whose visible fault was not named.

    python tests/bench/independent_fleets.py --base 35000000 --keep FILE
    python tests/bench/independent_oracle.py --base 35000000 FILE

The oracle knows what no survey knows: the routes, what other jobs load, the sizes of all noises. It
compares the medians with those of each fault, drawn without noise: once for what was measured, once
with the rest of the budget spent on random pairs. A fault that comes and goes may act in any launch,
each share of them as likely. Of several faults, each is looked for with the others known. A survey is
*tellable* where the true names get a posterior of 0.95; what was named right counts as tellable.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import independent_fleets as bench
from independent_fleet.fleet import ITERATIONS, Fault, Fleet, Launch
from independent_fleet.fleets import BUDGET_LAUNCHES, Case, case, truth_of
from independent_fleet.network import Floats, Layout

from busbw.model import LaunchRole
from busbw.parsers.nccl_tests.groups import GroupSample

TELLS = 0.95
"""Posterior from which on the oracle names a fault."""
FREEDOM = 5.0
"""Of Student's t: tails that the medians of 40 iterations leave."""
SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)
"""Of the launches, in which a fault that comes and goes acts."""
LIKELY = 12
"""Parts that are tried with all sizes: those that fit best with the smallest."""
_Seen = tuple[int, list[Launch], list[tuple[GroupSample, ...] | None]]
"""Step, launches, what they gave."""
_Drawn = dict[tuple[int, int, tuple[str, ...], int | None], float]
"""Launch, its place beside others, nodes, rail → GB/s."""


@dataclass(slots=True)
class Recorded(Fleet):
    """A fleet that keeps what was measured."""

    log: list[_Seen] = field(default_factory=list)
    drawn: dict[tuple[tuple[Fault, ...], int], _Drawn] = field(default_factory=dict)
    """What these faults would have given in that launch, without noise."""

    def measure(self, launches: list[Launch]) -> list[tuple[GroupSample, ...] | None]:
        """As the fleet does."""
        step, results = self.step, Fleet.measure(self, launches)
        self.log.append((step, launches, results))
        return results


def parts(layout: Layout) -> Iterator[tuple[Fault, ...]]:
    """All single faults, those of one part by their sizes: the smallest first."""
    rails, spines = range(layout.rails), range(layout.spines if layout.units > 1 else 0)
    for node in range(layout.nodes):
        yield tuple(Fault("node", node, left=x) for x in np.linspace(0.95, 0.5, 7).tolist())
        yield tuple(Fault("inside", node, 0, left=x) for x in np.linspace(0.95, 0.4, 6).tolist())
        for rail in rails:
            yield tuple(Fault("nic", node, rail, left=x) for x in np.linspace(0.93, 0.28, 6))
            yield tuple(Fault("gpu", node, rail, left=x) for x in (0.9, 0.7, 0.5))
            yield tuple(Fault("loss", node, rail, loss=x) for x in np.geomspace(3e-4, 1e-2, 4))
            yield (Fault("dead", node, rail, left=0.05),)
            yield (Fault("dead", node, rail, borrowed=rail ^ 1),)
        for switch in range(layout.rails // 2 if layout.pcie_pairs else 0):
            yield tuple(Fault("pcie", node, switch, left=x) for x in (0.85, 0.65, 0.45))
    for leaf in range(layout.leaves):
        yield tuple(Fault("leaf", leaf=leaf, left=x) for x in np.linspace(0.92, 0.5, 6).tolist())
        for spine in spines:
            sizes = (0.75, 0.6, 0.45, 0.3, 0.15)
            yield tuple(Fault("cable", leaf=leaf, spine=spine, left=x) for x in sizes)
            losses = (5e-4, 2e-3, 8e-3)
            yield tuple(Fault("loss", leaf=leaf, spine=spine, loss=x) for x in losses)


class Oracle:
    """Likelihoods of what one fleet gave."""

    def __init__(self, fleet: Recorded) -> None:
        self._fleet, self._log = fleet, tuple(fleet.log)
        self._quiet = replace(
            fleet.noise, iteration=0, tail=0, everywhere=0, node_lasting=0, rail_lasting=0,
            pair_lasting=0, launch=0, node_launch=0, rail_launch=0, group_launch=0, drift=0,
            leaf_drift=0, throttled=0, lost_group=0, failed_launch=0, cut_short=0,
        )  # fmt: skip
        self._rows = [
            (number, place, sample)
            for number, (_, _, results) in enumerate(self._log)
            for place, samples in enumerate(results)
            for sample in samples or ()
            if len(sample.nodes) <= 2
        ]
        self._seen = np.log([sample.median_gb_s for _, _, sample in self._rows])
        self._launch = np.array([number for number, _, _ in self._rows])
        whole = self._covariance()
        apart = np.where(self._launch[:, None] == self._launch, whole, 0.0)
        self._factors = np.linalg.cholesky(whole), np.linalg.cholesky(apart)

    def _covariance(self) -> Floats:
        """Of the logarithms, with levels of launches, of ways and of their launches left open."""
        noise, rails = self._fleet.noise, self._fleet.layout.rails
        number = {name: node for node, name in enumerate(self._fleet.names)}
        of_node = np.zeros((len(self._rows), len(number)))
        of_rail = np.zeros((len(self._rows), len(number) * rails))
        for row, (_, _, sample) in enumerate(self._rows):
            # The slower of two decides: each end shows by about half.
            share = 0.55 if len(sample.nodes) == 2 else 1.0
            for node in (number[name] for name in sample.nodes):
                of_node[row, node] = share
                first = node * rails
                if sample.rail is None:
                    of_rail[row, first : first + rails] = 0.35
                else:
                    of_rail[row, first + sample.rail] = share
        leaf = {name: self._fleet.unit_of(node) for name, node in number.items()}
        ways = [(len(s.nodes), len({leaf[name] for name in s.nodes})) for _, _, s in self._rows]
        way = np.array([2 * nodes + leaves for nodes, leaves in ways])
        launch, like = self._launch[:, None] == self._launch, way[:, None] == way
        nodes, ends = of_node @ of_node.T, of_rail @ of_rail.T
        whole: Floats = noise.node_lasting**2 * nodes + noise.rail_lasting**2 * ends
        whole += launch * (noise.node_launch**2 * nodes + noise.rail_launch**2 * ends)
        whole += launch * (noise.launch**2 + 0.01**2 + 0.006**2 * like) + 0.05**2 + 0.02**2 * like
        own = noise.group_launch**2 + 1.57 / ITERATIONS * noise.iteration**2 + 0.003**2
        own += 0.18 * (noise.node_launch**2 + noise.rail_launch**2)
        return whole + own * np.eye(len(self._rows))

    def _likelihoods(self, faults: tuple[Fault, ...]) -> tuple[Floats, Floats]:
        """By launch: the logarithm of the likelihood with these faults always there; with what nodes
        and rails last, and with each launch by itself."""
        drawn: _Drawn = {}
        for number, (step, launches, _) in enumerate(self._log):
            if (faults, number) not in self._fleet.drawn:
                states = self._fleet._states  # what other jobs load, drawn once
                twin = Fleet(
                    self._fleet.layout, self._quiet, faults, self._fleet.seed, step, states
                )
                self._fleet.drawn[faults, number] = {
                    (number, place, each.nodes, each.rail): each.median_gb_s
                    for place, samples in enumerate(twin.measure(launches))
                    for each in samples or ()
                }
            drawn |= self._fleet.drawn[faults, number]
        keys = [(number, place, each.nodes, each.rail) for number, place, each in self._rows]
        short = self._seen - np.log([drawn[key] for key in keys])
        white = [np.linalg.solve(factor, short) for factor in self._factors]
        logs = [-(FREEDOM + 1) / 2 * np.log1p(each**2 / FREEDOM) for each in white]
        whole, apart = (np.bincount(self._launch, each, len(self._log)) for each in logs)
        return whole, apart

    def posterior(self, number: int) -> float:
        """Of the names of this fault, with the others known."""
        every = tuple(replace(fault, duty=1.0) for fault in self._fleet.faults)
        mine, others = every[number], (*every[:number], *every[number + 1 :])
        at_times = self._fleet.faults[number].duty < 1
        true = truth_of(self._fleet, mine)
        without = self._likelihoods(others)

        def evidence(fault: Fault) -> list[float]:
            whole, apart = self._likelihoods((*others, fault))
            logs = [float((whole - without[0]).sum())]
            for share in SHARES if at_times and fault.kind in ("nic", "node") else ():
                mixed = np.logaddexp(math.log(share) + apart - without[1], math.log1p(-share))
                logs.append(float(mixed.sum()))
            return logs

        # A small loss of the right part fits better than none, of a wrong one worse.
        every_part = tuple(parts(self._fleet.layout))
        logs = [evidence(sizes[0]) for sizes in every_part]
        best = sorted(range(len(logs)), key=lambda index: -max(logs[index]))[:LIKELY]
        for index in best:
            for fault in every_part[index][1:]:
                logs[index] += evidence(fault)
        every_part, logs = (*every_part, (mine,)), [*logs, evidence(mine)]
        # A part counts as much whatever the number of its sizes.
        means = [float(np.logaddexp.reduce(each)) - math.log(len(each)) for each in logs]
        everything = float(np.logaddexp.reduce([0.0, *means]))
        posterior = 0.0
        for sizes, mean in zip(every_part, means, strict=True):
            options = truth_of(self._fleet, sizes[0]).options
            if any(option in true.options for option in options):
                posterior += math.exp(mean - everything)
        return posterior


def tells(one: Case) -> tuple[float, float]:
    """(posterior of the true names with what the survey measured, the same with the whole budget)."""
    fleet = Recorded(one.fleet.layout, one.fleet.noise, one.fleet.faults, one.fleet.seed)
    bench.Survey(replace(one, fleet=fleet)).run()
    found = []
    rng = np.random.default_rng((fleet.seed, 13))
    for full in (False, True):
        while full and len(fleet.log) < BUDGET_LAUNCHES:
            order = [fleet.names[i] for i in rng.permutation(len(fleet.names))]
            groups = tuple(zip(order[::2], order[1::2], strict=False))
            fleet.measure([("pairs", groups, LaunchRole.PAIRS)])
        oracle = Oracle(fleet)
        found.append(min(map(oracle.posterior, range(len(fleet.faults)))))
    return found[0], found[1]


def main() -> None:
    """Print what the oracle says of each miss, and what is right of all that is tellable."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("journal", type=Path)
    parser.add_argument("--base", type=int, required=True, help="that of the journal")
    args = parser.parse_args()
    trials = [each for each in bench.load(args.journal) if each.visible and each.truth]
    right = sum(each.end == "right" for each in trials)
    told = [0, 0]
    for each in trials:
        if each.end == "right":
            continue
        posterior = tells(case(each.size, each.kind, each.index, args.base))
        for full in (0, 1):
            told[full] += posterior[full] >= TELLS
        numbers = f"{posterior[0]:.3f} as measured, {posterior[1]:.3f} with the whole budget"
        print(f"{each.end} | seed {each.seed} {each.kind} | {'; '.join(each.truth)} | {numbers}")
        sys.stdout.flush()
    print(
        f"right {right} of {len(trials)} visible, {right} of {right + told[0]} tellable as measured,"
    )
    print(f"{right} of {right + told[1]} tellable with the whole budget")


if __name__ == "__main__":
    main()
