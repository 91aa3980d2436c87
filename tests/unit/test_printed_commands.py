"""Commands of findings can be pasted: they name the nodes, the fabric, and how to reach a node."""

from __future__ import annotations

import re
import shlex
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from plans import run_plan

from busbw import assess, cli
from busbw.assess import commands, placeholders
from busbw.fabrics import profiles
from busbw.fabrics.profile import undetected
from busbw.model import (
    Cluster,
    Confidence,
    Evidence,
    Finding,
    Fix,
    Node,
    Status,
    Uncovered,
    Unreachable,
)
from busbw.parsers.findings import catalogue
from busbw.playbook import load
from busbw.run import publish
from busbw.run.planning import RunOptions, new_plan
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import ReachArtefact, StageFailure
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir

NODES = (
    Node("n1"),
    Node("n2", address="10.0.0.2", user="ops", port=2222, identity_file="/k/id"),
    Node("n3", ssh_options=(("ProxyJump", "bastion"),)),
)


def plan(**changes: object) -> RunPlan:
    cluster = Cluster(NODES, "n1", "cluster.yaml")
    made = run_plan(
        cluster,
        load("quick"),
        undetected(),
        words=("-i", "cluster.yaml", "-p", "tcp"),
        run_words=("quick", "--nccl-tests", "~/nccl-tests"),
    )
    return replace(made, **changes)


def test_workers_that_a_run_made_are_made_again_and_not_looked_for(tmp_path: Path) -> None:
    """Their inventory is gone with the run; busbw refuses one beside a launcher that makes nodes."""
    inventory = tmp_path / "workers.yaml"
    inventory.write_text("nodes: [w-0.job, w-1.job]\nlauncher: mpijob\n")
    pods = ("--image", "registry/nccl:1", "--namespace", "bench", "--rdma", "rdma/ib=8")
    options = RunOptions(
        "quick",
        inventory=str(inventory),
        transport="kubectl",
        profile="infiniband",
        nccl_tests="/opt/build",
        launcher="mpijob",
        node_count=2,
        pods=pods,
    )
    made = new_plan(options, started="now")
    assert made.cluster.source == "workers of registry/nccl:1"
    printed = commands.of("busbw run --survey", made)
    assert printed == (
        "busbw run quick -p infiniband --nccl-tests /opt/build --launcher mpijob --node-count 2"
        " --image registry/nccl:1 --namespace bench --rdma rdma/ib=8 --survey"
    )
    cli.build_parser().parse_args(shlex.split(printed)[1:])


def test_an_allocation_is_asked_for_as_it_was() -> None:
    options = RunOptions(
        "quick",
        nodes="n[1-2]",
        profile="tcp",
        nccl_tests="/opt/build",
        launcher="srun",
        partition="gpu",
        node_count=16,
        salloc=("--gpus-per-node=8",),
        unset=("NCCL_NET",),
    )
    printed = commands.of("busbw run", new_plan(options, started="now"))
    assert printed.endswith(
        "--launcher srun --partition gpu --node-count 16 --salloc=--gpus-per-node=8 --unset NCCL_NET"
    )
    given = cli.build_parser().parse_args(shlex.split(printed)[1:])
    assert (given.salloc, given.node_count) == (["--gpus-per-node=8"], 16)


def test_commands_name_the_folder_that_was_given_to_the_run() -> None:
    made = plan(run_words=("firmware-ci", "-o", "ciruns"))
    finding = Finding(
        id="slower-than-accepted",
        status=Status.FAIL,
        title="slower",
        where=(),
        evidence=(),
        confidence=Confidence.CERTAIN,
    )
    (whole,) = commands.completed((catalogue.filled(finding),), made)
    assert whole.fixes[0].commands == ("busbw diff ciruns/r",)
    assert whole.verify == ("busbw run firmware-ci -i cluster.yaml -p tcp -o ciruns",), (
        "measured again, and compared then"
    )
    assert placeholders.directory(plan()) == "runs/r"


def test_the_run_that_holds_a_node_is_named_in_the_command_that_ends_it() -> None:
    seen = "run 20261127-0912-quick-ab of ana@login1 (process 41) since 2026-11-27 09:12 UTC"
    finding = Finding(
        "sw.lease", Status.WARN, f"n1: {seen}", ("n1",), (), Confidence.CERTAIN, required=False
    )
    (whole,) = commands.completed((catalogue.filled(finding),), plan())
    assert whole.fixes[0].commands == ("busbw cleanup runs/20261127-0912-quick-ab",)


@pytest.mark.parametrize(
    ("printed", "whole"),
    [
        ("busbw check", "busbw check -i cluster.yaml -p tcp"),
        (
            "busbw run --survey --budget 20m",
            "busbw run quick -i cluster.yaml -p tcp --nccl-tests '~/nccl-tests' --survey --budget 20m",
        ),
        # How they are reached the inventory says.
        (
            "busbw run -w n1,n2",
            "busbw run quick -i cluster.yaml -p tcp --nccl-tests '~/nccl-tests' -w n1,n2",
        ),
        ("busbw check -w n[1-2]", "busbw check -i cluster.yaml -p tcp -w 'n[1-2]'"),
        ("busbw check -i other.yaml -w n1", "busbw check -i other.yaml -w n1"),
        (
            "busbw check --sudo   # needs root",
            "busbw check -i cluster.yaml -p tcp --sudo   # needs root",
        ),
        ("busbw run --resume r", "busbw run --resume r"),
        ("busbw diff", "busbw diff"),
        ("the switch's counters: busbw run", "the switch's counters: busbw run"),
        ("ssh n1 uptime", "ssh n1 uptime"),
        ("ssh n2 uptime", "ssh -p 2222 -i /k/id -l ops 10.0.0.2 uptime"),
        ("ssh n3 uptime", "ssh -o ProxyJump=bastion n3 uptime"),
        ("ssh other uptime", "ssh other uptime"),
        ("ssh-copy-id n1", "ssh-copy-id n1"),
        ("ssh-copy-id n2", "ssh-copy-id -p 2222 -i /k/id -o User=ops 10.0.0.2"),
        ("ssh-copy-id n3", "ssh-copy-id -o ProxyJump=bastion n3"),
    ],
)
def test_a_command_is_printed_whole(printed: str, whole: str) -> None:
    assert commands.of(printed, plan()) == whole


@pytest.mark.parametrize("words", [("-x",), ("-x", "gpu-["), ("-x", "n2")])
def test_a_plan_that_somebody_changed_ends_in_no_traceback(words: tuple[str, ...]) -> None:
    assert "n3" in commands.of("busbw run -x n3", plan(words=words)).replace("[2-3]", "3")


def test_a_node_of_a_lab_is_reached_through_the_lab() -> None:
    lab = Cluster(NODES, "n1", "lab demo (emulated)", emulated=True)
    assert (
        commands.of("ssh n2 ip -s link", plan(cluster=lab))
        == "busbw lab exec --name demo n2 -- ip -s link"
    )


@pytest.mark.parametrize(
    ("printed", "on_host", "in_lab"),
    [
        (
            "ssh NODE ip -s link show INTERFACE",
            "ssh n9 'for i in eth0 eth1; do ip -s link show $i; done'",
            "busbw lab exec --name demo n9 -- sh -c 'for i in eth0 eth1; do ip -s link show $i; done'",
        ),
        (
            "ssh NODE ethtool -S INTERFACE | grep -i drop",
            "ssh n9 'for i in eth0 eth1; do ethtool -S $i; done' | grep -i drop",
            (
                "busbw lab exec --name demo n9 -- sh -c"
                " 'for i in eth0 eth1; do ethtool -S $i; done' | grep -i drop"
            ),
        ),
    ],
)
def test_a_node_of_several_interfaces_is_asked_for_each(
    printed: str, on_host: str, in_lab: str
) -> None:
    node = Node("n9", rails=("eth0", "eth1"))
    finding = Finding("x", Status.FAIL, "slow", ("n9",), (), fixes=(Fix("Look", (printed,)),))
    for cluster, whole in (
        (Cluster((node,), "n9", "cluster.yaml"), on_host),
        (Cluster((node,), "n9", "lab demo (emulated)", emulated=True), in_lab),
    ):
        (done,) = commands.completed((finding,), plan(cluster=cluster))
        assert done.fixes[0].commands == (whole,)


def test_every_command_of_a_finding_and_of_a_gap_is_completed() -> None:
    finding = Finding(
        "x",
        Status.FAIL,
        "n2 is slow",
        ("n2",),
        (),
        fixes=(Fix("Look", ("ssh n2 uptime",)),),
        verify=("busbw run --survey",),
        would_settle=("busbw check",),
    )
    (whole,) = commands.completed((finding,), plan())
    assert whole.fixes[0].commands == ("ssh -p 2222 -i /k/id -l ops 10.0.0.2 uptime",)
    assert whole.verify[0].startswith("busbw run quick -i cluster.yaml")
    assert whole.would_settle == ("busbw check -i cluster.yaml -p tcp",)
    (gap,) = commands.settling((Uncovered("x", "y", "busbw check"),), plan())
    assert gap.would_settle == "busbw check -i cluster.yaml -p tcp"


@pytest.mark.parametrize(
    ("where", "whole"),
    [
        (("rank 2", "n1"), ("ssh n1 kill -CONT 7", "ssh n1 'dmesg | tail'", "srun -n 1 x")),
        (
            ("n1", "n2"),
            (
                "kill -CONT 7   # on n[1-2], each with its own",
                "dmesg | tail   # on n[1-2], each with its own",
                "srun -n 1 x",
            ),
        ),
        (("rank 2",), ("kill -CONT 7", "dmesg | tail", "srun -n 1 x")),
    ],
)
def test_a_command_of_a_hung_job_says_on_which_node_it_runs(
    where: tuple[str, ...], whole: tuple[str, ...]
) -> None:
    steps = (Fix("Continue it", ("kill -CONT 7", "dmesg | tail", "srun -n 1 x"), "app-owner"),)
    finding = Finding("stall-rank-stopped", Status.FAIL, "stopped", where, (), fixes=steps)
    cluster = Cluster((Node("n1"), Node("n2")), "n1", "-w n[1-2]")

    (reached,) = commands.reaching((finding,), cluster)

    assert reached.fixes[0].commands == whole


def test_a_command_for_answers_that_were_collected_names_the_node_behind_it() -> None:
    steps = (Fix("Continue it", ("kill -CONT 7", "srun -n 1 x"), "app-owner"),)
    finding = Finding("stall-rank-stopped", Status.FAIL, "stopped", ("n1",), (), fixes=steps)
    (named,) = commands.naming((finding,), ("n1", "n2"))
    assert named.fixes[0].commands == ("kill -CONT 7   # on n1", "srun -n 1 x")


def test_a_plan_keeps_the_words_that_name_its_nodes_and_no_password() -> None:
    made = new_plan(
        RunOptions(
            "quick",
            nodes="n[1-4]",
            exclude="n3",
            profile="tcp",
            nccl_tests="https://ada:Zq7secret@git.example.org/nccl-tests",
            env=("NCCL_DEBUG=INFO",),
        )
    )
    assert made.words == ("-w", "n[1-4]", "-x", "n3", "-p", "tcp")
    assert "Zq7secret" not in " ".join(made.run_words)
    assert made.run_words[-2:] == ("--env", "NCCL_DEBUG=INFO")


@pytest.mark.parametrize(
    ("where", "command", "whole"),
    [
        (("n1",), "kill -CONT 1483", "ssh n1 kill -CONT 1483"),
        (("n1 eth0",), "ethtool -S eth0", "ssh n1 ethtool -S eth0"),
        (("n1",), "grep . /sys/*/rate", "ssh n1 'grep . /sys/*/rate'"),
        (("n1",), "mlxlink -d <mst dev>", "ssh n1 mlxlink -d mlx5_3"),
        (("n1", "n2"), "dcgmi diag -r 3", "dcgmi diag -r 3"),
        (("leaf1", "n1"), "dcgmi diag -r 3", "dcgmi diag -r 3"),
        (("n1",), "grep -rE NET/ RUN/raw/cases", "grep -rE NET/ runs/r/raw/cases"),
        ((), "busbw run --resume RUN", "busbw run --resume runs/r"),
        ((), "busbw why RUN", "busbw why runs/r"),
        ((), "busbw baseline accept RUN", "busbw baseline accept RUN"),
        (("n1",), "the switch's counters", "the switch's counters"),
    ],
)
def test_a_command_for_one_node_says_on_which_it_runs(
    where: tuple[str, ...], command: str, whole: str
) -> None:
    """A reader of the first screen would have sent `kill` to processes of another machine."""
    title = "mlx5_3 200 Gb/s; the others 400 Gb/s"
    fixes = (Fix("do", (command,)),)
    (finding,) = commands.completed(
        (Finding("x", Status.FAIL, title, where, (), fixes=fixes),), plan()
    )
    assert finding.fixes[0].commands == (whole,)


def test_the_node_and_its_only_interface_stand_in_place_of_their_words() -> None:
    nodes = (Node("n1", rails=("ens3",)), Node("n2", rails=("ens3", "ens4")))
    cluster = Cluster(nodes, "n1", "cluster.yaml")
    printed = (Fix("Look", ("ssh NODE ip -s link show INTERFACE",)),)
    one, two, both = (
        commands.completed(
            (Finding("x", Status.WARN, "loses packets", where, (), fixes=printed),),
            plan(cluster=cluster),
        )[0]
        for where in (("n1",), ("n2",), ("n1", "n2"))
    )
    assert one.fixes[0].commands == ("ssh n1 ip -s link show ens3",)
    loop = "for i in ens3 ens4; do ip -s link show $i; done"
    assert two.fixes[0].commands == (f"ssh n2 '{loop}'",)
    assert both.fixes == printed


@pytest.mark.parametrize(("profile", "kept"), [("tcp", 1), ("infiniband", 3)])
def test_programs_of_rdma_are_named_only_where_the_fabric_has_it(profile: str, kept: int) -> None:
    printed = Fix("Look", ("ethtool -S ens3", "ibstat", "ssh NODE perfquery -x LID PORT"))
    finding = Finding("x", Status.FAIL, "n1 is slow", ("n1",), (), fixes=(printed,))
    (whole,) = commands.completed((finding,), plan(profile=profiles.load(profile)))
    assert len(whole.fixes[0].commands) == kept
    assert whole.fixes[0].commands[0] == "ssh n1 ethtool -S ens3"


def test_the_shell_of_a_lab_node_expands_its_own_names() -> None:
    lab = Cluster(NODES, "n1", "lab demo (emulated)", emulated=True)
    fixes = (Fix("do", ("cat /sys/*/rate",)),)
    finding = Finding("x", Status.FAIL, "slow", ("n2",), (), fixes=fixes)
    (whole,) = commands.completed((finding,), plan(cluster=lab))
    assert whole.fixes[0].commands == ("busbw lab exec --name demo n2 -- sh -c 'cat /sys/*/rate'",)


def test_where_no_node_is_reached_the_steps_name_one_to_try(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-21T10:00:00Z", "quick")
    made = plan(run_id=run.run_id, started="2026-11-21T10:00:00Z")
    artefacts.keep(run, "plan.json", made)
    missing = tuple(Unreachable(name, "timed out") for name in ("n2", "n3"))
    artefacts.keep(run, "reach.json", ReachArtefact((), missing, "ssh"))
    artefacts.keep(run, "failure-reach.json", StageFailure("reach", "none", "n2", "", 3))
    (found,) = (each for each in assess.derive(run).findings if each.id == "reach-failed")
    assert found.where == ("n2", "n3")
    assert [command for fix in found.fixes for command in fix.commands] == [
        "ssh -p 2222 -i /k/id -l ops 10.0.0.2 true",
        "ssh-copy-id -p 2222 -i /k/id -o User=ops 10.0.0.2",
    ]


def test_a_step_of_a_check_names_the_interface_that_was_seen_and_a_node_to_look_at() -> None:
    fixes = (
        Fix("set it", ("mlnx_qos -i INTERFACE --trust dscp",), needs="root"),
        Fix("look", ("top -b -n 1",)),
    )
    seen = "eth.qos: trust dscp, PFC on no priority: ens24np0 and 7 more"
    one = Finding("eth.qos", Status.WARN, seen, ("n1",), (), fixes=fixes)
    both = replace(one, id="os.cpu_load", title="os.cpu_load: busy", where=("n1", "n3"))
    (settled, busy) = commands.completed((one, both), plan())
    assert [fix.commands for fix in settled.fixes] == [
        ("ssh n1 mlnx_qos -i ens24np0 --trust dscp",),
        ("ssh n1 top -b -n 1",),
    ]
    assert [fix.commands for fix in busy.fixes] == [
        ("mlnx_qos -i INTERFACE --trust dscp",),
        ("ssh n1 top -b -n 1",),
    ], "what changes something is for all of them"


def test_after_a_rehearsal_the_command_names_the_contract_of_the_run() -> None:
    step = catalogue.fixes("contract-rehearsed")
    finding = Finding("contract-rehearsed", Status.UNKNOWN, "", (), (), fixes=step)
    given = ("provider-acceptance", "--contract", "my offer.yaml")
    (done,) = commands.completed((finding,), plan(run_words=given, words=("-i", "lab")))
    assert done.fixes[0].commands == (
        "busbw run provider-acceptance -i busbw.yaml --contract 'my offer.yaml'",
    )


NOBODY_KNOWS = {
    # Entry → what its commands leave to the reader, who alone knows it.
    "cross.pkey": {"<index>", "<hca>"},
    "not-compared": {"RUN"},
}
ANY_PLACEHOLDER = re.compile(r"<[a-z][^<>]*>|(?<![\w$./-])(?:[A-Z]+_)*[A-Z]{3,}(?![\w=.,/-])")
PROSE = {
    "NVRM",
    "RATE",
    "TUNING",
    "NET",
    "GID",
    "INFO",
    "NCCL",
    "GDR",
    "GDRDMA",
    "NVLS",
    "PFC",
    "MTU",
    "ECC",
    "IRQ",
}
RECORDED = sorted((Path(__file__).parents[1] / "fixtures").glob("lab_*/*.tar.xz"))


@pytest.mark.parametrize("packed", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_no_command_of_a_recorded_run_leaves_a_word_that_the_run_knows(
    packed: Path, tmp_path: Path
) -> None:
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    result = publish.publish(RunDir(tmp_path))
    assert (
        not {
            (finding.id, command, word)
            for finding in result.findings
            for command in every_command(finding)
            for word in ANY_PLACEHOLDER.findall(command)
            if word not in NOBODY_KNOWS.get(finding.id, ()) and word not in PROSE
        }
        - OLD_RECORDING
    )


OLD_RECORDING = {
    # Recorded before nvidia-smi was asked for pci.bus_id.
    ("gpu.pcie_link", command, "<bdf>")
    for command in (
        "busbw lab exec --name trial node3 -- sh -c 'lspci -vvv -s <bdf> | grep -E"
        ' "LnkCap:|LnkSta:"\'',
        "busbw lab exec --name trial node3 -- sh -c 'lspci -vvv -s <bdf> | grep LnkSta:'",
    )
} | {
    # Recorded before a plan kept the path of its contract.
    (
        "contract-rehearsed",
        "busbw run provider-acceptance -i busbw.yaml --contract CONTRACT",
        "CONTRACT",
    )
}


def every_command(finding: Finding) -> tuple[str, ...]:
    steps = (command for fix in finding.fixes for command in fix.commands)
    return (*steps, *finding.verify, *finding.would_settle)


@pytest.mark.parametrize("entry", catalogue.load().entries, ids=lambda entry: entry.id)
def test_no_command_of_the_catalogue_leaves_a_word_that_the_run_knows(
    entry: catalogue.Entry,
) -> None:
    """A finding of one node that names everything a finding can name."""
    node = Node("n1", rails=("ens3",))
    seen = "run r2 of ana: GPU 3 of 0000:9d:00.0 mlx5_3: pid 77 runs /home/u/all_reduce_perf"
    steps = tuple(step.fix() for step in entry.fix)
    whole = Finding(entry.id, Status.FAIL, seen, ("n1",), (), fixes=steps, verify=entry.verify)
    cluster = Cluster((node, Node("n2")), "n1", "cluster.yaml")
    given = plan(cluster=cluster, run_words=("quick", "--contract", "contract.yaml"))
    (done,) = commands.completed((whole,), given)
    left = {
        (command, word) for command in every_command(done) for word in placeholders.left_in(command)
    }
    assert not left


def test_the_parts_that_a_finding_names_stand_in_its_commands() -> None:
    printed = ("lspci -vv -s BUS_ID", "mlxlink -d <mst dev>", "sha256sum BINARY")
    texts = (
        "GPU 2 at 00000000:9D:00.0: x8 of x16, on mlx5_2",
        "03:12:44 /opt/t/all_reduce_perf differs",
    )
    evidence = tuple(Evidence("raw/x", None, text) for text in texts)
    finding = Finding("x", Status.FAIL, "slow", ("n1",), evidence, fixes=(Fix("Look", printed),))
    (done,) = commands.completed((finding,), plan())
    assert done.fixes[0].commands == (
        "ssh n1 lspci -vv -s 0000:9d:00.0",
        "ssh n1 mlxlink -d mlx5_2",
        "sha256sum /opt/t/all_reduce_perf",
    )


@pytest.mark.parametrize(("where", "asked"), [("n1 rail 1", "ens4"), ("n1 ens3", "ens3")])
def test_of_several_interfaces_the_one_that_the_place_names_is_asked(
    where: str, asked: str
) -> None:
    cluster = Cluster((Node("n1", rails=("ens3", "ens4")),), "n1", "cluster.yaml")
    finding = Finding(
        "x", Status.FAIL, "slow", (where,), (), fixes=(Fix("Look", ("ethtool INTERFACE",)),)
    )
    (done,) = commands.completed((finding,), plan(cluster=cluster))
    assert done.fixes[0].commands == (f"ssh n1 ethtool {asked}",)


def test_no_command_that_stops_a_machine_is_printed_without_that_machine() -> None:
    stops = ("reboot", "ipmitool chassis", "shutdown", "poweroff")
    bare = [
        f"{entry.id}: {command}"
        for entry in catalogue.load().entries
        for step in entry.fix
        for command in step.run
        if command.startswith(stops)
    ]
    assert bare == [], "pasted as it stands it would stop the machine of the person who reads it"


def test_a_step_that_several_nodes_need_stands_there_for_the_first_of_them() -> None:
    step = Fix("Raise it", ("ssh NODE 'systemctl daemon-reload'", "docker run x"), "root")
    finding = Finding("os.limits.nofile", Status.WARN, "20000", ("n1", "n2", "n3"), (), "", (step,))
    cluster = Cluster((Node("n1"), Node("n2"), Node("n3")), "n1", "-w n[1-3]")
    (done,) = commands.completed((finding,), plan(cluster=cluster))
    assert done.fixes[0].commands == (
        "ssh n1 'systemctl daemon-reload'   # the same on n[2-3]",
        "docker run x",
    )
