"""The Slurm allocation of a run: asked of Slurm on the head node before anything is launched
through it."""

from __future__ import annotations

import re

from busbw.errors import InventoryError, LaunchError
from busbw.inventory.hostlist import expand, fold
from busbw.launch import SlurmFacts, srun
from busbw.launch.choose import choose
from busbw.model import Command
from busbw.run.context import Context
from busbw.store import artefacts

_ASK_S = 30.0


def allocation(context: Context, head: str, nodes: tuple[str, ...]) -> SlurmFacts | None:
    """What the launcher has to know of the allocation; None = it needs none.

    Raises:
        LaunchError: there is no allocation, it does not run, or a node is outside it.
    """
    plan = context.plan
    if not choose(plan.cluster.launcher).in_allocation:
        return None
    if plan.slurm_job is None:
        raise LaunchError(
            f"launcher {plan.cluster.launcher} needs a Slurm allocation",
            seen="SLURM_JOB_ID is not set and neither --partition nor --time was given",
            next_step="start busbw inside salloc or sbatch, or add --partition and --time",
        )
    done = artefacts.load(context.run, "slurm.json", SlurmFacts)
    if done is not None and done.job == plan.slurm_job:
        return done
    facts = _ask(context, head, plan.slurm_job)
    outside = set(nodes) - set(facts.nodes)
    if outside:
        raise LaunchError(
            f"{fold(outside)} not in Slurm job {facts.job}",
            seen=f"its nodes: {fold(facts.nodes)}",
            next_step=f"-w {fold(set(nodes) - outside)}, or an allocation of all of them",
        )
    if done is not None:
        context.run.set_aside("slurm.json")
    artefacts.keep(context.run, "slurm.json", facts)
    context.progress(
        "slurm",
        f"job {facts.job} on {fold(facts.nodes)}; srun"
        f" --mpi={facts.mpi or 'none that Open MPI can use'}",
    )
    return facts


def _ask(context: Context, head: str, job: str) -> SlurmFacts:
    session = context.fleet.sessions[head]
    queued = session.run(
        Command(
            ("squeue", "--noheader", f"--jobs={job}", "--format=%T %N"),
            timeout_s=_ASK_S,
            label="squeue",
        )
    )
    state = queued.out().strip()
    match = re.fullmatch(r"RUNNING (\S+)", state)
    if not queued.ok or match is None:
        why = queued.problem or queued.err().strip() or state or f"exit status {queued.exit_status}"
        raise LaunchError(
            f"Slurm job {job} does not run",
            seen=f"squeue on {head}: {why}",
            next_step="ask for a new allocation and use --resume",
        )
    try:
        nodes = expand(match[1])
    except InventoryError as error:
        raise LaunchError(f"the nodes of Slurm job {job} cannot be read", seen=match[1]) from error
    if context.plan.mpi_plugin is not None:
        return SlurmFacts(job, nodes, context.plan.mpi_plugin)
    listed = session.run(Command(srun.ASK_PLUGINS, timeout_s=_ASK_S, label="srun-mpi"))
    return SlurmFacts(job, nodes, srun.plugin(listed.out() + listed.err()))
