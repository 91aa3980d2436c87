"""One size of one case over all its launches, and how uncertain that number is."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.assess.launches import Launch, over_all_nodes
from busbw.model import BenchmarkCase
from busbw.parsers.stats.spread import same_size, variation


@dataclass(frozen=True, slots=True)
class Series:
    """One size of one case over all its launches."""

    case: BenchmarkCase
    size_bytes: int
    values: tuple[float, ...]
    """GB/s of out-of-place bus bandwidth, one per launch."""
    nodes: tuple[str, ...]

    @property
    def median_gb_s(self) -> float:
        """Over the launches."""
        return statistics.median(self.values)

    @property
    def samples(self) -> int:
        """Timed iterations behind the number."""
        return len(self.values) * self.case.iterations * self.case.cycles


def series(launches: tuple[Launch, ...], case_id: str) -> tuple[Series, ...]:
    """Every size of a case over the launches that measured it on all nodes, by size; () = there is
    no number."""
    own = over_all_nodes(launches, case_id)
    sizes = same_size(tuple(launch.results[-1] for launch in own))
    return tuple(
        Series(own[0].artefact.case, size, values, own[0].artefact.nodes) for size, values in sizes
    )


ASSUMED_NOISE = 0.05
"""Run-to-run differences of healthy nodes on shared fabrics reach 5 to 10 %: taken where a run does
not tell its own."""


def noise(launches: tuple[Launch, ...], case_id: str, size_bytes: int) -> float:
    """How uncertain a number is, as a share of it: the variation of three launches or more, else
    that of the iterations of survey groups.

    A launch's own iterations say nothing of the next launch, so that without either `ASSUMED_NOISE`
    is taken."""
    values = next(
        (each.values for each in series(launches, case_id) if each.size_bytes == size_bytes), ()
    )
    if len(values) >= 3:
        return variation(values) or 0.0
    spreads = [sample.spread for launch in launches for sample in launch.samples]
    return statistics.median(spreads) if spreads else ASSUMED_NOISE
