"""Sizes that are missing in the middle of a sweep, where nothing says which were planned: they grow by
one factor, and by a power of it in one place.

>>> jump_of([8, 16, 32, 128, 256])
Jump(factor=2, from_bytes=32, to_bytes=128)
>>> jump_of([8, 16, 32, 64, 128]), jump_of([8, 16, 32, 8, 16, 32]), jump_of([8, 1024, 1 << 20])
(None, None, None)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

_FEWEST = 4
"""Steps, of which three quarters are of one factor: fewer may be chosen by hand."""
_TRIMMED = 0.05
"""How far a step may be from its factor: sizes are cut to whole elements of each rank."""


class Jump(NamedTuple):
    """Where rows are missing."""

    factor: int
    from_bytes: int
    to_bytes: int


def jump_of(sizes: Sequence[int]) -> Jump | None:
    """The first of them; None = the sizes show none. Steps backwards begin another block."""
    steps = [(one, other) for one, other in pairwise(sizes) if 0 < one < other]
    factors = [round(other / one) for one, other in steps]
    if len(steps) < _FEWEST:
        return None
    ((usual, often),) = Counter(factors).most_common(1)
    if usual < 2 or often * 4 < len(steps) * 3:
        return None
    for one, other in steps:
        power = math.log(other / one, usual)
        if round(power) > 1 and abs(other / one / usual ** round(power) - 1) < _TRIMMED:
            return Jump(usual, one, other)
    return None
