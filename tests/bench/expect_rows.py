"""How well the bands fit what others published.

`python tests/bench/expect_rows.py [--rows] [--classes]`. A source's half is decided by a hash of its
title: one half is for the choice of the shares in shares.py, the other is held out. Printed for
each half: the median absolute error of the expectation, the rows above their physical limit, and
the rows inside their band. `blind` is the held-out half less the classes whose shares
were chosen with a held-out row known. `--rows` lists every row, `--classes` the measured shares of the fit
half by class, from which the shares were read.

Rows of grade good count: configuration and figure both stated. An algorithm counts only where the
source states it.
"""

from __future__ import annotations

import hashlib
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass

from busbw.parsers.expect import baselines, cluster, figures
from busbw.parsers.expect.band import Band, band_of, choice
from busbw.parsers.expect.cluster import Question
from busbw.parsers.expect.figures import Grade, Row
from busbw.parsers.expect.hardware import Nics, find_gpu

PROFILES = {
    "intra-node": "nvlink-only",
    "mnnvl": "nvlink-only",
    "infiniband": "infiniband",
    "roce": "rocev2",
    "spectrum-x": "spectrum-x",
    "efa": "efa",
    "tcp": "tcp",
    "tcpx": "gcp-tcpx",
    "tcpxo": "gcp-tcpxo",
}
ERROR_GOAL, INSIDE_GOAL = 0.08, 0.90
CHOSEN_WITH_HELD_OUT = frozenset({"TCPX machine", "TCPX ring", "NVLSTree between many racks"})
"""Classes without a source in the fit half, whose shares were chosen with the held-out row known:
shares.py says from what."""


@dataclass(frozen=True)
class Compared:
    """A published row with what was expected of it."""

    row: Row
    question: Question
    band: Band
    measured_gb_s: float
    kind: str
    """The class of its shares; empty = there is no expectation."""

    @property
    def error(self) -> float | None:
        """Expectation over measurement, less 1; None = no expectation."""
        value = self.band.value_gb_s
        return None if value is None else value / self.measured_gb_s - 1

    @property
    def above_limit(self) -> bool:
        """More than physics allows by our own description."""
        limit = self.band.limit
        return limit is not None and self.measured_gb_s > limit.value_gb_s * 1.0005

    @property
    def inside(self) -> bool:
        """Between the ends of the band."""
        low, high = self.band.low_gb_s, self.band.high_gb_s
        return low is not None and high is not None and low <= self.measured_gb_s <= high * 1.0005


def held_out(row: Row) -> bool:
    """Whether the row's source is kept from the fit: an odd first byte of the hash of its title."""
    return bool(hashlib.sha256(row.source.title.encode()).digest()[0] & 1)


def question_of(row: Row) -> Question | None:
    """The hardware and shape of a row; None = the row does not state them."""
    gpu = None if row.gpu is None else find_gpu(row.gpu)
    nodes, per_node = baselines.domain(row)
    if gpu is None or nodes is None or per_node is None or nodes * per_node < 2:
        return None
    nics = None
    if nodes > 1:
        if row.nics is None or row.nics.count is None or row.nics.rate_gbit_s is None:
            return None
        rate = row.nics.rate_gbit_s
        nics = Nics(row.nics.count, f"{rate:g}", rate)
    return Question(row.collective, nodes, per_node, PROFILES[row.fabric], gpu, nics=nics)


def compared() -> list[Compared]:
    """Every row of grade good with a bandwidth and a known shape."""
    found = []
    for row in figures.load().published:
        question = question_of(row)
        if row.grade is not Grade.GOOD or row.busbw_gb_s is None or question is None:
            continue
        band = band_of(question, row.size_bytes or 8 << 30, algorithm=stated(row))
        item = choice(cluster.answer(question).expected, stated(row))
        kind = item.kind if item is not None else ""
        found.append(Compared(row, question, band, row.busbw_gb_s.value, kind))
    return found


def stated(row: Row) -> str | None:
    """The algorithm that the source states; None = NCCL's own choice."""
    known = row.algorithm_basis == "stated" and row.algorithm in _ALGORITHMS
    return row.algorithm if known else None


_ALGORITHMS = ("ring", "tree", "nvls", "nvlstree")


def summary(name: str, rows: list[Compared]) -> str:
    """One line of the result."""
    errors = [abs(each.error) for each in rows if each.error is not None]
    sources = len({each.row.source.title for each in rows})
    median = statistics.median(errors) if errors else float("nan")
    above = sum(each.above_limit for each in rows)
    inside = sum(each.inside for each in rows) / len(rows)
    return (
        f"{name:<9} {len(rows):>4} rows of {sources:>3} sources, {len(errors)} with an expectation:"
        f" median error {median:.1%}, above the limit {above}, inside the band {inside:.1%}"
    )


def describe(each: Compared) -> str:
    """One row, for `--rows`."""
    q, band = each.question, each.band
    error = "   none" if each.error is None else f"{each.error:+7.1%}"
    low, high = band.low_gb_s or 0.0, band.high_gb_s or 0.0
    mark = "above limit" if each.above_limit else "" if each.inside else "outside"
    half = "held out" if held_out(each.row) else "fit"
    return (
        f"{error} {each.measured_gb_s:8.1f} [{low:7.1f} {high:7.1f}] {half:<8} {mark:<11}"
        f" {q.collective} {q.nodes}x{q.gpus_per_node} {q.gpu.name if q.gpu else ''} {q.fabric}"
        f" {band.way} {each.row.id}"
    )


def classes(rows: list[Compared]) -> list[str]:
    """By class of the fit half: the measured shares of the estimate, ascending, brought to a large
    message."""
    shares: dict[str, list[float]] = defaultdict(list)
    for each in rows:
        item = choice(cluster.answer(each.question).expected, stated(each.row))
        value, typical = each.band.value_gb_s, item.typical_gb_s if item else None
        if item is None or value is None or typical is None:
            continue
        large = each.measured_gb_s * typical / value
        shares[item.kind].append(large / item.estimate.value_gb_s)
    return [
        f"{kind:<34} {len(values):>3}: " + " ".join(f"{value:.2f}" for value in sorted(values))
        for kind, values in sorted(shares.items())
    ]


def main(arguments: list[str]) -> int:
    """Print the result; 0 whatever it is, since a figure is no test."""
    rows = compared()
    fit = [each for each in rows if not held_out(each.row)]
    rest = [each for each in rows if held_out(each.row)]
    if "--rows" in arguments:
        for each in sorted(rows, key=lambda each: abs(each.error or 9), reverse=True):
            print(describe(each))
    if "--classes" in arguments:
        print(*classes(fit), sep="\n")
    print(summary("fit", fit))
    print(summary("held out", rest))
    blind = [each for each in rest if each.kind not in CHOSEN_WITH_HELD_OUT]
    print(summary("  blind", blind))
    print(summary("all", rows))
    print(
        f"goals: median error <= {ERROR_GOAL:.0%} on the held-out half, none above the limit,"
        f" >= {INSIDE_GOAL:.0%} inside"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
