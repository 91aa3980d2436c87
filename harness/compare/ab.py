"""Interleaved launches: the round and side of each, parameter sweeps, treatment against control."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.launch import nccl_tests
from busbw.model import BenchmarkCase, CaseOutcome, Status
from busbw.model.history import Change, Contrast, Shift, SweepResult
from busbw.parsers.nccl_tests import rates
from busbw.parsers.stats import regression

if TYPE_CHECKING:
    import pandas as pd

CASE_NUMBERS = ("blocking", "ranks_per_node")
"""Fields of a case itself that a sweep may vary, all of them whole numbers."""
GAIN = 0.02
"""A smaller gain, though it repeats, is not worth a setting that somebody must keep."""
_ID = re.compile(r"(sweep|ab|soak)-(\d+)-(?:(\d+|before|treatment|after)-)?([a-z0-9-]+)\Z")
BEFORE, TREATMENT, AFTER = "before", "treatment", "after"
Setting = tuple[tuple[str, str], ...]
"""Variables, and options of the benchmark by their fields (lower case), with their values; () = none
set."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a launch among interleaved ones."""

    kind: str
    """`sweep`, `ab` or `soak`."""
    round: int
    """From 1."""
    variant: str
    """Number of the setting; `before`, `treatment` or `after`; empty in a soak."""
    case_id: str
    """Of the case that is repeated."""


def slot_id(slot: Slot) -> str:
    """The id of that launch.

    >>> slot_id(Slot("ab", 3, "treatment", "all-reduce"))
    'ab-003-treatment-all-reduce'
    """
    parts = (slot.kind, f"{slot.round:03}", slot.variant, slot.case_id)
    return "-".join(filter(None, parts))


def slot_of(case: BenchmarkCase) -> Slot | None:
    """The slot of a launch; None = it was not interleaved.

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
    if outcome.status is not Status.PASS or not outcome.results:
        return {}
    table = outcome.results[-1]
    if table.out_of_bounds:
        return {}
    found = {}
    for row in table.rows:
        if row.out_of_place is not None:
            busbw_gb_s = rates.busbw_gb_s(table, row.size_bytes, row.out_of_place)
            if busbw_gb_s > 0:
                found[row.size_bytes] = busbw_gb_s
    return found


def with_setting(case: BenchmarkCase, setting: Setting) -> BenchmarkCase:
    """The case with the variables and the options of a setting.

    >>> from busbw.model import Collective, Sizes
    >>> one = with_setting(BenchmarkCase("a", Collective.ALL_REDUCE, Sizes(8, 8)), (("NCCL_IB_TC", "1"), ("registration", "2")))
    >>> one.env, one.options.registration
    ((('NCCL_IB_TC', '1'),), 2)
    """
    env, options = list(case.env), case.options
    blocking, ranks_per_node = case.blocking, case.ranks_per_node
    for name, value in setting:
        if not name.islower():
            env.append((name, value))
        elif name == "blocking":
            blocking = int(value)
        elif name == "ranks_per_node":
            ranks_per_node = int(value)
        else:
            options = nccl_tests.with_option(options, name, value)
    return dataclasses.replace(
        case, env=tuple(env), options=options, blocking=blocking, ranks_per_node=ranks_per_node
    )


def setting_text(setting: Setting) -> str:
    """`NCCL_A=1 NCCL_B=2`; without any variable `unset`."""
    return " ".join(f"{variable}={value}" for variable, value in setting) or "unset"


def sweep_results(
    cases: Iterable[CaseOutcome], settings: tuple[Setting, ...]
) -> tuple[SweepResult, ...]:
    """Each setting at each size compared with the same rounds without it.

    All comparisons share one error (Bonferroni).
    """
    launches = [
        (slot, outcome)
        for outcome in cases
        if (slot := slot_of(outcome.case)) is not None and slot.kind == "sweep"
    ]
    problems = {
        (slot.case_id, slot.variant): f"{outcome.case.id}: {outcome.reason}"
        for slot, outcome in launches
        if not values(outcome)
    }
    table = _sweep_table(launches, len(settings))
    unset = table.dropna(subset=["0"])[["case", "size_bytes"]].drop_duplicates()
    comparisons = max(1, len(unset) * (len(settings) - 1))
    collectives = {slot.case_id: outcome.case.collective.value for slot, outcome in launches}
    results = []
    for case_id, collective in collectives.items():
        for number, setting in enumerate(settings[1:], 1):
            for size in sorted(unset[unset["case"] == case_id]["size_bytes"].tolist()):
                rounds = table[(table["case"] == case_id) & (table["size_bytes"] == size)]
                sides = rounds["0"].dropna().tolist(), rounds[str(number)].dropna().tolist()
                ratios = (rounds[str(number)] / rounds["0"]).dropna().tolist()
                shift = regression.against_one(tuple(ratios), comparisons=comparisons, floor=GAIN)
                problem = problems.get((case_id, str(number)), "")
                results.append(
                    SweepResult(
                        setting_text(setting),
                        collective,
                        size,
                        unset_gb_s=statistics.median(sides[0]),
                        busbw_gb_s=statistics.median(sides[1]) if sides[1] else None,
                        # A setting that failed once is none to keep, however fast it was.
                        shift=shift if ratios and not problem else None,
                        problem=problem,
                    )
                )
    return tuple(results)


@dataclass(frozen=True, slots=True)
class Best:
    """What of a sweep is best at one size of one collective."""

    collective: str
    size_bytes: int
    unset_gb_s: float | None
    result: SweepResult | None
    """The setting with the largest gain that is beyond the noise; None = none gains."""
    tied: tuple[str, ...]
    """Other settings whose gain cannot be distinguished from the best one's: the intervals overlap."""
    inconclusive: tuple[str, ...]
    """Settings that more rounds may still show to gain."""


def best_by_size(results: Iterable[SweepResult]) -> tuple[Best, ...]:
    """One entry a collective and size, in the order of the results."""
    groups: dict[tuple[str, int], list[SweepResult]] = {}
    for each in results:
        groups.setdefault((each.collective, each.size_bytes), []).append(each)
    found = []
    for (collective, size), own in groups.items():
        gains = [
            (each.shift, each)
            for each in own
            if each.shift is not None and each.shift.change is Change.FASTER
        ]
        gains.sort(key=lambda gain: -(gain[0].ratio or 0.0))
        least = gains[0][0].low or 0.0 if gains else 0.0
        tied = [each.setting for shift, each in gains[1:] if (shift.high or 0.0) >= least]
        unsure = [
            each.setting
            for each in own
            if each.shift is not None and each.shift.change is Change.INCONCLUSIVE
        ]
        best = gains[0][1] if gains else None
        found.append(Best(collective, size, own[0].unset_gb_s, best, tuple(tied), tuple(unsure)))
    return tuple(found)


def _sweep_table(launches: list[tuple[Slot, CaseOutcome]], settings: int) -> pd.DataFrame:
    """GB/s: a row per case, size and round, a column per setting; `0` = none set."""
    import pandas as pd

    rows = [
        (slot.case_id, size, slot.round, slot.variant, value)
        for slot, outcome in launches
        for size, value in values(outcome).items()
    ]
    index = ["case", "size_bytes", "round"]
    frame = pd.DataFrame(rows, columns=[*index, "setting", "busbw_gb_s"])
    wide = frame.pivot_table(index=index, columns="setting", values="busbw_gb_s", aggfunc="last")
    return wide.reindex(columns=[str(number) for number in range(settings)]).reset_index()


def contrasts(cases: Iterable[CaseOutcome]) -> tuple[Contrast, ...]:
    """Treatment against control nodes, by round; rounds without all three launches do not count."""
    rounds: dict[str, dict[int, dict[str, CaseOutcome]]] = {}
    for outcome in cases:
        slot = slot_of(outcome.case)
        if slot is not None and slot.kind == "ab":
            sides = rounds.setdefault(slot.case_id, {}).setdefault(slot.round, {})
            sides[slot.variant] = outcome
    results = []
    for case_id, by_round in rounds.items():
        complete = [sides for _, sides in sorted(by_round.items()) if len(sides) == 3]
        launches = [outcome for sides in complete for outcome in sides.values()]
        if not complete:
            continue
        sizes = set.intersection(*(set(values(outcome)) for outcome in launches))
        results += [_contrast(case_id, size, complete) for size in sorted(sizes)]
    return tuple(results)


def _contrast(case_id: str, size: int, rounds: list[dict[str, CaseOutcome]]) -> Contrast:
    first, control = rounds[0][TREATMENT], rounds[0][BEFORE].nodes
    case = first.case
    before, treatment, after = (
        tuple(values(sides[side])[size] for sides in rounds) for side in (BEFORE, TREATMENT, AFTER)
    )
    triples = zip(before, treatment, after, strict=True)
    row = next(row for row in first.results[-1].rows if row.size_bytes == size)
    options = f"-n {case.iterations} -w {case.warmup} -c {case.check} {row.type} {row.redop or ''}"
    return Contrast(
        case_id,
        case.collective.value,
        size,
        options.strip(),
        # The control node that keeps a single treatment node company is in both launches.
        tuple(node for node in first.nodes if node not in control),
        control,
        tuple(b / (a * c) ** 0.5 for a, b, c in triples),
        treatment,
        tuple(value for pair in zip(before, after, strict=True) for value in pair),
    )


def same_contrast(one: Contrast, other: Contrast) -> bool:
    """Whether two runs measured the same nodes against the same nodes, in the same way."""
    return _contrast_key(one) == _contrast_key(other)


def _contrast_key(contrast: Contrast) -> tuple[object, ...]:
    return (
        *(contrast.collective, contrast.size_bytes, contrast.options),
        *(contrast.treatment, contrast.control),
    )


def contrast_shift(
    now: Contrast, earlier: tuple[Contrast, ...], comparisons: int
) -> tuple[float | None, Shift, Shift | None]:
    """(ratio before, shift of the ratio of ratios, shift of the control nodes); without earlier
    runs the ratio is compared with 1."""
    if not earlier:
        return None, regression.against_one(now.ratios, comparisons=comparisons), None
    ratios = tuple(each.ratios for each in earlier)
    control = tuple(each.control_gb_s for each in earlier)
    return (
        statistics.median(ratio for run in ratios for ratio in run),
        regression.shift(ratios, now.ratios, comparisons=comparisons),
        regression.shift(control, now.control_gb_s, comparisons=comparisons),
    )
