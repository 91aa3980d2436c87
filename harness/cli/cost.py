"""`busbw cost`: what the fabric costs a training job, in seconds of a step, GPU-hours, money, and
what published procedures would choose.

Exit status: 0 = answered; 2 = something needed is missing or impossible.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import write_text
from busbw.cli.cost_answer import answer
from busbw.cli.cost_text import answer_lines
from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.model import RunResult

_WORKLOADS = ("training", "fine-tuning", "inference", "disaggregated-inference", "batch", "spot")


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw cost`."""
    parser.add_argument(
        "run_directory",
        nargs="?",
        type=Path,
        metavar="RUN",
        help="a run directory: nodes, GPUs, NICs and busbw as it measured them",
    )
    _add_job(parser.add_argument_group("the job"))
    _add_fabric(parser.add_argument_group("the fabric"))
    _add_money(parser.add_argument_group("time and money"))
    _add_site(parser.add_argument_group("for the published procedures"))
    parser.add_argument("--json", action="store_true", help="the answer as JSON")


def _add_job(job: argparse._ArgumentGroup) -> None:
    job.add_argument(
        "--parameters",
        metavar="N",
        help="parameters whose gradients are reduced together: 405B, 7e9",
    )
    job.add_argument(
        "--bytes", type=float, default=2.0, metavar="B", help="bytes per parameter (default 2)"
    )
    job.add_argument("--nodes", type=int, metavar="K", help="nodes")
    job.add_argument("--gpus-per-node", type=int, metavar="G", help="default the run's, else 8")
    job.add_argument("--compute-s", type=float, metavar="S", help="computing time of one step")
    job.add_argument(
        "--hidden",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of the communication hidden behind the computing, 0 to 1 (default 0)",
    )


def _add_fabric(fabric: argparse._ArgumentGroup) -> None:
    fabric.add_argument("--nics", metavar="NxRATE", help="NICs per node: 8x400, 8xNDR")
    fabric.add_argument(
        "--busbw", type=float, metavar="GB_S", help="measured bus bandwidth of the job's GPUs"
    )
    fabric.add_argument(
        "--expected-busbw",
        type=float,
        metavar="GB_S",
        help="what it should be (default: a ring over all NICs at line rate)",
    )
    fabric.add_argument(
        "--capital", type=float, metavar="MONEY", help="price of the fabric for all GPUs"
    )
    fabric.add_argument(
        "--months",
        type=float,
        default=36.0,
        metavar="M",
        help="over which it is written off (default 36)",
    )
    fabric.add_argument(
        "--utilisation",
        type=float,
        default=1.0,
        metavar="U",
        help="share of the hours that are used, above 0 to 1 (default 1)",
    )
    fabric.add_argument(
        "--premium",
        type=float,
        metavar="P",
        help="how much dearer the whole cluster gets with the expected fabric, 0.15 = 15 %%",
    )


def _add_money(money: argparse._ArgumentGroup) -> None:
    money.add_argument("--price", type=float, metavar="MONEY", help="of one GPU-hour")
    money.add_argument(
        "--hours", type=float, default=730.0, metavar="H", help="that count (default a month, 730)"
    )
    money.add_argument(
        "--lost",
        type=float,
        metavar="SHARE",
        help="lost share of the time, in the place of one computed: 0.05",
    )


def _add_site(site: argparse._ArgumentGroup) -> None:
    site.add_argument("--workload", default="training", choices=_WORKLOADS, help="default training")
    for name, text in (
        ("has-infiniband", "InfiniBand is already run here"),
        ("shared", "the fabric carries other traffic too"),
        ("qos-team", "there are people who tune lossless Ethernet"),
    ):
        site.add_argument(
            f"--{name}", action=argparse.BooleanOptionalAction, default=None, help=text
        )


def run(args: argparse.Namespace) -> int:
    """Answer."""
    from busbw.codec import dump_json

    if args.run_directory is not None:
        fill(args)
    args.gpus_per_node = args.gpus_per_node or 8
    result = answer(args)
    if args.json:
        sys.stdout.write(dump_json(result))
    else:
        write_text(answer_lines(result))
    return 0


def fill(args: argparse.Namespace) -> None:
    """Put nodes, GPUs per node, NICs and busbw of the run into the options that were not given.

    Raises:
        BusbwError: the run cannot be read.
        UsageError: it is of emulated nodes, or it measured no all_reduce over all its nodes.
    """
    from busbw import assess
    from busbw.assess import expectation
    from busbw.store import run_directory

    run = run_directory.open_existing(args.run_directory)
    result = assess.derive(run)
    if result.emulated:
        raise UsageError(
            f"run {result.run_id} is of emulated nodes: no number of it has a price",
            seen=result.emulated,
            next_step="give --busbw, --nodes and --nics of the real cluster",
        )
    nodes, busbw_gb_s = _widest_all_reduce(result)
    hardware = expectation.hardware_of(assess.answers(run, assess.load_plan(run)), nodes)
    nics = None if hardware.nics is None else f"{hardware.nics.count}x{hardware.nics.rate_gbit_s:g}"
    measured = {
        "busbw": busbw_gb_s,
        "nodes": len(nodes),
        "gpus_per_node": hardware.gpus_per_node,
        "nics": nics,
    }
    for name, value in measured.items():
        if getattr(args, name) is None:
            setattr(args, name, value)


def _widest_all_reduce(result: RunResult) -> tuple[tuple[str, ...], float]:
    """The nodes of the launches on most nodes, and the median busbw at their largest size in GB/s.

    Raises:
        UsageError: there is no such launch.
    """
    launches = [
        (outcome.nodes, outcome.results[-1])
        for outcome in result.cases
        if outcome.case.collective == "all_reduce"
        and outcome.case.purpose == "bandwidth"
        and outcome.case.split is None
        and outcome.results
    ]
    widest = max((len(nodes) for nodes, _ in launches), default=0)
    rows = [
        (row.size_bytes, row.out_of_place.busbw_gb_s)
        for nodes, table in launches
        if len(nodes) == widest
        for row in table.rows
        if row.out_of_place is not None
    ]
    if not rows:
        raise UsageError(
            f"run {result.run_id} measured no all_reduce over all its nodes",
            seen=result.headline,
            next_step="busbw run quick, or --busbw",
        )
    largest_bytes = max(size_bytes for size_bytes, _ in rows)
    nodes = next(nodes for nodes, _ in launches if len(nodes) == widest)
    values = (busbw_gb_s for size_bytes, busbw_gb_s in rows if size_bytes == largest_bytes)
    return nodes, statistics.median(values)
