"""A run's result as other runs see it, whether two of them may be compared, and what changed
between their machines."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass

from busbw.compare import ab
from busbw.model import CaseOutcome, CheckResult, RunResult, Status
from busbw.model.history import (
    Change,
    Contrast,
    ContrastShift,
    Decision,
    Number,
    NumberShift,
    PastRun,
    Regime,
    RunDiff,
)
from busbw.parsers.stats import regression

NOT_KNOWN = "not known"
_COMPARED = ("bandwidth", "latency")
"""Purposes whose numbers mean something; the others are launches that log, verify or time every
iteration."""


def of_result(result: RunResult, accepted: Decision | None = None) -> PastRun:
    """What of a result can be held against others."""
    emulated = bool(result.emulated)
    parts = Parts(
        result.run_id,
        result.started,
        result.verdict.value,
        result.profile,
        emulated,
        result.nodes,
        result.checks,
        result.cases,
        result.versions,
    )
    return of_parts(parts, accepted)


def unread(run_id: str, why: str, accepted: Decision | None = None) -> PastRun:
    """An accepted run whose files cannot be read: it is held against nothing, and named with the
    reason."""
    regime = Regime(NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, 0, 0, False)
    return PastRun(run_id, "", NOT_KNOWN, regime, (), (), (), accepted, (), why)


@dataclass(frozen=True, slots=True)
class Parts:
    """What of a run is looked at, as it stands in its result or is just being put together."""

    run_id: str
    started: str
    verdict: str
    profile: str
    emulated: bool
    nodes: tuple[str, ...]
    checks: tuple[CheckResult, ...]
    cases: tuple[CaseOutcome, ...]
    versions: tuple[tuple[str, str], ...]


def of_parts(parts: Parts, accepted: Decision | None = None) -> PastRun:
    """As `of_result`, of a run that has no verdict yet."""
    whole = [outcome for outcome in parts.cases if outcome.case.split is None and outcome.results]
    return PastRun(
        run_id=parts.run_id,
        started=parts.started,
        verdict=parts.verdict,
        regime=Regime(
            profile=parts.profile,
            gpus=_answers(parts.checks, "gpu.model")
            or dict(parts.versions).get("device", NOT_KNOWN),
            nics=_usual(parts.checks, "rdma.rate") or NOT_KNOWN,
            nodes=max((len(outcome.nodes) for outcome in whole), default=0),
            ranks=max(
                (table.nranks or 0 for outcome in whole for table in outcome.results), default=0
            ),
            emulated=parts.emulated,
        ),
        numbers=_numbers(whole),
        machine=_machine(parts),
        nodes=parts.nodes,
        accepted=accepted,
        contrasts=ab.contrasts(parts.cases),
    )


def _numbers(whole: list[CaseOutcome]) -> tuple[Number, ...]:
    """Launches over all nodes that measured something; groups of a survey are another thing."""
    values: dict[tuple[str, str, str, int, str], list[float]] = {}
    for outcome in whole:
        case, table = outcome.case, outcome.results[-1]
        # Wrong data has no bandwidth.
        if case.purpose not in _COMPARED or table.out_of_bounds:
            continue
        for row in table.rows:
            if (
                row.out_of_place is not None
                and row.size_bytes > 0
                and row.out_of_place.busbw_gb_s > 0
            ):
                options = (
                    f"-n {case.iterations} -w {case.warmup} -c {case.check} -z {case.blocking}"
                    f" {row.type} {row.redop or ''}".strip()
                )
                key = (case.family, case.collective.value, case.purpose, row.size_bytes, options)
                values.setdefault(key, []).append(row.out_of_place.busbw_gb_s)
    return tuple(Number(*key, tuple(found)) for key, found in values.items())


def _answers(checks: tuple[CheckResult, ...], check_id: str) -> str:
    """What the nodes answered, each answer with its count; empty = the check was not asked or not
    answered."""
    found = Counter(
        c.found
        for c in checks
        if c.check_id == check_id and c.status not in (Status.UNKNOWN, Status.SKIPPED)
    )
    return _counted(found)


def _usual(checks: tuple[CheckResult, ...], check_id: str) -> str:
    """The answer of most nodes: one node that lost a port is a fault to find, and no other kind of
    cluster."""
    found = Counter(c.found for c in checks if c.check_id == check_id and c.status is Status.PASS)
    return min(found, key=lambda text: (-found[text], text)) if found else ""


def _counted(found: Counter[str]) -> str:
    return "; ".join(
        f"{text} on {count}"
        for text, count in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    )


def _machine(parts: Parts) -> tuple[tuple[str, str], ...]:
    answers: dict[str, Counter[str]] = {}
    for check in parts.checks:
        if check.status not in (Status.UNKNOWN, Status.SKIPPED):
            answers.setdefault(check.check_id, Counter())[check.found] += 1
    told = [(name, value) for name, value in parts.versions if name not in ("busbw", "build")]
    return (*told, *((check_id, _counted(found)) for check_id, found in sorted(answers.items())))


def why_not_comparable(one: PastRun, other: PastRun) -> tuple[str, ...]:
    """What they do not share, in words; () = they may be compared."""
    if other.unread:
        return (other.unread,)
    pairs = (
        ("fabric profile", one.regime.profile, other.regime.profile),
        ("GPUs", one.regime.gpus, other.regime.gpus),
        ("nodes", str(one.regime.nodes), str(other.regime.nodes)),
        ("ranks", str(one.regime.ranks), str(other.regime.ranks)),
        ("emulated", str(one.regime.emulated), str(other.regime.emulated)),
    )
    # Whoever was not asked for its NICs has not said that they are others.
    nics = (
        (("NICs", one.regime.nics, other.regime.nics),)
        if NOT_KNOWN not in (one.regime.nics, other.regime.nics)
        else ()
    )
    return tuple(
        f"{what}: {mine} here, {theirs} in {other.run_id}"
        for what, mine, theirs in (*pairs, *nics)
        if mine != theirs
    )


def key(number: Number) -> tuple[str, int, str]:
    """What the numbers of two runs must share to be held against each other, within one regime."""
    return number.collective, number.size_bytes, number.options


def changed(one: PastRun, other: PastRun) -> tuple[tuple[str, str, str], ...]:
    """(what, before, now) of everything about the machine that both told and that differs; `other`
    is the earlier one."""
    before, now = dict(other.machine), dict(one.machine)
    found = [
        (name, before[name], now[name])
        for name in now
        if name in before and before[name] != now[name]
    ]
    if set(one.nodes) != set(other.nodes):
        found.append(
            (
                "nodes",
                f"{len(other.nodes)}",
                f"{len(one.nodes)}, {len(set(one.nodes) - set(other.nodes))} of them others",
            )
        )
    return tuple(found)


# One run against earlier ones: what changed in the numbers, and what changed in the machine. What
# coincides is not said to be the cause.


def diff(now: PastRun, earlier: tuple[PastRun, ...]) -> RunDiff:
    """Hold a run against earlier ones; those that may not be compared are left out, each with its
    reason."""
    reasons = tuple((each.run_id, why_not_comparable(now, each)) for each in earlier)
    against = tuple(each for each, (_, why) in zip(earlier, reasons, strict=True) if not why)
    known = [(number, _before(number, against)) for number in now.numbers]
    comparisons = max(1, sum(1 for _, before in known if before))
    # A mood shifts whole runs: all numbers of a collective together tell it from chance.
    mood = {
        name: regression.scatter(
            tuple(before for number, before in known if number.collective == name)
        )
        for name in {number.collective for number in now.numbers}
    }
    shifts = tuple(
        NumberShift(
            number,
            statistics.median(tuple(value for run in before for value in run)) if before else None,
            statistics.median(number.busbw_gb_s),
            regression.shift(
                before, number.busbw_gb_s, comparisons=comparisons, mood=mood[number.collective]
            ),
        )
        for number, before in known
    )
    machine = changed(now, against[-1]) if against else ()
    contrasts = tuple(_contrast(each, against, len(now.contrasts)) for each in now.contrasts)
    excluded = tuple(item for item in reasons if item[1])
    return RunDiff(now, against, excluded, shifts, machine, _status(shifts, contrasts), contrasts)


def _contrast(now: Contrast, against: tuple[PastRun, ...], comparisons: int) -> ContrastShift:
    earlier = tuple(
        each for run in against for each in run.contrasts if ab.same_contrast(now, each)
    )
    return ContrastShift(now, *ab.contrast_shift(now, earlier, comparisons))


def _before(number: Number, against: tuple[PastRun, ...]) -> tuple[tuple[float, ...], ...]:
    same = key(number)
    return tuple(other.busbw_gb_s for run in against for other in run.numbers if key(other) == same)


def _status(shifts: tuple[NumberShift, ...], contrasts: tuple[ContrastShift, ...]) -> Status:
    """Slower anywhere is a regression. Where no bandwidth number can be told, the run tells
    nothing."""
    told = [each.shift.change for each in shifts if each.before_gb_s is not None]
    told += [each.shift.change for each in contrasts if each.before is not None]
    if Change.SLOWER in told:
        return Status.FAIL
    if not told or Change.INCONCLUSIVE in told:
        return Status.UNKNOWN
    return Status.PASS
