"""Slurm's srun: the command line for a step of an allocation. Written against 22.05, run here;
options that 20.11 and later have.

MCA parameters of the ranks travel as OMPI_MCA_ variables; those of mpirun's daemons have no meaning
here. All variables stand before `srun` and are passed on by name, for the list of `--export` knows
no quoting: `NCCL_IB_HCA=mlx5_0,mlx5_1` would end at its comma.
"""

from __future__ import annotations

import re

from busbw.errors import UsageError
from busbw.inventory.hostlist import fold
from busbw.launch import Launcher, LaunchRequest, SlurmFacts, placing
from busbw.launch.nccl_tests import arguments
from busbw.model import Invocation

ASK_PLUGINS = ("srun", "--mpi=list")
FROM_THE_HEAD = ("HOME", "PATH", "LD_LIBRARY_PATH", "USER")
"""What a rank gets of the head's environment beside the launch's own variables: as little as an ssh
login would give it."""
START_S = 60
"""How long a step may wait for its nodes: they are in the allocation, so that a longer wait means
another step holds them."""
_MOST_BYTES = 120_000
"""Linux takes no argument longer than 128 KiB."""


def build(request: LaunchRequest) -> Invocation:
    """The complete srun command line.

    Raises:
        UsageError: no allocation, no plugin for MPI, nodes outside the allocation, or as
        `placing` says.
    """
    case = request.case
    names = placing.names(request)
    ranks = placing.ranks_per_node(request)
    slurm = allocation(request, names)
    if slurm.mpi is None:
        raise UsageError(
            "Slurm has no plugin that starts Open MPI's ranks",
            seen="srun --mpi=list names neither pmix nor pmi2",
            next_step="--launcher slurm-mpirun, or name the plugin with --mpi",
        )
    variables = {
        f"OMPI_MCA_{option.name}": option.value
        for option in placing.options(request)
        if not option.runtime
    }
    variables.update((variable.name, variable.value) for variable in request.env)
    passed = dict.fromkeys((*FROM_THE_HEAD, *variables))
    argv = [
        "env",
        *(f"{name}={value}" for name, value in variables.items()),
        "srun",
        f"--jobid={slurm.job}",
        "--overlap",
    ]
    argv += [
        f"--mpi={slurm.mpi}",
        *_placement(names, ranks, slurm, by_rail=case.by_rail),
        "--cpu-bind=none",
        "--mem=0",
    ]
    argv += [
        "--kill-on-bad-exit=1",
        f"--immediate={START_S}",
        "--chdir=/",
        f"--export={','.join(passed)}",
    ]
    argv += [*placing.program(request), *arguments(case, request.json_path)]
    return placing.invocation(request, argv, ranks)


def allocation(request: LaunchRequest, names: tuple[str, ...]) -> SlurmFacts:
    """The allocation, with all of `names` in it.

    Raises:
        UsageError: there is none, or a node is outside it.
    """
    slurm = request.slurm
    if slurm is None:
        raise UsageError(
            f"case {request.case.id}: not inside a Slurm allocation",
            seen="no job id",
            next_step=(
                "start busbw inside salloc or sbatch, or add --partition and --time: it then asks"
                " for an allocation itself"
            ),
        )
    outside = set(names) - set(slurm.nodes)
    if outside:
        raise UsageError(
            f"case {request.case.id}: {fold(outside)} not in Slurm job {slurm.job}",
            seen=f"its nodes: {fold(slurm.nodes)}",
            next_step=f"leave them out with -x, or ask for an allocation with -w {fold(names)}",
        )
    return slurm


def in_slurms_order(names: tuple[str, ...], slurm: SlurmFacts) -> bool:
    """Whether the nodes stand as Slurm would number them."""
    requested = set(names)
    return names == tuple(name for name in slurm.nodes if name in requested)


def plugin(text: str) -> str | None:
    """The plugin for Open MPI of those that `srun --mpi=list` names: pmix, its newest version, or
    pmi2; None = none of them.

    >>> plugin("MPI plugin types are...\\n\\tpmix\\n\\tnone\\n\\tpmi2\\nspecific pmix plugin versions available: pmix_v4\\n")
    'pmix'
    >>> plugin("srun: MPI types are...\\nsrun: pmix_v3\\nsrun: pmix_v2\\nsrun: pmi2\\n"), plugin("srun: MPI types are...\\nsrun: none\\n")
    ('pmix_v3', None)
    """
    listed = text.replace("specific pmix plugin", "specific plugin")
    if re.search(r"\bpmix\b", listed):
        return "pmix"
    if versions := re.findall(r"\bpmix_v(\d+)\b", listed):
        return f"pmix_v{max(versions, key=int)}"
    return "pmi2" if re.search(r"\bpmi2\b", listed) else None


def _placement(
    names: tuple[str, ...], ranks: int, slurm: SlurmFacts, *, by_rail: bool
) -> list[str]:
    """Block (node by node) and cyclic (round the nodes) follow Slurm's own order of the nodes; any
    other order is given rank by rank."""
    count = [f"--nodes={len(names)}", f"--ntasks={len(names) * ranks}"]
    if in_slurms_order(names, slurm):
        return [
            *count,
            f"--ntasks-per-node={ranks}",
            f"--nodelist={fold(names)}",
            f"--distribution={'cyclic' if by_rail else 'block'}",
        ]
    by_rank = names * ranks if by_rail else tuple(name for name in names for _ in range(ranks))
    listed = ",".join(by_rank)
    if len(listed) > _MOST_BYTES:
        raise UsageError(
            f"{len(by_rank)} ranks in another order than Slurm's do not fit into a command line",
            next_step="name fewer nodes with -w",
        )
    return [*count, f"--nodelist={listed}", "--distribution=arbitrary"]


LAUNCHER = Launcher(
    "srun",
    "a step of a Slurm allocation",
    build,
    in_allocation=True,
    option_words=(("--overlap", 0),),
)
