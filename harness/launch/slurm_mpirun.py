"""mpirun inside a Slurm allocation, whose daemons srun starts: no ssh between the nodes. Written
against Open MPI 4.1.4 and Slurm 22.05.

What `salloc` would set for a shell stands before `mpirun`: with these variables Open MPI knows the
allocation, wherever it is started.
"""

from __future__ import annotations

import dataclasses

from busbw.inventory.hostlist import fold
from busbw.launch import Launcher, LaunchRequest, placing
from busbw.launch.mpirun import compose
from busbw.launch.srun import allocation, in_slurms_order
from busbw.model import Invocation


def build(request: LaunchRequest) -> Invocation:
    """The complete command line.

    Raises:
        UsageError: no allocation, nodes outside it, or as `mpirun` says.
    """
    names = placing.names(request)
    slurm = allocation(request, names)
    requested = set(names)
    used = tuple(name for name in slurm.nodes if name in requested)
    tasks = f"{placing.ranks_per_node(request)}(x{len(used)})"
    variables = {
        "SLURM_JOB_ID": slurm.job,
        "SLURM_JOBID": slurm.job,
        "SLURM_JOB_NODELIST": fold(used),
        "SLURM_NODELIST": fold(used),
        "SLURM_JOB_NUM_NODES": str(len(used)),
        "SLURM_NNODES": str(len(used)),
        "SLURM_TASKS_PER_NODE": tasks,
        "SLURM_JOB_CPUS_PER_NODE": tasks,
    }
    plain = compose(request, (("plm", "slurm"),), in_order=in_slurms_order(names, slurm))
    argv = ("env", *(f"{name}={value}" for name, value in variables.items()), *plain.argv)
    return dataclasses.replace(plain, argv=argv)


LAUNCHER = Launcher(
    "slurm-mpirun", "Open MPI's mpirun, its daemons started by srun", build, in_allocation=True
)
