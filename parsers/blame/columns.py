"""The levels of a run as arrays, and which parts each of them loads: what hundreds of groups say for
or against hundreds of parts is added up at once.

A level is known by its position, a part by its code: the number of its name times the rails, plus the
rail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from busbw.model import Component, ComponentKind
from busbw.parsers.blame.constants import (
    EVEN,
    MOST,
    ROUGH,
    WASTE,
)
from busbw.parsers.blame.levels import Level
from busbw.parsers.blame.parts import loads

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Positions = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Numbers = NDArray[np.float64]

KINDS = range(3)
"""Of levels: 0 = a node by itself or NVLink between nodes, 1 = a group inside a leaf, 2 = one across
leaves: each has its own chance."""
_UPLINKS = (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
"""What groups that leave their leaf fill together."""
_Name = tuple[ComponentKind, tuple[str, ...]]
"""A part on whatever rail; a rail by its node."""


@dataclass(frozen=True, slots=True)
class Members:
    """The groups that load each of some parts, part by part."""

    part: Positions
    """Which of the parts."""
    at: Positions
    """The level; ascending within a part."""
    together: Numbers
    """How many groups' bytes the part carried while the launch of each ran."""
    others: Numbers
    """How many more of them are rails of the same pair in the same launch."""

    def some(self, kept: Flags | Positions) -> Members:
        """Those that a flag is set for, or at these places."""
        return Members(self.part[kept], self.at[kept], self.together[kept], self.others[kept])


@dataclass(frozen=True, slots=True)
class View:
    """Levels by their positions, with the numbers of another way to look at them: those of `Level`."""

    at: Positions
    ratio: Numbers
    noise: Numbers
    expected: Numbers
    common: Numbers
    freedom: Positions

    def some(self, kept: Sequence[int]) -> View:
        """Those at these places."""
        import numpy as np

        own = np.array(kept, dtype=np.int64)
        return View(
            self.at[own],
            self.ratio[own],
            self.noise[own],
            self.expected[own],
            self.common[own],
            self.freedom[own],
        )


class Columns:
    """The levels of a run side by side."""

    def __init__(self, levels: Sequence[Level], leaf: dict[str, str]) -> None:
        """`leaf`: of each node that is known."""
        import numpy as np

        samples = [level.sample for level in levels]
        self.levels = tuple(levels)
        everything = np.arange(len(levels))
        self._set_numbers(
            View(
                everything,
                ratio=np.array([level.ratio for level in levels]),
                noise=np.array([level.noise for level in levels]),
                expected=np.array([level.expected for level in levels]),
                common=np.array([level.common for level in levels]),
                freedom=np.array([level.freedom for level in levels], dtype=np.int64),
            )
        )
        self.launch = np.array([level.launch for level in levels], dtype=np.int64)
        self.launches = 1 + int(self.launch.max(initial=-1))
        """Numbers that launches may have: 0 to this one less 1."""
        self.crosses = np.array([level.crosses for level in levels], dtype=bool)
        self.network = np.array([sample.over_network for sample in samples], dtype=bool)
        self.couple = self.network & np.array([len(sample.nodes) == 2 for sample in samples])
        """It is a pair of nodes."""
        self.alone = np.array([len(sample.nodes) == 1 for sample in samples], dtype=bool)
        """It is a node by itself."""
        self.kind = np.where(self.network, 1 + self.crosses, 0)
        """Which of KINDS."""
        self.busy = np.array([sample.busy for sample in samples], dtype=bool)
        """Others used the CPUs."""
        rails = [-1 if sample.rail is None else sample.rail for sample in samples]
        self.rail = np.array(rails, dtype=np.int64)
        """-1 = all."""
        self.step = 2 + int(self.rail.max(initial=-1))
        """Codes of one name."""
        self.nodes: dict[str, int] = {}
        """Node → its number."""
        self._numbers: dict[_Name, int] = {}
        loading = self._set_groups(leaf)
        self._names = tuple(self._numbers)
        self._parts: dict[int, Component] = {}
        places: dict[str, int] = {}
        own = [places.setdefault(leaf.get(node, ""), len(places)) for node in self.nodes]
        self.place = np.array(own, dtype=np.int64)
        """Of each node: the number of its leaf."""
        self._set_entries(loading)
        self._set_counts()

    def _set_groups(self, leaf: dict[str, str]) -> list[tuple[Positions, int, float]]:
        """Number the nodes and the names of the parts: (levels, name that they load, share of their
        bytes). Groups of the same nodes load the same, and are looked at once."""
        import numpy as np

        self.group = np.zeros(len(self.levels), dtype=np.int64)
        """Of each level: the number of its nodes."""
        plane = self._numbers.setdefault((ComponentKind.RAIL_PLANE, ()), 0)
        alike: dict[tuple[tuple[str, ...], str, int, bool], list[int]] = {}
        for index, sample in enumerate(level.sample for level in self.levels):
            key = sample.nodes, sample.collective, sample.ranks_per_node, sample.over_network
            alike.setdefault(key, []).append(index)
        leaves = len(set(leaf.values()))
        ends: list[tuple[Positions, int]] = []
        loading: list[tuple[Positions, int, float]] = [
            (np.flatnonzero(self.network & (self.rail >= 0)), plane, 1.0)
        ]
        groups: dict[tuple[str, ...], int] = {}
        for (nodes, _, _, _), indices in alike.items():
            at = np.array(indices, dtype=np.int64)
            self.group[at] = groups.setdefault(nodes, len(groups))
            ends += ((at, self.nodes.setdefault(node, len(self.nodes))) for node in nodes)
            for load in loads(self.levels[indices[0]].sample, leaf, leaves):
                if load.part.rail is None:
                    name = load.part.kind, load.part.names
                    number = self._numbers.setdefault(name, len(self._numbers))
                    loading.append((at, number, load.share))
        self.pair = self.group + self.launch * len(groups)
        """Of each level: its launch and its nodes, of whatever rail."""
        self.end_at = _joined([at for at, _ in ends])
        """Of each node of each level: the level."""
        numbers = np.array([node for _, node in ends], dtype=np.int64)
        self.end_node = np.repeat(numbers, [len(at) for at, _ in ends])
        return loading

    def _set_numbers(self, view: View) -> None:
        import numpy as np

        self.ratio, self.noise, self.expected = view.ratio, view.noise, view.expected
        self.common, self.freedom = view.common, view.freedom
        self.predicted = np.ones(len(view.at))
        """What the parts explained so far leave of each."""

    def _set_entries(self, loading: Sequence[tuple[Positions, int, float]]) -> None:
        """One entry for each level and each part that it loads, sorted by the part."""
        import numpy as np

        lengths = [len(at) for at, _, _ in loading]
        at = _joined([each for each, _, _ in loading])
        number = np.repeat([number for _, number, _ in loading], lengths).astype(np.int64)
        share = np.repeat([share for _, _, share in loading], lengths)
        kinds = [kind for kind, _ in self._names]
        on_rails = np.array([kind is not ComponentKind.INTRA_NODE for kind in kinds])
        whole = np.array([kind is not ComponentKind.RAIL_PLANE for kind in kinds])
        railed = on_rails[number] & (self.rail[at] >= 0)
        code = number * self.step
        codes = np.concatenate([code[whole[number]], (code + 1 + self.rail[at])[railed]])
        both = np.concatenate([np.flatnonzero(whole[number]), np.flatnonzero(railed)])
        order = np.lexsort((at[both], codes))
        self.code = codes[order]
        self.at = at[both][order]
        self._share = share[both][order]

    def _set_counts(self) -> None:
        """What depends on which levels there are."""
        import numpy as np

        _, place, count = np.unique(
            2 * self.pair + self.network, return_inverse=True, return_counts=True
        )
        self._rails_of_pair = count[place] - 1.0
        _, place, count = np.unique(
            place * self.step + self.rail + 1, return_inverse=True, return_counts=True
        )
        self._same_of_pair = count[place] - 1.0
        kinds = [kind in _UPLINKS for kind, _ in self._names]
        self._filled = np.array(kinds, dtype=bool)
        number = self.code // self.step
        once = np.flatnonzero((self.code % self.step == 0) & self._filled[number])
        # A pair loads all rails alike, also those of which nothing was recorded.
        pairs = number[once] * (1 + int(self.pair.max(initial=0))) + self.pair[self.at[once]]
        _, first = np.unique(pairs, return_index=True)
        once = once[first]
        cells = number[once] * self.launches + self.launch[self.at[once]]
        sums = np.bincount(
            cells, weights=self._share[once], minlength=len(self._names) * self.launches
        )
        self._sums = sums.reshape(len(self._names), self.launches)
        """By name and launch: groups' bytes."""

    def seen(self, view: View) -> Self:
        """Its levels alone, with its numbers; the codes and the launches stay."""
        import numpy as np

        some = type(self).__new__(type(self))
        kept = view.at
        some._set_numbers(view)
        some.levels = tuple(self.levels[index] for index in kept.tolist())
        some.launches, some.step = self.launches, self.step
        some.nodes, some.place = self.nodes, self.place
        some._numbers, some._names, some._parts = self._numbers, self._names, self._parts
        for name in ("launch", "crosses", "network", "kind", "busy", "rail", "couple", "alone"):
            setattr(some, name, getattr(self, name)[kept])
        some.pair, some.group = self.pair[kept], self.group[kept]
        place = np.full(len(self.ratio), -1)
        place[kept] = np.arange(len(kept))
        ends = place[self.end_at] >= 0
        some.end_at, some.end_node = place[self.end_at[ends]], self.end_node[ends]
        entries = place[self.at] >= 0
        some.at = place[self.at[entries]]
        some.code, some._share = self.code[entries], self._share[entries]
        some._set_counts()
        return some

    def part(self, code: int) -> Component:
        """By its code."""
        part = self._parts.get(code)
        if part is None:
            number, rail = divmod(code, self.step)
            kind, names = self._names[number]
            if rail and kind is ComponentKind.NODE:
                kind = ComponentKind.RAIL
            part = self._parts[code] = Component(kind, names, rail - 1 if rail else None)
        return part

    def code_of(self, part: Component) -> int:
        """Of a part that is loaded; -1 = no level loads any like it."""
        kind = ComponentKind.NODE if part.kind is ComponentKind.RAIL else part.kind
        number = self._numbers.get((kind, part.names), -1)
        if number < 0 or (part.rail is not None and part.rail + 2 > self.step):
            return -1
        return number * self.step + (0 if part.rail is None else part.rail + 1)

    def like(self, part: Component) -> int:
        """How many parts are of its kind."""
        kind = ComponentKind.NODE if part.kind is ComponentKind.RAIL else part.kind
        names = sum(kind is each for each, _ in self._names)
        return names if part.rail is None else names * (self.step - 1)

    def of_kind(self, part: Component) -> list[int]:
        """The codes of the parts of its kind, on its rail."""
        rail = 0 if part.rail is None else part.rail + 1
        kinds = enumerate(kind for kind, _ in self._names)
        return [number * self.step + rail for number, kind in kinds if kind is part.kind]

    def loading(self, code: int) -> Positions:
        """The levels that load the part."""
        first, last = self.code.searchsorted([code, code + 1])
        some: Positions = self.at[first:last]
        return some

    def loaded_by(self, levels: Sequence[int] | Positions) -> list[int]:
        """The codes of all parts that one of these levels loads."""
        import numpy as np

        codes: list[int] = np.unique(self.code[self.flags(levels)[self.at]]).tolist()
        return codes

    def flags(self, levels: Sequence[int] | Positions) -> Flags:
        """By level: it is one of these."""
        import numpy as np

        flags = np.zeros(len(self.ratio), dtype=bool)
        flags[np.array(levels, dtype=np.int64)] = True
        return flags

    def members(self, codes: Sequence[int], *, each: Sequence[bool] = ()) -> Members:
        """The groups that load these parts. `each`: of a part, that its groups are taken as if each
        had it for itself; () = of none."""
        import numpy as np

        wanted = np.array(codes, dtype=np.int64)
        first = self.code.searchsorted(wanted)
        count = self.code.searchsorted(wanted + 1) - first
        part = np.repeat(np.arange(len(wanted)), count)
        entry = np.arange(len(part)) + np.repeat(first - (count.cumsum() - count), count)
        at = self.at[entry]
        number, rail = np.divmod(wanted, self.step)
        filled = self._filled[number]
        if each:
            filled &= ~np.array(each, dtype=bool)
        together = np.ones(len(part))
        full = filled[part]
        together[full] = self._sums[number[part[full]], self.launch[at[full]]]
        others = np.where(rail[part] > 0, self._same_of_pair[at], self._rails_of_pair[at])
        return Members(part, at, together, others)

    def others_across(
        self, members: Positions, launches: Sequence[int], rail: int | None
    ) -> list[float]:
        """Ratios of the groups that leave their leaf in these launches, on this rail if there is one,
        without the members."""
        import numpy as np

        others = self.crosses & np.isin(self.launch, launches)
        if rail is not None:
            others &= self.rail == rail
        others[members] = False
        ratios: list[float] = self.ratio[others].tolist()
        return ratios

    def carried(self, members: Members) -> Numbers:
        """What a part that limits each of the groups carries for all that it carries at once."""
        at = members.at
        carried: Numbers = self.ratio[at] * self.expected[at] * members.together
        return carried

    def limited(self, members: Members, capacity: Numbers | float) -> Numbers:
        """What a part of this capacity leaves of what each group is expected to get. Who nearly fit
        into it may fit: what they got, as far as that lies between."""
        import numpy as np

        expected, together = self.expected[members.at], members.together
        portion = capacity / together
        nearly = (together > 1.0) & (portion > 1.0 - WASTE)
        if nearly.any():
            got = self.ratio[members.at] * expected
            portion = np.where(nearly, np.clip(got, portion, np.maximum(portion, 1.0)), portion)
        limited: Numbers = np.minimum(1.0, portion / expected)
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
        ratio, noise = self.ratio[at], self.noise[at]
        least = np.where(ratio < predicted, ROUGH, EVEN)
        rough = np.where(predicted >= 1.0, noise, np.maximum(noise, least))
        short: Numbers = (np.minimum(predicted, 1.0) - ratio) / rough
        return short

    def by_launch(self, row: Positions, at: Positions, values: Numbers, rows: int) -> Numbers:
        """The sums of the values of each row in each launch."""
        import numpy as np

        count = self.launches
        cells = row * count + self.launch[at]
        sums: Numbers = np.bincount(cells, weights=values, minlength=rows * count).astype(float)
        return sums.reshape(rows, count)


def misfit(short: Numbers, most: Numbers) -> Numbers:
    """Squared distance, at `most` where it is slower; chance makes a group slow, never faster than
    its parts can be."""
    import numpy as np

    squared: Numbers = np.minimum(np.where(short > 0, most, MOST), short * short)
    return squared


def _joined(arrays: Sequence[Positions]) -> Positions:
    import numpy as np

    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
