"""`busbw cost RUN`: what a run measured, in the place of the options."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from busbw.errors import UsageError


def fill(args: argparse.Namespace) -> None:
    """Put nodes, GPUs per node, NICs and busbw of the run into the options that were not given.

    Raises:
        BusbwError: the run cannot be read.
        UsageError: it is of emulated nodes, or it measured no all_reduce over all its nodes.
    """
    from busbw import derive, rundir
    from busbw.derive import expectation

    path: Path = args.run_directory
    run = rundir.open_existing(path)
    plan = derive.load_plan(run)
    result = derive.derive(run)
    if result.emulated:
        raise UsageError(
            f"run {result.run_id} is of emulated nodes: no number of it has a price",
            seen=result.emulated,
            next_step="give --busbw, --nodes and --nics of the real cluster",
        )
    launches = [
        (outcome.nodes, outcome.results[-1])
        for outcome in result.cases
        if outcome.case.collective == "all_reduce"
        and outcome.case.purpose == "bandwidth"
        and outcome.case.split is None
        and outcome.results
    ]
    widest = max((len(nodes) for nodes, _ in launches), default=0)
    rows = [row for nodes, table in launches if len(nodes) == widest for row in table.rows if row.out_of_place is not None]
    if not rows:
        raise UsageError(
            f"run {result.run_id} measured no all_reduce over all its nodes", seen=result.headline, next_step="busbw run quick, or --busbw"
        )
    largest = max(row.size_bytes for row in rows)
    values = [row.out_of_place.busbw_gb_s for row in rows if row.size_bytes == largest and row.out_of_place is not None]
    nodes = next(nodes for nodes, _ in launches if len(nodes) == widest)
    found = expectation.hardware_of(derive.answers(run, plan), nodes)
    nics = None if found.nics is None else f"{found.nics.count}x{found.nics.rate_gbit_s:g}"
    measured = {"busbw": statistics.median(values), "nodes": len(nodes), "gpus_per_node": found.gpus_per_node, "nics": nics}
    for name, value in measured.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
