"""What carries MPI's own traffic: the command lines for HPC-X and Open MPI 4 and 5, with ob1 and
with UCX, literally."""

from __future__ import annotations

import dataclasses
import itertools
import shlex

import pytest

from busbw import playbook
from busbw.cli.run import PMLS
from busbw.fabrics import fabric as profile
from busbw.launch import FabricFacts, LaunchRequest, Mpi, MpiFacts, SlurmFacts, choose
from busbw.launch import env as pml
from busbw.launch.env import mpi_options, resolve_env
from busbw.launch.mpirun import LAUNCHER
from busbw.model import BenchmarkCase, Collective, Node, ResolvedVar, Sizes

CASE = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(8, 8 << 30), check=0)
NODES = (Node("gpu-001", gpus=8), Node("gpu-002", gpus=8))
HPCX = MpiFacts("4.1.7a1", "/opt/hpcx/ompi/bin/mpirun")
HPCX5 = MpiFacts("5.0.8", "/opt/hpcx/ompi/bin/mpirun", run_as_root=True)
NET = ResolvedVar("NCCL_NET", "IB", "profile infiniband", "no silent TCP")
BOND = FabricFacts("bond0")


def line(
    chosen: str | None,
    mpi: MpiFacts,
    facts: FabricFacts = BOND,
    env: tuple[ResolvedVar, ...] = (NET,),
    fabric: str = "infiniband",
) -> str:
    request = LaunchRequest(
        case=CASE,
        nodes=NODES,
        head="gpu-001",
        binary="/opt/build/all_reduce_perf",
        env=pml.ucx_variables(chosen, env, facts, mpi.path),
        mpi=mpi,
        options=pml.options(chosen, mpi_options(profile.load(fabric), facts)),
    )
    return shlex.join(LAUNCHER.build(request).argv)


PLACES = "-np 16 -H gpu-001:8,gpu-002:8 --map-by ppr:8:node --rank-by slot --bind-to none"
SIZES = "/opt/build/all_reduce_perf -b 8 -e 8G -f 2 -g 1 -n 20 -w 5 -c 0 -z 0"
OB1_4 = (
    "--mca plm_rsh_agent ssh --mca plm_rsh_no_tree_spawn 1 --mca pml ob1 --mca btl"
    " '^openib,ofi,uct,usnic' --mca coll_hcoll_enable 0 --mca btl_tcp_if_include bond0 --mca"
    " oob_tcp_if_include bond0"
)
OB1_5 = (
    "--prtemca plm_ssh_agent ssh --prtemca plm_ssh_no_tree_spawn 1 --mca pml ob1 --mca btl"
    " '^openib,ofi,uct,usnic' --mca coll_hcoll_enable 0 --mca btl_tcp_if_include bond0 --prtemca"
    " prte_if_include bond0"
)
ANY = "--mca pml ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any"
UCX_4, UCX_5 = OB1_4.replace("--mca pml ob1", ANY), OB1_5.replace("--mca pml ob1", ANY)
TCP = "-x UCX_TLS=tcp,self,sm -x UCX_NET_DEVICES=bond0"
LIBRARIES = "-x LD_LIBRARY_PATH=/opt/hpcx/ucx/lib:/opt/hpcx/ucx/lib/ucx:/opt/hpcx/ompi/lib"


@pytest.mark.parametrize(
    ("chosen", "mpi", "expected"),
    [
        (None, HPCX, f"/opt/hpcx/ompi/bin/mpirun {PLACES} {OB1_4} -x NCCL_NET=IB {SIZES}"),
        ("ob1", HPCX, f"/opt/hpcx/ompi/bin/mpirun {PLACES} {OB1_4} -x NCCL_NET=IB {SIZES}"),
        (
            "ucx",
            HPCX,
            f"/opt/hpcx/ompi/bin/mpirun {PLACES} {UCX_4} -x NCCL_NET=IB {TCP} {LIBRARIES} {SIZES}",
        ),
        (
            None,
            HPCX5,
            (
                f"/opt/hpcx/ompi/bin/mpirun --allow-run-as-root {PLACES} {OB1_5} -x NCCL_NET=IB"
                f" {SIZES}"
            ),
        ),
        (
            "ucx",
            HPCX5,
            (
                f"/opt/hpcx/ompi/bin/mpirun --allow-run-as-root {PLACES} {UCX_5} -x NCCL_NET=IB"
                f" {TCP} {LIBRARIES} {SIZES}"
            ),
        ),
        (
            "ucx",
            MpiFacts("4.1.4", "/usr/bin/mpirun"),
            f"/usr/bin/mpirun {PLACES} {UCX_4} -x NCCL_NET=IB {TCP} {SIZES}",
        ),
        (
            "ucx",
            MpiFacts("5.0.11", "/opt/openmpi/bin/mpirun"),
            f"/opt/openmpi/bin/mpirun {PLACES} {UCX_5} -x NCCL_NET=IB {TCP} {SIZES}",
        ),
    ],
    ids=[
        "HPC-X",
        "HPC-X ob1",
        "HPC-X UCX",
        "HPC-X with Open MPI 5",
        "HPC-X with Open MPI 5 UCX",
        "Open MPI 4 UCX",
        "Open MPI 5 UCX",
    ],
)
def test_the_command_line(chosen: str | None, mpi: MpiFacts, expected: str) -> None:
    assert line(chosen, mpi) == expected


def test_what_the_user_or_the_profile_sets_for_ucx_wins() -> None:
    mine = (
        NET,
        ResolvedVar("UCX_TLS", "rc,self,sm", "--env", ""),
        ResolvedVar("UCX_NET_DEVICES", "mlx5_0:1", "--env", ""),
    )
    text = line("ucx", MpiFacts("4.1.4", "/usr/bin/mpirun"), env=mine)
    assert "-x NCCL_NET=IB -x UCX_TLS=rc,self,sm -x UCX_NET_DEVICES=mlx5_0:1 /opt/build" in text


def test_where_no_interface_has_the_same_name_on_all_nodes_ucx_chooses_among_those_of_tcp() -> None:
    text = line("ucx", MpiFacts("4.1.4", "/usr/bin/mpirun"), FabricFacts())
    assert "-x UCX_TLS=tcp,self,sm /opt/build" in text
    assert "UCX_NET_DEVICES" not in text


def test_a_profile_that_names_no_engine_takes_the_one_that_is_asked_for() -> None:
    assert [option.name for option in profile.load("lab").mpi if option.name == "pml"] == []
    assert "--mca pml ob1 --mca btl tcp,self" in line("ob1", HPCX, fabric="lab")


def test_the_command_line_offers_the_engines_there_are() -> None:
    assert PMLS == pml.CHOICES


OPEN_MPI = [name for name, each in choose.launchers().items() if each.mpi is Mpi.OPEN_MPI]


@pytest.mark.parametrize("name", profile.names())
def test_no_parameter_and_no_variable_stands_twice_in_any_command_line(name: str) -> None:
    facts = FabricFacts("bond0", ("mlx5_0", "mlx5_1"), "2.27.5", "/tmp/log")
    fabric = profile.load(name)
    book = dataclasses.replace(playbook.load("quick"), env=())
    slurm = SlurmFacts("7", tuple(node.name for node in NODES), "pmix")
    for chosen, version, launcher in itertools.product(
        (None, *pml.CHOICES), ("3.1.6", "4.1.7", "5.0.8"), OPEN_MPI
    ):
        mpi = MpiFacts(version, "/opt/hpcx/ompi/bin/mpirun")
        env = pml.ucx_variables(chosen, resolve_env(fabric, book, CASE, (), facts), facts, mpi.path)
        options = pml.options(chosen, mpi_options(fabric, facts))
        request = LaunchRequest(
            CASE, NODES, "gpu-001", "/opt/all_reduce_perf", env, mpi, options, slurm=slurm
        )
        argv = choose.choose(launcher).build(request).argv
        parameters = [
            word for flag, word in itertools.pairwise(argv) if flag in ("--mca", "--prtemca")
        ]
        variables = [
            word.partition("=")[0] for flag, word in itertools.pairwise(argv) if flag == "-x"
        ]
        before = (
            [word.partition("=")[0] for word in argv[1 : argv.index("srun")]]
            if "srun" in argv
            else []
        )
        exported = [
            word
            for arg in argv
            if arg.startswith("--export=")
            for word in arg.removeprefix("--export=").split(",")
        ]
        for words in (parameters, variables, before, exported):
            assert len(words) == len(set(words)), (launcher, version, chosen, words)
        assert ("pml" in parameters or "OMPI_MCA_pml" in before) is (
            chosen is not None or any(o.name == "pml" for o in fabric.mpi)
        )
