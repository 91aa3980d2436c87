"""CSV (RFC 4180): one row per case, size and repetition, for a spreadsheet; cells that a
spreadsheet would run are made text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from busbw.model import CaseOutcome, Comparison, Measurement, RunResult
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


Cell = str | float | None
"""None = not measured."""


def render(result: RunResult) -> str:
    """The file's text: a head line first, lines end in CR LF (RFC 4180), an empty cell was not
    measured."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    writer.writerows(map(_text, row) for row in records(result))
    return out.getvalue()


def records(result: RunResult) -> Iterator[tuple[Cell, ...]]:
    """The values of `COLUMNS`, a tuple per row of every table."""
    compared: dict[tuple[str, int], Comparison] = {}
    for comparison in lead.whole_cluster(result):
        compared.setdefault((comparison.case_id, comparison.size_bytes), comparison)
    for outcome in result.cases:
        for repetition, table in enumerate(outcome.results, 1):
            for row in table.rows:
                comparison_of_row = compared.get((outcome.case.id, row.size_bytes))
                is_whole = outcome.case.split is None
                yield (
                    *_case(result, outcome),
                    *(table.nranks, repetition),
                    *(row.size_bytes, row.type, row.redop, row.root),
                    *_side(row.out_of_place, is_whole=is_whole),
                    *_side(row.in_place, is_whole=is_whole),
                    *_reference(comparison_of_row),
                )


def _case(result: RunResult, outcome: CaseOutcome) -> tuple[Cell, ...]:
    return (
        result.run_id,
        "yes" if result.emulated else "no",
        result.profile,
        outcome.case.id,
        outcome.case.purpose,
        outcome.case.collective.value,
        outcome.status.value,
        len(outcome.nodes),
    )


def _side(measured: Measurement | None, *, is_whole: bool) -> tuple[Cell, ...]:
    """is_whole: the launch was one group. Of several nccl-tests prints the bandwidth of the first
    one's time with the factor of all ranks, which is no group's: `busbw export` has theirs."""
    if measured is None:
        return (None, None, None, None)
    bandwidths = (measured.algbw_gb_s, measured.busbw_gb_s) if is_whole else (None, None)
    return (measured.time_us, *bandwidths, measured.wrong)


def _reference(compared: Comparison | None) -> tuple[Cell, ...]:
    if compared is None:
        return (None, None, None, None)
    reference = compared.reference
    return (reference.kind, reference.busbw_gb_s, compared.ratio, compared.status.value)


def _text(value: Cell) -> str:
    if value is None:
        return ""
    return csv_cell(value) if isinstance(value, str) else repr(value)
