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
import math
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.model import (
    Blame,
    BlameState,
    Component,
    ComponentKind,
    Evidence,
    Finding,
    Medium,
    Status,
)
from busbw.parsers.blame.accounts import SHARED, Account
from busbw.parsers.blame.chance import deviations_for, student
from busbw.parsers.blame.columns import (
    Columns,
    View,
    against_pair,
    by_ends,
    least_loss,
    steadiness,
)
from busbw.parsers.blame.constants import (
    CLEAN_ITERATIONS,
    COST,
    DISTANCE,
    FEWEST_UNSTEADY,
    LEAST_LOSS,
    OFTEN,
)
from busbw.parsers.blame.explain import Explainer, Explanation, Suspicion
from busbw.parsers.blame.levels import Level, good_level, levels
from busbw.parsers.blame.parts import Fabric, loads
from busbw.parsers.blame.proof import tested_parts
from busbw.parsers.blame.uplinks import SharedUplink, shared_uplinks
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.units import format_bandwidth

if TYPE_CHECKING:
    from busbw.parsers.blame.columns import Flags

EVIDENCE = 12
"""Groups quoted for one suspect; the slowest first."""
_CONTRAST = 3
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
    flicker = _shown_by_own(_placed(steadily, calm), all_levels)
    # What is flagged, and what is not known of it.
    suspected = [(each, _blame(each, all_levels, speed)) for each in speed.flagged]
    for suspicion in flicker.flagged:
        if _often(suspicion, calm, all_levels):
            suspected.append((suspicion, _unsteady(suspicion, unsteady, all_levels)))
    still_open = [suspicion for suspicion, _ in suspected if suspicion.alike]
    still_open += speed.open
    still_open += (dataclasses.replace(each, unsteady=True) for each in flicker.open)
    suspected_names: set[str] = set()
    for suspicion in (*still_open, *(suspicion for suspicion, _ in suspected)):
        suspected_names.update(suspicion.account.part.names)
    tolerance = _tolerance(columns)
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
        visible_loss=min(1.0, max(tolerance, _proved_loss(columns))),
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
    return Explanation(speed.flagged, (*speed.open, *more))


def _placed(explanation: Explanation, view: View) -> Explanation:
    """With the positions of what it explains among all levels."""

    def placed(suspicion: Suspicion) -> Suspicion:
        explained = tuple(view.at[list(suspicion.account.explained)].tolist())
        account = dataclasses.replace(suspicion.account, explained=explained)
        return dataclasses.replace(suspicion, account=account)

    return Explanation(
        tuple(map(placed, explanation.flagged)), tuple(map(placed, explanation.open))
    )


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

    return Explanation(others(speed.flagged), others(speed.open)), shared


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


def _tolerance(columns: Columns) -> float:
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


def _proved_loss(columns: Columns) -> float:
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


def quoted(level: Level) -> Evidence:
    """A group with its number and that of its peers."""
    measured = format_bandwidth(level.ratio * level.reference_gb_s)
    expected = format_bandwidth(level.reference_gb_s)
    return _quoted_sample(
        level.sample,
        f"{measured} over {len(level.sample.busbw_gb_s)} iterations, {level.ratio:.0%} of"
        f" {expected}",
    )


def dips(level: Level) -> Evidence:
    """A group with the share of its iterations that stumbled."""
    return _quoted_sample(
        level.sample,
        f"{level.dips:.0%} of {len(level.sample.busbw_gb_s)} iterations below 70% of its own level",
    )


def _quoted_sample(sample: GroupSample, text: str) -> Evidence:
    rail = "" if sample.rail is None else f" rail {sample.rail}"
    return Evidence(sample.artefact, sample.line_no, f"{' + '.join(sample.nodes)}{rail}: {text}")


def _quoted(
    account: Account, own: list[Level], all_levels: tuple[Level, ...]
) -> tuple[Evidence, ...]:
    """The groups that speak against it, then what the same partners give without it: the contrast
    is part of the proof."""
    below = [level for level in own if level.ratio < 1] or own
    against = sorted(below, key=lambda level: (level.ratio, level.launch, level.sample.nodes))
    names = set(account.part.names)
    partners = _nodes_of(own) - names
    contrast = []
    for level in all_levels:
        nodes = level.sample.nodes
        without_it = names.isdisjoint(nodes) and not partners.isdisjoint(nodes)
        if without_it and level.ratio > 1 - 2.5 * level.noise:
            contrast.append(level)
    return tuple(map(quoted, (*against[:EVIDENCE], *contrast[:_CONTRAST])))


def _nodes_of(own: list[Level]) -> set[str]:
    return {node for level in own for node in level.sample.nodes}


def _blame(suspicion: Suspicion, all_levels: tuple[Level, ...], speed: Explanation) -> Blame:
    account = suspicion.account
    own = [all_levels[i] for i in account.explained]
    flagged = {name for other in speed.flagged for name in other.account.part.names}
    reference = statistics.median(level.reference_gb_s for level in own)
    ratio = statistics.median(level.ratio for level in own)
    rails = {level.sample.rail for level in own}
    state = BlameState.INTERMITTENT if account.intermittent else BlameState.SLOW
    factor = len(rails) if None not in rails and account.part.rail is None else 1
    return Blame(
        component=account.part,
        state=state,
        capacity_gb_s=ratio * reference * factor,
        expected_gb_s=reference * factor,
        seen_in=_quoted(account, own, all_levels),
        cleared=tuple(sorted(_nodes_of(own) - flagged)),
        also=suspicion.alike,
        slow_launches=len(account.slow_in),
        launches=len(account.slow_in) + len(account.clean_in),
        busy_launches=len(account.busy_in),
    )


def _unsteady(suspicion: Suspicion, steady: View, all_levels: tuple[Level, ...]) -> Blame:
    """A part that is fast in most iterations and stumbles in too many: `capacity` is what is left
    of the time."""
    account = suspicion.account
    own = [all_levels[i] for i in account.explained]
    reference = statistics.median(level.reference_gb_s for level in own)
    steady_share = statistics.median(steady.ratio[list(account.explained)].tolist())
    worst = sorted(own, key=lambda level: -level.dips)[:EVIDENCE]
    return Blame(
        component=account.part,
        state=BlameState.INTERMITTENT,
        capacity_gb_s=steady_share * reference,
        expected_gb_s=reference,
        seen_in=tuple(map(dips, worst)),
        cleared=tuple(sorted(_nodes_of(own) - set(account.part.names))),
        also=suspicion.alike,
        slow_launches=len(account.slow_in),
        launches=len(account.slow_in) + len(account.clean_in),
        busy_launches=len(account.busy_in),
    )


# What else speaks for a suspect: failed checks, ports' counters and log lines, as tie-
# breakers, never in place of a measurement.
#
# Nobody is flagged here, and nobody is cleared. Where the measurements cannot separate parts, the
# one that other findings name comes first, and
# says that this is why; where they can, other findings are quoted with it.


def doubtful_leaf(outcome: BlameOutcome) -> tuple[str, ...]:
    """The nodes of flagged leaves that the groups cannot tell from them; () = there are none."""
    nodes: dict[str, None] = {}
    for each in outcome.blames:
        for part in _of_leaf(each):
            nodes |= dict.fromkeys(part.names)
    return tuple(nodes)


def of_held_back(outcome: BlameOutcome, held_back: Mapping[str, Evidence]) -> BlameOutcome:
    """The outcome with the nodes of a leaf in its place, where the counters say that each of them is
    held back by its own port. `held_back`: node → that evidence."""
    blames: list[Blame] = []
    accounts: list[Account] = []
    replaced: list[Component] = []
    for each, account in zip(outcome.blames, outcome.accounts, strict=True):
        nodes = _of_leaf(each)
        if not nodes or not all(node.names[0] in held_back for node in nodes):
            blames.append(each)
            accounts.append(account)
            continue
        replaced.append(account.part)
        own = [_of_node(account, node, outcome.levels) for node in nodes]
        together = Explanation(tuple(Suspicion(one, ()) for one in own), ())
        for suspicion in together.flagged:
            blame = _blame(suspicion, outcome.levels, together)
            proof = held_back[suspicion.account.part.names[0]]
            blames.append(dataclasses.replace(blame, seen_in=(*blame.seen_in, proof)))
        accounts += own
    if not replaced:
        return outcome
    return dataclasses.replace(
        outcome,
        blames=tuple(blames),
        flagged=tuple(account.part for account in accounts),
        accounts=tuple(accounts),
        open=tuple(each for each in outcome.open if each.account.part not in replaced),
    )


def _of_leaf(blame: Blame) -> tuple[Component, ...]:
    """The nodes or rails among what a leaf cannot be told from, where nothing else is among it but
    what is behind their ports."""
    parts = (blame.component, *blame.also)
    nodes = tuple(p for p in parts if p.kind in (ComponentKind.NODE, ComponentKind.RAIL))
    others = [part for part in parts if part not in nodes]
    if not any(part.kind is ComponentKind.LEAF for part in others):
        return ()
    return nodes if all(part.kind in SHARED for part in others) else ()


def _of_node(account: Account, node: Component, all_levels: tuple[Level, ...]) -> Account:
    """What of a leaf's account is the node's."""
    explained = [i for i in account.explained if node.names[0] in all_levels[i].sample.nodes]
    launches = {all_levels[index].launch for index in explained}
    return dataclasses.replace(
        account,
        part=node,
        slow_in=tuple(launch for launch in account.slow_in if launch in launches),
        clean_in=tuple(launch for launch in account.clean_in if launch in launches),
        explained=tuple(explained),
        busy_in=tuple(launch for launch in account.busy_in if launch in launches),
        of_each=False,
    )


MOST = 3
"""Other findings quoted for one suspect."""
_TELLING = (Status.FAIL, Status.WARN)


def with_priors(outcome: BlameOutcome, findings: tuple[Finding, ...]) -> BlameOutcome:
    """The outcome with its suspects ordered and supported by other findings. `findings`:
    none of a survey's own."""
    problems = tuple(finding for finding in findings if finding.status in _TELLING)
    return dataclasses.replace(
        outcome, blames=tuple(_supported(blame, problems) for blame in outcome.blames)
    )


def _supported(blame: Blame, problems: tuple[Finding, ...]) -> Blame:
    parts = (blame.component, *blame.also)
    support = [[finding for finding in problems if _supports(finding, part)] for part in parts]
    if not blame.also:
        return _with_evidence(blame, support[0], "also found")
    # A finding about a whole node supports each of its rails alike: it separates none of them.
    shared = [finding for finding in support[0] if all(finding in each for each in support)]
    separating = {
        part: [finding for finding in each if finding not in shared]
        for part, each in zip(parts, support, strict=True)
    }
    most = max(map(len, separating.values()))
    leading = [part for part in parts if most and len(separating[part]) == most]
    if len(leading) == 1:
        also = tuple(part for part in parts if part != leading[0])
        blame = dataclasses.replace(blame, component=leading[0], also=also)
    return _with_evidence(blame, separating[blame.component], "ranked first because of")


def _with_evidence(blame: Blame, findings: list[Finding], why: str) -> Blame:
    quoted = tuple(_quoted_line(finding, why) for finding in findings[:MOST])
    return dataclasses.replace(blame, seen_in=(*blame.seen_in, *quoted))


def _supports(finding: Finding, part: Component) -> bool:
    """The finding is about the part by its own name, or about the node that a rail or an inside
    belongs to. Pairs and leaves have no owner."""
    if part.label in finding.where:
        return True
    of_node = part.kind in (ComponentKind.RAIL, ComponentKind.INTRA_NODE)
    return of_node and part.names[0] in finding.where


def _quoted_line(finding: Finding, why: str) -> Evidence:
    artefact: str = "run.json"
    line_no: int | None = None
    if finding.evidence:
        artefact, line_no = finding.evidence[0].artefact, finding.evidence[0].line_no
    return Evidence(artefact, line_no, f"{why}: {finding.title}")
