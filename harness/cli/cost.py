"""`busbw cost`: what the fabric costs a training job, in seconds of a step, GPU-hours, money, and
what published procedures would choose.

Exit status: 0 = answered; 2 = something needed is missing or impossible.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import write_text
from busbw.cli.options import require_positive
from busbw.errors import UsageError

# `busbw cost RUN`: what a run measured, in the place of the options.


def fill(args: argparse.Namespace) -> None:
    """Put nodes, GPUs per node, NICs and busbw of the run into the options that were not given.

    Raises:
        BusbwError: the run cannot be read.
        UsageError: it is of emulated nodes, or it measured no all_reduce over all its nodes.
    """
    from busbw import assess
    from busbw.assess import expectation
    from busbw.store import run_directory

    path: Path = args.run_directory
    run = run_directory.open_existing(path)
    plan = assess.load_plan(run)
    result = assess.derive(run)
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
    rows = [
        row
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
    largest = max(row.size_bytes for row in rows)
    values = [
        row.out_of_place.busbw_gb_s
        for row in rows
        if row.size_bytes == largest and row.out_of_place is not None
    ]
    nodes = next(nodes for nodes, _ in launches if len(nodes) == widest)
    hardware = expectation.hardware_of(assess.answers(run, plan), nodes)
    nics = None if hardware.nics is None else f"{hardware.nics.count}x{hardware.nics.rate_gbit_s:g}"
    measured = {
        "busbw": statistics.median(values),
        "nodes": len(nodes),
        "gpus_per_node": hardware.gpus_per_node,
        "nics": nics,
    }
    for name, value in measured.items():
        if getattr(args, name) is None:
            setattr(args, name, value)


if TYPE_CHECKING:
    from busbw.parsers.articles import Choice
    from busbw.parsers.cost import Job, Loss, Step
    from busbw.parsers.expect.hardware import Nics

_COUNT = re.compile(r"^\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([kmbtKMBT]?)\s*$")
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_WORKLOADS = ("training", "fine-tuning", "inference", "disaggregated-inference", "batch", "spot")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one all-reduce of the gradients."""

    one_nic_s: float | None
    """Over a single NIC of the node: the mistake of counting one of several. None = one node, or
    the NICs are not known."""
    least_s: float | None
    """Over all NICs, any algorithm without reduction in the network; None as above."""
    ring_s: float | None
    """As a ring over all NICs at line rate; None as above."""
    measured_s: float | None
    """At --busbw; None = not given."""
    expected_s: float | None
    """What `measured_s` is compared with: at --expected-busbw, else `ring_s`."""


@dataclass(frozen=True, slots=True)
class FabricCost:
    """A fabric's capital per GPU-hour."""

    name: str
    capital: float
    per_gpu_hour: float
    per_gpu_hour_full: float
    """The same with every hour used."""
    caution: str


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is printed, and with --json written; None = not enough was given for it."""

    job: Job
    nics: Nics | None
    times: Times
    step: Step | None
    expected_step: Step | None
    loss: Loss | None
    loss_from: str
    """Where the lost fraction comes from; without a loss, what is missing for one."""
    mark: str | None
    fabrics: tuple[FabricCost, ...]
    utilisation: float
    choices: tuple[Choice, ...]
    hours: float
    pays: str
    """Whether the premium pays; empty = no --premium."""


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw cost`."""
    parser.add_argument(
        "run_directory",
        nargs="?",
        type=Path,
        metavar="RUN",
        help="a run directory: nodes, GPUs, NICs and busbw as it measured them",
    )
    job = parser.add_argument_group("the job")
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
    fabric = parser.add_argument_group("the fabric")
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
    money = parser.add_argument_group("time and money")
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
    site = parser.add_argument_group("for the published procedures")
    site.add_argument("--workload", default="training", choices=_WORKLOADS, help="default training")
    for name, text in (
        ("has-infiniband", "InfiniBand is already run here"),
        ("shared", "the fabric carries other traffic too"),
        ("qos-team", "there are people who tune lossless Ethernet"),
    ):
        site.add_argument(
            f"--{name}", action=argparse.BooleanOptionalAction, default=None, help=text
        )
    parser.add_argument("--json", action="store_true", help="the answer as JSON")


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


def parse_parameters(text: str) -> float:
    """A number of parameters: `405B`, `70b`, `7e9`.

    >>> parse_parameters("405B")
    405000000000.0

    Raises:
        UsageError: it is none, or 0.
    """
    match = _COUNT.match(text)
    value = float(match[1]) * _FACTORS[match[2].lower()] if match else 0.0
    if not 0 < value < float("inf"):
        raise UsageError(
            "--parameters wants a number above 0",
            seen=text,
            next_step="for example --parameters 405B",
        )
    return value


def answer(args: argparse.Namespace) -> Answer:
    """Everything the options allow.

    Raises:
        UsageError: the job or its fabric is missing, or a number is impossible.
    """
    from busbw.parsers import articles, cost
    from busbw.parsers.expect.hardware import parse_nics

    _check_numbers(args)
    nics = parse_nics(args.nics) if args.nics is not None else None
    try:
        job = cost.Job(
            parse_parameters(args.parameters),
            args.bytes,
            args.nodes,
            args.gpus_per_node,
            args.compute_s,
            args.hidden,
        )
    except ValueError as error:
        raise UsageError(
            str(error),
            seen=f"{args.nodes} nodes x {args.gpus_per_node} GPUs",
            next_step="--nodes 8 --gpus-per-node 8",
        ) from error
    times = _times(job, nics, args.busbw, args.expected_busbw)
    step, expected_step = _steps(job, times)
    loss, loss_from = _loss(args, job, times, step, expected_step)
    ratio = step.ratio if step is not None else None
    site = articles.Site(
        job.ranks,
        job.parameters,
        articles.Workload(args.workload),
        args.has_infiniband,
        args.shared,
        args.qos_team,
    )
    return Answer(
        job=job,
        nics=nics,
        times=times,
        step=step,
        expected_step=expected_step,
        loss=loss,
        loss_from=loss_from,
        mark=None if ratio is None else cost.mark(ratio),
        fabrics=_fabrics(args, job.ranks),
        utilisation=args.utilisation,
        choices=articles.choices(site),
        hours=args.hours,
        pays=_pays(args.premium, step, expected_step),
    )


def _check_numbers(args: argparse.Namespace) -> None:
    missing = [name for name in ("parameters", "nodes") if getattr(args, name) is None]
    if missing:
        what = " and ".join(f"--{name}" for name in missing)
        raise UsageError(
            f"the job is not described: {what} missing",
            next_step="busbw cost --parameters 405B --nodes 8 --nics 8x400",
        )
    require_positive(
        args,
        (
            "bytes",
            "nodes",
            "gpus_per_node",
            "compute_s",
            "busbw",
            "expected_busbw",
            "capital",
            "months",
            "price",
            "hours",
        ),
    )
    for name, low, high in (
        ("hidden", 0.0, 1.0),
        ("lost", 0.0, 0.999999),
        ("utilisation", 1e-9, 1.0),
        ("premium", 0.0, 1e6),
    ):
        value = getattr(args, name)
        if value is not None and not low <= value <= high:
            raise UsageError(
                f"--{name} is a share: 0.05 means 5 %",
                seen=f"{value:g}",
                next_step="give a number between 0 and 1",
            )
    if args.nics is None and args.busbw is None:
        raise UsageError(
            "the speed of the fabric is missing",
            seen="neither --nics nor --busbw",
            next_step="--nics 8x400, or --busbw 370 as measured",
        )


def _times(job: Job, nics: Nics | None, busbw: float | None, expected_busbw: float | None) -> Times:
    from busbw.parsers import cost

    one_nic = least = ring = None
    if nics is not None and job.nodes > 1:
        least = cost.least_time_s(job, nics.line_gb_s)
        ring = cost.time_at_busbw_s(job, nics.line_gb_s)
        if nics.count > 1:
            one_nic = cost.least_time_s(job, nics.rate_gbit_s / 8)
    expected = ring
    if expected_busbw is not None:
        expected = cost.time_at_busbw_s(job, expected_busbw)
    return Times(
        one_nic_s=one_nic,
        least_s=least,
        ring_s=ring,
        measured_s=cost.time_at_busbw_s(job, busbw) if busbw is not None else None,
        expected_s=expected,
    )


def _steps(job: Job, times: Times) -> tuple[Step | None, Step | None]:
    """The step as measured (or as expected, where nothing is measured) and as expected; None = the
    times are not known."""
    from busbw.parsers import cost

    if job.compute_s is None:
        return None, None
    expected = None if times.expected_s is None else cost.step(job, times.expected_s)
    actual = None if times.measured_s is None else cost.step(job, times.measured_s)
    return actual or expected, expected


def _loss(
    args: argparse.Namespace, job: Job, times: Times, actual: Step | None, expected: Step | None
) -> tuple[Loss | None, str]:
    from busbw.parsers import cost

    if args.lost is not None:
        return cost.loss(job.ranks, args.hours, args.lost, args.price), "given by --lost"
    if args.busbw is None or actual is None or expected is None:
        given = (
            ("--busbw", args.busbw),
            ("--compute-s", job.compute_s),
            ("--nics or --expected-busbw", times.expected_s),
        )
        needed = [name for name, value in given if value is None]
        return (
            None,
            f"for the GPU-hours lost, give {', '.join(needed)}; or the share itself: --lost 0.05",
        )
    fraction = cost.fraction_lost(actual, expected)
    if fraction < 0:
        return None, "nothing is lost: the measured fabric is faster than the expected one"
    return cost.loss(job.ranks, args.hours, fraction, args.price), "measured against expected"


def _fabrics(args: argparse.Namespace, gpus: int) -> tuple[FabricCost, ...]:
    from busbw.parsers import articles, cost

    def priced(name: str, capital: float, on: int, months: float, caution: str) -> FabricCost:
        full = cost.fabric_per_gpu_hour(capital, on, months)
        return FabricCost(
            name,
            capital,
            cost.fabric_per_gpu_hour(capital, on, months, args.utilisation),
            full,
            caution,
        )

    own = (
        ()
        if args.capital is None
        else (priced("this fabric", args.capital, gpus, args.months, "given by --capital"),)
    )
    bills = tuple(
        priced(bill.name, bill.capital, articles.BILL_GPUS, articles.BILL_MONTHS, bill.caution)
        for bill in articles.BILLS
    )
    return own + bills


def _pays(premium: float | None, actual: Step | None, expected: Step | None) -> str:
    from busbw.parsers import cost

    if premium is None:
        return ""
    if actual is None or expected is None or actual is expected:
        return "whether the premium pays needs --busbw, --compute-s and the expected fabric"
    gain = actual.step_s / expected.step_s - 1
    verdict = "pays" if cost.pays_off(gain, premium) else "does not pay"
    return (
        f"a premium of {premium:.1%} {verdict}: the expected fabric gains {gain:.1%} of throughput"
    )


# What `busbw cost` prints.

if TYPE_CHECKING:
    from busbw.parsers.cost import Step


def answer_lines(answer: Answer) -> str:
    """All blocks of the answer."""
    blocks = [
        _time_lines(answer),
        _step(answer),
        _loss_lines(answer),
        _fabric_lines(answer),
        _choices(answer),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _seconds(value: float) -> str:
    return f"{value:9.2f} s" if value >= 0.1 else f"{value * 1e3:8.2f} ms"


def _time_lines(answer: Answer) -> list[str]:
    from busbw.parsers.cost import bytes_per_participant

    job, times = answer.job, answer.times
    head = (
        f"all-reduce of {job.parameters / 1e9:g} B parameters x {job.bytes_per_parameter:g} bytes ="
        f" {job.gradient_bytes / 1e9:g} GB"
    )
    lines = [f"{head} over {job.nodes} nodes x {job.gpus_per_node} GPUs"]
    nics = answer.nics
    if times.least_s is not None and nics is not None:
        sent = bytes_per_participant(job.gradient_bytes, job.nodes) / 1e9
        lines.append(
            f"  {_seconds(times.least_s)}  least: each node sends {sent:,.1f} GB over all of its"
            f" NICs, {nics.line_gb_s:g} GB/s"
        )
    if times.ring_s is not None and nics is not None:
        lines.append(
            f"  {_seconds(times.ring_s)}  as a ring at line rate, busbw {nics.line_gb_s:g} GB/s"
        )
    if times.measured_s is not None:
        lines.append(f"  {_seconds(times.measured_s)}  at the measured busbw")
    if times.expected_s is not None and times.expected_s != times.ring_s:
        lines.append(f"  {_seconds(times.expected_s)}  at the expected busbw")
    if times.one_nic_s is not None and nics is not None:
        lines.append(
            f"  {_seconds(times.one_nic_s)}  over one NIC: not this node's time, which has"
            f" {nics.count}"
        )
    lines.append(
        "  pure data parallelism; tensor and pipeline parallelism shard the gradients: give the"
        " parameters of one shard"
    )
    return lines


def _step(answer: Answer) -> list[str]:
    if answer.step is None:
        return ["step: unknown without --compute-s"]
    measured = answer.times.measured_s is not None
    lines = []
    if measured:
        lines.append(_one_step("step as measured", answer.step))
    if answer.expected_step is not None:
        lines.append(_one_step("step as expected", answer.expected_step))
    lines.append(
        f"  communication to compute {answer.step.ratio:.1%}: {answer.mark} (marks of Spheron's"
        " decision guide, 2026)"
    )
    if answer.pays:
        lines.append(f"  {answer.pays}")
    return lines


def _one_step(name: str, step: Step) -> str:
    return (
        f"{name}: {step.step_s:.2f} s, of which {step.exposed_s:.2f} s ({step.share:.1%}) wait for"
        " the network"
    )


def _loss_lines(answer: Answer) -> list[str]:
    loss = answer.loss
    if loss is None:
        return [answer.loss_from]
    lines = [
        f"lost: {loss.fraction:.1%} ({answer.loss_from}) of {loss.gpu_hours:,.0f} GPU-hours in"
        f" {answer.hours:g} hours, in two readings"
    ]
    for name, hours, cost in (
        ("time lost", loss.lost_gpu_hours, loss.lost_cost),
        ("work redone", loss.redone_gpu_hours, loss.redone_cost),
    ):
        money = "no price given" if cost is None else f"cost {cost:,.0f}"
        lines.append(f"  {name:<11} {hours:12,.0f} GPU-hours, {money}")
    lines.append(f"  redoing the work takes {loss.redone_days:.2f} days more")
    return lines


def _fabric_lines(answer: Answer) -> list[str]:
    from busbw.parsers.articles import BILL_GPUS, BILL_MONTHS, BILL_SOURCE

    used = f"{answer.utilisation:.0%} of the hours used"
    lines = [
        f"price of a fabric per GPU-hour with {used} (730 hours a month; no power, no cost of"
        " capital)"
    ]
    for fabric in answer.fabrics:
        line = (
            f"  {fabric.per_gpu_hour:6.2f}  {fabric.name}: {fabric.capital:,.0f}; {fabric.caution}"
        )
        if answer.utilisation != 1:
            line += f" ({fabric.per_gpu_hour_full:.2f} if every hour were used)"
        lines.append(line)
    lines.append(
        f"  published bills: {BILL_GPUS} GPUs over {BILL_MONTHS} months, dollars, {BILL_SOURCE}"
    )
    return lines


def _choices(answer: Answer) -> list[str]:
    lines = ["what published procedures would choose; they disagree, and none is followed here"]
    for choice in answer.choices:
        lines.append(f"  {choice.choice:<28} {choice.because}; {choice.source}")
    return lines
