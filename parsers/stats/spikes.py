"""Iterations that take far longer than the rest: at even distances, or not; in one group of a
launch, or in most at once.

An agent that wakes by the clock leaves spikes at even distances, and the distance names it. Groups
of one launch start every iteration together (`-z 3`), and their times leave out what a rank came
late: a spike in one group is its own, one in most of them is the system's.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.nccl_tests.groups import GroupSample

LEAST = 1.5
"""Times the median: what a job would notice in a step."""
DEVIATIONS = 5.0
"""Robust standard deviations above the median that a spike exceeds as well."""
FEWEST_ITERATIONS = 10
"""Of one launch, for a median to stand on."""
FEWEST_GAPS = 4
ONE_IN = 10_000
"""A period is told where spikes that come by chance would lie as evenly in fewer than one of so
many series."""
UNEVEN = 0.1
"""Share of the period that a gap may differ by, or one iteration where that is more: it says in
which iteration, not when."""
FEWEST_GROUPS = 4
"""Groups of a launch from which on most of them being slow at once means something."""
MOST = 0.5
"""Share of the groups."""
TOLD_FROM = 3
"""Iterations in which most groups were slow."""
TOLD_SHARE = 0.02
"""The same, of all iterations."""


@dataclass(frozen=True, slots=True)
class Spike:
    """One or more iterations in a row that took far longer than the rest."""

    iteration: int
    """The first of them, counted from 0."""
    at_s: float
    """Its start: the sum of the iterations before it. What passes between iterations is not
    known."""
    times: float
    """How many times the median the longest took."""
    groups: tuple[int, ...]
    """Positions of the groups that any of them slowed."""


@dataclass(frozen=True, slots=True)
class Period:
    """Spikes at even distances."""

    seconds: float
    """Median distance."""
    iterations: float
    spikes: int
    even: int
    """Of the distances between them, how many are one period."""


def spikes(groups: Sequence[Sequence[float]]) -> tuple[Spike, ...]:
    """The spikes of one launch; `groups`: per group the µs of each of its iterations, as many in
    each. () also for few iterations.

    >>> [(s.iteration, s.groups) for s in spikes([[10.0] * 6 + [30.0] + [10.0] * 6, [10.0] * 13])]
    [(6, (0,))]
    """
    count = min(map(len, groups), default=0)
    if count < FEWEST_ITERATIONS:
        return ()
    high = [_high(times[:count]) for times in groups]
    starts = (0.0, *accumulate(max(times[i] for times in groups) / 1e6 for i in range(count)))
    merged: list[Spike] = []
    last = -2
    for i in range(count):
        slow = tuple(g for g, times in enumerate(groups) if times[i] > high[g][1])
        if not slow:
            continue
        times_over = max(groups[g][i] / high[g][0] for g in slow)
        if last == i - 1:
            before = merged.pop()
            slow, times_over = tuple(sorted({*before.groups, *slow})), max(before.times, times_over)
            merged.append(Spike(before.iteration, before.at_s, times_over, slow))
        else:
            merged.append(Spike(i, starts[i], times_over, slow))
        last = i
    return tuple(merged)


def _high(times: Sequence[float]) -> tuple[float, float]:
    """(median, what a spike exceeds)."""
    middle = statistics.median(times)
    spread = 1.4826 * statistics.median(abs(t - middle) for t in times)
    return middle, max(LEAST * middle, middle + DEVIATIONS * spread)


def period(spikes: Sequence[Spike], iterations: int) -> Period | None:
    """The period that spikes keep to; None = fewer than five spikes, or they lie as chance would
    have it.

    Chance: every iteration is as likely to begin a spike, but those right after one, which belong
    to it: gaps are geometric from two on. The gap that most others equal is the period; one gap
    chose it and does not count, and it was chosen among as many as there are.
    """
    gaps = [b.iteration - a.iteration for a, b in pairwise(spikes)]
    if len(gaps) < FEWEST_GAPS:
        return None
    chosen = max(sorted(set(gaps)), key=lambda gap: sum(_equal(each, gap) for each in gaps))
    even = [i for i, gap in enumerate(gaps) if _equal(gap, chosen)]
    rate = min(1.0, len(spikes) / (iterations - len(spikes)))
    by_chance = math.fsum(
        rate * (1 - rate) ** (gap - 2) for gap in range(2, 2 * chosen + 2) if _equal(gap, chosen)
    )
    if len(set(gaps)) * _at_least(len(even) - 1, len(gaps) - 1, min(1.0, by_chance)) > 1 / ONE_IN:
        return None
    seconds = statistics.median(spikes[i + 1].at_s - spikes[i].at_s for i in even)
    return Period(seconds, statistics.fmean(gaps[i] for i in even), len(spikes), len(even))


def _equal(gap: int, other: int) -> bool:
    return abs(gap - other) <= max(1.0, UNEVEN * other)


def _at_least(hits: int, of: int, chance: float) -> float:
    """Probability of so many hits or more."""
    return math.fsum(
        math.comb(of, k) * chance**k * (1 - chance) ** (of - k) for k in range(hits, of + 1)
    )


@dataclass(frozen=True, slots=True)
class Together:
    """What the launches of a survey say of spikes."""

    launches: int
    iterations: int
    wide: tuple[tuple[str, Spike], ...]
    """(artefact, spike) that most groups of a launch had at once."""
    alone: int
    """Spikes that fewer had."""


def together(samples: Iterable[GroupSample]) -> Together:
    """The spikes of all launches with groups enough to tell what is the system's from what is a
    group's."""
    launches: dict[str, list[GroupSample]] = {}
    for sample in samples:
        # A group that moved nothing in an iteration has no time of it.
        if min(sample.busbw_gb_s, default=0.0) > 0:
            launches.setdefault(sample.launch or sample.artefact, []).append(sample)
    wide: list[tuple[str, Spike]] = []
    launched, iterations, alone = 0, 0, 0
    for members in launches.values():
        count = min(len(sample.busbw_gb_s) for sample in members)
        if len(members) < FEWEST_GROUPS or count < FEWEST_ITERATIONS:
            continue
        launched, iterations = launched + 1, iterations + count
        for spike in spikes(
            [[1e6 / busbw for busbw in sample.busbw_gb_s[:count]] for sample in members]
        ):
            if len(spike.groups) > MOST * len(members):
                wide.append((members[0].artefact, spike))
            else:
                alone += 1
    return Together(launched, iterations, tuple(wide), alone)


def findings(samples: tuple[GroupSample, ...]) -> tuple[Finding, ...]:
    """What slows all groups of a survey at once, as a hint; () = too seldom to be told, or
    nothing."""
    seen = together(samples)
    if len(seen.wide) < max(TOLD_FROM, TOLD_SHARE * seen.iterations):
        return ()
    counted = Counter(artefact for artefact, _ in seen.wide)
    longest = max(spike.times for _, spike in seen.wide)
    others = f"{seen.alone} more slowed fewer groups" if seen.alone else "none slowed fewer groups"
    finding = Finding(
        id="system-wide-spikes",
        status=Status.WARN,
        title=(
            f"most groups were slow at once in {len(seen.wide)} of {seen.iterations} iterations,"
            f" up to {longest:.1f} times the median"
        ),
        where=(),
        evidence=tuple(
            Evidence(
                artefact,
                None,
                f"{count} times in this launch; over {seen.launches} launches {others}",
            )
            for artefact, count in counted.most_common(3)
        ),
        confidence=Confidence.POSSIBLE,
        required=False,
    )
    return (filled(finding),)
