"""A suspect as the record that findings are made of: what it gets of what its peers get, and the
groups that speak against it."""

from __future__ import annotations

import statistics

from busbw.model import Blame, BlameState, Evidence
from busbw.parsers.blame.accounts import Account
from busbw.parsers.blame.columns import View
from busbw.parsers.blame.explain import Explanation, Suspicion
from busbw.parsers.blame.levels import Level
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.units import format_bandwidth

SHOWN = 4
"""Groups that a title names."""
EVIDENCE = 12
"""Groups quoted for one suspect; the slowest first."""
_CONTRAST = 3


def quoted(level: Level) -> Evidence:
    """A group with its number and that of its peers."""
    measured = format_bandwidth(level.ratio * level.usual_gb_s)
    expected = format_bandwidth(level.usual_gb_s)
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
    # A partner by itself clears its inside alone.
    alike = {len(level.sample.nodes) for level in own}
    contrast = []
    for level in all_levels:
        nodes = level.sample.nodes
        without_it = names.isdisjoint(nodes) and not partners.isdisjoint(nodes)
        without_it = without_it and len(nodes) in alike
        if without_it and level.ratio > 1 - 2.5 * level.noise:
            contrast.append(level)
    return tuple(map(quoted, (*against[:EVIDENCE], *contrast[:_CONTRAST])))


def _nodes_of(own: list[Level]) -> set[str]:
    return {node for level in own for node in level.sample.nodes}


def slow_suspect(suspicion: Suspicion, all_levels: tuple[Level, ...], speed: Explanation) -> Blame:
    account = suspicion.account
    own = [all_levels[i] for i in account.explained]
    flagged = {name for other in speed.flagged for name in other.account.part.names}
    reference = statistics.median(level.usual_gb_s for level in own)
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


def unsteady_suspect(suspicion: Suspicion, steady: View, all_levels: tuple[Level, ...]) -> Blame:
    """A part that is fast in most iterations and stumbles in too many: `capacity` is what is left
    of the time."""
    account = suspicion.account
    own = [all_levels[i] for i in account.explained]
    reference = statistics.median(level.usual_gb_s for level in own)
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
