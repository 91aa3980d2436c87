"""Launches that were made in turn: which slot each was, settings tried against none, changed nodes
against unchanged ones."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from busbw.model import BenchmarkCase, CaseOutcome, Status
from busbw.model.history import Contrast, Shift, SweepResult
from busbw.parsers.stats import regression

GAIN = 0.02
"""A gain that repeats and is smaller than this is not worth a setting that somebody must keep."""
_ID = re.compile(r"(sweep|ab|soak)-(\d+)-(?:(\d+|before|treatment|after)-)?([a-z0-9-]+)\Z")
BEFORE, TREATMENT, AFTER = "before", "treatment", "after"


@dataclass(frozen=True, slots=True)
class Slot:
    """Which slot a launch was."""

    kind: str
    """`try`, `ab` or `soak`."""
    round: int
    """From 1."""
    variant: str
    """Number of the setting; `before`, `treatment` or `after`; empty in a soak."""
    case_id: str
    """Of the case that is launched in turn."""


def slot_id(slot: Slot) -> str:
    """The id of that launch.

    >>> slot_id(Slot("ab", 3, "treatment", "all-reduce"))
    'ab-003-treatment-all-reduce'
    """
    return "-".join(
        part for part in (slot.kind, f"{slot.round:03}", slot.variant, slot.case_id) if part
    )


def slot_of(case: BenchmarkCase) -> Slot | None:
    """Which slot a launch was; None = it was none.

    >>> from busbw.model import Collective, Sizes
    >>> slot_of(BenchmarkCase("sweep-002-1-all-reduce", Collective.ALL_REDUCE, Sizes(8, 8), purpose="diagnosis"))
    Slot(kind='sweep', round=2, variant='1', case_id='all-reduce')
    """
    match = _ID.match(case.id)
    if match is None or case.purpose != "diagnosis":
        return None
    return Slot(match[1], int(match[2]), match[3] or "", match[4])


def values(outcome: CaseOutcome) -> dict[int, float]:
    """GB/s of out-of-place bus bandwidth by size; {} = the launch failed or its data were wrong."""
    if (
        outcome.status is not Status.PASS
        or not outcome.results
        or outcome.results[-1].out_of_bounds
    ):
        return {}
    rows = outcome.results[-1].rows
    return {
        row.size_bytes: row.out_of_place.busbw_gb_s
        for row in rows
        if row.out_of_place is not None and row.out_of_place.busbw_gb_s > 0
    }


def setting_text(setting: tuple[tuple[str, str], ...]) -> str:
    """`NCCL_A=1 NCCL_B=2`; without any variable `unset`."""
    return " ".join(f"{variable}={value}" for variable, value in setting) or "unset"


def sweep_results(
    cases: Iterable[CaseOutcome], settings: tuple[tuple[tuple[str, str], ...], ...]
) -> tuple[SweepResult, ...]:
    """Each setting at each size against the same rounds without it; the error is shared among all
    of them."""
    found: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
    collectives, failed = {}, {}
    for outcome in cases:
        slot = slot_of(outcome.case)
        if slot is None or slot.kind != "sweep":
            continue
        collectives[slot.case_id] = outcome.case.collective.value
        measured = values(outcome)
        if not measured:
            failed[slot.case_id, slot.variant] = f"{outcome.case.id}: {outcome.reason}"
        for size, value in measured.items():
            found.setdefault((slot.case_id, slot.variant), {}).setdefault(size, {})[slot.round] = (
                value
            )
    sizes = sum(len(by_size) for (_, variant), by_size in found.items() if variant == "0")
    comparisons = max(1, sizes * (len(settings) - 1))
    told = []
    for case_id, collective in collectives.items():
        for number, setting in enumerate(settings[1:], 1):
            problem = failed.get((case_id, str(number)), "")
            for size, unset in sorted(found.get((case_id, "0"), {}).items()):
                with_it = found.get((case_id, str(number)), {}).get(size, {})
                told.append(
                    _sweep_result(
                        setting_text(setting),
                        (collective, size),
                        (unset, with_it),
                        comparisons,
                        problem,
                    )
                )
    return tuple(told)


def _sweep_result(
    setting: str,
    what: tuple[str, int],
    sides: tuple[Mapping[int, float], Mapping[int, float]],
    comparisons: int,
    problem: str,
) -> SweepResult:
    unset, with_it = sides
    rounds = sorted(set(unset) & set(with_it))
    shift = (
        regression.against_one(
            tuple(with_it[n] / unset[n] for n in rounds), comparisons=comparisons, floor=GAIN
        )
        if rounds
        else None
    )
    return SweepResult(
        setting,
        *what,
        unset_gb_s=statistics.median(unset.values()),
        busbw_gb_s=statistics.median(with_it.values()) if with_it else None,
        # What failed once is no setting to keep, however fast it was in the other rounds.
        shift=None if problem else shift,
        problem=problem,
    )


def contrasts(cases: Iterable[CaseOutcome]) -> tuple[Contrast, ...]:
    """Changed against unchanged nodes, round by round; rounds without all three launches are left
    out."""
    rounds: dict[str, dict[int, dict[str, CaseOutcome]]] = {}
    for outcome in cases:
        slot = slot_of(outcome.case)
        if slot is not None and slot.kind == "ab":
            rounds.setdefault(slot.case_id, {}).setdefault(slot.round, {})[slot.variant] = outcome
    found = []
    for case_id, by_round in rounds.items():
        whole = [
            sides
            for _, sides in sorted(by_round.items())
            if set(sides) == {BEFORE, TREATMENT, AFTER}
        ]
        sizes = (
            sorted(
                set.intersection(
                    *(set(values(outcome)) for sides in whole for outcome in sides.values())
                )
            )
            if whole
            else []
        )
        found += [_contrast(case_id, size, whole) for size in sizes]
    return tuple(found)


def _contrast(case_id: str, size: int, rounds: list[dict[str, CaseOutcome]]) -> Contrast:
    first = rounds[0][TREATMENT]
    before, changed, after = (
        tuple(values(sides[side])[size] for sides in rounds) for side in (BEFORE, TREATMENT, AFTER)
    )
    row = next(row for row in first.results[-1].rows if row.size_bytes == size)
    return Contrast(
        case_id,
        first.case.collective.value,
        size,
        f"-n {first.case.iterations} -w {first.case.warmup} -c {first.case.check} {row.type}"
        f" {row.redop or ''}".strip(),
        # The unchanged partner of a single changed node is in both launches.
        tuple(node for node in first.nodes if node not in rounds[0][BEFORE].nodes),
        rounds[0][BEFORE].nodes,
        tuple(b / (a * c) ** 0.5 for a, b, c in zip(before, changed, after, strict=True)),
        changed,
        tuple(value for pair in zip(before, after, strict=True) for value in pair),
    )


def same_contrast(one: Contrast, other: Contrast) -> bool:
    """Whether two runs measured the same nodes against the same nodes, in the same way."""
    return (one.collective, one.size_bytes, one.options, one.treatment, one.control) == (
        other.collective,
        other.size_bytes,
        other.options,
        other.treatment,
        other.control,
    )


def contrast_shift(
    now: Contrast, earlier: tuple[Contrast, ...], comparisons: int
) -> tuple[float | None, Shift, Shift | None]:
    """(ratio before, shift of the ratio of ratios, shift of the unchanged nodes); without earlier
    runs the ratio is held against 1."""
    if not earlier:
        return None, regression.against_one(now.ratios, comparisons=comparisons), None
    before = statistics.median(ratio for each in earlier for ratio in each.ratios)
    return (
        before,
        regression.shift(
            tuple(each.ratios for each in earlier), now.ratios, comparisons=comparisons
        ),
        regression.shift(
            tuple(each.control_gb_s for each in earlier),
            now.control_gb_s,
            comparisons=comparisons,
        ),
    )
