"""The command lines of all launchers, literally; what they refuse; how they are shown."""

from __future__ import annotations

import itertools
import shlex
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw import playbook
from busbw.checks.software import NodeFacts
from busbw.cli.run_options import PMLS
from busbw.errors import UsageError
from busbw.fabrics import profiles
from busbw.fabrics.profile import MpiOption
from busbw.launch import (
    FabricFacts,
    LaunchRequest,
    Mpi,
    MpiFacts,
    SlurmFacts,
    choose,
    env,
    pml,
    salloc,
    srun,
)
from busbw.launch.mpirun import NOISE, ssh_agent
from busbw.launch.nccl_tests import arguments
from busbw.launch.render import render
from busbw.model import BenchmarkCase, Collective, Invocation, Node, ResolvedVar, Sizes, UnsetVar
from busbw.parsers.tools.open_mpi import parse_version
from busbw.run.launching import mpi_of

CASE = BenchmarkCase(
    "all-reduce", Collective.ALL_REDUCE, Sizes(8, 8 << 30), check=0, timeout_s=1200.0
)
NODES = (Node("gpu-001", gpus=8), Node("gpu-002", gpus=8))
BOND = FabricFacts("bond0")
FOUR = MpiFacts("4.1.4", "/usr/bin/mpirun")
FIVE = MpiFacts("5.0.11", "/opt/openmpi/bin/mpirun", run_as_root=True)
HPCX = MpiFacts("4.1.7a1", "/opt/hpcx/ompi/bin/mpirun")
HPCX_5 = MpiFacts("5.0.8", "/opt/hpcx/ompi/bin/mpirun", run_as_root=True)
NET = ResolvedVar(
    "NCCL_NET",
    "IB",
    "profile infiniband",
    "no silent TCP",
    "NCCL user guide, https://docs.nvidia.com/x",
)
HCAS = ResolvedVar("NCCL_IB_HCA", "=mlx5_0,mlx5_1", "profile infiniband", "the rails", "guide")
REQUEST = LaunchRequest(
    case=CASE,
    nodes=NODES,
    head="gpu-001",
    binary="/opt/all_reduce_perf",
    env=(NET, HCAS),
    mpi=FOUR,
    options=env.mpi_options(profiles.load("infiniband"), BOND),
    json_path="/run/out.json",
    ssh_agent="ssh -F /run/ssh_config",
    slurm=SlurmFacts("8812", ("gpu-001", "gpu-002", "gpu-003"), "pmix_v4"),
)
LAUNCHERS = choose.launchers()
OPEN_MPI = [name for name, each in LAUNCHERS.items() if each.mpi is Mpi.OPEN_MPI]
MPIRUN = LAUNCHERS["mpirun"]

PLACES = "-np 16 -H gpu-001:8,gpu-002:8 --map-by ppr:8:node --rank-by slot --bind-to none"
SSH_4 = "--mca plm_rsh_agent 'ssh -F /run/ssh_config' --mca plm_rsh_no_tree_spawn 1"
SSH_5 = "--prtemca plm_ssh_agent 'ssh -F /run/ssh_config' --prtemca plm_ssh_no_tree_spawn 1"
REST = "--mca btl '^openib,ofi,uct,usnic' --mca coll_hcoll_enable 0 --mca coll_ucc_enable 0 --mca btl_tcp_if_include bond0"
OB1 = f"--mca pml ob1 {REST}"
UCX = f"--mca pml ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any {REST}"
OOB_4, OOB_5 = "--mca oob_tcp_if_include bond0", "--prtemca prte_if_include bond0"
ENV = "-x NCCL_NET=IB -x NCCL_IB_HCA==mlx5_0,mlx5_1"
TCP = "-x UCX_TLS=tcp,self,sm -x UCX_NET_DEVICES=bond0"
LIBRARIES = "-x LD_LIBRARY_PATH=/opt/hpcx/ucx/lib:/opt/hpcx/ucx/lib/ucx:/opt/hpcx/ompi/lib"
OPTIONS = "-b 8 -e 8G -f 2 -g 1 -n 20 -w 5 -c 0 -z 0"
PERF = f"/opt/all_reduce_perf {OPTIONS} -J /run/out.json"
ALLOCATION = (
    "env SLURM_JOB_ID=8812 SLURM_JOBID=8812 SLURM_JOB_NODELIST=gpu-[001-002]"
    " SLURM_NODELIST=gpu-[001-002] SLURM_JOB_NUM_NODES=2 SLURM_NNODES=2"
    " 'SLURM_TASKS_PER_NODE=8(x2)' 'SLURM_JOB_CPUS_PER_NODE=8(x2)'"
)
HYDRA = "env 'HYDRA_LAUNCHER_EXTRA_ARGS=-F /run/ssh_config' /usr/bin/mpirun -launcher ssh"
HYDRA_ENV = "-genvnone -genv NCCL_NET IB -genv NCCL_IB_HCA =mlx5_0,mlx5_1"
LAB = replace(
    REQUEST,
    nodes=(Node("node1", gpus=2), Node("node2", gpus=2)),
    head="node1",
    mpi=replace(FOUR, run_as_root=True),
    env=(),
    options=env.mpi_options(profiles.load("lab"), FabricFacts("eth0", ("eth0",))),
    json_path=None,
    ssh_agent=ssh_agent("/lab/ssh_config"),
)


def with_pml(
    chosen: str | None,
    mpi: MpiFacts,
    facts: FabricFacts = BOND,
    variables: tuple[ResolvedVar, ...] = REQUEST.env,
    profile: str = "infiniband",
) -> LaunchRequest:
    """A launch whose MPI uses that point-to-point layer."""
    options = pml.options(chosen, env.mpi_options(profiles.load(profile), facts))
    resolved = pml.ucx_variables(chosen, variables, facts, mpi.path)
    return replace(REQUEST, mpi=mpi, env=resolved, options=options)


GOLDEN: dict[str, tuple[str, LaunchRequest, str]] = {
    "Open MPI 4": (
        "mpirun",
        REQUEST,
        f"/usr/bin/mpirun {PLACES} {SSH_4} {OB1} {OOB_4} {ENV} {PERF}",
    ),
    "Open MPI 5": (
        "mpirun",
        replace(REQUEST, mpi=FIVE),
        f"/opt/openmpi/bin/mpirun --allow-run-as-root {PLACES} {SSH_5} {OB1} {OOB_5} {ENV} {PERF}",
    ),
    "the lab": (
        "mpirun",
        LAB,
        "/usr/bin/mpirun --allow-run-as-root -np 4 -H node1:2,node2:2 --map-by ppr:2:node"
        " --rank-by slot --bind-to none --mca plm_rsh_agent 'ssh -F /lab/ssh_config -o"
        " BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=20 -o"
        " KexAlgorithms=-sntrup*' --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self --mca"
        " btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca mpi_yield_when_idle 1"
        f" /opt/all_reduce_perf {OPTIONS}",
    ),
    "HPC-X": (
        "mpirun",
        with_pml(None, HPCX),
        f"/opt/hpcx/ompi/bin/mpirun {PLACES} {SSH_4} {OB1} {OOB_4} {ENV} {PERF}",
    ),
    "HPC-X ob1": (
        "mpirun",
        with_pml("ob1", HPCX),
        f"/opt/hpcx/ompi/bin/mpirun {PLACES} {SSH_4} {OB1} {OOB_4} {ENV} {PERF}",
    ),
    "HPC-X UCX": (
        "mpirun",
        with_pml("ucx", HPCX),
        f"/opt/hpcx/ompi/bin/mpirun {PLACES} {SSH_4} {UCX} {OOB_4} {ENV} {TCP} {LIBRARIES} {PERF}",
    ),
    "HPC-X with Open MPI 5": (
        "mpirun",
        with_pml(None, HPCX_5),
        "/opt/hpcx/ompi/bin/mpirun --allow-run-as-root"
        f" {PLACES} {SSH_5} {OB1} {OOB_5} {ENV} {PERF}",
    ),
    "HPC-X with Open MPI 5 UCX": (
        "mpirun",
        with_pml("ucx", HPCX_5),
        "/opt/hpcx/ompi/bin/mpirun --allow-run-as-root"
        f" {PLACES} {SSH_5} {UCX} {OOB_5} {ENV} {TCP} {LIBRARIES} {PERF}",
    ),
    "Open MPI 4 UCX": (
        "mpirun",
        with_pml("ucx", FOUR),
        f"/usr/bin/mpirun {PLACES} {SSH_4} {UCX} {OOB_4} {ENV} {TCP} {PERF}",
    ),
    "Open MPI 5 UCX": (
        "mpirun",
        with_pml("ucx", replace(FIVE, run_as_root=False)),
        f"/opt/openmpi/bin/mpirun {PLACES} {SSH_5} {UCX} {OOB_5} {ENV} {TCP} {PERF}",
    ),
    "a profile that names no layer, with ob1": (
        "mpirun",
        with_pml("ob1", HPCX, profile="lab"),
        f"/opt/hpcx/ompi/bin/mpirun {PLACES} {SSH_4} --mca pml ob1 --mca btl tcp,self"
        f" --mca btl_tcp_if_include bond0 {OOB_4} --mca mpi_yield_when_idle 1 {ENV} {PERF}",
    ),
    "mpirun in an allocation": (
        "slurm-mpirun",
        REQUEST,
        f"{ALLOCATION} /usr/bin/mpirun {PLACES} --mca plm slurm {OB1} {OOB_4} {ENV} {PERF}",
    ),
    "Open MPI 5 in an allocation": (
        "slurm-mpirun",
        replace(REQUEST, mpi=FIVE),
        f"{ALLOCATION} /opt/openmpi/bin/mpirun --allow-run-as-root"
        f" {PLACES} --prtemca plm slurm {OB1} {OOB_5} {ENV} {PERF}",
    ),
    # Every variable is passed by name: the list of --export knows no quoting.
    "srun": (
        "srun",
        REQUEST,
        "env OMPI_MCA_pml=ob1 OMPI_MCA_btl=^openib,ofi,uct,usnic OMPI_MCA_coll_hcoll_enable=0 OMPI_MCA_coll_ucc_enable=0"
        " OMPI_MCA_btl_tcp_if_include=bond0 NCCL_NET=IB NCCL_IB_HCA==mlx5_0,mlx5_1"
        " srun --jobid=8812 --overlap --mpi=pmix_v4 --nodes=2 --ntasks=16 --ntasks-per-node=8"
        " --nodelist=gpu-[001-002] --distribution=block --cpu-bind=none --mem=0"
        " --kill-on-bad-exit=1 --immediate=60 --chdir=/"
        " --export=HOME,PATH,LD_LIBRARY_PATH,USER,OMPI_MCA_pml,OMPI_MCA_btl,"
        "OMPI_MCA_coll_hcoll_enable,OMPI_MCA_coll_ucc_enable,OMPI_MCA_btl_tcp_if_include,NCCL_NET,NCCL_IB_HCA"
        f" {PERF}",
    ),
    "unset": (
        "mpirun",
        replace(REQUEST, unset=(UnsetVar("NCCL_NET_PLUGIN", "--unset", "w"),)),
        f"/usr/bin/mpirun {PLACES} {SSH_4} {OB1} {OOB_4} {ENV} env -u NCCL_NET_PLUGIN {PERF}",
    ),
    "MPICH": (
        "hydra",
        REQUEST,
        f"{HYDRA} -launcher-exec ssh -iface bond0 -hosts gpu-001,gpu-002 -ppn 8 -n 16"
        f" -bind-to none {HYDRA_ENV} -wdir /tmp {PERF}",
    ),
    "MPICH by rail, where no interface is known": (
        "hydra",
        replace(REQUEST, options=(), case=replace(CASE, by_rail=True)),
        f"{HYDRA} -launcher-exec ssh -hosts gpu-001,gpu-002 -ppn 1 -n 16"
        f" -bind-to none {HYDRA_ENV} -wdir /tmp {PERF}",
    ),
    "MPICH with ssh's options": (
        "hydra",
        replace(REQUEST, options=(), ssh_agent="/opt/bin/ssh -o BatchMode=yes -o Port=7"),
        "env 'HYDRA_LAUNCHER_EXTRA_ARGS=-o BatchMode=yes -o Port=7' /usr/bin/mpirun -launcher ssh"
        " -launcher-exec /opt/bin/ssh -hosts gpu-001,gpu-002 -ppn 8 -n 16"
        f" -bind-to none {HYDRA_ENV} -wdir /tmp {PERF}",
    ),
}


def argv(request: LaunchRequest, launcher: str = "mpirun") -> str:
    return shlex.join(LAUNCHERS[launcher].build(request).argv)


def refused(request: LaunchRequest, launcher: str = "mpirun") -> tuple[str, ...]:
    with pytest.raises(UsageError) as caught:
        LAUNCHERS[launcher].build(request)
    return caught.value.lines()


@pytest.mark.parametrize(("launcher", "request_", "expected"), GOLDEN.values(), ids=GOLDEN)
def test_the_command_line(launcher: str, request_: LaunchRequest, expected: str) -> None:
    invocation = LAUNCHERS[launcher].build(request_)
    names = tuple(node.name for node in request_.nodes)
    ranks = 4 if request_ is LAB else 16
    words = tuple(shlex.split(expected))
    assert invocation == Invocation(
        "all-reduce", words, request_.env, names, 1200.0, ranks, request_.unset
    )


ABC = SlurmFacts("1", ("a", "b", "c"), "pmix")
PPR = "-H b:2,a:2,c:2 --map-by ppr:2:node --rank-by slot --bind-to none"


@pytest.mark.parametrize(
    ("launcher", "nodes", "changes", "by_rail", "placement"),
    [
        ("mpirun", "bac", {"head": "b"}, False, PPR),
        ("mpirun", "bac", {"head": "elsewhere"}, False, PPR),
        # Open MPI 4 would put the head's ranks first.
        ("mpirun", "bac", {"head": "a"}, False, "-H b,b,a,a,c,c --map-by seq --bind-to none"),
        ("mpirun", "bac", {"head": "a", "mpi": FIVE}, False, PPR),
        ("slurm-mpirun", "ca", {"head": "c"}, False, "-H c,c,a,a --map-by seq"),
        ("slurm-mpirun", "ca", {"head": "c"}, False, "SLURM_NODELIST=a,c "),
        ("srun", "abc", {}, False, "--ntasks-per-node=2 --nodelist=a,b,c --distribution=block"),
        ("srun", "abc", {}, True, "--ntasks-per-node=2 --nodelist=a,b,c --distribution=cyclic"),
        ("srun", "abc", {}, True, "--nodes=3 --ntasks=6 "),
        ("srun", "ca", {}, False, "--ntasks=4 --nodelist=c,c,a,a --distribution=arbitrary"),
        ("srun", "ca", {}, True, "--ntasks=4 --nodelist=c,a,c,a --distribution=arbitrary"),
    ],
)
def test_ranks_stand_on_the_nodes_in_the_order_of_the_request(
    launcher: str, nodes: str, changes: dict[str, Any], by_rail: bool, placement: str
) -> None:
    request = replace(
        REQUEST,
        nodes=tuple(Node(name, gpus=2) for name in nodes),
        case=replace(CASE, by_rail=by_rail),
        slurm=ABC,
        **changes,
    )
    assert placement in argv(request, launcher)


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, OPTIONS),
        ({"sizes": Sizes(1 << 30, 1 << 30)}, "-b 1G -e 1G -g 1 -n 20 -w 5 -c 0 -z 0"),
        (
            {"sizes": Sizes(1 << 20, 4 << 20, None, 1 << 20)},
            "-b 1M -e 4M -i 1M -g 1 -n 20 -w 5 -c 0 -z 0",
        ),
        ({"sizes": Sizes(1000, 8000, 2)}, "-b 1000 -e 8000 -f 2 -g 1 -n 20 -w 5 -c 0 -z 0"),
        (
            {"per_iteration": True, "blocking": 3, "iterations": 100, "cycles": 4, "check": 1},
            "-b 8 -e 8G -f 2 -g 1 -n 100 -w 5 -c 1 -z 3 -N 4 -I 1",
        ),
    ],
)
def test_a_case_becomes_nccl_tests_own_options(changes: dict[str, Any], options: str) -> None:
    assert " ".join(arguments(replace(CASE, **changes), None)) == options


def test_json_is_requested_only_where_the_binary_has_it() -> None:
    assert "-J" not in arguments(replace(CASE, json=False), "/out.json")
    assert arguments(CASE, "/out.json")[-2:] == ("-J", "/out.json")


@pytest.mark.parametrize(
    ("of_the_case", "of_the_run", "ranks"), [(1, 2, 1), (None, 2, 2), (None, None, 4)]
)
def test_a_case_says_how_many_ranks_a_node_has_else_the_run_else_its_slots_else_its_gpus(
    of_the_case: int | None, of_the_run: int | None, ranks: int
) -> None:
    request = replace(
        REQUEST,
        nodes=(Node("a", gpus=8, slots=4),),
        head="a",
        case=replace(CASE, ranks_per_node=of_the_case),
        ranks_per_node=of_the_run,
    )
    assert MPIRUN.build(request).nranks == ranks


SAME = (MpiOption("btl", "tcp,self", "w", "s"), MpiOption("btl", "tcp,self", "w", "s"))
TWO_VALUES = (*SAME, MpiOption("btl", "sm", "w", "s"))
ILLEGAL = "letters, digits, dot, dash and underscore only, none of dot and dash in front"
IN_SLURM = ("srun", "slurm-mpirun")


@pytest.mark.parametrize(
    ("launchers", "change", "lines"),
    [
        (LAUNCHERS, {"nodes": ()}, ("error: case all-reduce: no node to run on",)),
        (
            LAUNCHERS,
            {"nodes": (*NODES, NODES[0])},
            ("error: case all-reduce: gpu-001 named twice",),
        ),
        (
            LAUNCHERS,
            {"nodes": (Node("-x", gpus=1),)},
            (f"error: illegal node name '-x': {ILLEGAL}",),
        ),
        (
            LAUNCHERS,
            {"nodes": (Node("a", gpus=8), Node("b", gpus=8), Node("c", gpus=4), Node("d"))},
            (
                "error: case all-reduce: the nodes have different numbers of GPUs",
                "seen: 8 on a,b, 4 on c, unknown on d",
                "next: leave some out with -x, or give ranks_per_node",
            ),
        ),
        (
            LAUNCHERS,
            {"nodes": (Node("n1"), Node("n2"))},
            (
                "error: case all-reduce: how many ranks belong on a node is not known",
                "seen: no gpus and no slots for n[1-2]",
                "next: give gpus in the inventory or ranks_per_node in the playbook",
            ),
        ),
        (
            OPEN_MPI,
            {"mpi": MpiFacts("2.1.1")},
            (
                "error: mpirun is Open MPI '2.1.1'; 3, 4 and 5 are known",
                "next: put another Open MPI first in PATH on the head node",
            ),
        ),
        (
            OPEN_MPI,
            {"mpi": MpiFacts("HYDRA")},
            ("error: mpirun is Open MPI 'HYDRA'; 3, 4 and 5 are known",),
        ),
        (
            OPEN_MPI,
            {"options": TWO_VALUES},
            (
                "error: MCA parameter btl is given twice, as 'tcp,self' and 'sm'",
                "next: give it once",
            ),
        ),
        (
            IN_SLURM,
            {"slurm": None},
            (
                "error: case all-reduce: not inside a Slurm allocation",
                "seen: no job id",
                "next: start busbw inside salloc or sbatch, or add --partition and --time: it then"
                " asks for an allocation itself",
            ),
        ),
        (
            IN_SLURM,
            {"slurm": SlurmFacts("7", ("gpu-001",), "pmix")},
            (
                "error: case all-reduce: gpu-002 not in Slurm job 7",
                "seen: its nodes: gpu-001",
                "next: leave them out with -x, or ask for an allocation with -w gpu-[001-002]",
            ),
        ),
        (
            ("srun",),
            {"slurm": SlurmFacts("7", ("gpu-001", "gpu-002"), None)},
            (
                "error: Slurm has no plugin that starts Open MPI's ranks",
                "seen: srun --mpi=list names neither pmix nor pmi2",
                "next: --launcher slurm-mpirun, or name the plugin with --mpi",
            ),
        ),
    ],
)
def test_a_launch_that_cannot_be_is_refused_by_every_launcher(
    launchers: tuple[str, ...], change: dict[str, Any], lines: tuple[str, ...]
) -> None:
    slurm = replace(ABC, nodes=("a", "b", "c", "d", "n1", "n2", *(node.name for node in NODES)))
    for launcher in launchers:
        seen = refused(replace(REQUEST, **{"slurm": slurm, **change}), launcher)
        assert seen[: len(lines)] == lines, launcher


def test_a_parameter_given_twice_with_one_value_is_given_once() -> None:
    assert argv(replace(REQUEST, options=SAME)).count(" btl ") == 1


def test_the_ssh_of_mpirun_never_asks_and_checks_host_keys() -> None:
    assert (
        ssh_agent("/run/ssh_config", options=(("IdentitiesOnly", "yes"),))
        == "ssh -F /run/ssh_config -o BatchMode=yes -o StrictHostKeyChecking=yes -o"
        " ConnectTimeout=20 -o KexAlgorithms=-sntrup* -o IdentitiesOnly=yes"
    )


@pytest.mark.parametrize("path", ["/my home/ssh_config", "/it's", 'a"b', "a\\b", "a\tb"])
def test_a_path_that_mpirun_would_cut_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="cannot be handed to mpirun's ssh"):
        ssh_agent(path)


@pytest.mark.parametrize(
    ("line", "harmless"),
    [
        (
            "[vm:26796] plm:ssh: Warning: setpgid(9,9) failed in parent with errno=Permission denied(13)",
            True,
        ),
        (
            "[node1:12] plm:rsh: Warning: setpgid(5,5) failed in parent with errno=Permission denied(13)",
            True,
        ),
        ("Warning: Permanently added '10.0.0.7' (ED25519) to the list of known hosts.", True),
        ("ssh: connect to host b port 22: Connection refused", False),
    ],
)
def test_the_launchers_harmless_lines_are_known(line: str, harmless: bool) -> None:
    assert any(noise.search(line) for noise in NOISE) is harmless


def test_what_the_user_sets_for_ucx_wins() -> None:
    mine = (
        NET,
        ResolvedVar("UCX_TLS", "rc,self,sm", "--env", ""),
        ResolvedVar("UCX_NET_DEVICES", "mlx5_0:1", "--env", ""),
    )
    text = argv(with_pml("ucx", FOUR, variables=mine))
    assert "-x NCCL_NET=IB -x UCX_TLS=rc,self,sm -x UCX_NET_DEVICES=mlx5_0:1 /opt/all" in text


def test_where_no_interface_has_the_same_name_on_all_nodes_ucx_chooses_among_those_of_tcp() -> None:
    text = argv(with_pml("ucx", FOUR, FabricFacts()))
    assert "-x UCX_TLS=tcp,self,sm /opt/all_reduce_perf" in text
    assert "UCX_NET_DEVICES" not in text


def test_the_command_line_offers_the_point_to_point_layers_there_are() -> None:
    assert PMLS == pml.CHOICES


@pytest.mark.parametrize("name", profiles.names())
def test_no_parameter_and_no_variable_stands_twice_in_any_command_line(name: str) -> None:
    facts = FabricFacts("bond0", ("mlx5_0", "mlx5_1"), "2.27.5", "/tmp/log")
    profile = profiles.load(name)
    book = replace(playbook.load("quick"), env=())
    variables = env.resolve(env.Origins(profile, book), CASE, facts).variables
    layers = (None, *pml.CHOICES)
    for chosen, version, launcher in itertools.product(
        layers, ("3.1.6", "4.1.7", "5.0.8"), OPEN_MPI
    ):
        mpi = MpiFacts(version, "/opt/hpcx/ompi/bin/mpirun")
        words = LAUNCHERS[launcher].build(with_pml(chosen, mpi, facts, variables, name)).argv
        parameters = values_of(words, "--mca", "--prtemca")
        exported = next((word[9:] for word in words if word.startswith("--export=")), "")
        before = words[1 : words.index("srun")] if "srun" in words else ()
        settings_before = [word.partition("=")[0] for word in before]
        for names in (parameters, values_of(words, "-x"), settings_before, exported.split(",")):
            assert len(names) == len(set(names)), (launcher, version, chosen, names)
        layer_is_set = chosen is not None or any(option.name == "pml" for option in profile.mpi)
        assert ("pml" in parameters or "OMPI_MCA_pml" in settings_before) is layer_is_set


def values_of(argv: tuple[str, ...], *flags: str) -> list[str]:
    """The names that follow these flags."""
    return [word.partition("=")[0] for flag, word in itertools.pairwise(argv) if flag in flags]


@pytest.mark.parametrize(
    ("text", "plugin"),
    [
        (
            "MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\n"
            "specific pmix plugin versions available: pmix_v4\n",
            "pmix",
        ),
        ("MPI plugin types are...\n\tcray_shasta\n\tnone\n\tpmi2\n", "pmi2"),
        (
            "srun: MPI types are...\nsrun: openmpi\nsrun: pmi2\nsrun: pmix_v2\nsrun: pmix_v11\n"
            "srun: none\n",
            "pmix_v11",
        ),
        ("srun: MPI types are...\nsrun: none\n", None),
        ("sh: 1: srun: not found\n", None),
    ],
)
def test_the_plugin_is_the_best_that_slurm_names(text: str, plugin: str | None) -> None:
    assert srun.plugin(text) == plugin


def test_salloc_asks_for_whole_nodes_and_runs_the_command_inside() -> None:
    options = ("--partition=gpu", "--time=30", "--account=x")
    assert shlex.join(salloc.salloc(options, (), 4, ("busbw", "run", "-q"))) == (
        "salloc --job-name=busbw --exclusive --nodes=4 --partition=gpu --time=30 --account=x"
        " busbw run -q"
    )
    with pytest.raises(UsageError, match="how many nodes"):
        salloc.salloc(options, (), None, ("busbw",))
    with pytest.raises(UsageError, match="--node-count 3 and 2 nodes named"):
        salloc.salloc(options, ("a", "b"), 3, ("busbw",))


def test_an_mpi_is_taken_for_the_launcher_that_needs_it_only() -> None:
    version = parse_version("HYDRA build details:\n    Version:            4.0.2\n")
    facts = NodeFacts("n1", "n1", None, 0, "/usr/bin/mpirun", version, None, (), 8, None)

    assert mpi_of(facts, Mpi.MPICH) == MpiFacts("4.0.2", "/usr/bin/mpirun", run_as_root=True)
    assert mpi_of(facts, Mpi.OPEN_MPI) is None


def test_a_command_line_is_shown_one_option_per_line_with_every_reason_above() -> None:
    request = replace(REQUEST, options=REQUEST.options[:1], ssh_agent="ssh", env=(NET,))
    assert (
        render(MPIRUN.build(request), REQUEST.options)
        == """\
# all-reduce: 16 ranks on 2 nodes gpu-[001-002], ends after 20 m 00 s at the latest
# NCCL_NET=IB  from profile infiniband: no silent TCP [NCCL user guide]
# pml=ob1  MPI carries only barriers and the rank table here; UCX would open queue pairs on the rails that are measured \
[Open MPI (run-time notes and MCA parameters)]
/usr/bin/mpirun \\
  -np 16 \\
  -H gpu-001:8,gpu-002:8 \\
  --map-by ppr:8:node \\
  --rank-by slot \\
  --bind-to none \\
  --mca plm_rsh_agent ssh \\
  --mca plm_rsh_no_tree_spawn 1 \\
  --mca pml ob1 \\
  -x NCCL_NET=IB \\
  /opt/all_reduce_perf \\
  -b 8 \\
  -e 8G \\
  -f 2 \\
  -g 1 \\
  -n 20 \\
  -w 5 \\
  -c 0 \\
  -z 0 \\
  -J /run/out.json
"""
    )


@pytest.mark.parametrize(
    ("launcher", "lines"),
    [
        (
            "srun",
            ("# NCCL_NET=IB  from profile infiniband: no silent TCP [NCCL user guide]",),
        ),
        ("srun", ("  --overlap \\",)),
        ("hydra", ("  -genvnone \\", "  -genv NCCL_IB_HCA =mlx5_0,mlx5_1 \\")),
    ],
)
def test_each_launchers_options_keep_their_words(launcher: str, lines: tuple[str, ...]) -> None:
    text = render(LAUNCHERS[launcher].build(REQUEST), REQUEST.options)
    assert set(lines) <= set(text.splitlines())
    assert ("\n# pml=ob1  " in text) is (launcher == "srun")


def words_as_bash_sees_them(text: str) -> tuple[str, ...]:
    script = f"printf '%s\\0' {text[text.index(chr(10) + '/usr/bin/mpirun') + 1 :]}"
    shown = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
    return tuple(shown.decode().split("\0")[:-1])


@given(
    st.text(max_size=30),
    st.text(st.characters(exclude_characters="\x00", exclude_categories=("Cs",)), max_size=30),
)
@settings(max_examples=40, deadline=None)
def test_whatever_a_value_holds_the_shown_text_is_shell_that_says_the_same(
    why: str, value: str
) -> None:
    variable = ResolvedVar("A", value, "--env", why)
    invocation = MPIRUN.build(replace(REQUEST, env=(variable,), options=()))
    assert words_as_bash_sees_them(render(invocation)) == invocation.argv


def test_bash_accepts_the_shown_text_and_sees_the_same_words() -> None:
    hostile = ResolvedVar(
        "A", "$(touch /tmp/x) `x` 'q' \"d\" \\ # é\t*", "--env", "line\none $(reboot)\r\x1b[31m"
    )
    invocation = MPIRUN.build(replace(REQUEST, env=(hostile,)))
    text = render(invocation, REQUEST.options)
    checked = subprocess.run(
        ["bash", "-n"], input=text, text=True, capture_output=True, check=False
    )
    assert checked.stderr == ""
    assert words_as_bash_sees_them(text) == invocation.argv
    assert "\x1b" not in text
