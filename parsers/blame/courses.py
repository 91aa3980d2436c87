"""Each measured group against its peers: over the launches that measured it, and what is reported of
those that are slow and that no suspect explains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass

from busbw.model import (
    Comparison,
    Confidence,
    Evidence,
    Finding,
    Medium,
    Reference,
    Status,
)
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.constants import PROVED_BY
from busbw.parsers.blame.levels import Level
from busbw.parsers.blame.suspects import SHOWN, quoted
from busbw.parsers.findings import catalogue

PASSING = 0.15
"""Loss of one group in one launch, that no suspect explains, from which on it is reported: good
nodes differ by 5 to 10 % (measurement.md)."""


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
            confidence=Confidence.LIKELY if count >= PROVED_BY else Confidence.POSSIBLE,
            effect=1 - share,
        )
        results.append(catalogue.filled(finding))
    return tuple(results)


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


def _of_groups(name: str, status: Status, groups: list[Course]) -> tuple[Finding, ...]:
    if not groups:
        return ()
    worst = sorted(groups, key=lambda course: (_lowest(course).ratio, course.nodes))
    texts = [_course_text(course) for course in worst[:SHOWN]]
    if len(worst) > SHOWN:
        texts.append(f"{len(worst) - SHOWN} more")
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
        level.usual_gb_s,
        f"peers in this run: the good level of {where} of the same launch ({medium})",
    )
    measured = level.ratio * level.usual_gb_s
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
