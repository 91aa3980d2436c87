"""Which part of a cluster makes groups slow: one model over all groups of a run, and over those of
earlier ones.

A group runs at the slowest of the parts that it loads (`parts`), as seen against its peers
(`levels`); the fewest parts that explain all slow groups are flagged (`explain`), each with the
groups that speak against it. What other parts would explain as well is said, and then no
single one is named alone. Two things are judged this way: how fast a group was, and how steady,
since a link that loses packets or comes and goes is fast most of the time.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.model import (
    Blame,
    Component,
    ComponentKind,
    Medium,
)
from busbw.parsers.blame.accounts import SHARED, Account
from busbw.parsers.blame.cables import with_cables
from busbw.parsers.blame.carried import with_weak_cables
from busbw.parsers.blame.columns import Columns, View
from busbw.parsers.blame.constants import (
    CLEAN_ITERATIONS,
    DISTANCE,
    FEWEST_UNSTEADY,
    LEAST_LOSS,
    OFTEN,
)
from busbw.parsers.blame.explain import Explainer, Explanation, Suspicion, without_loaded
from busbw.parsers.blame.levels import Level, levels
from busbw.parsers.blame.noise import good_level
from busbw.parsers.blame.parts import Fabric, loads
from busbw.parsers.blame.suspects import slow_suspect, unsteady_suspect
from busbw.parsers.blame.uplinks import SharedUplink, shared_uplinks
from busbw.parsers.blame.views import against_pair, least_loss, steadiness
from busbw.parsers.blame.visible import loss_flagged, loss_proved
from busbw.parsers.nccl_tests.groups import GroupSample

if TYPE_CHECKING:
    pass

_NO_PAIRS = (
    "fewer than three nodes were measured in pairs: a slow pair cannot be told from a slow node"
)


@dataclass(frozen=True, slots=True)
class BlameOutcome:
    """What the groups of a run say about its parts."""

    blames: tuple[Blame, ...]
    """Worst first."""
    reference_gb_s: float | None
    """Bus bandwidth of a good pair of nodes over all its rails; None = too few groups to know."""
    tolerance: float
    """Loss, as a share of the reference, from which on the launches of a node would have added up
    to flag it."""
    cleared: tuple[str, ...]
    """Nodes that were loaded for long enough without being slow, and that are not flagged."""
    inseparable: str
    """Why the measurements cannot tell parts apart; empty = they can."""
    flagged: tuple[Component, ...] = ()
    """The parts of `blames`, in the same order."""
    accounts: tuple[Account, ...] = ()
    """What speaks for each of them, in the same order."""
    open: tuple[Suspicion, ...] = ()
    """Suspected, and measured too seldom to flag, to clear, or to tell from others; flagged parts
    that others may stand for come first."""
    levels: tuple[Level, ...] = ()
    """Every group that had peers."""
    explained: tuple[Level, ...] = ()
    """Those of `levels` that are slow because of what is flagged."""
    visible_loss: float = LEAST_LOSS
    """Loss of a node, as a share of the reference, that the noise of this run does not hide: what
    is smaller is not flagged."""
    across: float | None = None
    """What pairs between the only two leaves get of those inside, where the design of the uplinks is
    not stated and that is less than the longer way explains."""
    shared: tuple[SharedUplink, ...] = ()
    """Groups that are slow because their flows share an uplink."""
    clean_now: tuple[Component, ...] = ()
    """Suspected by earlier runs that nobody asked to count, and good in this one: their launches
    with it do not count."""


def solve(samples: tuple[GroupSample, ...], fabric: Fabric = Fabric()) -> BlameOutcome:  # noqa: B008 — frozen
    """Blame from all groups of a run; of samples of different sizes the largest size of each
    operation counts.

    What an earlier run left open is a reason to measure a part, and evidence only where this run
    does not find it good: it may have been repaired since.

    Unit of every bandwidth: GB/s of bus bandwidth.
    """
    outcome = _solve(samples, fabric)
    clean: dict[Component, None] = {}
    while now := _clean_now(outcome, fabric):
        clean |= dict.fromkeys(now)
        samples = tuple(s for s in samples if not (s.unasked and _loads_any(s, clean, fabric)))
        outcome = _solve(samples, fabric)
    if clean:
        return dataclasses.replace(outcome, clean_now=tuple(clean))
    return outcome


def _clean_now(outcome: BlameOutcome, fabric: Fabric) -> tuple[Component, ...]:
    """Parts that launches of earlier runs speak against, and that were good in most of those that
    loaded them in this run."""
    if not any(level.sample.unasked for level in outcome.levels):
        return ()
    unasked = _launches(outcome.levels, unasked=True)
    clean = []
    for account in (*outcome.accounts, *(suspicion.account for suspicion in outcome.open)):
        own = _own_launches(account.part, outcome.levels, fabric)
        slow = own & set(account.slow_in)
        if unasked & set(account.slow_in) and len(slow) < len(own - slow):
            clean.append(account.part)
    return tuple(dict.fromkeys(clean))


def _own_launches(part: Component, all_levels: tuple[Level, ...], fabric: Fabric) -> set[int]:
    """Launches of this run that loaded the part."""
    return {
        level.launch
        for level in all_levels
        if not level.sample.unasked and _loads_any(level.sample, {part: None}, fabric)
    }


def _launches(all_levels: tuple[Level, ...], *, unasked: bool) -> set[int]:
    return {level.launch for level in all_levels if level.sample.unasked is unasked}


def _loads_any(sample: GroupSample, parts: Mapping[Component, None], fabric: Fabric) -> bool:
    leaf = dict(fabric.leaf_of)
    return any(load.part in parts for load in loads(sample, leaf, len(set(leaf.values()))))


def _solve(samples: tuple[GroupSample, ...], fabric: Fabric) -> BlameOutcome:
    """Levels, the parts they load, what explains them, what of it is flagged and what stays open."""
    all_levels = levels(_largest(samples), fabric)
    pairs = _between_nodes(all_levels)
    if not pairs:
        why = _NO_PAIRS if samples else ""
        return BlameOutcome((), None, LEAST_LOSS, (), why, levels=all_levels)
    columns = Columns(all_levels, dict(fabric.leaf_of))
    # First how fast the groups were.
    speed = _explained_speeds(columns, fabric)
    speed, shared = _without_shared(speed, all_levels, fabric)
    speed = _shown_by_own(speed, all_levels)
    # Then how steady, of those that no slow part touches.
    unsteady = steadiness(columns)
    calm = unsteady.some(_calm_at(all_levels, speed.flagged))
    steadily = Explainer(columns.seen(calm), fabric, average=True).explain()
    flicker = _shown_by_own(_of_one(_placed(steadily, calm)), all_levels)
    # What is flagged, and what is not known of it.
    suspected = [(each, slow_suspect(each, all_levels, speed)) for each in speed.flagged]
    for suspicion in flicker.flagged:
        if _often(suspicion, calm, all_levels):
            suspected.append((suspicion, unsteady_suspect(suspicion, unsteady, all_levels)))
    still_open = [suspicion for suspicion, _ in suspected if suspicion.alike]
    still_open += speed.open
    still_open += (dataclasses.replace(each, unsteady=True) for each in flicker.open)
    suspected_names: set[str] = set()
    for suspicion in (*still_open, *(suspicion for suspicion, _ in suspected)):
        suspected_names.update(suspicion.account.part.names)
    tolerance = loss_flagged(columns)
    inseparable = _inseparable([blame for _, blame in suspected])
    suspected.sort(key=_worst_first)
    return BlameOutcome(
        blames=tuple(blame for _, blame in suspected),
        reference_gb_s=_reference(pairs),
        tolerance=tolerance,
        cleared=_cleared(pairs, suspected_names),
        inseparable=inseparable,
        flagged=tuple(suspicion.account.part for suspicion, _ in suspected),
        open=tuple(still_open),
        levels=all_levels,
        explained=_explained(speed.flagged, all_levels),
        visible_loss=min(1.0, max(tolerance, loss_proved(columns))),
        across=_across(pairs, fabric),
        shared=shared,
        accounts=tuple(suspicion.account for suspicion, _ in suspected),
    )


def _explained_speeds(columns: Columns, fabric: Fabric) -> Explanation:
    """The rails against the others of their pairs first, where the noise is least; then everything,
    with what these explain."""
    contrasts = against_pair(columns, hashed=fabric.hashed)
    own = Explainer(columns.seen(contrasts), fabric, rails=True).explain()
    rails = _placed(own, contrasts)
    speed = Explainer(columns, fabric).explain(rails.flagged)
    named = {suspicion.account.part for suspicion in (*speed.flagged, *speed.open)}
    more = tuple(each for each in rails.open if each.account.part not in named)
    everything = Explanation(speed.flagged, (*speed.open, *more))
    everything = without_loaded(everything, columns, hashed=fabric.hashed)
    leaf, least = dict(fabric.leaf_of), least_loss(columns, hashed=fabric.hashed)
    everything = with_weak_cables(everything, columns.levels, fabric, least)
    if fabric.hashed:
        return everything
    return with_cables(everything, columns.levels, leaf, least)


def _placed(explanation: Explanation, view: View) -> Explanation:
    """With the positions of what it explains among all levels."""

    def placed(suspicion: Suspicion) -> Suspicion:
        explained = tuple(view.at[list(suspicion.account.explained)].tolist())
        account = dataclasses.replace(suspicion.account, explained=explained)
        return dataclasses.replace(suspicion, account=account)

    return Explanation(
        tuple(map(placed, explanation.flagged)), tuple(map(placed, explanation.open))
    )


def _of_one(explanation: Explanation) -> Explanation:
    """With what many groups share as a suspicion: neighbours load that in bursts."""
    shared = tuple(each for each in explanation.flagged if each.account.part.kind in SHARED)
    flagged = tuple(each for each in explanation.flagged if each not in shared)
    return Explanation(flagged, (*shared, *explanation.open))


def _shown_by_own(explanation: Explanation, all_levels: tuple[Level, ...]) -> Explanation:
    """With what launches of earlier runs alone speak against as a suspicion: it asks for a
    launch."""
    own = _launches(all_levels, unasked=False)
    shown = tuple(each for each in explanation.flagged if own & set(each.account.slow_in))
    others = tuple(each for each in explanation.flagged if each not in shown)
    return Explanation(shown, (*others, *explanation.open))


def _without_shared(
    speed: Explanation, all_levels: tuple[Level, ...], fabric: Fabric
) -> tuple[Explanation, tuple[SharedUplink, ...]]:
    """What is explained without the pairs that are slow because they share an uplink, and these."""
    explained: set[int] = set()
    for suspicion in speed.flagged:
        if suspicion.account.part.kind is not ComponentKind.PAIR:
            explained |= set(suspicion.account.explained)
    shared = () if fabric.hashed else shared_uplinks(all_levels, explained, dict(fabric.leaf_of))

    def others(suspicions: tuple[Suspicion, ...]) -> tuple[Suspicion, ...]:
        return tuple(
            each
            for each in suspicions
            if not any(s.explains(each.account.part, each.account.slow_in) for s in shared)
        )

    flagged, still_open = others(speed.flagged), others(speed.open)
    alike = tuple(each for each in flagged if _may_share(each.account, flagged, fabric))
    flagged = tuple(each for each in flagged if each not in alike)
    return Explanation(flagged, (*alike, *still_open)), shared


def _may_share(account: Account, flagged: tuple[Suspicion, ...], fabric: Fabric) -> bool:
    """A pair that is slow in just the launches in which another is, of the same leaves: so are two
    whose flows share an uplink, now with a third and now without."""
    leaf = dict(fabric.leaf_of)
    ends = {leaf.get(node) for node in account.part.names}
    if account.part.kind is not ComponentKind.PAIR or len(ends) < 2:
        return False
    for other in (each.account for each in flagged):
        if other.part.kind is ComponentKind.PAIR and other.part.names != account.part.names:
            same = other.slow_in == account.slow_in and other.clean_in == account.clean_in
            if same and ends == {leaf.get(node) for node in other.part.names}:
                return True
    return False


def _across(pairs: list[Level], fabric: Fabric) -> float | None:
    leaves = set(dict(fabric.leaf_of).values())
    if len(leaves) != 2 or leaves <= set(dict(fabric.oversubscription)):
        return None
    launches: dict[int, list[float]] = {}
    for level in pairs:
        if level.crosses:
            launches.setdefault(level.launch, []).append(level.expected)
    # In launches where fewer left their leaf, the uplinks may have been wide enough.
    least = min(map(statistics.median, launches.values()), default=1.0)
    return least if least < 1 - DISTANCE else None


def _between_nodes(all_levels: tuple[Level, ...]) -> list[Level]:
    """The groups over the network; those over NVLink where no network was measured."""
    several = [level for level in all_levels if len(level.sample.nodes) > 1]
    return [level for level in several if level.sample.over_network] or several


def _worst_first(suspected: tuple[Suspicion, Blame]) -> tuple[bool, float, str]:
    suspicion, blame = suspected
    return bool(suspicion.alike), -suspicion.account.gain, blame.component.label


def _explained(flagged: tuple[Suspicion, ...], all_levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """Each level once that one of these explains."""
    positions: dict[int, None] = {}
    for suspicion in flagged:
        positions |= dict.fromkeys(suspicion.account.explained)
    return tuple(all_levels[position] for position in positions)


def _calm_at(all_levels: tuple[Level, ...], flagged: tuple[Suspicion, ...]) -> tuple[int, ...]:
    """Positions of the groups without a flagged part: what is slow is unsteady too, so that only what
    the speeds do not explain is looked at for its steadiness."""
    known: set[str] = set()
    for suspicion in flagged:
        known |= _touching(suspicion.account.part, all_levels)
    return tuple(i for i, level in enumerate(all_levels) if known.isdisjoint(level.sample.nodes))


def _often(suspicion: Suspicion, calm: View, all_levels: tuple[Level, ...]) -> bool:
    """Enough of its groups are unsteady, and not in one launch alone."""
    groups, part = suspicion.account.explained, suspicion.account.part
    if len(groups) < FEWEST_UNSTEADY or len({all_levels[i].launch for i in groups}) < 2:
        return False
    # The names of other parts are no nodes'; what many groups share must stand out from its like
    # already.
    loading = 0
    for index in calm.at.tolist():
        sample = all_levels[index].sample
        loading += part.rail in (None, sample.rail) and set(part.names) <= set(sample.nodes)
    return len(groups) >= OFTEN * loading


def _largest(samples: tuple[GroupSample, ...]) -> tuple[GroupSample, ...]:
    most: dict[tuple[str, int, Medium], int] = {}
    for sample in samples:
        most[_kind_of(sample)] = max(most.get(_kind_of(sample), 0), sample.size_bytes)
    return tuple(s for s in samples if s.size_bytes == most[_kind_of(s)])


def _kind_of(sample: GroupSample) -> tuple[str, int, Medium]:
    return sample.collective, len(sample.nodes), sample.medium


_OF_NODES = (
    ComponentKind.NODE,
    ComponentKind.RAIL,
    ComponentKind.PAIR,
    ComponentKind.INTRA_NODE,
)
"""Parts whose names are nodes."""


def _touching(part: Component, all_levels: tuple[Level, ...]) -> set[str]:
    """Nodes whose steadiness says nothing any more once the part is flagged."""
    if part.kind in _OF_NODES:
        return set(part.names)
    return {node for level in all_levels for node in level.sample.nodes}


def _reference(pairs: list[Level]) -> float:
    whole = []
    for level in pairs:
        if level.sample.rail is None and len(level.sample.nodes) == 2:
            whole.append(level.reference_gb_s)
    if len(whole) == 1:
        return whole[0]
    if whole:
        return good_level(whole)
    rails = 1 + max(level.sample.rail or 0 for level in pairs)
    return rails * statistics.median(level.reference_gb_s for level in pairs)


def _cleared(pairs: list[Level], suspected: set[str]) -> tuple[str, ...]:
    clean: Counter[str] = Counter()
    for level in pairs:
        if level.ratio > 1 - max(LEAST_LOSS, 2.5 * level.noise):
            for node in level.sample.nodes:
                clean[node] += len(level.sample.busbw_gb_s)
    enough = {node for node, count in clean.items() if count >= CLEAN_ITERATIONS}
    return tuple(sorted(enough - suspected))


def _inseparable(blames: list[Blame]) -> str:
    doubtful = []
    for blame in blames:
        if blame.also:
            parts = (blame.component, *blame.also)
            doubtful.append(" or ".join(part.label for part in parts))
    if not doubtful:
        return ""
    return f"cannot be separated by these measurements: {'; '.join(doubtful)}"
