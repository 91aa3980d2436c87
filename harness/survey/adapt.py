"""Which round comes next: the one that best separates the explanations that are left, until nothing
is open or nothing is left to learn.

Who is suspected gets a known-good partner that it has not met, in the same leaf where there is one;
a suspected path whose ends are good with others is measured again; everybody else goes on with the
circle method, inside the leaves and across them in turn.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from dataclasses import dataclass

from busbw.model import ComponentKind, LaunchRole
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.courses import courses
from busbw.parsers.blame.explain import Suspicion
from busbw.parsers.blame.levels import Level
from busbw.parsers.blame.parts import Fabric
from busbw.survey.schedule import Round, across_leaves, filled, in_turn, inside_leaves, leaves_of

TARGET_LOSS = 0.1
"""Loss of a node that a survey is made to find."""
FEWEST_LAUNCHES = 2
MOST_LAUNCHES = 8
"""Launches that load every node, at least and at most, before a survey without suspicion ends."""
FEWEST_AT_SCALE = 8
"""At least, where not every pair is measured: a part that is bad in every second launch is bad in two
of eight or more in 96 of 100 cases."""
MOST_EXTRA = 8
"""Rounds that suspicions may take beyond those."""
MOST_OF_SHARED = 8
"""Launches that find slow what many groups share, after which no more are spent on it: it was proved
by then, and the longer neighbours load it, the more it looks bad."""
MOST_AT_SCALE = 20
"""Rounds of a survey that does not measure every pair, as long as a suspicion is open; the budget of
time mostly ends it before."""
MOST_AGAIN = 4
"""Rounds that groups slow in their only launch may take beyond those."""
MOST_WHEN_FREE = 2
"""Rounds that suspects known from launches on busy CPUs alone may take beyond those."""
MOST_ALONE = 6
"""Launches of every node by itself."""
KEPT_ALONE = 2
"""Of these, that pairs leave in the budget once the inside of a node is suspected: with the first one
they flag a clear loss."""
ALL_PATHS_UP_TO = 16
"""Nodes up to which every path is measured as well: n − 1 rounds. Larger clusters only where
`all_paths` asks for it."""
ALL_LEAVES_UP_TO = 8
"""Leaves up to which each is measured with each other one, in rounds across leaves. More would take
longer than everything else."""
TIMES_FIRST = 3
"""Times that a suspected path is measured before its ends go on to whom they have not met: so many
launches flag a path that is clearly bad."""
PASSING = 1 / 20
"""Chance of so few bad launches of a part that is bad in every second one, below which no more are
spent on it."""
WORTH = 0.6
"""Share of the loss that is looked for from which on a suspicion is followed."""
SURE = 2.0
"""Standard deviations by which the mean of a node by itself must lie above such a loss."""
_REASONS = 4
_IN_LEAVES = (ComponentKind.NODE, ComponentKind.RAIL, ComponentKind.LEAF)
"""What groups inside leaves load."""
_UPLINKS = (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
_SHARED = (ComponentKind.LEAF, *_UPLINKS, ComponentKind.RAIL_PLANE)


@dataclass(frozen=True, slots=True)
class SurveyLimits:
    """The loss that a survey must detect, and whether it measures every pair."""

    target_loss: float = TARGET_LOSS
    all_paths: bool = False


@dataclass(frozen=True, slots=True)
class Covered:
    """What the rounds so far have measured."""

    met: frozenset[frozenset[str]]
    """Pairs of nodes."""
    across: int
    """Rounds across leaves."""
    leaves: frozenset[frozenset[str]]
    """Pairs of leaves that a pair of nodes joined."""


def covered(history: tuple[Round, ...], leaf: dict[str, str]) -> Covered:
    """What the rounds so far have measured."""
    met = frozenset(
        frozenset(group) for number in history for group in number.groups if len(group) == 2
    )
    across = sum(
        any(leaf.get(g[0], "") != leaf.get(g[-1], "") for g in number.groups) for number in history
    )
    joined = frozenset(frozenset(leaf.get(node, "") for node in pair) for pair in met)
    return Covered(met, across, joined)


def choose(
    nodes: tuple[str, ...],
    fabric: Fabric,
    history: tuple[Round, ...],
    outcome: BlameOutcome | None,
    limits: SurveyLimits = SurveyLimits(),
) -> Round | None:
    """The next round; None = nothing is open and every required pair was measured. `outcome`: of all
    rounds so far, None before the first."""
    if len(nodes) < 2 or len(history) >= most_rounds(nodes, limits):
        return None
    leaf = dict(fabric.leaf_of)
    doubts = tuple(s for s in outcome.open if _worth(s, fabric, limits)) if outcome else ()
    doubts += _may_pass(outcome) if outcome else ()
    if outcome is not None and not doubts and _enough(nodes, outcome, history, limits, fabric):
        return None
    shown = _shown_across(outcome, fabric) if outcome else 1.0
    if len(history) % 2 and shown < 1 - limits.target_loss:
        # What hides across leaves must not wait for uplinks.
        doubts = tuple(doubt for doubt in doubts if doubt.account.part.kind not in _UPLINKS)
    hidden = tuple(
        doubt
        for doubt in doubts
        if doubt.account.part.kind in _IN_LEAVES and doubt.account.ratio >= shown
    )
    met = Counter(frozenset(group) for number in history for group in number.groups)
    seek = _seeks_paths(nodes, limits)
    forced: list[tuple[str, str]] = []
    why: list[str] = []
    if outcome:
        others = tuple(doubt for doubt in doubts if doubt not in hidden)
        forced, why = _groups_for(nodes, outcome, others, met, leaf, len(history), seek=seek)
    # Only what leaves its leaf tells of uplinks, and the same pairs tell as much again.
    uplinks = any(doubt.account.part.kind in _UPLINKS for doubt in doubts)
    base = in_turn(nodes, leaf, len(history))
    if uplinks:
        base = across_leaves(leaves_of(nodes, leaf), len(history))
    elif hidden:
        # In turn with all of its leaf: other suspects tell as well which of them it is.
        base = inside_leaves(leaves_of(nodes, leaf), len(history))
        why.append(f"{', '.join(doubt.account.part.label for doubt in hidden[:_REASONS])} inside")
    groups = filled(nodes, forced, base, met, leaf, seek=seek and not (uplinks or hidden))
    used = {node for group in groups for node in group}
    idle = tuple(node for node in nodes if node not in used)
    if len(why) > _REASONS:
        why = [*why[:_REASONS], f"{len(why) - _REASONS} more"]
    text = "; ".join(why) or _purpose(base, leaf)
    return Round(f"pairs-{len(history) + 1}", tuple(groups), idle, text)


def _groups_for(
    nodes: tuple[str, ...],
    outcome: BlameOutcome,
    doubts: tuple[Suspicion, ...],
    met: Counter[frozenset[str]],
    leaf: dict[str, str],
    number: int,
    *,
    seek: bool,
) -> tuple[list[tuple[str, str]], list[str]]:
    """Groups that these suspicions ask for in this round, and why."""
    waits = frozenset(pair for pair in met if _may_wait(nodes, pair, met))
    groups, why = _of_ways(nodes, doubts, leaf, number)
    busy = {node for group in groups for node in group}
    others = tuple(doubt for doubt in doubts if busy.isdisjoint(doubt.account.part.names))
    more, reasons = _forced(nodes, outcome, others, met, leaf, waits, busy, seek=seek)
    return [*groups, *more], [*why, *reasons]


def again_slow(
    nodes: tuple[str, ...],
    history: tuple[Round, ...],
    outcome: BlameOutcome,
    limits: SurveyLimits = SurveyLimits(),
) -> Round | None:
    """Pairs that were slow in their only launch, once more: a launch decides nothing by itself.
    None = there are none, or enough rounds were measured."""
    most = MOST_LAUNCHES + MOST_EXTRA
    if _seeks_paths(nodes, limits):
        most = most_rounds(nodes, limits)
    if len(history) >= most + MOST_AGAIN:
        return None
    groups: list[tuple[str, str]] = []
    busy: set[str] = set()
    for course in courses(outcome):
        pair = len(course.nodes) == 2 and course.levels[0].sample.over_network
        if course.seen_once and pair and busy.isdisjoint(course.nodes):
            groups.append((course.nodes[0], course.nodes[1]))
            busy |= set(course.nodes)
    if not groups:
        return None
    why = [f"{a} + {b} slow once, again" for a, b in groups[:_REASONS]]
    if len(groups) > _REASONS:
        why.append(f"{len(groups) - _REASONS} more")
    met = Counter(frozenset(group) for number in history for group in number.groups)
    groups = filled(nodes, groups, (), met, {}, seek=False)
    used = {node for group in groups for node in group}
    idle = tuple(node for node in nodes if node not in used)
    return Round(f"pairs-{len(history) + 1}", tuple(groups), idle, "; ".join(why))


def again_when_free(
    nodes: tuple[str, ...], history: tuple[Round, ...], outcome: BlameOutcome
) -> Round | None:
    """What only launches on busy CPUs name, once more; None = there is nothing like that, or no pair
    tells of it."""
    flagged = zip(outcome.blames, outcome.flagged, strict=True)
    parts = [part for blame, part in flagged if blame.only_when_busy]
    parts += [each.account.part for each in outcome.open if each.account.only_when_busy]
    parts = [part for part in parts if part.kind is not ComponentKind.INTRA_NODE]
    if not parts:
        return None
    met = Counter(frozenset(group) for number in history for group in number.groups)
    groups: list[tuple[str, str]] = []
    for part in parts:
        if part.kind is ComponentKind.PAIR and _free(part.names, groups):
            groups.append((part.names[0], part.names[1]))
    suspects = {name for part in parts for name in part.names}
    for suspect in sorted(suspects & set(nodes)):
        good = [node for node in nodes if node not in suspects and _free((node,), groups)]
        if good and _free((suspect,), groups):
            partner = min(good, key=lambda node: met[frozenset((suspect, node))])
            groups.append((suspect, partner))
    names = ", ".join(dict.fromkeys(part.label for part in parts))
    groups = filled(nodes, groups, (), met, {}, seek=False)
    used = {node for group in groups for node in group}
    idle = tuple(node for node in nodes if node not in used)
    why = f"{names} again on free CPUs"
    return Round(f"pairs-{len(history) + 1}", tuple(groups), idle, why)


def _free(names: tuple[str, ...], groups: list[tuple[str, str]]) -> bool:
    return all(name not in group for name in names for group in groups)


def _purpose(base: tuple[tuple[str, str], ...], leaf: dict[str, str]) -> str:
    if any(leaf.get(a, "") != leaf.get(b, "") for a, b in base):
        return "across leaves"
    return "inside leaves" if len(set(leaf.values())) > 1 else "next pairs"


def launches_needed(noise: float, target_loss: float) -> int:
    """Launches that load every node until a loss of `target_loss` is found in 999 of 1,000 cases:
    8.6 = √30 to flag it + 3.1.

    >>> launches_needed(0.016, 0.1), launches_needed(0.04, 0.1), launches_needed(0.01, 0.3)
    (2, 8, 2)
    """
    return max(FEWEST_LAUNCHES, min(MOST_LAUNCHES, math.ceil((8.6 * noise / target_loss) ** 2)))


def most_rounds(nodes: tuple[str, ...], limits: SurveyLimits) -> int:
    """Rounds after which a survey ends whatever is still open: what is then undecided is reported."""
    return len(nodes) + MOST_EXTRA if _seeks_paths(nodes, limits) else MOST_AT_SCALE


def again_alone(
    nodes: tuple[str, ...], outcome: BlameOutcome, count: int, limits: SurveyLimits = SurveyLimits()
) -> Round | None:
    """Every node by itself once more, where the inside of one is suspected, or was slow and not good
    again, or may have lost what is looked for by what its launches scatter: a single launch flags
    nobody. `count`: such launches so far."""
    least = WORTH * limits.target_loss
    suspects = [
        s.account.part.names[0]
        for s in outcome.open
        if s.account.part.kind is ComponentKind.INTRA_NODE and 1 - s.account.ratio >= least
    ]
    flagged = zip(outcome.blames, outcome.flagged, strict=True)
    for blame, part in flagged:
        if blame.only_when_busy and part.kind is ComponentKind.INTRA_NODE:
            suspects.append(part.names[0])
    known = {part.names[0] for part in outcome.flagged if part.kind is ComponentKind.INTRA_NODE}
    for course in courses(outcome):
        if len(course.nodes) > 1 or course.nodes[0] in known:
            continue
        loss = 1 - statistics.fmean(level.ratio for level in course.levels)
        hidden = SURE * course.levels[0].noise / math.sqrt(len(course.levels))
        # Noise that no number of launches overcomes asks for none.
        again = len(course.levels) == 1 or hidden < limits.target_loss
        if course.unsettled or (again and loss >= min(least, limits.target_loss - hidden)):
            suspects.append(course.nodes[0])
    if not suspects or count >= MOST_ALONE:
        return None
    suspects = list(dict.fromkeys(suspects))
    names = ", ".join(suspects[:_REASONS])
    if len(suspects) > _REASONS:
        names += f" and {len(suspects) - _REASONS} more"
    groups = tuple((node,) for node in nodes)
    why = f"{names}: the inside again"
    return Round(f"alone-{count + 1}", groups, why=why, role=LaunchRole.ALONE)


def kept_alone(nodes: tuple[str, ...], outcome: BlameOutcome) -> int:
    """Launches that pairs must leave for the nodes by themselves."""
    return KEPT_ALONE if again_alone(nodes, outcome, 1) else 0


def _worth(doubt: Suspicion, fabric: Fabric, limits: SurveyLimits) -> bool:
    """More launches can settle it, and it is about a loss that is looked for. What hashed flows
    share only the switches' counters tell; inside a leaf nothing is hashed."""
    account = doubt.account
    shared = account.part.kind in _SHARED
    counters_only = fabric.hashed and shared and not _of_leaf(doubt) and account.part.rail is None
    # Neighbours load uplinks at times: what comes and goes there is never named.
    passing = account.intermittent and account.part.kind in _UPLINKS
    # The inside of a node shows only where it is measured by itself: no pair tells more of it.
    intra_node = account.part.kind is ComponentKind.INTRA_NODE
    return (
        1 - account.ratio >= WORTH * limits.target_loss
        and not counters_only
        and not intra_node
        and not passing
        and not (shared and len(account.slow_in) >= MOST_OF_SHARED)
        and not _passing(len(account.slow_in), len(account.clean_in))
    )


def _may_pass(outcome: BlameOutcome) -> tuple[Suspicion, ...]:
    """Flagged uplinks, as long as neighbours may have loaded them all the while."""
    return tuple(
        Suspicion(account, ())
        for account in outcome.accounts
        if account.part.kind in _UPLINKS and len(account.slow_in) < MOST_OF_SHARED
    )


def _passing(slow: int, clean: int) -> bool:
    """A part that is bad in every second launch would have been so more often.

    >>> _passing(1, 2), _passing(2, 8), _passing(2, 9), _passing(6, 7)
    (False, False, True, False)
    """
    launches = slow + clean
    as_few = sum(math.comb(launches, count) for count in range(slow + 1))
    return as_few < PASSING * math.pow(2, launches)


def _of_leaf(doubt: Suspicion) -> bool:
    return doubt.account.part.kind is ComponentKind.LEAF


def _seeks_paths(nodes: tuple[str, ...], limits: SurveyLimits) -> bool:
    return limits.all_paths or len(nodes) <= ALL_PATHS_UP_TO


def _enough(
    nodes: tuple[str, ...],
    outcome: BlameOutcome,
    history: tuple[Round, ...],
    limits: SurveyLimits,
    fabric: Fabric,
) -> bool:
    leaf = dict(fabric.leaf_of)
    if _seeks_paths(nodes, limits):
        # Few nodes meet in few rounds: they go on until a loss that is looked for would have been
        # seen.
        fine = outcome.tolerance <= limits.target_loss or len(history) >= MOST_LAUNCHES
        met = {frozenset(group) for number in history for group in number.groups}
        return fine and len(met) >= len(nodes) * (len(nodes) - 1) // 2
    done = covered(history, leaf)
    leaves = set(leaf.values())
    if len(leaves) > 1 and done.across < 2:
        return False
    if len(leaves) <= ALL_LEAVES_UP_TO and not _all_ways(leaves) <= done.leaves:
        return False
    telling = outcome.levels
    if fabric.hashed and min(Counter(leaf.values()).values(), default=1) > 1:
        # Colliding flows hide what nodes lose.
        telling = tuple(level for level in telling if not level.crosses)
    noise = 0.05
    if outcome.levels:
        noise = sorted(level.noise for level in outcome.levels)[len(outcome.levels) // 2]
    needed = launches_needed(noise, limits.target_loss)
    loaded, told = _launches(outcome.levels), _launches(telling)
    return all(loaded[node] >= FEWEST_AT_SCALE and told[node] >= needed for node in nodes)


def _launches(levels: tuple[Level, ...]) -> Counter[str]:
    """In how many launches each node was loaded."""
    return Counter(node for node, _ in {(n, v.launch) for v in levels for n in v.sample.nodes})


def _all_ways(leaves: set[str]) -> set[frozenset[str]]:
    return set(map(frozenset, itertools.combinations(sorted(leaves), 2)))


def _may_wait(nodes: tuple[str, ...], pair: frozenset[str], met: Counter[frozenset[str]]) -> bool:
    """The pair was measured often and one of it has not met everybody: a weak suspicion must not
    keep what nobody has measured waiting."""
    return met[pair] >= TIMES_FIRST and any(
        not met[frozenset((end, other))] for end in pair for other in nodes if other not in pair
    )


def _forced(
    nodes: tuple[str, ...],
    outcome: BlameOutcome,
    doubts: tuple[Suspicion, ...],
    met: Counter[frozenset[str]],
    leaf: dict[str, str],
    waits: frozenset[frozenset[str]],
    taken: set[str],
    *,
    seek: bool,
) -> tuple[list[tuple[str, str]], list[str]]:
    """Groups that the open suspicions ask for, and why. What leaves or rails of all nodes are
    suspected of, every next round tells.

    Args:
        waits: pairs that are not to be measured in this round.
        taken: nodes that have a partner already.
        seek: every pair is measured anyway; else both ends of such a pair get fresh partners.
    """
    groups: list[tuple[str, str]] = []
    why: list[str] = []
    suspects: list[str] = []
    for doubt in doubts:
        parts = (doubt.account.part, *doubt.alike)
        parts = tuple(part for part in parts if part.kind not in _SHARED)
        if parts and all(part.kind is ComponentKind.PAIR for part in parts):
            first, second = parts[0].names
            busy = taken | {node for group in groups for node in group}
            if frozenset((first, second)) not in waits and busy.isdisjoint((first, second)):
                groups.append((first, second))
                why.append(f"{first} + {second} again")
            if seek or frozenset((first, second)) not in waits:
                continue
        suspects += [name for part in parts for name in part.names if name not in suspects]
    busy = taken | {node for group in groups for node in group}
    flagged = {
        name
        for part in outcome.flagged
        if part.kind in (ComponentKind.NODE, ComponentKind.RAIL)
        for name in part.names
    }
    good = [node for node in nodes if node not in {*suspects, *flagged}]
    for suspect in suspects:
        free = [node for node in good if node not in busy]
        if suspect in busy or not free:
            continue
        partner = min(
            free,
            key=lambda node: (met[frozenset((suspect, node))], leaf.get(node) != leaf.get(suspect)),
        )
        groups.append((suspect, partner))
        busy |= {suspect, partner}
        why.append(f"{suspect} with {partner}, which is good")
    return groups, why


def _shown_across(outcome: BlameOutcome, fabric: Fabric) -> float:
    """What groups across leaves are expected to get: a part that leaves more shows in none of them.
    Colliding flows hide everything."""
    across = [level.expected for level in outcome.levels if level.crosses]
    return 0.0 if fabric.hashed else statistics.median(across or [1.0])


def _of_ways(
    nodes: tuple[str, ...], doubts: tuple[Suspicion, ...], leaf: dict[str, str], number: int
) -> tuple[list[tuple[str, str]], list[str]]:
    """All pairs between two leaves whose uplinks are suspected, and why: in turn with the others they
    would meet once in as many rounds as there are leaves."""
    groups: list[tuple[str, str]] = []
    why: list[str] = []
    used: set[str] = set()
    for doubt in doubts:
        # Every second round tells whether the leaves lose as much with others.
        separates = doubt.alike and number % 2
        if doubt.account.part.kind not in _SHARED or separates:
            continue
        for part in (doubt.account.part, *doubt.alike):
            if part.kind is not ComponentKind.LEAF_PAIR or not used.isdisjoint(part.names):
                continue
            here, there = ([n for n in nodes if leaf.get(n) == name] for name in part.names)
            turn = number % len(there)
            groups += zip(here, [*there[turn:], *there[:turn]], strict=False)
            used |= set(part.names)
            why.append(f"{part.names[0]} with {part.names[1]}")
    return groups, why
