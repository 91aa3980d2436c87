"""The command lines of srun, of mpirun inside an allocation and of salloc, literally."""

from __future__ import annotations

import dataclasses
import shlex

import pytest

from busbw.errors import UsageError
from busbw.fabrics import fabric
from busbw.launch import (
    FabricFacts,
    Launcher,
    LaunchRequest,
    Mpi,
    MpiFacts,
    SlurmFacts,
    choose,
    slurm_mpirun,
    srun,
)
from busbw.launch.env import mpi_options
from busbw.launch.render import render
from busbw.model import BenchmarkCase, Collective, Invocation, Node, ResolvedVar, Sizes

CASE = BenchmarkCase(
    "all-reduce", Collective.ALL_REDUCE, Sizes(8, 8 << 30), check=0, timeout_s=1200.0
)
HCAS = ResolvedVar(
    "NCCL_IB_HCA", "=mlx5_0,mlx5_1", "profile infiniband", "the compute rails", "NCCL user guide"
)
REQUEST = LaunchRequest(
    case=CASE,
    nodes=(Node("gpu-001", gpus=8), Node("gpu-002", gpus=8)),
    head="gpu-001",
    binary="/opt/build/all_reduce_perf",
    env=(HCAS,),
    mpi=MpiFacts("4.1.4", "/usr/bin/mpirun"),
    options=mpi_options(fabric.load("infiniband"), FabricFacts("bond0")),
    json_path="/run/out.json",
    slurm=SlurmFacts("8812", ("gpu-001", "gpu-002", "gpu-003"), "pmix_v4"),
)
ARGUMENTS = (
    "-b",
    "8",
    "-e",
    "8G",
    "-f",
    "2",
    "-g",
    "1",
    "-n",
    "20",
    "-w",
    "5",
    "-c",
    "0",
    "-z",
    "0",
    "-J",
    "/run/out.json",
)


def test_the_command_line_of_srun_passes_every_variable_by_name() -> None:
    assert srun.LAUNCHER.build(REQUEST) == Invocation(
        case_id="all-reduce",
        argv=(
            *(
                "env",
                "OMPI_MCA_pml=ob1",
                "OMPI_MCA_btl=^openib,ofi,uct,usnic",
                "OMPI_MCA_coll_hcoll_enable=0",
            ),
            *("OMPI_MCA_btl_tcp_if_include=bond0", "NCCL_IB_HCA==mlx5_0,mlx5_1"),
            *(
                "srun",
                "--jobid=8812",
                "--overlap",
                "--mpi=pmix_v4",
                "--nodes=2",
                "--ntasks=16",
                "--ntasks-per-node=8",
            ),
            *(
                "--nodelist=gpu-[001-002]",
                "--distribution=block",
                "--cpu-bind=none",
                "--mem=0",
                "--kill-on-bad-exit=1",
            ),
            *("--immediate=60", "--chdir=/"),
            "--export=HOME,PATH,LD_LIBRARY_PATH,USER,OMPI_MCA_pml,OMPI_MCA_btl,OMPI_MCA_coll_hcoll_enable,OMPI_MCA_btl_tcp_if_include,NCCL_IB_HCA",
            *("/opt/build/all_reduce_perf", *ARGUMENTS),
        ),
        env=(HCAS,),
        nodes=("gpu-001", "gpu-002"),
        timeout_s=1200.0,
        nranks=16,
    )


def test_mpirun_in_an_allocation_is_told_of_it_and_needs_no_ssh() -> None:
    assert slurm_mpirun.LAUNCHER.build(REQUEST).argv == (
        *(
            "env",
            "SLURM_JOB_ID=8812",
            "SLURM_JOBID=8812",
            "SLURM_JOB_NODELIST=gpu-[001-002]",
            "SLURM_NODELIST=gpu-[001-002]",
        ),
        *(
            "SLURM_JOB_NUM_NODES=2",
            "SLURM_NNODES=2",
            "SLURM_TASKS_PER_NODE=8(x2)",
            "SLURM_JOB_CPUS_PER_NODE=8(x2)",
        ),
        *(
            "/usr/bin/mpirun",
            "-np",
            "16",
            "-H",
            "gpu-001:8,gpu-002:8",
            "--map-by",
            "ppr:8:node",
            "--rank-by",
            "slot",
        ),
        *(
            "--bind-to",
            "none",
            "--mca",
            "plm",
            "slurm",
            "--mca",
            "pml",
            "ob1",
            "--mca",
            "btl",
            "^openib,ofi,uct,usnic",
        ),
        *(
            "--mca",
            "coll_hcoll_enable",
            "0",
            "--mca",
            "btl_tcp_if_include",
            "bond0",
            "--mca",
            "oob_tcp_if_include",
            "bond0",
        ),
        *("-x", "NCCL_IB_HCA==mlx5_0,mlx5_1", "/opt/build/all_reduce_perf", *ARGUMENTS),
    )


def test_mpirun_5_in_an_allocation_gives_the_runtime_its_own_parameter() -> None:
    argv = slurm_mpirun.LAUNCHER.build(
        dataclasses.replace(REQUEST, mpi=MpiFacts("5.0.11", "/opt/bin/mpirun", run_as_root=True))
    ).argv
    assert argv[9:12] == ("/opt/bin/mpirun", "--allow-run-as-root", "-np")
    assert shlex.join(argv).count("--prtemca plm slurm ") == 1
    assert "--mca plm" not in shlex.join(argv)


@pytest.mark.parametrize(
    ("order", "by_rail", "placement"),
    [
        (
            "abc",
            False,
            "--nodes=3 --ntasks=6 --ntasks-per-node=2 '--nodelist=a,b,c' --distribution=block",
        ),
        (
            "abc",
            True,
            "--nodes=3 --ntasks=6 --ntasks-per-node=2 '--nodelist=a,b,c' --distribution=cyclic",
        ),
        ("ca", False, "--nodes=2 --ntasks=4 '--nodelist=c,c,a,a' --distribution=arbitrary"),
        ("ca", True, "--nodes=2 --ntasks=4 '--nodelist=c,a,c,a' --distribution=arbitrary"),
    ],
)
def test_srun_keeps_the_order_asked_for_also_where_slurm_has_another(
    order: str, by_rail: bool, placement: str
) -> None:
    request = dataclasses.replace(
        REQUEST,
        case=dataclasses.replace(CASE, by_rail=by_rail),
        nodes=tuple(Node(name, gpus=2) for name in order),
        slurm=SlurmFacts("1", ("a", "b", "c"), "pmix"),
    )
    assert placement.replace("'", "") in " ".join(srun.LAUNCHER.build(request).argv)


def test_mpirun_in_an_allocation_places_rank_by_rank_where_slurm_has_another_order() -> None:
    request = dataclasses.replace(
        REQUEST,
        nodes=tuple(Node(name, gpus=2) for name in "ca"),
        head="c",
        slurm=SlurmFacts("1", ("a", "b", "c"), None),
    )
    argv = " ".join(slurm_mpirun.LAUNCHER.build(request).argv)
    assert "SLURM_NODELIST=a,c" in argv
    assert "-H c,c,a,a --map-by seq" in argv


def test_every_variable_and_parameter_is_told_with_its_reason() -> None:
    text = render(srun.LAUNCHER.build(REQUEST), REQUEST.options)
    assert (
        "# NCCL_IB_HCA==mlx5_0,mlx5_1  from profile infiniband: the compute rails [NCCL user guide]"
        in text
    )
    assert any(line.startswith("# pml=ob1  ") for line in text.splitlines())
    assert "\n  --overlap \\\n" in text


@pytest.mark.parametrize(
    "launcher", [srun.LAUNCHER, slurm_mpirun.LAUNCHER], ids=lambda launcher: launcher.name
)
def test_without_an_allocation_or_outside_it_nothing_is_launched(launcher: Launcher) -> None:
    with pytest.raises(UsageError, match="not inside a Slurm allocation"):
        launcher.build(dataclasses.replace(REQUEST, slurm=None))
    with pytest.raises(UsageError, match="gpu-002 not in Slurm job 7"):
        launcher.build(dataclasses.replace(REQUEST, slurm=SlurmFacts("7", ("gpu-001",), "pmix")))


def test_srun_without_a_plugin_for_open_mpi_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError) as refused:
        srun.LAUNCHER.build(
            dataclasses.replace(REQUEST, slurm=SlurmFacts("7", ("gpu-001", "gpu-002"), None))
        )
    assert refused.value.next_step == "--launcher slurm-mpirun, or name the plugin with --mpi"


def test_a_parameter_with_two_values_is_refused_by_every_launcher() -> None:
    first = REQUEST.options[0]
    request = dataclasses.replace(REQUEST, options=(first, dataclasses.replace(first, value="ucx")))
    open_mpi = [name for name, each in choose.launchers().items() if each.mpi is Mpi.OPEN_MPI]
    for name in open_mpi:
        with pytest.raises(UsageError, match="MCA parameter pml is given twice"):
            choose.choose(name).build(request)


@pytest.mark.parametrize(
    ("text", "plugin"),
    [
        (
            (
                "MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\nspecific pmix"
                " plugin versions available: pmix_v4\n"
            ),
            "pmix",
        ),
        ("MPI plugin types are...\n\tcray_shasta\n\tnone\n\tpmi2\n", "pmi2"),
        (
            (
                "srun: MPI types are...\nsrun: openmpi\nsrun: pmi2\nsrun: pmix_v2\nsrun:"
                " pmix_v11\nsrun: none\n"
            ),
            "pmix_v11",
        ),
        ("srun: MPI types are...\nsrun: none\n", None),
        ("sh: 1: srun: not found\n", None),
    ],
)
def test_the_plugin_is_the_best_that_slurm_names(text: str, plugin: str | None) -> None:
    assert srun.plugin(text) == plugin


def test_salloc_asks_for_whole_nodes_and_runs_the_command_inside() -> None:
    asked = ("--partition=gpu", "--time=30", "--account=x")
    assert srun.salloc(asked, (), 4, ("busbw", "run", "-q")) == (
        *(
            "salloc",
            "--job-name=busbw",
            "--exclusive",
            "--nodes=4",
            "--partition=gpu",
            "--time=30",
            "--account=x",
            "busbw",
            "run",
            "-q",
        ),
    )
    with pytest.raises(UsageError, match="how many nodes"):
        srun.salloc(asked, (), None, ("busbw",))
    with pytest.raises(UsageError, match="--node-count 3 and 2 nodes named"):
        srun.salloc(asked, ("a", "b"), 3, ("busbw",))
