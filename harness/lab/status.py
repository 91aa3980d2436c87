"""What there is to say about a lab: for people and for machines."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.lab import bringup, files, processes
from busbw.lab.state import LabState
from busbw.units import format_link_rate


@dataclass(frozen=True, slots=True)
class LabStatus:
    """The record of a lab and what is seen of it now."""

    state: LabState
    running: bool
    """True = it was made whole and still runs."""
    without_sshd: tuple[str, ...]
    """Nodes whose sshd has ended."""
    ssh_config: str


def look(state: LabState) -> LabStatus:
    """Look at the lab's processes."""
    without = tuple(node.name for node in state.nodes if not processes.alive(node.init))
    return LabStatus(state, bringup.is_up(state), without, str(files.ssh_config(state)))


def text(state: LabState) -> str:
    """The status for people."""
    seen = look(state)
    first = state.nodes[0]
    last = state.nodes[-1]
    running = "up" if seen.running else "NOT RUNNING"
    lines = [
        (
            f"lab {state.name}: {running}, {len(state.nodes)} nodes, {state.mode.value} mode, in"
            f" {state.directory}"
        ),
        (
            f"  nodes      {first.name} ({first.address}) to {last.name} ({last.address}),"
            f" {_ranks(state)}"
        ),
        (
            f"  rails      {', '.join(rail.interface for rail in first.rails)}:"
            f" {_told_rate(state.rate_bit_s)}"
        ),
    ]
    if state.persona is not None:
        lines.append(
            f"  shows      {state.persona.title} per node (invented: persona {state.persona.name})"
        )
    if state.slurm:
        lines.append(
            "  slurm      srun, salloc and sbatch on every node and in busbw lab exec;"
            " partition lab"
        )
    if state.leaves > 1:
        lines.append(f"  leaves     {state.leaves}, uplinks: {_told_rate(state.uplink_rate_bit_s)}")
    lines.append(f"  ssh        busbw lab exec -- ssh -F {seen.ssh_config} {first.name}")
    if seen.without_sshd:
        lines.append(f"  no sshd    {', '.join(seen.without_sshd)}")
    lines += [f"  fault      {fault.target}: {fault.kind} {fault.detail}" for fault in state.faults]
    lines += [f"  cannot     {what}" for what in state.cannot]
    if not seen.running:
        lines.append(f"  next       busbw lab down --name {state.name}")
    return "\n".join(lines) + "\n"


def _ranks(state: LabState) -> str:
    return (
        f"{state.gpus} emulated GPUs each"
        if state.persona is None
        else f"a benchmark starts {state.gpus} ranks on each"
    )


def _told_rate(rate_bit_s: float | None) -> str:
    return "not shaped" if rate_bit_s is None else f"{format_link_rate(rate_bit_s)} each way"
