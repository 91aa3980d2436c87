"""One run against earlier ones: what changed in the numbers, and what changed in the machine. What coincides is not said to be the cause."""

from __future__ import annotations

import statistics

from busbw.parsers.judge import past, regression, turns
from busbw.records import Status
from busbw.records.history import Change, Contrast, ContrastShift, Number, NumberShift, PastRun, RunDiff


def diff(now: PastRun, earlier: tuple[PastRun, ...]) -> RunDiff:
    """Hold a run against earlier ones; those that may not be compared are left out, each with its reason."""
    reasons = tuple((each.run_id, past.why_not_comparable(now, each)) for each in earlier)
    against = tuple(each for each, (_, why) in zip(earlier, reasons, strict=True) if not why)
    known = [(number, _before(number, against)) for number in now.numbers]
    comparisons = max(1, sum(1 for _, before in known if before))
    # A mood shifts whole runs: all numbers of a collective together tell it from chance.
    mood = {
        name: regression.scatter(tuple(before for number, before in known if number.collective == name))
        for name in {number.collective for number in now.numbers}
    }
    shifts = tuple(
        NumberShift(
            number,
            statistics.median(tuple(value for run in before for value in run)) if before else None,
            statistics.median(number.busbw_gb_s),
            regression.shift(before, number.busbw_gb_s, comparisons=comparisons, mood=mood[number.collective]),
        )
        for number, before in known
    )
    machine = past.changed(now, against[-1]) if against else ()
    contrasts = tuple(_contrast(each, against, len(now.contrasts)) for each in now.contrasts)
    left_out = tuple(item for item in reasons if item[1])
    return RunDiff(now, against, left_out, shifts, machine, _status(shifts, contrasts), contrasts)


def _contrast(now: Contrast, against: tuple[PastRun, ...], comparisons: int) -> ContrastShift:
    earlier = tuple(each for run in against for each in run.contrasts if turns.same_contrast(now, each))
    return ContrastShift(now, *turns.contrast_shift(now, earlier, comparisons))


def _before(number: Number, against: tuple[PastRun, ...]) -> tuple[tuple[float, ...], ...]:
    same = past.key(number)
    return tuple(other.busbw_gb_s for run in against for other in run.numbers if past.key(other) == same)


def _status(shifts: tuple[NumberShift, ...], contrasts: tuple[ContrastShift, ...]) -> Status:
    """Slower anywhere is a regression. Where no bandwidth number can be told, the run tells nothing."""
    told = [each.shift.change for each in shifts if each.before_gb_s is not None]
    told += [each.shift.change for each in contrasts if each.before is not None]
    if Change.SLOWER in told:
        return Status.FAIL
    if not told or Change.INCONCLUSIVE in told:
        return Status.UNKNOWN
    return Status.PASS
