"""Saved outputs of nccl-tests as runs that can be compared: each table of a file is one launch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from busbw.compare.comparable import measured
from busbw.errors import UsageError
from busbw.model.benchmark import BenchmarkResult
from busbw.model.history import NOT_KNOWN, ComparableRun, Number, Regime
from busbw.parsers.expect.saved import remarks
from busbw.parsers.nccl_tests.copies import first_copies
from busbw.units import counted

_OPTIONS = (("iters", "-n"), ("warmup iters", "-w"), ("validation", "-c"), ("blocking", "-z"))
"""Names in nccl-tests' configuration line, and the options that set them."""


def of_tables(name: str, tables: Sequence[BenchmarkResult]) -> ComparableRun:
    """The tables of one file as one run. What else was running, and on which machine, is not known.

    Raises:
        UsageError: there is no table, or one that is cut off, wrong, or there twice.
    """
    if not tables:
        raise UsageError(
            f"{name} holds no results of a benchmark: there is nothing to compare",
            seen="no table of nccl-tests, rccl-tests or one of their kind",
            next_step=f"busbw read {name} says what it is",
        )
    for number, table in enumerate(tables, start=1):
        shown = {each.text for each in remarks(table)}
        problems = table.faults or [text for text in table.problems if text not in shown]
        if problems or not table.complete:
            state = "bad" if table.faults else "in doubt"
            if not table.complete:
                state = "incomplete"
            raise UsageError(
                f"{name}: launch {number} of {len(tables)} is {state}: its numbers are not compared",
                seen=problems[0] if problems else "the table is truncated",
                next_step=f"busbw read {name}, then measure again or take it out",
            )
    for place, first in enumerate(first_copies(tables)):
        if first != place:
            raise UsageError(
                f"{name}: launch {place + 1} of {len(tables)} is a copy of launch {first + 1}",
                seen="the same processes, and the same number in every row",
                next_step="give each launch once: a copy shows nothing of what launches differ by",
            )
    ranks = [rank for table in tables for rank in table.ranks]
    devices = sorted({rank.device_name for rank in ranks})
    hosts = tuple(sorted({rank.host for rank in ranks}))
    nodes = max((table.nodes or 0 for table in tables), default=0)
    return ComparableRun(
        run_id=name,
        started="",
        verdict=NOT_KNOWN,
        regime=Regime(
            profile=NOT_KNOWN,
            gpus=", ".join(devices) or NOT_KNOWN,
            nics=NOT_KNOWN,
            nodes=nodes or len(hosts),
            ranks=max((table.nranks or 0 for table in tables), default=0),
            emulated=False,
        ),
        numbers=_numbers(tables),
        machine=_versions(tables),
        nodes=hosts,
    )


def _numbers(tables: Sequence[BenchmarkResult]) -> tuple[Number, ...]:
    """By collective and size, out of place; one value a launch.

    Launches of several numbers of ranks, GPU models or NCCL versions have no number in common: what
    differs inside a side is among the options, and is compared with its like alone.
    """
    differ = [len(set(values)) > 1 for values in zip(*map(_kind, tables), strict=True)]
    values: dict[tuple[str, int, str], list[tuple[float, float]]] = {}
    for table in tables:
        collective = table.collective or NOT_KNOWN
        config = dict(table.config)
        flags = [f"{option} {config[name]}" for name, option in _OPTIONS if name in config]
        flags += filter(None, itertools.compress(_kind(table), differ))
        for row, busbw_gb_s, time_us in measured(table):
            options = " ".join([*flags, row.type, row.redop or ""]).strip()
            key = (collective, row.size_bytes, options)
            values.setdefault(key, []).append((busbw_gb_s, time_us))
    return tuple(
        Number(
            collective,
            collective,
            "bandwidth",
            size,
            options,
            tuple(busbw for busbw, _ in launches),
            tuple(time_us for _, time_us in launches),
        )
        for (collective, size, options), launches in values.items()
    )


def _kind(table: BenchmarkResult) -> tuple[str, ...]:
    models = sorted({rank.device_name for rank in table.ranks})
    nccl = f"NCCL {table.nccl_version}" if table.nccl_version else ""
    return counted(table.nranks, "rank") if table.nranks else "", ", ".join(models), nccl


def _versions(tables: Sequence[BenchmarkResult]) -> tuple[tuple[str, str], ...]:
    """What the tables print of the software."""
    printed = (
        ("NCCL", {table.nccl_version for table in tables}),
        ("nccl-tests", {table.tests_version for table in tables}),
    )
    return tuple(
        (name, ", ".join(sorted(filter(None, seen))) or NOT_KNOWN) for name, seen in printed
    )
