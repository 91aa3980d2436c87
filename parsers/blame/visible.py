"""Which loss of a node these measurements would have shown, had there been one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from busbw.model import ComponentKind
from busbw.parsers.blame.chance import deviations_for, student
from busbw.parsers.blame.columns import Columns
from busbw.parsers.blame.constants import COST
from busbw.parsers.blame.proof import tested_parts
from busbw.parsers.blame.views import by_ends, least_loss

if TYPE_CHECKING:
    from busbw.parsers.blame.columns import Flags


def loss_flagged(columns: Columns) -> float:
    """Smallest loss of a node that its launches would have added up to flag it, in 97 of
    100 cases."""
    import numpy as np

    between = _are_between_nodes(columns)
    count = _launches_of_a_node(columns, between)
    noise = float(np.median(columns.noise[between]))
    return max(
        least_loss(columns),
        noise * (math.sqrt(COST[ComponentKind.NODE] / count) + 2 / math.sqrt(count)),
    )


def loss_proved(columns: Columns) -> float:
    """Smallest loss of a node that is proved in half of all cases, with as much as is known of the
    noise."""
    import numpy as np

    between = _are_between_nodes(columns)
    at = np.flatnonzero(between)
    worst = at[(columns.noise[at] ** 2 * columns.common[at]).argmax()]
    rails = len(np.unique(columns.rail[at]))
    common = float(columns.common[worst])
    noise = float(np.median(columns.noise[at]))
    error = noise * math.sqrt(common + (1 - common) / rails)
    error /= math.sqrt(_launches_of_a_node(columns, between))
    return student(deviations_for(tested_parts(columns, at)), int(columns.freedom[worst])) * error


def _are_between_nodes(columns: Columns) -> Flags:
    """The groups over the network; those over NVLink where no network was measured."""
    import numpy as np

    if columns.network.any():
        return columns.network
    return np.array([len(level.sample.nodes) > 1 for level in columns.levels])


def _launches_of_a_node(columns: Columns, between: Flags) -> float:
    import numpy as np

    ends, at = by_ends(columns, between)
    nodes = ends // columns.step
    pairs = np.unique(nodes * columns.launches + columns.launch[at])
    _, launches = np.unique(pairs // columns.launches, return_counts=True)
    return float(np.median(launches))
