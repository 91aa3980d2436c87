"""What `busbw cost` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw.cli.cost import Answer
    from busbw.parsers.judge.cost import Step


def answer(found: Answer) -> str:
    """The whole text."""
    blocks = [_times(found), _step(found), _loss(found), _fabrics(found), _choices(found)]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _seconds(value: float) -> str:
    return f"{value:9.2f} s" if value >= 0.1 else f"{value * 1e3:8.2f} ms"


def _times(found: Answer) -> list[str]:
    from busbw.parsers.judge.cost import bytes_per_participant

    job, times = found.job, found.times
    head = f"all-reduce of {job.parameters / 1e9:g} B parameters x {job.bytes_per_parameter:g} bytes = {job.gradient_bytes / 1e9:g} GB"
    lines = [f"{head} over {job.nodes} nodes x {job.gpus_per_node} GPUs"]
    nics = found.nics
    if times.least_s is not None and nics is not None:
        sent = bytes_per_participant(job.gradient_bytes, job.nodes) / 1e9
        lines.append(f"  {_seconds(times.least_s)}  least: each node sends {sent:,.1f} GB over all of its NICs, {nics.line_gb_s:g} GB/s")
    if times.ring_s is not None and nics is not None:
        lines.append(f"  {_seconds(times.ring_s)}  as a ring at line rate, busbw {nics.line_gb_s:g} GB/s")
    if times.measured_s is not None:
        lines.append(f"  {_seconds(times.measured_s)}  at the measured busbw")
    if times.expected_s is not None and times.expected_s != times.ring_s:
        lines.append(f"  {_seconds(times.expected_s)}  at the expected busbw")
    if times.one_nic_s is not None and nics is not None:
        lines.append(f"  {_seconds(times.one_nic_s)}  over one NIC: not this node's time, which has {nics.count}")
    lines.append("  pure data parallelism; tensor and pipeline parallelism shard the gradients: give the parameters of one shard")
    return lines


def _step(found: Answer) -> list[str]:
    if found.step is None:
        return ["step: unknown without --compute-s"]
    measured = found.times.measured_s is not None
    lines = [_one_step("step as measured" if measured else "step as expected", found.step)]
    if measured and found.expected_step is not None:
        lines.append(_one_step("step as expected", found.expected_step))
    lines.append(f"  communication to compute {found.step.ratio:.1%}: {found.mark} (marks of Spheron's decision guide, 2026)")
    if found.pays:
        lines.append(f"  {found.pays}")
    return lines


def _one_step(name: str, step: Step) -> str:
    return f"{name}: {step.step_s:.2f} s, of which {step.exposed_s:.2f} s ({step.share:.1%}) wait for the network"


def _loss(found: Answer) -> list[str]:
    loss = found.loss
    if loss is None:
        return [found.loss_from]
    lines = [f"lost: {loss.fraction:.1%} ({found.loss_from}) of {loss.gpu_hours:,.0f} GPU-hours in {found.hours:g} hours, in two readings"]
    for name, hours, cost in (
        ("time lost", loss.lost_gpu_hours, loss.lost_cost),
        ("work redone", loss.redone_gpu_hours, loss.redone_cost),
    ):
        money = "no price given" if cost is None else f"cost {cost:,.0f}"
        lines.append(f"  {name:<11} {hours:12,.0f} GPU-hours, {money}")
    lines.append(f"  redoing the work takes {loss.redone_days:.2f} days more")
    return lines


def _fabrics(found: Answer) -> list[str]:
    from busbw.parsers.judge.cost_articles import BILL_GPUS, BILL_MONTHS, BILL_SOURCE

    used = f"{found.utilisation:.0%} of the hours used"
    lines = [f"price of a fabric per GPU-hour with {used} (730 hours a month; no power, no cost of capital)"]
    for fabric in found.fabrics:
        full = "" if found.utilisation == 1 else f" ({fabric.per_gpu_hour_full:.2f} if every hour were used)"
        lines.append(f"  {fabric.per_gpu_hour:6.2f}  {fabric.name}: {fabric.capital:,.0f}; {fabric.caution}{full}")
    lines.append(f"  published bills: {BILL_GPUS} GPUs over {BILL_MONTHS} months, dollars, {BILL_SOURCE}")
    return lines


def _choices(found: Answer) -> list[str]:
    lines = ["what published procedures would choose; they disagree, and none is followed here"]
    for choice in found.choices:
        lines.append(f"  {choice.choice:<28} {choice.because}; {choice.source}")
    return lines
