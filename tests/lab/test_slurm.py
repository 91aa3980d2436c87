"""A real Slurm in the lab: srun, salloc and sbatch over namespaces, and what busbw does with
them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.errors import LabError
from busbw.lab import processes
from busbw.lab.state import LabState, Mode
from busbw.triage import slurm_job

pytestmark = [pytest.mark.lab, pytest.mark.slurm]


def test_srun_reaches_every_node_from_the_head_and_from_a_node(
    slurm3: LabState, in_head: Callable, on_node: Callable
) -> None:  # type: ignore[type-arg]
    everywhere = "srun --immediate=20 -N3 --ntasks-per-node=2 hostname"
    requested = sorted(["node1", "node2", "node3"] * 2)
    assert sorted(in_head(slurm3, "sh", "-c", everywhere).out.split()) == requested
    assert sorted(on_node(slurm3, "node2", everywhere).out.split()) == requested


def test_srun_starts_mpi_ranks_by_pmix_in_the_order_given(
    slurm3: LabState, on_node: Callable, tmp_path: Path
) -> None:  # type: ignore[type-arg]
    source = tmp_path / "who.c"
    source.write_text(
        "#include <mpi.h>\n#include <stdio.h>\n#include <unistd.h>\nint main(int c, char **v) { int"
        " r, n; char h[64]; MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD,"
        ' &r);\nMPI_Comm_size(MPI_COMM_WORLD, &n); gethostname(h, 64); printf("%d/%d %s\\n", r, n,'
        " h); return MPI_Finalize(); }\n"
    )
    for node in slurm3.nodes:
        program = slurm3.path / "nodes" / node.name / "home/who"
        subprocess.run(("mpicc", "-o", str(program), str(source)), check=True, timeout=400)
    ran = on_node(
        slurm3,
        "node1",
        "srun --immediate=20 --mpi=pmix -m arbitrary -w node3,node1,node3,node2 -n4 ./who",
    )
    assert sorted(ran.out.splitlines()) == ["0/4 node3", "1/4 node1", "2/4 node3", "3/4 node2"], ran


def test_a_job_names_its_nodes_for_a_triage(slurm3: LabState, in_head: Callable) -> None:  # type: ignore[type-arg]
    made = in_head(
        slurm3, "salloc", "--no-shell", "-N2", "-w", "node[2-3]", "--immediate=20", "-t", "1"
    )
    job = made.err.split("allocation ")[1].split()[0]
    try:
        shown = in_head(slurm3, "scontrol", "show", "job", "-o", job).out
        found = slurm_job._NODES.search(shown)
        assert found is not None
        assert found[1] == "node[2-3]"
    finally:
        in_head(slurm3, "scancel", job)
    idle = lambda: in_head(slurm3, "squeue", "--noheader").out == ""  # noqa: E731
    processes.wait_until(idle, 20, "the end of the allocation")


def test_a_lab_without_namespaces_refuses_a_slurm(lab_factory: Callable) -> None:  # type: ignore[type-arg]
    with pytest.raises(LabError) as refused:
        lab_factory(nodes=2, mode=Mode.LOOPBACK, slurm=True)
    assert refused.value.what in (
        "this lab cannot have a Slurm",
        "the lab needs programs that are not installed",
    )
