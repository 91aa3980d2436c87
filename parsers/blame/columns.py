"""The numbers of all levels side by side, as arrays: what hundreds of groups say for or against a
part is added up at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.parsers.blame.chance import KINDS, kind_of, pair_of
from busbw.parsers.blame.constants import EVEN, MOST, ROUGH, WASTE
from busbw.parsers.blame.levels import Level

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Positions = NDArray[np.int64]
    """Of levels, ascending."""
    Flags = NDArray[np.bool_]
    Numbers = NDArray[np.float64]


def portions(capacity: float, together: Numbers, got: Numbers) -> Numbers:
    """What each of so many groups' bytes at once gets of what a part carries. Who nearly fit into it
    may fit: their portion is what they `got`, as far as that lies between.

    >>> import numpy as np
    >>> together, got = np.array([2.0, 2.0, 4.0]), np.array([1.0, 0.93, 0.5])
    >>> portions(1.9, together, got).tolist(), portions(0.95, np.array([1.0]), got[:1]).tolist()
    ([1.0, 0.95, 0.475], [0.95])
    """
    import numpy as np

    portion = capacity / together
    nearly = (together > 1.0) & (portion > 1.0 - WASTE)
    return np.where(nearly, np.clip(got, portion, np.maximum(portion, 1.0)), portion)


@dataclass(frozen=True, slots=True)
class Members:
    """The groups that load one part."""

    at: Positions
    together: Numbers
    """How many groups' bytes the part carried while the launch of each ran."""
    rails: Numbers
    """How many of them are rails of the same pair in the same launch."""
    launches: tuple[int, ...]
    """In the order of the groups."""
    launch_at: Positions
    """Of each group: which of `launches`."""


class Columns:
    """The levels of a run; a level is known by its position."""

    def __init__(self, levels: Sequence[Level]) -> None:
        import numpy as np

        self.ratio = np.array([level.ratio for level in levels])
        self.expected = np.array([level.expected for level in levels])
        self.common = np.array([level.common for level in levels])
        self.launch = np.array([level.launch for level in levels], dtype=np.int64)
        self.crosses = np.array([level.crosses for level in levels], dtype=bool)
        rails = [-1 if level.sample.rail is None else level.sample.rail for level in levels]
        self._rail = np.array(rails, dtype=np.int64)
        self._network = np.array([level.sample.over_network for level in levels], dtype=bool)
        self.busy = np.array([level.sample.busy for level in levels], dtype=bool)
        """Others used the CPUs."""
        self.kind = np.array([kind_of(level) for level in levels], dtype=np.int64)
        """`kind_of` each."""
        self.predicted = np.ones(len(levels))
        """What the parts explained so far leave of each."""
        self._noise = np.array([level.noise for level in levels])
        pairs: dict[tuple[int, tuple[str, ...]], int] = {}
        numbers = [pairs.setdefault(pair_of(level), len(pairs)) for level in levels]
        self._pair = np.array(numbers, dtype=np.int64)

    def positions(self, indices: Iterable[int]) -> Positions:
        """As an array."""
        import numpy as np

        return np.fromiter(indices, dtype=np.int64)

    def of_rail(self, near: Sequence[int], rail: int | None, *, over_network: bool) -> Positions:
        """Those of them on a rail, None = on any, that run over the network, or that do not."""
        at = self.positions(near)
        kept = self._network[at] == over_network
        if rail is not None:
            kept &= self._rail[at] == rail
        some: Positions = at[kept]
        return some

    def flags(self, values: Sequence[bool]) -> Flags:
        """As an array."""
        import numpy as np

        return np.array(values, dtype=bool)

    def where(self, flags: Flags) -> Positions:
        """The positions at which they are set."""
        import numpy as np

        return np.flatnonzero(flags)

    def nothing(self) -> Numbers:
        """Infinite for every level."""
        import numpy as np

        return np.full(len(self.ratio), math.inf)

    def kinds(self, members: Positions) -> list[int]:
        """How many of them are of each kind."""
        import numpy as np

        counts: list[int] = np.bincount(self.kind[members], minlength=len(KINDS)).tolist()
        return counts

    def members(self, positions: Positions, together: Sequence[float] | None = None) -> Members:
        """The groups of a part. `together`: None = 1 for each."""
        import numpy as np

        _, pair_at, count = np.unique(
            self._pair[positions], return_inverse=True, return_counts=True
        )
        launches, first, launch_at = np.unique(
            self.launch[positions], return_index=True, return_inverse=True
        )
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return Members(
            at=positions,
            together=np.ones(len(positions)) if together is None else np.array(together),
            rails=count[pair_at].astype(float),
            launches=tuple(launches[order].tolist()),
            launch_at=rank[launch_at],
        )

    def some(self, members: Members, kept: Flags) -> Members:
        """Those of them for which a flag is set."""
        return self.members(members.at[kept], members.together[kept].tolist())

    def others_across(
        self, members: Members, launches: Sequence[int], rail: int | None
    ) -> list[float]:
        """Ratios of the groups that leave their leaf in these launches, on this rail if there is one,
        without the members."""
        import numpy as np

        others = self.crosses & np.isin(self.launch, launches)
        if rail is not None:
            others &= self._rail == rail
        others[members.at] = False
        ratios: list[float] = self.ratio[others].tolist()
        return ratios

    def carried(self, members: Members) -> Numbers:
        """What a part that limits each of the groups carries for all that it carries at once."""
        at = members.at
        carried: Numbers = self.ratio[at] * self.expected[at] * members.together
        return carried

    def limited(self, members: Members, capacity: float) -> Numbers:
        """What a part of this capacity leaves of what each group is expected to get."""
        import numpy as np

        expected = self.expected[members.at]
        got = self.ratio[members.at] * expected
        share = portions(capacity, members.together, got) / expected
        limited: Numbers = np.minimum(1.0, share)
        return limited

    def least(self, members: Members, capacity: float) -> Numbers:
        """The same, where no group that nearly fits does."""
        import numpy as np

        share = capacity / members.together / self.expected[members.at]
        least: Numbers = np.minimum(1.0, share)
        return least

    def short(self, at: Positions, predicted: Numbers | None = None) -> Numbers:
        """How many standard deviations each group is below what is predicted; how much slower a slow
        one is, is not predicted so finely."""
        import numpy as np

        if predicted is None:
            predicted = self.predicted[at]
        ratio, noise = self.ratio[at], self._noise[at]
        least = np.where(ratio < predicted, ROUGH, EVEN)
        rough = np.where(predicted >= 1.0, noise, np.maximum(noise, least))
        short: Numbers = (np.minimum(predicted, 1.0) - ratio) / rough
        return short

    def misfit(self, at: Positions, predicted: Numbers, bounds: Sequence[float]) -> Numbers:
        """Squared distance; chance makes a group slow, never faster than its parts can be."""
        import numpy as np

        distance = self.short(at, predicted)
        most = np.where(distance > 0, np.array(bounds)[self.kind[at]], MOST)
        misfit: Numbers = np.minimum(most, distance * distance)
        return misfit

    def by_launch(self, members: Members, gains: Numbers) -> Numbers:
        """The sum of each launch, in the order of `Members.launches`."""
        import numpy as np

        sums = np.bincount(members.launch_at, weights=gains, minlength=len(members.launches))
        return sums.astype(float)
