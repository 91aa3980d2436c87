"""Tables that are there more than once: a copy of an output is no further launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.model.benchmark import BenchmarkResult


def first_copies(tables: Sequence[BenchmarkResult]) -> tuple[int, ...]:
    """For each table the place, from 0, of the first that is the same: of the same processes, with
    every number of every row. A table that no earlier one is like has its own place.

    Two launches never have the same times in every row and the same processes; where a table lists
    no processes, the rows alone decide.
    """
    firsts: dict[object, int] = {}
    return tuple(firsts.setdefault(_printed(table), place) for place, table in enumerate(tables))


def _printed(table: BenchmarkResult) -> object:
    """What a table says, wherever it stands; of one without rows: the table itself."""
    if not table.rows:
        return id(table)
    rows = tuple(replace(row, line_no=0) for row in table.rows)
    return table.collective, table.ranks, rows
