"""What a fabric costs a job, computed from the options of `busbw cost`: times, step, loss, fabrics, and
what published procedures would choose."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.cli.options import require_positive
from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.parsers.articles import Choice
    from busbw.parsers.cost import Job, Loss, Step
    from busbw.parsers.expect.hardware import Nics


_COUNT = re.compile(r"^\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([kmbtKMBT]?)\s*$")
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


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
