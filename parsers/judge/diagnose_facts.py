"""What records say under the names that the table's expressions read: benchmark results, checks, comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, median, quantiles, stdev

from busbw.parsers.judge import spikes, statistics
from busbw.parsers.judge.diagnose_evidence import RESULT, Fact
from busbw.parsers.symptoms.expr import Value
from busbw.records import BenchmarkResult, CheckResult, Comparison, Evidence, Measurement, Status

_FEWEST = 3
"""Processes, or iterations, from which on a spread is told."""
_ENOUGH_FOR_A_TAIL = 20
_PLAN = (("iters", ("iters", "iterations")), ("warmup", ("warmup iters", "warmup_iters", "warmup")))
"""Names of the table's expressions, and of the configuration as versions of nccl-tests write it."""


def from_records(artefact: str, records: Sequence[object]) -> tuple[Fact, ...]:
    """The facts in what the formats read from one text."""
    tables = [record for record in records if isinstance(record, BenchmarkResult)]
    return (_benchmark(artefact, tables),) if tables else ()


def _benchmark(artefact: str, tables: Sequence[BenchmarkResult]) -> Fact:
    values: list[tuple[str, Value]] = []
    measured = [each for table in tables for row in table.rows for each in (row.out_of_place, row.in_place) if each is not None]
    wrong = [each.wrong for each in measured if each.wrong is not None]
    if wrong:
        values.append(("wrong_count", float(sum(wrong))))
    alone = sum(table.nranks == 1 for table in tables)
    if alone > 1:
        values.append(("header_count", float(alone)))
    sizes = [row.size_bytes for table in tables for row in table.rows]
    if sizes and all(table.complete for table in tables):
        values.append(("max_bytes", float(max(sizes))))
    largest = _at_largest(tables)
    if largest is not None:
        values.append(("busbw", largest.busbw_gb_s))
        if largest.iter_cv_percent is not None:
            values.append(("iter_cv", largest.iter_cv_percent / 100))
    values += _spread(tables)
    values += [(name, float(min(found))) for name, keys in _PLAN if (found := _planned(tables, keys))]
    for name, numbers in (("nranks", [table.nranks for table in tables]), ("nodes", [table.nodes for table in tables])):
        known = [number for number in numbers if number is not None]
        if known:
            values.append((name, float(max(known))))
    return Fact(RESULT, tuple(values), Evidence(artefact, None, "nccl-tests"))


def _planned(tables: Sequence[BenchmarkResult], names: Sequence[str]) -> list[int]:
    texts = (value for table in tables for name, value in table.config if name in names)
    return [int(text) for text in texts if text.isdigit()]


def _spread(tables: Sequence[BenchmarkResult]) -> list[tuple[str, Value]]:
    """How much the processes differ, and the iterations of one process, at the largest size that was timed one by one."""
    timed = [each for table in tables for each in table.process_times if not each.in_place]
    largest = max((each.size_bytes for each in timed), default=0)
    runs = [each.times_us for each in timed if each.size_bytes == largest and len(each.times_us) >= _FEWEST]
    found: list[tuple[str, Value]] = []
    if len(runs) >= _FEWEST:
        speeds = [1 / fmean(times) for times in runs]
        found.append(("rank_cv", stdev(speeds) / fmean(speeds)))
    tails = [quantiles(times, n=100)[-1] / median(times) for times in runs if len(times) >= _ENOUGH_FOR_A_TAIL]
    if tails:
        found.append(("iter_p99_over_median", max(tails)))
    whole = [each.times_us for each in statistics.iterations(tuple(timed)) if each.size_bytes == largest]
    kept = [spikes.period(spikes.spikes((times_us,)), len(times_us)) for times_us in whole]
    found += [("iter_period_s", each.seconds) for each in kept if each is not None]
    return found


def _at_largest(tables: Sequence[BenchmarkResult]) -> Measurement | None:
    rows = [row for table in tables for row in table.rows if row.size_bytes > 0]
    if not rows:
        return None
    last = max(rows, key=lambda row: row.size_bytes)
    return last.out_of_place or last.in_place


def from_checks(checks: Iterable[CheckResult]) -> tuple[Fact, ...]:
    """One fact per check that was answered: its status, what the node said, and the values behind it."""
    return tuple(
        Fact(
            f"preflight:{check.check_id}",
            (("status", check.status.value.lower()), ("found_text", check.found), *check.values),
            check.evidence or Evidence(check.command, None, f"{check.node}: {check.found}"),
            (check.node,),
        )
        for check in checks
        if check.status in (Status.PASS, Status.WARN, Status.FAIL)
    )


def from_comparisons(comparisons: Iterable[Comparison]) -> tuple[Fact, ...]:
    """The ratios of measured to expected; one that is not known gives nothing."""
    return tuple(
        Fact(
            RESULT,
            (("busbw_ratio", comparison.ratio),),
            Evidence(comparison.case_id, None, f"{comparison.case_id}: {comparison.reason}"),
            comparison.nodes,
        )
        for comparison in comparisons
        if comparison.ratio is not None
    )
