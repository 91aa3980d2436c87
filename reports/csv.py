"""CSV (RFC 4180): one row per case, size and repetition, for a spreadsheet; cells that a
spreadsheet would run are made text."""

from __future__ import annotations

import csv
import io

from busbw.model import (
    BenchmarkResult,
    BenchmarkRow,
    CaseOutcome,
    Comparison,
    Measurement,
    RunResult,
)
from busbw.reports import lead
from busbw.reports.safe import csv_cell

COLUMNS = (
    "run",
    "emulated",
    "profile",
    "case",
    "purpose",
    "collective",
    "case_state",
    "nodes",
    "ranks",
    "repetition",
    "size_bytes",
    "type",
    "redop",
    "root",
    "out_of_place_time_us",
    "out_of_place_algbw_gb_s",
    "out_of_place_busbw_gb_s",
    "out_of_place_wrong",
    "in_place_time_us",
    "in_place_algbw_gb_s",
    "in_place_busbw_gb_s",
    "in_place_wrong",
    "reference",
    "reference_busbw_gb_s",
    "ratio",
    "state",
)


def render(result: RunResult) -> str:
    """The file's text, a head line first, lines ended by CR LF as the RFC has it; an empty cell was
    not measured."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    compared: dict[tuple[str, int], Comparison] = {}
    for comparison in lead.whole_cluster(result):
        compared.setdefault((comparison.case_id, comparison.size_bytes), comparison)
    for outcome in result.cases:
        for number, table in enumerate(outcome.results, 1):
            for row in table.rows:
                writer.writerow(
                    _cells(
                        result,
                        outcome,
                        table,
                        number,
                        row,
                        compared.get((outcome.case.id, row.size_bytes)),
                    )
                )
    return out.getvalue()


def _cells(
    result: RunResult,
    outcome: CaseOutcome,
    table: BenchmarkResult,
    number: int,
    row: BenchmarkRow,
    compared: Comparison | None,
) -> tuple[str, ...]:
    case = outcome.case
    texts = (
        result.run_id,
        "yes" if result.emulated else "no",
        result.profile,
        case.id,
        case.purpose,
        case.collective.value,
        outcome.status.value,
    )
    numbers = (len(outcome.nodes), table.nranks, number, row.size_bytes)
    kind = (csv_cell(row.type), csv_cell(row.redop or ""), _number(row.root))
    judged: tuple[str, ...] = ("", "", "", "")
    if compared is not None:
        reference = compared.reference
        judged = (
            csv_cell(reference.kind),
            _number(reference.busbw_gb_s),
            _number(compared.ratio),
            compared.status.value,
        )
    return (
        *map(csv_cell, texts),
        *map(_number, numbers),
        *kind,
        *_side(row.out_of_place),
        *_side(row.in_place),
        *judged,
    )


def _side(measured: Measurement | None) -> tuple[str, str, str, str]:
    if measured is None:
        return ("", "", "", "")
    return (
        _number(measured.time_us),
        _number(measured.algbw_gb_s),
        _number(measured.busbw_gb_s),
        _number(measured.wrong),
    )


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)
