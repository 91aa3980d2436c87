"""What a suspect reads like, and each measured group against its peers: findings and
comparisons from one `BlameOutcome`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass

from busbw.model import (
    Blame,
    BlameState,
    Comparison,
    Component,
    ComponentKind,
    Confidence,
    Evidence,
    Finding,
    Fix,
    Medium,
    Reference,
    Status,
)
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.confirm import NO_CONFIRMATION, Confirmation
from busbw.parsers.blame.explain import Suspicion
from busbw.parsers.blame.levels import Level
from busbw.parsers.blame.suspects import dips, quoted
from busbw.parsers.findings import catalogue
from busbw.units import format_bandwidth

_IDS = {
    ComponentKind.INTRA_NODE: "slow-intra-node",
    ComponentKind.NODE: "slow-node",
    ComponentKind.RAIL: "slow-rail",
    ComponentKind.PAIR: "slow-pair",
    ComponentKind.LEAF: "slow-leaf",
    ComponentKind.UPLINK: "slow-uplink",
    ComponentKind.LEAF_PAIR: "slow-uplink",
    ComponentKind.RAIL_PLANE: "slow-rail-plane",
}
PASSING = 0.15
"""Loss of one group in one launch, that no suspect explains, from which on it is reported: good
nodes differ by 5 to 10 % (measurement.md)."""
_PROVED_BY = 3
"""Launches in which a flagged part was slow, from which on the suspect is likely rather than
possible."""


def blame_finding(
    blame: Blame,
    confirmed: Confirmation = NO_CONFIRMATION,
    other_evidence: tuple[Evidence, ...] = (),
    loss_evidence: tuple[Evidence, ...] = (),
) -> Finding:
    """A part flagged by measurements, as a finding with both numbers in its title.

    Args:
        other_evidence: such as its link baseline.
        loss_evidence: that packets are lost over it.
    """
    part = blame.component
    ratio = (blame.capacity_gb_s or 0.0) / blame.expected_gb_s if blame.expected_gb_s else 0.0
    finding_id = "not-separated" if blame.also else _IDS[part.kind]
    cause, fixes = catalogue.entry(finding_id).cause, _fixes(finding_id, part)
    if loss_evidence:
        cause += " " + catalogue.entry("packets-lost").cause
        fixes += _fixes("packets-lost", part)
    if blame.only_when_busy:
        cause += f" {_BUSY}"
    settle = list(filter(None, (confirmed.would_settle, _settles(blame))))
    if blame.only_when_busy:
        # On busy CPUs a confirmation would be as open.
        settle.reverse()
    confidence = Confidence.POSSIBLE if confirmed.against else _confidence(blame)
    return Finding(
        id=finding_id,
        status=Status.FAIL,
        title=_title(blame, ratio, confidence),
        where=(part.label, *(other.label for other in blame.also)),
        evidence=(*blame.seen_in, *confirmed.evidence, *other_evidence, *loss_evidence),
        cause=cause,
        fixes=fixes,
        # What was measured before the fix counts no longer.
        verify=("busbw run --survey --fresh" if blame.also else "busbw run --survey",),
        confidence=confidence,
        also=tuple(f"{other.label} is slow" for other in blame.also),
        would_settle=tuple(dict.fromkeys(settle)),
        effect=max(0.0, 1 - ratio),
    )


def _title(blame: Blame, ratio: float, confidence: Confidence) -> str:
    """The part and both numbers. That groups with it are slow is measured; that the part is slow
    by itself is not said where it is only possible."""
    part = blame.component
    numbers = (
        f"{format_bandwidth(blame.capacity_gb_s)} instead of"
        f" {format_bandwidth(blame.expected_gb_s)} ({ratio:.0%}), {blame.frequency}"
    )
    name = f"the pair {part.label}" if part.kind is ComponentKind.PAIR else part.label
    if blame.also:
        names = " or ".join((name, *(other.label for other in blame.also)))
        return f"{names}: {numbers}; these measurements cannot separate them"
    if confidence is Confidence.POSSIBLE:
        measured, expected = map(format_bandwidth, (blame.capacity_gb_s, blame.expected_gb_s))
        short = measured.removesuffix(f" {expected.partition(' ')[2]}")
        return f"slow with {name}: {short} of {expected} ({ratio:.0%}), {blame.frequency}"
    plural = part.kind in (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
    adverb = "intermittently " if blame.state is BlameState.INTERMITTENT else ""
    return f"{name} {'are' if plural else 'is'} {adverb}slow: {numbers}"


def _fixes(finding_id: str, part: Component) -> tuple[Fix, ...]:
    if len(part.nodes) == 1:
        return catalogue.fixes(finding_id, NODE=part.nodes[0])
    return catalogue.fixes(finding_id)


_BUSY = "Or other work on the nodes: it used the CPUs in each of these launches."
_LONGER = "busbw run --survey --budget 20m"
_WHEN_FREE = f"{_LONGER}   # once no other work uses the CPUs"


def _settles(blame: Blame) -> str:
    if blame.only_when_busy:
        return _WHEN_FREE
    if blame.also:
        return _LONGER
    return "busbw run day-one   # measures the links without NCCL, too"


def _confidence(blame: Blame) -> Confidence:
    if blame.also or blame.only_when_busy:
        return Confidence.POSSIBLE
    if blame.state is BlameState.INTERMITTENT or blame.slow_launches >= _PROVED_BY:
        return Confidence.LIKELY
    return Confidence.POSSIBLE


@dataclass(frozen=True, slots=True)
class Course:
    """One group over all launches that measured it, by its slowest rail in each."""

    nodes: tuple[str, ...]
    levels: tuple[Level, ...]
    """One a launch, in the order of the launches."""
    explained: bool
    """A flagged part explains one of them."""
    doubtful: bool
    """An open suspicion names its nodes."""

    @property
    def slow(self) -> tuple[Level, ...]:
        """The launches in which it was slow."""
        return tuple(filter(_slow, self.levels))

    @property
    def passing(self) -> bool:
        """Slow in one launch, and measured again without being slow: it decides nothing."""
        return len(self.slow) == 1 and len(self.levels) > 1

    @property
    def unsettled(self) -> bool:
        """Slow in all launches, or in several, and nothing flagged explains it: more launches
        decide whether it counts."""
        return not self.explained and bool(self.slow) and not self.passing

    @property
    def seen_once(self) -> bool:
        """Slow in the only launch that measured it, and nothing flagged explains it: another launch
        decides whether it counts."""
        return not self.explained and len(self.slow) == len(self.levels) == 1


_Group = tuple[frozenset[str], Medium]


def _group_of(level: Level) -> _Group:
    return frozenset(level.sample.nodes), level.sample.medium


def courses(outcome: BlameOutcome) -> tuple[Course, ...]:
    """Every group that had peers, in the order of the first launch of each."""
    worst: dict[_Group, dict[str, Level]] = defaultdict(dict)
    explained: set[_Group] = set()
    of_suspects = {id(level) for level in outcome.explained}
    for level in outcome.levels:
        group, artefact = _group_of(level), level.sample.artefact
        before = worst[group].get(artefact)
        if before is None or level.ratio < before.ratio:
            worst[group][artefact] = level
        if id(level) in of_suspects:
            explained.add(group)
    doubtful = [set(doubt.account.part.names) for doubt in outcome.open]
    return tuple(
        Course(
            tuple(next(iter(by_artefact.values())).sample.nodes),
            tuple(by_artefact.values()),
            group in explained,
            any(names <= group[0] for names in doubtful),
        )
        for group, by_artefact in worst.items()
    )


def compare_groups(
    case_id: str, groups: tuple[tuple[str, ...], ...], artefact: str, outcome: BlameOutcome
) -> tuple[Comparison, ...]:
    """Each group of one launch against its peers, by its slowest rail: FAIL where a flagged part
    explains that it is slow.

    A group that is slow and that nothing flagged explains is WARN where that repeats or was not
    measured again, PASS where it did not repeat, UNKNOWN while the suspicion is open. `groups`: the
    groups that were measured, of which some may have had no peers.
    """
    course_of = {
        frozenset(course.nodes): course
        for course in courses(outcome)
        if any(each.sample.artefact == artefact for each in course.levels)
    }
    explained = {id(level) for level in outcome.explained}
    reference = Reference("peers", None, "peers in this run")
    results = []
    for nodes in sorted(dict.fromkeys(groups)):
        course = course_of.get(frozenset(nodes))
        own = [each for each in course.levels if each.sample.artefact == artefact] if course else []
        if course is None or not own:
            reason = outcome.inseparable or "no peers to compare with"
            results.append(
                Comparison(case_id, 0, None, reference, None, Status.UNKNOWN, reason, nodes=nodes)
            )
            continue
        status = _status(own[0], course, explained=id(own[0]) in explained)
        why = _why(status, course) if _slow(own[0]) or status is Status.FAIL else ""
        results.append(_compared(case_id, nodes, own[0], status, why))
    return tuple(results)


def _slow(level: Level) -> bool:
    return level.ratio < 1 - max(PASSING, 4 * level.noise)


def _status(level: Level, course: Course, *, explained: bool) -> Status:
    if explained:
        return Status.FAIL
    if not _slow(level):
        return Status.PASS
    if course.doubtful:
        return Status.UNKNOWN
    return Status.PASS if course.passing else Status.WARN


def _why(status: Status, course: Course) -> str:
    """What follows from the group's levels in all launches of the run."""
    if status is Status.FAIL:
        return "; explained by a suspect"
    if status is Status.UNKNOWN:
        return "; suspected, not measured often enough"
    if status is Status.PASS:
        return "; seen once, not reproduced"
    times, launches = len(course.slow), len(course.levels)
    if launches > 1:
        return f"; slow in {times} of its {launches} launches, not enough to flag it"
    return "; seen in one launch only, not measured again"


def slow_groups(outcome: BlameOutcome, artefacts: Set[str]) -> tuple[Finding, ...]:
    """The groups that are slow and that no suspect explains: a warning for those that repeat or were
    measured once, for all across two leaves whose design is not stated, and for those whose flows
    share an uplink; a note for those that did not repeat.

    Args:
        artefacts: of the launches of this run; what only earlier runs measured is theirs.
    """
    own = [
        course
        for course in courses(outcome)
        if not course.explained
        and not _shares_uplink(course, outcome)
        and any(each.sample.artefact in artefacts for each in course.slow)
    ]
    repeated = [course for course in own if not course.passing and not course.doubtful]
    passing = [course for course in own if course.passing and not course.doubtful]
    return (
        *_of_groups("slow-group", Status.WARN, repeated),
        *_of_groups("slow-group-once", Status.WARN, passing),
        *_narrow_uplinks(outcome, artefacts),
        *_shared_uplinks(outcome, artefacts),
    )


def _shares_uplink(course: Course, outcome: BlameOutcome) -> bool:
    """It is slow in no launch but those in which another group's flows are on its uplink."""
    for shared in outcome.shared:
        if set(course.nodes) in map(set, shared.pairs):
            return {level.launch for level in course.slow} <= set(shared.launches)
    return False


def _shared_uplinks(outcome: BlameOutcome, artefacts: Set[str]) -> tuple[Finding, ...]:
    results = []
    for shared in outcome.shared:
        own = [level for level in shared.levels if level.sample.artefact in artefacts]
        if not own:
            continue
        names = " and ".join(" + ".join(pair) for pair in shared.pairs)
        share = 1 / len(shared.pairs)
        rails = ""
        if None not in shared.rails and len(shared.rails) == 1:
            rails = f" on rail {shared.rails[0]}"
        count = len(shared.launches)
        title = (
            f"{names} share an uplink of {' or '.join(shared.leaves)}{rails}: {share:.0%} each in all {count}"
            " launches that ran them at once"
        )
        finding = Finding(
            id="flows-share-uplink",
            status=Status.WARN,
            title=title,
            where=tuple(sorted({node for pair in shared.pairs for node in pair})),
            evidence=tuple(map(quoted, own[:12])),
            confidence=Confidence.LIKELY if count >= _PROVED_BY else Confidence.POSSIBLE,
            effect=1 - share,
        )
        results.append(catalogue.filled(finding))
    return tuple(results)


def open_suspicions(outcome: BlameOutcome, artefacts: Set[str]) -> tuple[Finding, ...]:
    """What is suspected and neither flagged nor cleared, worst first: a warning, since nothing may
    pass beside it in silence. `artefacts`: as for `slow_groups`."""
    evidence: list[Evidence] = []
    texts: list[str] = []
    labels: list[str] = []
    own = [each for each in outcome.open if each.account.part not in outcome.flagged]
    own.sort(key=lambda each: (each.account.ratio, each.account.part.label))
    for doubt in own:
        levels = _slow_with(doubt, outcome)
        slow = [level for level in levels if level.sample.artefact in artefacts]
        if slow and doubt.account.part.label not in labels:
            labels += [part.label for part in (doubt.account.part, *doubt.alike)]
            texts.append(_suspicion_text(doubt))
            evidence += map(dips if doubt.unsteady else quoted, slow)
    if not labels:
        return ()
    if len(texts) > _SHOWN:
        texts[_SHOWN:] = [f"{len(texts) - _SHOWN} more"]
    busy = all(doubt.account.only_when_busy for doubt in own)
    finding = Finding(
        id="suspicion-open",
        status=Status.WARN,
        title="; ".join(texts),
        where=tuple(dict.fromkeys(labels)),
        evidence=tuple(evidence[:12]),
        confidence=Confidence.POSSIBLE,
        would_settle=(_WHEN_FREE if busy else _LONGER,),
        effect=0.0 if own[0].unsteady else max(0.0, 1 - own[0].account.ratio),
    )
    return (catalogue.filled(finding),)


def clean_now(outcome: BlameOutcome) -> tuple[Finding, ...]:
    """A note: what an earlier survey suspected, and this one found good."""
    names = [part.label for part in outcome.clean_now]
    if not names:
        return ()
    finding = Finding(
        id="earlier-suspicion-clean",
        status=Status.WARN,
        title=(
            f"suspected in an earlier survey, good in this one: {', '.join(names)};"
            " the earlier launches do not count"
        ),
        where=tuple(names),
        evidence=(),
        confidence=Confidence.LIKELY,
        required=False,
    )
    return (catalogue.filled(finding),)


def _slow_with(doubt: Suspicion, outcome: BlameOutcome) -> list[Level]:
    """The slowest group that loads the part in each launch in which the part was slow, or the least
    steady one."""
    account = doubt.account
    names = set(account.part.nodes)
    inside = account.part.kind is ComponentKind.INTRA_NODE
    worst: dict[int, Level] = {}
    for level in outcome.levels:
        shows = level.sample.over_network is not inside and names <= set(level.sample.nodes)
        if shows and level.launch in account.slow_in:
            before = worst.get(level.launch)
            if before is None or _badness(level, doubt) > _badness(before, doubt):
                worst[level.launch] = level
    return [worst[launch] for launch in sorted(worst)]


def _badness(level: Level, doubt: Suspicion) -> float:
    return level.dips if doubt.unsteady else -level.ratio


def _suspicion_text(doubt: Suspicion) -> str:
    account = doubt.account
    slow, launches = len(account.slow_in), len(account.slow_in) + len(account.clean_in)
    names = " or ".join(part.label for part in (account.part, *doubt.alike[:_SHOWN]))
    what = f"{account.ratio:.0%} of its peers"
    if doubt.unsteady:
        what = (
            f"{1 - account.ratio:.0%} more iterations below 70% of their level than its peers have"
        )
    often = f"{what} in {slow} of {launches} launches"
    if launches == 1:
        often = f"{what} in the only launch that shows it"
    often += ", each on busy CPUs" if account.only_when_busy else ""
    return f"{names} is suspected, not proved: {often}"


def _narrow_uplinks(outcome: BlameOutcome, artefacts: Set[str]) -> tuple[Finding, ...]:
    if outcome.across is None:
        return ()
    title = f"pairs across the two leaves reach {outcome.across:.0%} of pairs inside a leaf"
    used = {level.sample.artefact for level in outcome.levels if level.crosses}
    evidence = [Evidence(each, None, title) for each in sorted(used & artefacts)]
    if not evidence:
        return ()
    finding = Finding(
        id="narrow-uplinks",
        status=Status.WARN,
        title=f"{title}; no design of the uplinks is stated to compare with",
        where=(),
        evidence=tuple(evidence[:12]),
        confidence=Confidence.POSSIBLE,
        effect=1 - outcome.across,
    )
    return (catalogue.filled(finding),)


_SHOWN = 4
"""Groups that a title names."""


def _of_groups(name: str, status: Status, groups: list[Course]) -> tuple[Finding, ...]:
    if not groups:
        return ()
    worst = sorted(groups, key=lambda course: (_lowest(course).ratio, course.nodes))
    texts = [_course_text(course) for course in worst[:_SHOWN]]
    if len(worst) > _SHOWN:
        texts.append(f"{len(worst) - _SHOWN} more")
    lead = "slow, no cause found" if name == "slow-group" else "slow once, not again"
    evidence = [
        Evidence(_lowest(course).sample.artefact, None, _course_text(course)) for course in worst
    ]
    finding = Finding(
        id=name,
        status=status,
        title=f"{lead}: {'; '.join(texts)}",
        where=tuple(sorted({node for course in worst for node in course.nodes})),
        evidence=tuple(evidence[:12]),
        confidence=Confidence.POSSIBLE,
        effect=1 - _lowest(worst[0]).ratio,
        required=name == "slow-group",
    )
    return (catalogue.filled(finding),)


def _lowest(course: Course) -> Level:
    return min(course.slow, key=lambda level: level.ratio)


def _course_text(course: Course) -> str:
    ratio, times, launches = _lowest(course).ratio, len(course.slow), len(course.levels)
    often = "in its only launch" if launches == 1 else f"in {times} of {launches} launches"
    return f"{' + '.join(course.nodes)} {ratio:.0%} of its peers {often}"


def _compared(
    case_id: str, nodes: tuple[str, ...], level: Level, status: Status, why: str
) -> Comparison:
    rail = "" if level.sample.rail is None else f"rail {level.sample.rail}: "
    medium = _medium(level)
    where = "groups across leaves" if level.crosses else "groups"
    reference = Reference(
        "peers",
        level.reference_gb_s,
        f"peers in this run: the good level of {where} of the same launch ({medium})",
    )
    measured = level.ratio * level.reference_gb_s
    reason = f"{rail}{level.ratio:.0%} of its peers, noise {level.noise:.1%}{why}"
    return Comparison(
        case_id,
        level.sample.size_bytes,
        measured,
        reference,
        level.ratio,
        status,
        reason,
        nodes=nodes,
        medium=medium,
    )


def _medium(level: Level) -> Medium:
    return level.sample.medium if len(level.sample.nodes) > 1 else Medium.INTRA_NODE
