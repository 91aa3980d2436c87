"""What `busbw cost` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from busbw.cli.cost_answer import Answer

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
