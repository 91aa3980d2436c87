"""What records say under the names that the table's expressions read: benchmark results, checks, comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from busbw.parsers.judge.diagnose_evidence import RESULT, Fact
from busbw.parsers.symptoms.expr import Value
from busbw.records import BenchmarkResult, CheckResult, Comparison, Evidence, Measurement, Status


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
    for name, numbers in (("nranks", [table.nranks for table in tables]), ("nodes", [table.nodes for table in tables])):
        known = [number for number in numbers if number is not None]
        if known:
            values.append((name, float(max(known))))
    return Fact(RESULT, tuple(values), Evidence(artefact, None, "nccl-tests"))


def _at_largest(tables: Sequence[BenchmarkResult]) -> Measurement | None:
    rows = [row for table in tables for row in table.rows if row.size_bytes > 0]
    if not rows:
        return None
    last = max(rows, key=lambda row: row.size_bytes)
    return last.out_of_place or last.in_place


def from_checks(checks: Iterable[CheckResult]) -> tuple[Fact, ...]:
    """One fact per check that was answered: its status and what the node said."""
    return tuple(
        Fact(
            f"preflight:{check.check_id}",
            (("status", check.status.value.lower()), ("found_text", check.found)),
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
