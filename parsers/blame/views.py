"""Two further ways to look at the levels of a run: how fast a rail was among those of its pair, and
how steady a group was; and from which loss on a part is slow.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from busbw.parsers.blame.columns import Columns, View
from busbw.parsers.blame.constants import (
    DEVIATIONS,
    FEWEST_RAILS,
    FEWEST_TO_DIFFER,
    LEAST_LOSS,
    LEAST_UNSTEADY,
    SUSPICIOUS,
)
from busbw.parsers.blame.noise import good_level, noise_of, of_good_ones

if TYPE_CHECKING:
    from busbw.parsers.blame.columns import Flags, Numbers, Positions


def by_ends(columns: Columns, chosen: Flags) -> tuple[Positions, Positions]:
    """(which rail of which node, which level), once for each node of each of these levels."""
    ends = chosen[columns.end_at]
    at = columns.end_at[ends]
    return columns.end_node[ends] * columns.step + columns.rail[at] + 1, at


def least_loss(columns: Columns, *, hashed: bool = False) -> float:
    """Smallest loss that is called slow: rails of good nodes differ from each other too, by the
    spread of their medians over all launches.

    `hashed`: groups that leave their leaf differ by the luck of their flows, and do not count.
    """
    kept = columns.couple & ~columns.crosses if hashed else columns.couple
    keys, at = by_ends(columns, kept)
    # The higher median: with two launches one bad partner must not make a rail look bad.
    middles = _medians_high(keys, columns.ratio[at])
    scatter = of_good_ones(middles) if len(middles) >= FEWEST_TO_DIFFER else 0.0
    return max(LEAST_LOSS, DEVIATIONS * scatter)


def against_pair(columns: Columns, *, hashed: bool) -> View:
    """The rails of pairs, each compared with the others of its pair in the same launch.

    What a launch does to all rails of a pair, be it noise or a neighbour's load, does not show here;
    nor does what a rail loses on all nodes. No level = that is noisier, and says nothing that the
    levels do not. Where flows collide across leaves, only those inside are compared.
    """
    import numpy as np

    chosen = columns.couple & (columns.rail >= 0)
    if hashed:
        chosen &= ~columns.crosses
    at = np.flatnonzero(chosen)
    _, pair, count = np.unique(columns.pair[at], return_inverse=True, return_counts=True)
    usual = np.array(_medians_high(pair, columns.ratio[at]))[pair] if len(at) else columns.ratio[at]
    kept = (count[pair] >= FEWEST_RAILS) & (usual > 0)
    at, usual = at[kept], usual[kept]
    whole = columns.expected[at]
    # What limits all rails of the pair hides a rail that carries as much.
    slow = 1.0 - usual > SUSPICIOUS * columns.noise[at]
    expected = whole * np.where(slow, usual, 1.0)
    ratio = columns.ratio[at] / usual
    like = 2 * columns.rail[at] + columns.crosses[at]
    for key in np.unique(like):
        own = like == key
        # Where a neighbour limits the others of its pair, a rail with a dead end has room to spare.
        free = own & (expected == whole)
        good = good_level(ratio[free if free.any() else own].tolist())
        ratio[own] = ratio[own] / good if good > 0 else 1.0
    levels = [columns.levels[index] for index in at.tolist()]
    noise = noise_of(
        [level.sample for level in levels], ratio.tolist(), columns.crosses[at].tolist()
    )
    if noise.deviation > statistics.median(columns.noise[at].tolist() or [0.0]):
        at = at[:0]
    own = slice(len(at))
    scatter = np.array([level.scatter for level in levels])[own]
    return View(
        at,
        ratio=ratio[own],
        noise=np.maximum(noise.deviation, scatter),
        expected=expected[own],
        common=np.full(len(at), noise.common),
        freedom=np.full(len(at), noise.freedom),
    )


def steadiness(columns: Columns) -> View:
    """In place of the speed, the share of iterations that kept it, compared with that of the
    steadier half."""
    import numpy as np

    ranked = sorted(level.dips for level in columns.levels)
    usual = statistics.fmean(ranked[: (len(ranked) + 1) // 2])
    share = max(usual, statistics.fmean(ranked[: max(1, len(ranked) * 3 // 4)]))
    dips = np.array([level.dips for level in columns.levels])
    iterations = np.array([len(level.sample.busbw_gb_s) for level in columns.levels])
    noise = np.sqrt(share * (1 - share) / np.maximum(iterations, 1))
    return View(
        np.arange(len(dips)),
        ratio=np.minimum(1.0, (1 - dips) / (1 - share)),
        noise=np.maximum(LEAST_UNSTEADY, noise),
        expected=np.ones(len(dips)),
        common=columns.common,
        freedom=columns.freedom,
    )


def _medians_high(keys: Positions, values: Numbers) -> list[float]:
    """The higher median of the values of each key."""
    import numpy as np

    order = np.lexsort((values, keys))
    _, first, count = np.unique(keys[order], return_index=True, return_counts=True)
    middles: list[float] = values[order][first + count // 2].tolist()
    return middles
