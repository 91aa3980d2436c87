"""What a run that measured in turn comes to: which setting gains, whether the changed nodes are
slower, how a soak went."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from busbw.assess import counters
from busbw.assess.counters import CaseCounters
from busbw.assess.launches import Launch
from busbw.compare import ab, soak
from busbw.model import Confidence, Evidence, Finding, Status, Uncovered
from busbw.model.history import (
    Change,
    ContrastShift,
    RunDiff,
    Soak,
    SoakEvent,
    SoakRound,
    SweepResult,
)
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.units import format_bandwidth, format_duration, format_size


@dataclass(frozen=True, slots=True)
class Concluded:
    """What is added to a run's result."""

    headline: str
    """Empty = the run has its own."""
    findings: tuple[Finding, ...] = ()
    uncovered: tuple[Uncovered, ...] = ()
    sweep: tuple[SweepResult, ...] = ()
    soak: Soak | None = None


def conclude(
    run: RunDir, plan: RunPlan, made: tuple[Launch, ...], diff: RunDiff | None
) -> Concluded | None:
    """None = nothing was measured in turn."""
    wanted = plan.interleaving
    if wanted is None:
        return None
    if wanted.soak_s is not None:
        found = soaked(run, made, wanted.soak_s)
        short = found.done_s < wanted.soak_s
        open_ = (
            (Uncovered("the rest of the soak", _done(found), f"busbw run --resume {plan.run_id}"),)
            if short
            else ()
        )
        return Concluded(_soak_headline(found), soak.findings(found), open_, soak=found)
    if wanted.treatment:
        return _controlled(plan, diff)
    found_gains = ab.sweep_results((launch.outcome for launch in made), wanted.settings)
    return Concluded(_sweep_headline(found_gains), (), _undecided(found_gains), sweep=found_gains)


class SoakWatch:
    """A soak as it grows: each launch is read once, however many rounds there are."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._rounds: list[SoakRound] = []
        self._events: list[SoakEvent] = []
        self._spent, self._last = 0.0, ""

    def add(self, launch: Launch) -> None:
        """The next launch; one that is none of the soak is passed over."""
        slot = ab.slot_of(launch.artefact.case)
        if slot is None or slot.kind != "soak":
            return
        numbers = ab.values(launch.outcome)
        size = max(numbers, default=launch.artefact.case.sizes.maximum_bytes)
        problem = "" if numbers else f"{launch.artefact.case.id}: {launch.outcome.reason}"
        each = SoakRound(
            slot.case_id,
            slot.round,
            launch.artefact.began,
            self._spent,
            size,
            numbers.get(size),
            problem,
        )
        self._rounds.append(each)
        case_id = launch.artefact.case.id
        self._events += _moved(counters.load(self._run, case_id), each, soak.WATCHED)
        if self._last:
            # A link that goes away between two launches is a lost link, too; a soak that was
            # resumed hours later was not watched meanwhile.
            note = f" between the launch that began {self._rounds[-2].began} and this one"
            self._events += _moved(
                counters.between(self._run, self._last, case_id), each, soak.LINK_COUNTERS, note
            )
        self._spent, self._last = self._spent + launch.artefact.seconds, case_id

    def so_far(self, planned_s: float) -> Soak:
        """The rounds that were made, and what happened in them."""
        rounds = tuple(self._rounds)
        by_case = {
            case_id: [
                r.busbw_gb_s for r in rounds if r.case_id == case_id and r.busbw_gb_s is not None
            ]
            for case_id in _cases(rounds)
        }
        drifts = tuple(
            found
            for case_id, values in by_case.items()
            if (found := soak.drift(case_id, values)) is not None
        )
        ordered = sorted(
            (*self._events, *soak.dips(rounds)),
            key=lambda event: (event.after_s, event.kind != "link-down"),
        )
        return Soak(planned_s, self._spent, rounds, tuple(ordered), drifts)


def soaked(run: RunDir, made: tuple[Launch, ...], planned_s: float) -> Soak:
    """The rounds among all launches of a run, in order."""
    watch = SoakWatch(run)
    for launch in made:
        watch.add(launch)
    return watch.so_far(planned_s)


def _cases(rounds: tuple[SoakRound, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.case_id for each in rounds))


def _moved(
    taken: CaseCounters | None, each: SoakRound, watched: tuple[str, ...], note: str = ""
) -> list[SoakEvent]:
    """Counters that stand still while all is well, and did not."""
    found = []
    for node in taken.nodes if taken is not None else ():
        for delta in node.deltas:
            if delta.counter not in watched or not delta.delta:
                continue
            device = "" if delta.device == "tcp" else f" {delta.device}"
            moved = f"{delta.counter} +{delta.delta}"
            lost = delta.counter in soak.LINK_COUNTERS
            text = (
                f"{delta.node}{device} lost its link ({moved}){note}"
                if lost
                else f"{delta.node}{device} {moved}"
            )
            kind, place = "link-down" if lost else "counter", (f"{delta.node}{device}",)
            found.append(
                SoakEvent(
                    kind,
                    each.number,
                    each.began,
                    each.after_s,
                    place,
                    text,
                    node.after.artefact,
                    delta.line_no,
                )
            )
    return found


def _done(found: Soak) -> str:
    return f"{format_duration(found.done_s)} of {format_duration(found.planned_s)} were measured"


def _soak_headline(found: Soak) -> str:
    kinds = [event.kind for event in found.events]
    counted = [f"{word} {kinds.count(kind)}" for kind, word in _WORDS if kind in kinds]
    drifts = [
        f"{each.case_id} drift {each.change:+.1%}"
        for each in found.drifts
        if each.chance < soak.LIKELY
    ]
    rounds = max((each.number for each in found.rounds), default=0)
    return (
        f"soak of {format_duration(found.done_s)}, {rounds} rounds:"
        f" {'; '.join((*counted, *drifts)) or 'nothing moved'}"
    )


_WORDS = (
    ("link-down", "links lost:"),
    ("failed", "failed launches:"),
    ("dip", "slow rounds:"),
    ("counter", "error counters that moved:"),
)


def _sweep_headline(found: tuple[SweepResult, ...]) -> str:
    gains = [
        each for each in found if each.shift is not None and each.shift.change is Change.FASTER
    ]
    if gains:
        best = max(gains, key=lambda each: each.shift.ratio or 0.0 if each.shift else 0.0)
        return f"a gain that repeats: {_named(best)}" + (
            f", and {len(gains) - 1} more" if len(gains) > 1 else ""
        )
    settings = list(dict.fromkeys(each.setting for each in found))
    return (
        f"no setting gains beyond the noise: {', '.join(settings)} against unset"
        if settings
        else "no setting could be measured"
    )


def _named(each: SweepResult) -> str:
    reason = each.shift.reason.partition(":")[0] if each.shift is not None else each.problem
    values = f"{format_bandwidth(each.unset_gb_s)} to {format_bandwidth(each.busbw_gb_s)}"
    return f"{each.setting} at {each.collective} {format_size(each.size_bytes)} {values}, {reason}"


def _undecided(found: tuple[SweepResult, ...]) -> tuple[Uncovered, ...]:
    open_ = [
        each
        for each in found
        if each.problem or each.shift is None or each.shift.change is Change.INCONCLUSIVE
    ]
    return tuple(
        Uncovered(
            f"{setting} at {len(list(same))} sizes",
            "the launch failed, or the noise is too large to tell",
            "more quiet nodes, or fewer settings",
        )
        for setting, same in itertools.groupby(open_, key=lambda each: each.setting)
    )


def _controlled(plan: RunPlan, diff: RunDiff | None) -> Concluded:
    contrasts = diff.contrasts if diff is not None else ()
    if not contrasts:
        return Concluded("changed and unchanged nodes could not be compared: no round was complete")
    worst = min(contrasts, key=lambda each: each.shift.ratio or 1.0)
    told = f"changed nodes give {worst.shift.reason.partition(':')[0]} against unchanged ones"
    before = (
        "than before the change"
        if worst.before is not None
        else "; no accepted run from before the change measured these nodes so"
    )
    headline = f"{told}, {worst.contrast.collective} {format_size(worst.contrast.size_bytes)}, {before}".replace(
        ", ;", ";"
    )
    found = tuple(finding for each in contrasts if (finding := _slower(each, diff)) is not None)
    moods = tuple(finding for finding in (_mood(contrasts),) if finding is not None)
    open_ = [each for each in contrasts if each.shift.change is Change.INCONCLUSIVE]
    uncovered = (
        (
            Uncovered(
                "whether the change cost anything",
                open_[0].shift.reason,
                "a quieter hour, or more rounds",
            ),
        )
        if open_
        else ()
    )
    return Concluded(headline, (*found, *moods), uncovered)


def _slower(each: ContrastShift, diff: RunDiff | None) -> Finding | None:
    # Before any change, what is open about the ratio is no question yet: such a run is the one to
    # accept.
    wanted = (Change.SLOWER, Change.INCONCLUSIVE) if each.before is not None else (Change.SLOWER,)
    if each.shift.change not in wanted:
        return None
    slower = each.shift.change is Change.SLOWER
    proven = slower and each.before is not None
    name = f"{each.contrast.collective} {format_size(each.contrast.size_bytes)}"
    changes = "; ".join(
        f"{what}: {before} -> {now}"
        for what, before, now in (diff.machine[:4] if diff is not None else ())
    )
    since = (
        f"{each.before:.1%} before the change"
        if each.before is not None
        else "their ratio before the change is not known"
    )
    title = (
        f"changed nodes slower than unchanged ones: {name}, {each.shift.reason.partition(':')[0]}"
        f" ({since})"
    )
    if not slower:
        title = f"changed against unchanged nodes cannot be told: {name}, {each.shift.reason}"
    return Finding(
        id="treatment-nodes-slower" if slower else "treatment-inconclusive",
        status=Status.FAIL if proven else Status.UNKNOWN,
        title=title,
        where=each.contrast.treatment if slower else (),
        evidence=(
            Evidence(
                "run.json",
                None,
                f"changed {', '.join(each.contrast.treatment)}:"
                f" {_listed(each.contrast.treatment_gb_s)}",
            ),
            Evidence(
                "run.json",
                None,
                f"unchanged {', '.join(each.contrast.control)}:"
                f" {_listed(each.contrast.control_gb_s)}",
            ),
        ),
        cause=f"changed since then: {changes}" if changes else "",
        confidence=Confidence.CERTAIN if proven else Confidence.POSSIBLE,
        would_settle=(
            ()
            if proven
            else (
                ("an accepted run with the same --treatment from before the change",)
                if slower
                else ("more rounds",)
            )
        ),
        effect=max(0.0, 1 - (each.shift.ratio or 1.0)),
    )


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(format_bandwidth(value) for value in values[:10])


def _mood(contrasts: tuple[ContrastShift, ...]) -> Finding | None:
    """Unchanged nodes that are slower than before, too: the fabric, and no doing of the change."""
    slower = [
        each
        for each in contrasts
        if each.fabric is not None and each.fabric.change is Change.SLOWER
    ]
    if not slower:
        return None
    worst = min(slower, key=lambda each: each.fabric.ratio or 1.0 if each.fabric else 1.0)
    reason = worst.fabric.reason.partition(":")[0] if worst.fabric is not None else ""
    return Finding(
        id="control-nodes-slower",
        status=Status.WARN,
        title=f"nodes that were not changed are slower than before as well: {reason}",
        where=worst.contrast.control,
        evidence=(
            Evidence(
                "raw/accepted.json",
                None,
                f"unchanged {', '.join(worst.contrast.control)} against the accepted runs:"
                f" {reason}",
            ),
        ),
        cause="the fabric, or something that all nodes share: not the change",
        confidence=Confidence.LIKELY,
    )
