"""One script per node, its answer taken apart, and every way a node can fail to answer."""

from __future__ import annotations

import dataclasses
import subprocess

import pytest

from busbw.checks import Check, CheckFamily, NodeAnswer, Policy, Section, frame, script
from busbw.checks.frame import families
from busbw.checks.software import facts
from busbw.model import CheckResult, Command, CommandResult, Node, Status

ALL = Policy("test", ("*",), ())


def run_here(command: Command, path: str = "/usr/bin:/bin") -> CommandResult:
    """The script on this machine, as sshd would start it."""
    done = subprocess.run(
        command.argv,
        input=command.stdin,
        capture_output=True,
        timeout=60,
        check=False,
        env={"PATH": path, "HOME": "/root"},
    )
    return CommandResult("n1", command.argv, done.returncode, done.stdout, done.stderr, 0.1)


def answer_of(
    node: Node | None = None, problem: str | None = None, **sections: tuple[str, str, int | None]
) -> NodeAnswer:
    """An answer composed of the named sections (stdout, stderr, exit status); the others are as a
    healthy node gives them."""
    healthy: dict[str, tuple[str, str, int | None]] = {
        "identity": (
            "host=n1\nhome=/root\nuid=0\nssh=10.0.0.9 5000 10.0.0.1 22\nmpirun=/usr/bin/mpirun\n",
            "",
            0,
        ),
        "addresses": (
            (
                "1: lo    inet 127.0.0.1/8 scope host lo\n2: bond0    inet 10.0.0.1/24 brd"
                " 10.0.0.255 scope global bond0\n"
            ),
            "",
            0,
        ),
        "mpirun_version": ("mpirun (Open MPI) 4.1.4\n", "", 0),
        "mpi_home": ("/usr/lib/x86_64-linux-gnu/openmpi\n", "", 0),
        "interfaces": (
            (
                "net lo operstate unknown carrier 1 rx - tx -\nnet bond0 operstate up carrier 1 rx"
                " - tx -\n"
            ),
            "",
            0,
        ),
        "nvidia_smi_list": (
            (
                "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID:"
                " GPU-2)\n"
            ),
            "",
            0,
        ),
        "ibv_devices": (
            (
                "    device          \t   node GUID\n    ------          \t----------------\n   "
                " mlx5_0          \tb83fd20300aa0010\n"
            ),
            "",
            0,
        ),
        "ofed_info": ("MLNX_OFED_LINUX-23.10-1.1.9.0:\n", "", 0),
        "memlock": ("unlimited\n", "", 0),
    }
    text_out, text_err = "Welcome to the cluster\n", ""
    for name, (stdout, stderr, status) in (healthy | sections).items():
        end = "" if status is None else f"\n@@run-1 end {name} {status}\n"
        text_out += f"\n@@run-1 begin {name}\n{stdout}{end}"
        text_err += f"\n@@run-1 begin {name}\n{stderr}{end}"
        if status is None:
            break
    else:
        text_out += "\n@@run-1 done\n"
    result = CommandResult(
        "n1",
        ("sh", "-s"),
        0 if problem is None else None,
        text_out.encode(),
        text_err.encode(),
        0.1,
        problem,
    )
    return script.split(node or Node("n1"), result, "run-1", "raw/preflight/n1.txt")


def check(check_id: str, *answers: NodeAnswer, policy: Policy = ALL) -> tuple[CheckResult, ...]:
    return tuple(r for r in frame.judge(families(), answers, policy) if r.check_id == check_id)


def test_the_script_runs_to_its_end_here_and_every_section_answers() -> None:
    command = script.build(families(), "run-1", 60)
    answer = script.split(Node("n1"), run_here(command), "run-1", "raw/preflight/n1.txt")
    assert answer.problem is None
    assert set(answer.sections) == {s.name for family in families() for s in family.sections}
    assert all(s.exit_status is not None for s in answer.sections.values())
    assert facts(answer).home == "/root"


def test_the_script_is_accepted_by_a_strict_posix_shell() -> None:
    command = script.build(families(), "run-1", 60)
    done = subprocess.run(
        ["dash", "-n"], input=command.stdin, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_healthy_answer_passes_everything_and_gives_the_facts() -> None:
    answer = answer_of(Node("n1", gpus=2, rails=("mlx5_0",)))
    results = {r.check_id: r.status for r in frame.judge(families(), (answer,), ALL)}
    probes = (
        "gpu.count",
        "os.limits.memlock",
        "rdma.devices",
        "rdma.ofed",
        "sw.mpirun",
        "cross.mpi",
        "cross.host_name",
        "eth.interfaces",
    )
    assert {check_id: results[check_id] for check_id in probes} == dict.fromkeys(
        probes, Status.PASS
    )
    # What this composed answer leaves out is never taken as good.
    assert {status for check_id, status in results.items() if check_id not in probes} == {
        Status.UNKNOWN,
        Status.SKIPPED,
    }
    assert {check_id for check_id, status in results.items() if status is Status.SKIPPED} == {
        "cross.limits",
        "cross.ofed",
        "gpu.xgmi",
        "sw.rocm",
    }
    known = facts(answer)
    assert (known.ssh_interface, known.mpi_home, known.user_id, known.linked) == (
        "bond0",
        "/usr/lib/x86_64-linux-gnu/openmpi",
        0,
        ("lo", "bond0"),
    )


def test_noise_of_a_login_shell_is_in_no_section() -> None:
    assert all("Welcome" not in s.stdout for s in answer_of().sections.values())


@pytest.mark.parametrize(
    ("stdout", "stderr", "status", "text"),
    [
        (
            "",
            "Failed to get IB devices list: Function not implemented\n",
            1,
            "no RDMA device (Failed to get IB devices list: Function not implemented)",
        ),
        (
            "    device          \t   node GUID\n    ------          \t----------------\n",
            "",
            0,
            "no RDMA device (only the header lines)",
        ),
        ("No IB devices found\n", "", 255, "no RDMA device (No IB devices found)"),
    ],
)
def test_each_of_the_texts_for_no_hca_fails(
    stdout: str, stderr: str, status: int, text: str
) -> None:
    (result,) = check("rdma.devices", answer_of(ibv_devices=(stdout, stderr, status)))
    assert (result.status, result.seen) == (Status.FAIL, text)


def test_a_rail_of_the_inventory_that_is_not_there_fails_and_is_named() -> None:
    (result,) = check("rdma.devices", answer_of(Node("n1", rails=("mlx5_0", "mlx5_1"))))
    assert (result.status, result.seen) == (Status.FAIL, "mlx5_1 missing; devices there: 1")


def test_a_missing_tool_is_unknown_and_says_which() -> None:
    (result,) = check(
        "gpu.count", answer_of(nvidia_smi_list=("", "sh: 1: nvidia-smi: not found\n", 127))
    )
    assert (result.status, result.reason) == (
        Status.UNKNOWN,
        "nvidia-smi is not installed on the node or not on PATH",
    )


def test_a_hanging_tool_is_unknown_and_says_so() -> None:
    (result,) = check("gpu.count", answer_of(nvidia_smi_list=("", "", 124)))
    assert (result.status, result.seen, result.reason) == (
        Status.UNKNOWN,
        "timed out",
        "nvidia-smi -L did not end within its time limit",
    )


def test_fewer_gpus_than_the_inventory_says_fail() -> None:
    (result,) = check("gpu.count", answer_of(Node("n1", gpus=8)))
    assert (result.status, result.seen, result.expected) == (
        Status.FAIL,
        "2 x NVIDIA H100 80GB HBM3",
        "8 GPUs",
    )


def test_no_vendor_package_is_a_fact_and_a_small_memlock_a_failure() -> None:
    answer = answer_of(
        ofed_info=("", "sh: 1: ofed_info: not found\n", 127), memlock=("8192\n", "", 0)
    )
    assert check("rdma.ofed", answer)[0].status is Status.PASS
    assert (
        check("os.limits.memlock", answer)[0].status,
        check("os.limits.memlock", answer)[0].seen,
    ) == (Status.FAIL, "8192 KiB")


def test_a_node_that_dies_half_way_leaves_its_output_and_the_rest_unknown() -> None:
    answer = answer_of(
        problem="connection lost: reset by peer", mpirun_version=("mpirun (Op", "", None)
    )
    (mpirun,) = check("sw.mpirun", answer)
    (memlock,) = check("os.limits.memlock", answer)
    assert (mpirun.status, mpirun.reason) == (Status.UNKNOWN, "connection lost: reset by peer")
    assert (memlock.status, memlock.reason) == (Status.UNKNOWN, "connection lost: reset by peer")
    assert facts(answer).home == "/root"


def test_the_odd_mpi_out_fails_and_the_majority_passes() -> None:
    answers = [answer_of(Node(f"n{i}")) for i in range(3)]
    answers.append(answer_of(Node("n9"), mpirun_version=("mpirun (Open MPI) 5.0.3\n", "", 0)))
    results = {r.node: r for r in check("cross.mpi", *answers)}
    assert {n: r.status for n, r in results.items()} == {
        "n0": Status.PASS,
        "n1": Status.PASS,
        "n2": Status.PASS,
        "n9": Status.FAIL,
    }
    assert (
        results["n9"].expected
        == "the same on all nodes: Open MPI 4.1.4 at /usr/bin/mpirun (3 of 4)"
    )


def test_a_check_outside_the_profile_is_skipped_and_an_advisory_one_is_not_required() -> None:
    policy = Policy("tcp", ("sw.*",), ("os.*",))
    results = {
        r.check_id: r
        for r in frame.judge(families(), (answer_of(memlock=("64\n", "", 0)),), policy)
    }
    assert (results["rdma.devices"].status, results["rdma.devices"].reason) == (
        Status.SKIPPED,
        "not applicable to profile tcp",
    )
    assert (results["os.limits.memlock"].status, results["os.limits.memlock"].required) == (
        Status.FAIL,
        False,
    )
    assert results["sw.mpirun"].required


def test_a_demanded_check_that_does_not_exist_is_unknown_on_every_node() -> None:
    policy = dataclasses.replace(ALL, required=("gpu.telepathy",))
    (result,) = check("gpu.telepathy", answer_of(), policy=policy)
    assert (result.status, result.reason, result.required) == (
        Status.UNKNOWN,
        "this version of busbw has no check gpu.telepathy",
        True,
    )


def asked_here(*sections: Section, at_most_s: int | None = None) -> NodeAnswer:
    """What this machine answers to these sections alone."""
    family = CheckFamily("made", (), sections, lambda answer: ())
    command = script.build((family,), "run-1", 60, at_most_s)
    return script.split(Node("n1"), run_here(command), "run-1", "raw/preflight/n1.txt")


def test_a_small_section_that_hangs_costs_its_own_answer_alone() -> None:
    answer = asked_here(
        Section("before", "echo 1", small=True),
        Section("hung", "echo begun; sleep 60", small=True),
        Section("behind", "echo 3", small=True),
        Section("tool", "uname -s"),
        at_most_s=2,
    )
    assert answer.problem is None
    outputs = {name: (s.stdout, s.exit_status) for name, s in answer.sections.items()}
    assert outputs == {
        "before": ("1\n", 0),
        "hung": ("begun\n", 124),
        "behind": ("3\n", 0),
        "tool": ("Linux\n", 0),
    }


def test_small_sections_do_not_change_each_other() -> None:
    answer = asked_here(
        Section("first", "cd /; x=1; IFS=:; set -f; exit 3", small=True),
        Section(
            "second", 'echo "${x:-none} $IFS" | tr -d " \\t\\n"; set -- a b; echo $#', small=True
        ),
    )
    outputs = {name: (s.stdout, s.exit_status) for name, s in answer.sections.items()}
    assert outputs == {"first": ("", 3), "second": ("none2\n", 0)}


def test_a_named_tool_that_is_not_there_is_answered_at_once_and_one_that_is_there_runs() -> None:
    answer = asked_here(
        Section("absent", "x=$(no-such-tool); echo $x", tool="no-such-tool"),
        Section("there", "x=$(echo 5); echo $x", tool="uname"),
    )
    assert (answer.sections["absent"].exit_status, answer.sections["absent"].stderr) == (
        127,
        "sh: no-such-tool: not found\n",
    )
    assert (answer.sections["there"].exit_status, answer.sections["there"].stdout) == (0, "5\n")


def test_every_section_is_timed_by_the_nodes_own_clock() -> None:
    answer = asked_here(Section("slow", "sleep 0.3"), Section("quick", "true"))
    assert answer.sections["slow"].seconds is not None
    assert answer.sections["slow"].seconds >= 0.29
    assert answer.sections["quick"].seconds is not None


def test_a_text_that_a_check_stumbles_over_costs_one_node_its_answer_and_nobody_else() -> None:
    def stumble(answer: NodeAnswer) -> tuple[CheckResult, ...]:
        if answer.node.name == "odd":
            raise ValueError("not enough values to unpack {0}")
        return (CheckResult("x.y", answer.node.name, Status.PASS, "well", "well", "x"),)

    def fall(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
        raise KeyError("majority")

    checks = (Check("x.y", "x", "never"), Check("cross.z", "x", "never"))
    family = CheckFamily("x", checks, (), stumble, fall)
    nodes = tuple(NodeAnswer(Node(name), {}, "raw/x", None) for name in ("good", "odd"))
    results = frame.judge((family,), nodes, Policy("lab", ("x.y", "cross.z"), ()))
    by_node = {(r.check_id, r.node): (r.status, r.seen) for r in results}
    assert by_node[("x.y", "good")] == (Status.PASS, "well")
    assert by_node[("x.y", "odd")] == (Status.UNKNOWN, "not understood")
    assert {by_node[("cross.z", name)] for name in ("good", "odd")} == {
        (Status.UNKNOWN, "not understood")
    }
    assert "ValueError: not enough values to unpack {0}" in next(
        r.reason for r in results if (r.check_id, r.node) == ("x.y", "odd")
    )


def test_of_many_rails_that_are_not_there_three_are_named_and_the_last_row_is_the_evidence() -> (
    None
):
    node = Node("n1", rails=tuple(f"mlx5_{number}" for number in range(6)))
    (result,) = check("rdma.devices", answer_of(node))
    assert result.seen == "mlx5_1, mlx5_2, mlx5_3 and 2 more missing; devices there: 1"
    assert result.evidence is not None
    assert result.evidence.text.split()[0] == "mlx5_0"
