"""The tables of figures that `busbw expect` looks in: the user's own rows, those of a run, how old they
are."""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli.expect_hardware import Described, of_run
from busbw.errors import UsageError
from busbw.fabrics.profiles import carrier_by_fabric
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.model import RunResult
    from busbw.parsers.expect.figures import Row, Tables
    from busbw.store.own_figures import OwnFigures


def ages(shipped: Tables, own: OwnFigures) -> tuple[str, ...]:
    """Which tables there are, each with its size and age."""
    from busbw.parsers.expect import figures

    count = counted(len(shipped.published), "published row")
    lines = [f"shipped, {count}, as of {figures.AS_OF} ({_age(figures.AS_OF)})"]
    if own.rows:
        day = own.updates[-1].at[:10]
        count = counted(len(own.rows), "row")
        lines.append(f"your own, {count}, updated on {day} ({_age(day)})")
    return tuple(lines)


def _age(day: str) -> str:
    """Of a table, in days; a clock that is behind gives none."""
    days = (datetime.date.today() - datetime.date.fromisoformat(day)).days
    return f"{counted(max(days, 0), 'day')} old"


def update(args: argparse.Namespace) -> int:
    """Add rows to the user's own table and print what changed. 2 = nothing was written."""
    from busbw.cli.console import now
    from busbw.parsers.expect import figures
    from busbw.reports.safe import one_line
    from busbw.store import own_figures

    path = args.table or own_figures.default_path()
    own = own_figures.load(path)
    content = own_figures.fetched(args.update)
    rows = own_figures.rows_of(content, args.update, figures.load())
    changes = own_figures.changes(own, rows)
    for change in changes:
        sys.stdout.write(one_line(f"{change.kind:7} {change.id}  {change.text}") + "\n")
    other = [change.id for change in changes if change.kind == "changed"]
    if other and not args.replace:
        raise UsageError(
            f"{counted(len(other), 'row')} would be replaced: {', '.join(other[:5])}",
            seen=f"{path} has them with other values; nothing was written",
            next_step=f"busbw expect --update {args.update} --replace",
        )
    after = own_figures.merged(own, rows, args.update, content, now())
    if after.updates[-1].ids:
        own_figures.save(after, path)
    written = counted(len(after.updates[-1].ids), "row")
    sums = f"sha256 {after.updates[-1].sha256}"
    sys.stdout.write(one_line(f"{path}: {written} written, {sums}, from {args.update}") + "\n")
    return 0


def _refuse_reference(result: RunResult, described: Described) -> None:
    """Nothing for a run whose numbers others may be compared with.

    Raises:
        UsageError: as `rows_of_run`.
    """
    from busbw.model import Status

    if result.emulated:
        why = "it is emulated: its numbers say nothing about real hardware"
    elif result.verdict not in (Status.PASS, Status.WARN):
        why = f"its verdict is {result.verdict.value}: no figure to compare others with"
    elif described.gpu is None or described.fabric is None:
        why = f"its nodes do not say all: {described.summary}"
    else:
        return
    raise UsageError(
        f"run {result.run_id} is no reference for others",
        seen=why,
        next_step="give a run that passed on real hardware",
    )


def rows_of_run(path: Path) -> tuple[Row, ...]:
    """The figure of each collective at its largest size, on all nodes of a run: hardware, fabric
    and numbers, and no name of the site.

    Raises:
        UsageError: the run is emulated, did not pass, or does not say its hardware.
        RunDirError: it cannot be read.
    """
    from busbw import assess
    from busbw.parsers.expect.figures import Grade, NicSet, Row, Source, Spread
    from busbw.parsers.expect.hardware import parse_nics
    from busbw.reports import lead
    from busbw.store import run_directory

    result = assess.derive(run_directory.open_existing(path))
    described = of_run(path)
    _refuse_reference(result, described)
    nics = parse_nics(described.nics) if described.nics else None
    several = len(result.nodes) > 1
    fabric = carrier_by_fabric()[str(described.fabric)].published if several else "intra-node"
    versions = dict(result.versions)
    source = Source(f"measured with busbw {result.tool_version}", date=result.started[:10])
    rows: dict[str, Row] = {}
    for each in sorted(lead.whole_cluster(result), key=lambda each: -each.size_bytes):
        outcome = lead.outcome_of(result, each.case_id)
        measured, half = each.measured_gb_s, each.half_interval_gb_s
        if outcome is None or measured is None or outcome.case.purpose != "bandwidth":
            continue
        name = outcome.case.collective.value
        rows.setdefault(
            each.case_id,
            Row(
                id=f"{described.gpu}-{len(result.nodes)}n-{fabric}-{each.case_id}-{source.date}".lower(),
                grade=Grade.GOOD,
                collective=name,
                fabric=fabric,
                source=source,
                gpu=described.gpu,
                gpus_per_node=described.gpus_per_node,
                nodes=len(result.nodes),
                nics=NicSet(nics.count, nics.rate_gbit_s) if nics and several else None,
                size_bytes=each.size_bytes,
                busbw_gb_s=Spread(
                    None if half is None else measured - half,
                    measured,
                    None if half is None else measured + half,
                ),
                library_version=versions.get("NCCL"),
                note=f"median of {counted(each.launches, 'launch', 'launches')}",
            ),
        )
    return tuple(rows.values())
