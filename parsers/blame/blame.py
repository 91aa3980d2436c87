"""Which part of a cluster makes groups slow: one model over all groups of a run, and over those of
earlier ones.

A group runs at the slowest of the parts that it loads (`blame_parts`), as seen against its peers
(`blame_levels`); the fewest parts that explain all slow groups are flagged (`blame_explain`), each
with the groups that speak against it. What other parts would explain as well is said, and then no
single one is named alone. Two things are judged this way: how fast a group was, and how steady,
since a link that loses packets or comes and goes is fast most of the time.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from dataclasses import dataclass

from busbw.model import Blame, BlameState, Component, ComponentKind, Evidence, Finding, Status
from busbw.parsers.blame.explain import COST, Account, Explainer, Explanation, Suspicion
from busbw.parsers.blame.levels import LEAST_LOSS, Level, good_level, least_loss, levels
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.units import format_bandwidth

CLEAN_ITERATIONS = 5
"""Iterations under load, in groups that were not slow, from which on a node is cleared."""
EVIDENCE = 12
"""Groups quoted for one suspect; the slowest first."""
LEAST_UNSTEADY = 0.04
"""Standard deviation, at least, of a group's share of steady iterations: one hiccup flags
nobody."""
FEWEST_UNSTEADY = 3
"""Unsteady groups, of two launches at least, that an unsteady suspect must explain: on a
loaded machine one or two always are."""
OFTEN = 0.2
"""Share of its groups, at least, that must be unsteady: of dozens that load one node a few always
are, and three of them lie together by chance."""
_CONTRAST = 3


@dataclass(frozen=True, slots=True)
class BlameOutcome:
    """What the groups of a run say about its parts."""

    blames: tuple[Blame, ...]
    """Worst first."""
    reference_gb_s: float | None
    """Bus bandwidth of a good pair of nodes over all its rails; None = too few groups to know."""
    tolerance: float
    """Loss, as a share of the reference, from which on these measurements would have flagged a
    node."""
    cleared: tuple[str, ...]
    """Nodes that were loaded for long enough without being slow, and that are not flagged."""
    inseparable: str
    """Why the measurements cannot tell parts apart; empty = they can."""
    flagged: tuple[Component, ...] = ()
    """The parts of `blames`, in the same order."""
    open: tuple[Suspicion, ...] = ()
    """Suspected, and measured too seldom to flag, to clear, or to tell from others; flagged parts
    that others may stand for come first."""
    levels: tuple[Level, ...] = ()
    """Every group that had peers."""
    explained: tuple[Level, ...] = ()
    """Those of `levels` that are slow because of what is flagged."""


def solve(samples: tuple[GroupSample, ...], fabric: Fabric = Fabric()) -> BlameOutcome:  # noqa: B008 — frozen
    """Blame from all groups of a run; of samples of different sizes the largest size of each
    operation counts.

    Unit of every bandwidth: GB/s of bus bandwidth.
    """
    all_levels = levels(_largest(samples), fabric)
    pairs = [level for level in all_levels if len(level.sample.nodes) > 1]
    if not pairs:
        why = ""
        if samples:
            why = (
                "fewer than three nodes were measured in pairs: a slow pair cannot be told from a slow"
                " node"
            )
        return BlameOutcome((), None, LEAST_LOSS, (), why, levels=all_levels)
    speed = Explainer(all_levels, fabric).explain()
    # What is slow is unsteady too: only what the speeds do not explain is looked at.
    known: set[str] = set()
    for suspicion in speed.flagged:
        known |= _touching(suspicion.account.part, all_levels)
    calm = tuple(level for level in steadiness(all_levels) if not known & set(level.sample.nodes))
    flicker = Explainer(calm, fabric, average=True).explain()
    unsteady = tuple(suspicion for suspicion in flicker.flagged if _often(suspicion, calm))
    blames = [_blame(suspicion, all_levels, speed) for suspicion in speed.flagged] + [
        _unsteady(suspicion, calm, all_levels) for suspicion in unsteady
    ]
    suspicions = (*speed.flagged, *unsteady)
    order = sorted(
        range(len(blames)),
        key=lambda i: (
            bool(suspicions[i].alike),
            -suspicions[i].account.gain,
            blames[i].component.label,
        ),
    )
    still_open = (
        *(suspicion for suspicion in suspicions if suspicion.alike),
        *speed.open,
        *flicker.open,
    )
    explained = tuple(
        {
            id(all_levels[i]): all_levels[i]
            for suspicion in speed.flagged
            for i in suspicion.account.explained
        }.values()
    )
    suspected: set[str] = set()
    for suspicion in (*still_open, *suspicions):
        suspected |= set(suspicion.account.part.names)
    return BlameOutcome(
        blames=tuple(blames[i] for i in order),
        reference_gb_s=_reference(pairs),
        tolerance=_tolerance(pairs),
        cleared=_cleared(all_levels, suspected),
        inseparable=_inseparable(blames),
        flagged=tuple(suspicions[i].account.part for i in order),
        open=still_open,
        levels=all_levels,
        explained=explained,
    )


def steadiness(all_levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """The levels with, in place of speed, the share of iterations that kept it, compared
    with that of the steadier half."""
    if not all_levels:
        return ()
    ranked = sorted(level.dips for level in all_levels)
    usual = statistics.fmean(ranked[: (len(ranked) + 1) // 2])
    share = max(usual, statistics.fmean(ranked[: max(1, len(ranked) * 3 // 4)]))
    shares = []
    for level in all_levels:
        noise = math.sqrt(share * (1 - share) / max(len(level.sample.busbw_gb_s), 1))
        shares.append(
            dataclasses.replace(
                level,
                ratio=min(1.0, (1 - level.dips) / (1 - share)),
                noise=max(LEAST_UNSTEADY, noise),
            )
        )
    return tuple(shares)


def _often(suspicion: Suspicion, calm: tuple[Level, ...]) -> bool:
    """Enough of its groups are unsteady, and not in one launch alone."""
    groups, part = suspicion.account.explained, suspicion.account.part
    if len(groups) < FEWEST_UNSTEADY or len({calm[i].launch for i in groups}) < 2:
        return False
    # The names of other parts are no nodes'; what many groups share must stand out from its like
    # already.
    loading = [
        level
        for level in calm
        if set(part.names) <= set(level.sample.nodes) and part.rail in (None, level.sample.rail)
    ]
    return len(groups) >= OFTEN * len(loading)


def _largest(samples: tuple[GroupSample, ...]) -> tuple[GroupSample, ...]:
    most: dict[tuple[str, int], int] = {}
    for sample in samples:
        key = (sample.collective, len(sample.nodes))
        most[key] = max(most.get(key, 0), sample.size_bytes)
    return tuple(s for s in samples if s.size_bytes == most[s.collective, len(s.nodes)])


def _touching(part: Component, all_levels: tuple[Level, ...]) -> set[str]:
    """Nodes whose steadiness says nothing any more once the part is flagged."""
    if part.kind in (
        ComponentKind.NODE,
        ComponentKind.RAIL,
        ComponentKind.PAIR,
        ComponentKind.INTRA_NODE,
    ):
        return set(part.names)
    return {node for level in all_levels for node in level.sample.nodes}


def _reference(pairs: list[Level]) -> float:
    whole = [
        level.reference_gb_s
        for level in pairs
        if level.sample.rail is None and len(level.sample.nodes) == 2
    ]
    if whole:
        return good_level(whole) if len(whole) > 1 else whole[0]
    rails = 1 + max(level.sample.rail or 0 for level in pairs)
    return rails * statistics.median(level.reference_gb_s for level in pairs)


def _tolerance(pairs: list[Level]) -> float:
    """Smallest loss of a node that its launches would have added up to flag it, in 97 of
    100 cases."""
    launches: dict[str, set[int]] = {}
    for level in pairs:
        for node in level.sample.nodes:
            launches.setdefault(node, set()).add(level.launch)
    count = statistics.median(len(positions) for positions in launches.values())
    noise = statistics.median(level.noise for level in pairs)
    return max(
        least_loss(tuple(pairs)),
        noise * (math.sqrt(COST[ComponentKind.NODE] / count) + 2 / math.sqrt(count)),
    )


def _cleared(all_levels: tuple[Level, ...], suspected: set[str]) -> tuple[str, ...]:
    clean: dict[str, int] = {}
    for level in all_levels:
        for node in level.sample.nodes:
            good = level.ratio > 1 - max(LEAST_LOSS, 2.5 * level.noise)
            if good and len(level.sample.nodes) > 1:
                clean[node] = clean.get(node, 0) + len(level.sample.busbw_gb_s)
    enough = {node for node, count in clean.items() if count >= CLEAN_ITERATIONS}
    return tuple(sorted(enough - suspected))


def _inseparable(blames: list[Blame]) -> str:
    doubtful = [
        " or ".join(part.label for part in (blame.component, *blame.also))
        for blame in blames
        if blame.also
    ]
    return f"cannot be separated by these measurements: {'; '.join(doubtful)}" if doubtful else ""


def _evidence(level: Level) -> Evidence:
    sample = level.sample
    rail = "" if sample.rail is None else f" rail {sample.rail}"
    measured = format_bandwidth(level.ratio * level.reference_gb_s)
    expected = format_bandwidth(level.reference_gb_s)
    text = (
        f"{' + '.join(sample.nodes)}{rail}: {measured} over {len(sample.busbw_gb_s)} iterations,"
        f" {level.ratio:.0%} of {expected}"
    )
    return Evidence(sample.artefact, sample.line_no, text)


def _quoted(
    account: Account, own: list[Level], all_levels: tuple[Level, ...]
) -> tuple[Evidence, ...]:
    """The groups that speak against it, then what the same partners give without it: the contrast
    is part of the proof."""
    against = sorted(own, key=lambda level: (level.ratio, level.launch, level.sample.nodes))[
        :EVIDENCE
    ]
    names = set(account.part.names)
    partners = {node for level in own for node in level.sample.nodes} - names
    contrast = [
        level
        for level in all_levels
        if partners & set(level.sample.nodes)
        and not names & set(level.sample.nodes)
        and level.ratio > 1 - 2.5 * level.noise
    ]
    return tuple(_evidence(level) for level in (*against, *contrast[:_CONTRAST]))


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
        cleared=tuple(sorted({node for level in own for node in level.sample.nodes} - flagged)),
        also=suspicion.alike,
        slow_launches=len(account.slow_in),
        launches=len(account.slow_in) + len(account.clean_in),
    )


def _unsteady(
    suspicion: Suspicion, calm: tuple[Level, ...], all_levels: tuple[Level, ...]
) -> Blame:
    """A part that is fast in most iterations and stumbles in too many: `capacity` is what is left
    of the time."""
    account = suspicion.account
    own = [calm[i] for i in account.explained]
    by_sample = {id(level.sample): level for level in all_levels}
    real = [by_sample[id(level.sample)] for level in own]
    reference = statistics.median(level.reference_gb_s for level in real)
    steady_share = statistics.median(level.ratio for level in own)
    worst = sorted(real, key=lambda level: -level.dips)[:EVIDENCE]
    return Blame(
        component=account.part,
        state=BlameState.INTERMITTENT,
        capacity_gb_s=steady_share * reference,
        expected_gb_s=reference,
        seen_in=tuple(map(_dips, worst)),
        cleared=tuple(
            sorted({node for level in own for node in level.sample.nodes} - set(account.part.names))
        ),
        also=suspicion.alike,
        slow_launches=len(account.slow_in),
        launches=len(account.slow_in) + len(account.clean_in),
    )


def _dips(level: Level) -> Evidence:
    sample = level.sample
    rail = "" if sample.rail is None else f" rail {sample.rail}"
    text = (
        f"{' + '.join(sample.nodes)}{rail}: {level.dips:.0%} of {len(sample.busbw_gb_s)} iterations"
        " below 70% of its own level"
    )
    return Evidence(sample.artefact, sample.line_no, text)


# What else speaks for a suspect: failed checks, ports' counters and log lines, as tie-
# breakers, never in place of a measurement.
#
# Nobody is flagged here, and nobody is cleared. Where the measurements cannot separate parts, the
# one that other findings name comes first, and
# says that this is why; where they can, other findings are quoted with it.

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
    first = finding.evidence[0] if finding.evidence else None
    return Evidence(
        first.artefact if first else "run.json",
        first.line_no if first else None,
        f"{why}: {finding.title}",
    )
