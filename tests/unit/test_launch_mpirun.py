"""The mpirun command lines, literally, for Open MPI 4 and 5, and how they are shown."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.fabrics import fabric
from busbw.fabrics.fabric import MpiOption
from busbw.launch import FabricFacts, LaunchRequest, MpiFacts
from busbw.launch.env import mpi_options
from busbw.launch.mpirun import LAUNCHER, NOISE, ssh_agent
from busbw.launch.nccl_tests import arguments
from busbw.launch.render import render
from busbw.model import BenchmarkCase, Collective, Invocation, Node, ResolvedVar, Sizes

CASE = BenchmarkCase(
    "all-reduce", Collective.ALL_REDUCE, Sizes(8, 8 << 30), check=0, timeout_s=1200.0
)
NODES = (Node("gpu-001", gpus=8), Node("gpu-002", gpus=8))
FOUR = MpiFacts("4.1.4", "/usr/bin/mpirun")
FIVE = MpiFacts("5.0.11", "/opt/openmpi/bin/mpirun", run_as_root=True)
NET = ResolvedVar(
    "NCCL_NET",
    "IB",
    "profile infiniband",
    "no silent TCP",
    "NCCL user guide, https://docs.nvidia.com/x",
)
REQUEST = LaunchRequest(
    case=CASE,
    nodes=NODES,
    head="gpu-001",
    binary="/opt/build/all_reduce_perf",
    env=(NET,),
    mpi=FOUR,
    options=mpi_options(fabric.load("infiniband"), FabricFacts("bond0")),
    json_path="/run/out.json",
    ssh_agent="ssh -F /run/ssh_config",
)


def argv(request: LaunchRequest) -> str:
    return shlex.join(LAUNCHER.build(request).argv)


def test_the_command_line_for_open_mpi_4() -> None:
    assert LAUNCHER.build(REQUEST) == Invocation(
        case_id="all-reduce",
        argv=(
            *("/usr/bin/mpirun", "-np", "16"),
            *(
                "-H",
                "gpu-001:8,gpu-002:8",
                "--map-by",
                "ppr:8:node",
                "--rank-by",
                "slot",
                "--bind-to",
                "none",
            ),
            *("--mca", "plm_rsh_agent", "ssh -F /run/ssh_config"),
            *("--mca", "plm_rsh_no_tree_spawn", "1"),
            *("--mca", "pml", "ob1"),
            *("--mca", "btl", "^openib,ofi,uct,usnic"),
            *("--mca", "coll_hcoll_enable", "0"),
            *("--mca", "btl_tcp_if_include", "bond0"),
            *("--mca", "oob_tcp_if_include", "bond0"),
            *("-x", "NCCL_NET=IB"),
            "/opt/build/all_reduce_perf",
            *(
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
            ),
        ),
        env=(NET,),
        nodes=("gpu-001", "gpu-002"),
        timeout_s=1200.0,
        nranks=16,
    )


def test_the_command_line_for_open_mpi_5() -> None:
    assert LAUNCHER.build(dataclasses.replace(REQUEST, mpi=FIVE)).argv == (
        *("/opt/openmpi/bin/mpirun", "--allow-run-as-root", "-np", "16"),
        *(
            "-H",
            "gpu-001:8,gpu-002:8",
            "--map-by",
            "ppr:8:node",
            "--rank-by",
            "slot",
            "--bind-to",
            "none",
        ),
        *("--prtemca", "plm_ssh_agent", "ssh -F /run/ssh_config"),
        *("--prtemca", "plm_ssh_no_tree_spawn", "1"),
        *("--mca", "pml", "ob1"),
        *("--mca", "btl", "^openib,ofi,uct,usnic"),
        *("--mca", "coll_hcoll_enable", "0"),
        *("--mca", "btl_tcp_if_include", "bond0"),
        *("--prtemca", "prte_if_include", "bond0"),
        *("-x", "NCCL_NET=IB"),
        "/opt/build/all_reduce_perf",
        *(
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
        ),
    )


def test_the_command_line_in_the_lab() -> None:
    request = dataclasses.replace(
        REQUEST,
        nodes=(Node("node1", gpus=2), Node("node2", gpus=2)),
        head="node1",
        mpi=dataclasses.replace(FOUR, run_as_root=True),
        env=(),
        options=mpi_options(fabric.load("lab"), FabricFacts("eth0", ("eth0",))),
        json_path=None,
        ssh_agent=ssh_agent("/lab/ssh_config"),
    )
    assert (
        argv(request)
        == "/usr/bin/mpirun --allow-run-as-root -np 4 -H node1:2,node2:2 --map-by ppr:2:node"
        " --rank-by slot --bind-to none --mca plm_rsh_agent 'ssh -F /lab/ssh_config -o"
        " BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=20 -o"
        " KexAlgorithms=-sntrup*' --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self --mca"
        " btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca mpi_yield_when_idle 1"
        " /opt/build/all_reduce_perf -b 8 -e 8G -f 2 -g 1 -n 20 -w 5 -c 0 -z 0"
    )


@pytest.mark.parametrize(
    ("mpi", "head", "placement"),
    [
        (FOUR, "b", "-H b:2,a:2,c:2 --map-by ppr:2:node --rank-by slot --bind-to none"),
        (FOUR, "elsewhere", "-H b:2,a:2,c:2 --map-by ppr:2:node --rank-by slot --bind-to none"),
        # Open MPI 4 would put the head's ranks first.
        (FOUR, "a", "-H b,b,a,a,c,c --map-by seq --bind-to none"),
        (FIVE, "a", "-H b:2,a:2,c:2 --map-by ppr:2:node --rank-by slot --bind-to none"),
    ],
)
def test_ranks_stand_on_the_nodes_in_the_order_asked_for(
    mpi: MpiFacts, head: str, placement: str
) -> None:
    nodes = tuple(Node(name, gpus=2) for name in "bac")
    assert placement in argv(dataclasses.replace(REQUEST, mpi=mpi, nodes=nodes, head=head))


@pytest.mark.parametrize(
    ("case", "options"),
    [
        (CASE, "-b 8 -e 8G -f 2 -g 1 -n 20 -w 5 -c 0 -z 0"),
        (
            dataclasses.replace(CASE, sizes=Sizes(1 << 30, 1 << 30)),
            "-b 1G -e 1G -g 1 -n 20 -w 5 -c 0 -z 0",
        ),
        (
            dataclasses.replace(CASE, sizes=Sizes(1 << 20, 4 << 20, None, 1 << 20)),
            "-b 1M -e 4M -i 1M -g 1 -n 20 -w 5 -c 0 -z 0",
        ),
        (
            dataclasses.replace(CASE, sizes=Sizes(1000, 8000, 2)),
            "-b 1000 -e 8000 -f 2 -g 1 -n 20 -w 5 -c 0 -z 0",
        ),
        (
            dataclasses.replace(
                CASE, per_iteration=True, blocking=3, iterations=100, cycles=4, check=1
            ),
            "-b 8 -e 8G -f 2 -g 1 -n 100 -w 5 -c 1 -z 3 -N 4 -I 1",
        ),
    ],
)
def test_a_case_becomes_nccl_tests_own_options(case: BenchmarkCase, options: str) -> None:
    assert " ".join(arguments(case, None)) == options


def test_json_is_asked_for_only_where_the_binary_has_it() -> None:
    assert "-J" not in arguments(dataclasses.replace(CASE, json=False), "/out.json")
    assert arguments(CASE, "/out.json")[-2:] == ("-J", "/out.json")


def test_a_case_says_how_many_ranks_a_node_has_else_its_slots_else_its_gpus() -> None:
    own = (Node("a", gpus=8, slots=4),)
    counts = [
        LAUNCHER.build(
            dataclasses.replace(REQUEST, nodes=own, head="a", case=case, ranks_per_node=given)
        ).nranks
        for case, given in (
            (dataclasses.replace(CASE, ranks_per_node=1), 2),
            (CASE, 2),
            (CASE, None),
        )
    ]
    assert counts == [1, 2, 4]


def refused(request: LaunchRequest) -> tuple[str, ...]:
    with pytest.raises(UsageError) as caught:
        LAUNCHER.build(request)
    return caught.value.lines()


def test_nodes_with_different_numbers_of_gpus_are_told() -> None:
    nodes = (Node("a", gpus=8), Node("b", gpus=8), Node("c", gpus=4), Node("d"))
    assert refused(dataclasses.replace(REQUEST, nodes=nodes)) == (
        "error: case all-reduce: the nodes have different numbers of GPUs",
        "seen: 8 on a,b, 4 on c, unknown on d",
        "next: leave some out with -x, or give ranks_per_node",
    )


def test_an_unknown_number_of_gpus_is_told() -> None:
    assert refused(dataclasses.replace(REQUEST, nodes=(Node("n1"), Node("n2")))) == (
        "error: case all-reduce: how many ranks belong on a node is not known",
        "seen: no gpus and no slots for n[1-2]",
        "next: give gpus in the inventory or ranks_per_node in the playbook",
    )


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"nodes": ()}, "error: case all-reduce: no node to run on"),
        ({"nodes": (*NODES, NODES[0])}, "error: case all-reduce: gpu-001 named twice"),
        (
            {"nodes": (Node("-x", gpus=1),)},
            (
                "error: illegal node name '-x': letters, digits, dot, dash and underscore only,"
                " none of dot and dash in front"
            ),
        ),
        ({"mpi": MpiFacts("2.1.1")}, "error: mpirun is Open MPI '2.1.1'; 3, 4 and 5 are known"),
        ({"mpi": MpiFacts("HYDRA")}, "error: mpirun is Open MPI 'HYDRA'; 3, 4 and 5 are known"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(change: dict[str, object], what: str) -> None:
    assert refused(dataclasses.replace(REQUEST, **change))[0] == what  # type: ignore[arg-type]  # one field of any kind


def test_a_parameter_given_twice_is_given_once_and_two_values_are_refused() -> None:
    same = (MpiOption("btl", "tcp,self", "w", "s"), MpiOption("btl", "tcp,self", "w", "s"))
    assert argv(dataclasses.replace(REQUEST, options=same)).count(" btl ") == 1
    assert refused(
        dataclasses.replace(REQUEST, options=(*same, MpiOption("btl", "sm", "w", "s")))
    ) == (
        "error: MCA parameter btl is given twice, as 'tcp,self' and 'sm'",
        "next: give it once",
    )


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


def test_the_launchers_harmless_lines_are_known() -> None:
    lines = (
        (
            "[vm:26796] plm:ssh: Warning: setpgid(26799,26799) failed in parent with"
            " errno=Permission denied(13)"
        ),
        (
            "[node1:12] plm:rsh: Warning: setpgid(15,15) failed in parent with errno=Permission"
            " denied(13)"
        ),
        "Warning: Permanently added '10.0.0.7' (ED25519) to the list of known hosts.",
    )
    assert [
        any(noise.search(line) for noise in NOISE)
        for line in (*lines, "ssh: connect to host b port 22: Connection refused")
    ] == [
        True,
        True,
        True,
        False,
    ]


def test_a_command_line_is_shown_one_option_per_line_with_every_reason_above() -> None:
    invocation = LAUNCHER.build(
        dataclasses.replace(REQUEST, options=REQUEST.options[:1], ssh_agent="ssh")
    )
    assert (
        render(invocation, REQUEST.options)
        == """\
# all-reduce: 16 ranks on 2 nodes gpu-[001-002], ended after 20 m 00 s
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
  /opt/build/all_reduce_perf \\
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
    invocation = LAUNCHER.build(dataclasses.replace(REQUEST, env=(variable,), options=()))
    assert words_as_bash_sees_them(render(invocation)) == invocation.argv


def test_bash_accepts_the_shown_text_and_sees_the_same_words() -> None:
    hostile = ResolvedVar(
        "A", "$(touch /tmp/x) `x` 'q' \"d\" \\ # é\t*", "--env", "line\none $(reboot)\r\x1b[31m"
    )
    invocation = LAUNCHER.build(dataclasses.replace(REQUEST, env=(hostile,)))
    text = render(invocation, REQUEST.options)
    assert (
        subprocess.run(
            ["bash", "-n"], input=text, text=True, capture_output=True, check=False
        ).stderr
        == ""
    )
    assert words_as_bash_sees_them(text) == invocation.argv
    assert "\x1b" not in text
