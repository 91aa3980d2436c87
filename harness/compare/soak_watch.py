"""A soak as it grows: its rounds, and what happened in them, launch by launch."""

from __future__ import annotations

from busbw.assess import counters
from busbw.assess.counters import CaseCounters
from busbw.assess.launches import Launch
from busbw.compare import ab, soak
from busbw.model.history import Soak, SoakEvent, SoakRound
from busbw.store.run_directory import RunDir


class SoakWatch:
    """A soak as it grows: each launch is read once."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._rounds: list[SoakRound] = []
        self._events: list[SoakEvent] = []
        self._spent, self._last = 0.0, ""

    def add(self, launch: Launch) -> None:
        """The next launch; one that is not part of the soak is ignored."""
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
            # A link lost between two launches counts, too; a soak that was resumed hours later
            # was not watched meanwhile.
            note = f" between the launch that began {self._rounds[-2].began} and this one"
            self._events += _moved(
                counters.between(self._run, self._last, case_id), each, soak.LINK_COUNTERS, note
            )
        self._spent, self._last = self._spent + launch.artefact.seconds, case_id

    def so_far(self, planned_s: float) -> Soak:
        """The rounds so far, and what happened in them."""
        rounds = tuple(self._rounds)
        numbers: dict[str, list[float]] = {}
        for each in rounds:
            of_case = numbers.setdefault(each.case_id, [])
            if each.busbw_gb_s is not None:
                of_case.append(each.busbw_gb_s)
        drifts = [soak.drift(case_id, values) for case_id, values in numbers.items()]
        events = sorted(
            (*self._events, *soak.dips(rounds)),
            key=lambda event: (event.after_s, event.kind != "link-down"),
        )
        measured = tuple(drift for drift in drifts if drift is not None)
        return Soak(planned_s, self._spent, rounds, tuple(events), measured)


def soaked(run: RunDir, launches: tuple[Launch, ...], planned_s: float) -> Soak:
    """The rounds among all launches of a run, in order."""
    watch = SoakWatch(run)
    for launch in launches:
        watch.add(launch)
    return watch.so_far(planned_s)


def _moved(
    taken: CaseCounters | None, each: SoakRound, watched: tuple[str, ...], note: str = ""
) -> list[SoakEvent]:
    """Counters that do not move on a healthy node, and did."""
    events = []
    for node in taken.nodes if taken is not None else ():
        for delta in node.deltas:
            if delta.counter not in watched or not delta.delta:
                continue
            place = delta.node if delta.device == "tcp" else f"{delta.node} {delta.device}"
            text = f"{place} {delta.counter} +{delta.delta}"
            kind = "counter"
            if delta.counter in soak.LINK_COUNTERS:
                kind = "link-down"
                text = f"{place} lost its link ({delta.counter} +{delta.delta}){note}"
            events.append(
                SoakEvent(
                    kind,
                    each.number,
                    each.began,
                    each.after_s,
                    (place,),
                    text,
                    node.after.artefact,
                    delta.line_no,
                    delta.counter,
                    delta.delta,
                )
            )
    return events
