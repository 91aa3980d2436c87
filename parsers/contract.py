"""Acceptance: one number of a contract against the launches that measured it, and what all of them
come to.

A number counts as met or missed only where there are as many launches as the contract wants and its
limit does not lie inside the interval of the launches: between that, more launches decide, not a
word.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from busbw.model import Acceptance, CriterionResult, HardwareId, Limit, ProviderAnswer, Status
from busbw.parsers.stats import spread
from busbw.playbook.contract import Criterion
from busbw.units import format_bandwidth, format_size, format_time_us

MIN_LAUNCHES = 3
"""From two launches on there is an interval; from two alone it is so wide (12.7 standard errors)
that it would never decide."""
ACCEPTED, NOT_ACCEPTED, INCONCLUSIVE = "ACCEPTED", "NOT ACCEPTED", "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Launches:
    """What the launches of one case gave at one size."""

    values: tuple[float, ...]
    """GB/s or µs, one per launch; () = not measured."""
    nodes: int
    artefacts: tuple[str, ...]
    why_not: str = ""
    """Why there are no values."""


def criterion(
    term: Criterion, collective: str, launches: Launches, limit: Limit | None
) -> CriterionResult:
    """One number of the contract, judged."""
    promise = term.busbw_gb_s if term.busbw_gb_s is not None else term.time_us
    assert promise is not None
    faster_is_more = term.busbw_gb_s is not None
    measured = None
    if launches.values:
        # The quantile of a time counts from the other end: 0 is the worst launch for both.
        measured = spread.quantile(
            launches.values, term.quantile if faster_is_more else 1 - term.quantile
        )
    half = None
    if len(launches.values) >= MIN_LAUNCHES:
        half = spread.half_interval(launches.values)
    status, reason = _judged(term, promise, faster_is_more, measured, half, launches, limit)
    return CriterionResult(
        id=term.id,
        case_id=term.case,
        collective=collective,
        size_bytes=term.size,
        unit="GB/s" if faster_is_more else "µs",
        limit=promise,
        measured=measured,
        half_interval=half,
        launches=len(launches.values),
        nodes=launches.nodes if launches.values else 0,
        status=status,
        reason=reason,
        physical_limit=limit.value_gb_s if limit is not None and faster_is_more else None,
        artefacts=launches.artefacts,
        quantile=term.quantile,
    )


def _judged(
    term: Criterion,
    promise: float,
    faster_is_more: bool,
    measured: float | None,
    half: float | None,
    launches: Launches,
    limit: Limit | None,
) -> tuple[Status, str]:
    if faster_is_more and limit is not None and promise > limit.value_gb_s * 1.0005:
        why = (
            f"{format_bandwidth(promise)} is above the physical limit of"
            f" {format_bandwidth(limit.value_gb_s)} ({limit.formula})"
        )
        return (
            Status.UNKNOWN,
            (
                f"{why}: no cluster of this hardware can meet it; ask for node count, algorithm and"
                " unit of the number"
            ),
        )
    if measured is None:
        return Status.UNKNOWN, launches.why_not or "not measured"
    if faster_is_more and limit is not None and measured > limit.value_gb_s * 1.0005:
        why = f"measured above the physical limit of {format_bandwidth(limit.value_gb_s)}"
        return (
            Status.UNKNOWN,
            f"{why}: the description of the cluster is wrong, so nothing is accepted on it",
        )
    if len(launches.values) < term.trials:
        return (
            Status.UNKNOWN,
            f"{len(launches.values)} of {term.trials} launches that the contract wants",
        )
    if half is not None and abs(measured - promise) < half:
        return Status.UNKNOWN, f"{_WITHIN}: raise trials above {len(launches.values)}"
    met = measured >= promise if faster_is_more else measured <= promise
    share = measured / promise - 1
    return (Status.PASS if met else Status.FAIL), f"{share:+.1%} against the limit"


_WITHIN = "the limit lies within ±"
_REHEARSED = "; a rehearsal: emulated hosts accept nothing"


def is_rehearsal(acceptance: Acceptance) -> bool:
    """Every criterion was met, and only the hosts are not real."""
    return acceptance.summary.endswith(_REHEARSED)


def undecided(acceptance: Acceptance) -> tuple[CriterionResult, ...]:
    """The criteria whose limit lies within the scatter of their launches."""
    return tuple(each for each in acceptance.criteria if each.reason.startswith(_WITHIN))


def is_undecided(acceptance: Acceptance) -> bool:
    """Scatter alone leaves it open: everything was measured as the contract says."""
    open_ = (each for each in acceptance.criteria if each.status is Status.UNKNOWN)
    scattered = undecided(acceptance)
    return bool(scattered) and tuple(open_) == scattered and not acceptance.run_problem


def headline(acceptance: Acceptance) -> str:
    """The answer in one sentence: the word, the count, and what decided beside the contract."""
    return f"{acceptance.word}: {acceptance.summary}" + (
        f"; besides the contract: {acceptance.run_problem}" if acceptance.run_problem else ""
    )


def words(result: CriterionResult) -> str:
    """The number of a contract, as one reads it: `all_reduce at 8 GiB: at least 370.0 GB/s`."""
    limit = (
        f"at least {format_bandwidth(result.limit)}"
        if result.unit == "GB/s"
        else f"at most {format_time_us(result.limit)}"
    )
    return f"{result.collective} at {format_size(result.size_bytes)}: {limit}"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What decides beside the numbers, and what else the page says."""

    contract: str
    contract_nodes: int | None
    """Nodes that the contract is about; None = not said."""
    measured_nodes: int
    verdict: Status
    """Of the run with everything that is required besides the contract."""
    run_problem: str
    """What is wrong with the run; empty = nothing."""
    emulated: bool
    largest_bytes: int | None
    """Largest size that was measured over all nodes; None = none."""
    answers: tuple[ProviderAnswer, ...]
    hardware: tuple[HardwareId, ...]
    suspects: tuple[str, ...] = ()
    without_suspects: str = ""


def conclude(criteria: tuple[CriterionResult, ...], run: RunFacts) -> Acceptance:
    """Everything together.

    NOT ACCEPTED: a criterion is missed, or something that the playbook requires failed.
    INCONCLUSIVE: a criterion was not measured, fewer nodes were measured than the contract is
    about, or the run could not tell; and always on emulated hosts, which are a rehearsal.
    """
    failed = [each for each in criteria if each.status is Status.FAIL]
    open_ = [each for each in criteria if each.status not in (Status.PASS, Status.FAIL)]
    met = len(criteria) - len(failed) - len(open_)
    missing = sum(each.measured is None for each in open_)
    summary = f"{met} of {len(criteria)} criteria met"
    summary += f", {len(failed)} failed" if failed else ""
    summary += f", {missing} not measured" if missing else ""
    summary += f", {len(open_) - missing} undecided" if len(open_) > missing else ""
    if failed or run.verdict is Status.FAIL:
        word, status = NOT_ACCEPTED, Status.FAIL
    elif open_ or not criteria or run.verdict is Status.UNKNOWN:
        word, status = INCONCLUSIVE, Status.UNKNOWN
    elif run.contract_nodes is not None and run.measured_nodes < run.contract_nodes:
        word, status = INCONCLUSIVE, Status.UNKNOWN
        summary += f"; measured on {run.measured_nodes} of {run.contract_nodes} nodes"
    elif run.emulated:
        word, status = INCONCLUSIVE, Status.UNKNOWN
        summary += _REHEARSED
    else:
        word, status = ACCEPTED, Status.PASS
    run_problem = (
        run.run_problem if not failed and run.verdict in (Status.FAIL, Status.UNKNOWN) else ""
    )
    return Acceptance(
        word=word,
        status=status,
        summary=summary,
        contract=run.contract,
        criteria=criteria,
        answers=run.answers,
        not_measured=_not_measured(criteria, run),
        hardware=run.hardware,
        fingerprint=fingerprint(run.hardware),
        suspects=run.suspects,
        without_suspects=run.without_suspects,
        run_problem=run_problem,
    )


def fingerprint(hardware: tuple[HardwareId, ...]) -> str:
    """SHA-256 over the parts, whatever their order; empty = there is none.

    >>> parts = (HardwareId("n1", "GPU 0", "GPU-1"), HardwareId("n1", "mlx5_0", "b83f"))
    >>> fingerprint(parts) == fingerprint(parts[::-1]), len(fingerprint(parts)), fingerprint(())
    (True, 64, '')
    """
    if not hardware:
        return ""
    lines = sorted(f"{each.node} {each.part} {each.serial}\n" for each in hardware)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _not_measured(criteria: tuple[CriterionResult, ...], run: RunFacts) -> tuple[str, ...]:
    notes = []
    if run.contract_nodes is not None and run.measured_nodes < run.contract_nodes:
        notes.append(
            f"{run.contract_nodes} nodes: valid only for the {run.measured_nodes} measured"
        )
    elif run.contract_nodes is None:
        notes.append(f"more than {run.measured_nodes} nodes: the contract names no number of nodes")
    if run.largest_bytes is not None:
        notes.append(f"messages above {format_size(run.largest_bytes)}")
    return (*notes, *(f"{words(each)}: {each.reason}" for each in criteria if not each.launches))
