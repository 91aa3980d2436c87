"""The nodes of the Slurm allocation this process runs in, from its environment alone: no Slurm
command is started.

Written against the output environment of salloc and sbatch, Slurm 22.05 (`SLURM_JOB_NODELIST`,
older `SLURM_NODELIST`).
"""

from __future__ import annotations

from collections.abc import Mapping

from busbw.inventory.hostlist import expand, fold
from busbw.model import Cluster, Node


def read(environ: Mapping[str, str]) -> Cluster | None:
    """The allocation's nodes; None = this is not inside one.

    Raises:
        InventoryError: the variable is there and cannot be read.
    """
    for variable in ("SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        text = environ.get(variable, "").strip()
        if text:
            names = expand(text)
            job = environ.get("SLURM_JOB_ID", "").strip()
            source = f"{variable}={fold(names)}" + (f" (Slurm job {job})" if job else "")
            note = f"no nodes were given: the {len(names)} nodes of this Slurm allocation are used"
            return Cluster(
                nodes=tuple(Node(name) for name in names),
                head=names[0],
                source=source,
                notes=(note,),
            )
    return None
