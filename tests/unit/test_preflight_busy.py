"""Nodes that somebody else works on: who, what could not be seen, when a run refuses; and slots of
a hostfile that are no GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from plans import run_plan

from busbw import playbook
from busbw.checks import NodeAnswer, SectionOutput, occupied
from busbw.checks.occupied import Occupant
from busbw.checks.software import NodeFacts, facts
from busbw.errors import BusyError
from busbw.fabrics import profiles
from busbw.model import Cluster, Command, CommandResult, Node
from busbw.run import occupants, participants
from busbw.run.context import Context
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import PreflightArtefact

HEAD = "gpu_uuid, pid, used_gpu_memory [MiB]\n"
IDENTITY = "host={}\nhome=/home/me\nuid=1000\nssh=\nmpirun=/usr/bin/mpirun\n"
LISTED = (
    "S       9  1001 bob    do_wait   mpirun\nS      10  1000 me     do_wait   mpirun\nS      11   "
    "  0 root   ep_poll   sshd\n"
)


def answer(node: str, **sections: str | tuple[str, str, int]) -> NodeAnswer:
    outputs = {}
    for name, value in (
        {
            "identity": IDENTITY.format(node),
            "processes": "",
            "mpirun_version": "mpirun (Open MPI) 4.1.4\n",
        }
        | sections
    ).items():
        out, err, status = (value, "", 0) if isinstance(value, str) else value
        outputs[name] = SectionOutput(name, out, err, status, 1)
    return NodeAnswer(Node(node), outputs, f"raw/preflight/{node}.txt", None)


class Session:
    """A head node that has or lacks squeue."""

    def __init__(self, stdout: str, exit_status: int = 0, stderr: str = "") -> None:
        self.result = CommandResult(
            "gpu-1", ("squeue",), exit_status, stdout.encode(), stderr.encode(), 0.1
        )
        self.asked: list[Command] = []

    def run(self, command: Command) -> CommandResult:
        self.asked.append(command)
        return self.result


def context(
    tmp_path: Path,
    names: tuple[str, ...],
    head: Session,
    *,
    force: bool = False,
    nodes: tuple[Node, ...] = (),
) -> Context:
    run = run_directory.create(tmp_path, "2026-11-21T12:00:00Z", "test")
    artefacts.keep(run, "preflight.json", PreflightArtefact("b", ()))
    cluster = Cluster(nodes or tuple(Node(name) for name in names), names[0], "-w")
    book = playbook.load("quick", emulated=True)
    plan = run_plan(
        cluster,
        book,
        profiles.load("tcp"),
        run_id=run.run_id,
        started="2026-11-21T12:00:00Z",
        force=force,
    )
    messages: list[str] = []
    fleet = SimpleNamespace(
        sessions=dict.fromkeys(names, head),
        run=lambda commands, deadline_s: tuple(
            CommandResult(node, command.argv, 0, b"", b"", 0.1)
            for node, command in commands.items()
        ),
    )
    prepared = Context(
        run=run,
        plan=plan,
        fleet=cast("Any", fleet),
        now=lambda: "",
        progress=lambda step, text: messages.append(text),
    )
    object.__setattr__(prepared, "said", messages)
    return prepared


def messages_of(prepared: Context) -> list[str]:
    return cast("list[str]", cast("Any", prepared).said)


def test_a_process_on_a_gpu_is_named_with_its_owner_where_that_is_seen() -> None:
    text = f"{HEAD}GPU-1, 77, 4096\nGPU-2, 78, 512\nowner 77 ana python3\n"
    assert occupied.occupants(answer("gpu-1", gpu_apps=text), 1000) == (
        Occupant("gpu-1", "python3 on a GPU", "ana"),
        Occupant("gpu-1", "process 78 on a GPU", None),
    )


def test_launchers_of_other_users_count_and_ones_own_do_not() -> None:
    assert occupied.occupants(answer("gpu-1", processes=LISTED), 1000) == (
        Occupant("gpu-1", "mpirun", "bob"),
    )
    assert occupied.occupants(answer("gpu-1", processes=LISTED), 1001) == (
        Occupant("gpu-1", "mpirun", "me"),
    )


def test_what_could_not_be_seen_is_reported() -> None:
    assert occupied.unseen(answer("gpu-1")) == ()
    blind = answer(
        "gpu-1",
        processes=("", "sh: ps: not found\n", 127),
        nvidia_driver="loaded\n",
        gpu_apps=("", "", 124),
    )
    assert occupied.unseen(blind) == (
        "processes on GPUs: nvidia-smi does not answer",
        "other users' launchers: ps does not answer",
    )


def test_slurm_is_asked_once_and_only_on_its_own_nodes(tmp_path: Path) -> None:
    head = Session("8812 1001 ana gpu-[2-3]\n8813 1000 me gpu-1\n8814 1001 ana other-9\n")
    free = context(tmp_path, ("gpu-1", "gpu-2"), head)
    assert occupants.look(
        free, (answer("gpu-1"), answer("gpu-2")), "gpu-1"
    ) == occupants.Occupation((), ())
    assert head.asked == []
    slurm = "S       5     0 root   ep_poll   slurmd\n"
    seen = occupants.look(
        free, (answer("gpu-1", processes=slurm), answer("gpu-2", processes=slurm)), "gpu-1"
    )
    assert seen == occupants.Occupation((Occupant("gpu-2", "Slurm job 8812", "ana"),), ())
    assert len(head.asked) == 1


def test_without_squeue_the_allocations_are_not_known_and_the_report_hears_of_it(
    tmp_path: Path,
) -> None:
    head = Session("", 127, "sh: 1: squeue: not found\n")
    slurm = "S       5     0 root   ep_poll   slurmd\n"
    prepared = context(tmp_path, ("gpu-1", "gpu-2"), head)
    chosen = participants.choose(
        prepared, (answer("gpu-1", processes=slurm), answer("gpu-2", processes=slurm))
    )
    assert chosen.unseen == (
        "Slurm jobs of others: squeue on gpu-1: sh: 1: squeue: not found (gpu-[1-2])",
    )
    assert chosen.nodes == ("gpu-1", "gpu-2")


def test_a_run_refuses_busy_nodes_with_exit_status_two_and_asks_anew_next_time(
    tmp_path: Path,
) -> None:
    prepared = context(tmp_path, ("gpu-1", "gpu-2"), Session(""))
    answers = (
        answer("gpu-1"),
        answer("gpu-2", gpu_apps=f"{HEAD}GPU-1, 77, 4096\nowner 77 ana python3\n"),
    )
    with pytest.raises(BusyError) as refused:
        participants.choose(prepared, answers)
    assert refused.value.exit_status == 2
    assert refused.value.lines() == (
        "error: 1 of 2 nodes are in use by somebody else",
        "seen: gpu-2: python3 on a GPU of ana",
        "next: wait, leave them out (-x gpu-2), or measure beside them with --force",
    )
    assert artefacts.load(prepared.run, "preflight.json", PreflightArtefact) is None


def test_with_force_a_run_measures_beside_others_and_says_so(tmp_path: Path) -> None:
    prepared = context(tmp_path, ("gpu-1",), Session(""), force=True)
    chosen = participants.choose(prepared, (answer("gpu-1", gpu_apps=f"{HEAD}GPU-1, 77, 4096\n"),))
    assert chosen.nodes == ("gpu-1",)
    assert messages_of(prepared) == [
        "measured beside others, as asked for: gpu-1: process 77 on a GPU of an owner that is not"
        " seen from here"
    ]


def known(gpus: Mapping[str, int | None]) -> dict[str, NodeFacts]:
    return {
        name: dataclasses.replace(facts(answer(name)), gpus=count) for name, count in gpus.items()
    }


def test_slots_that_are_not_the_gpus_are_ignored_and_it_is_reported(tmp_path: Path) -> None:
    nodes = (
        Node("gpu-1", slots=96),
        Node("gpu-2", slots=8),
        Node("gpu-3", slots=4, gpus=8),
        Node("gpu-4", slots=2),
    )
    prepared = context(tmp_path, ("gpu-1", "gpu-2", "gpu-3", "gpu-4"), Session(""), nodes=nodes)
    settled = participants.settle_slots(
        prepared, known({"gpu-1": 8, "gpu-2": 8, "gpu-3": 8, "gpu-4": None})
    )
    assert [(node.slots, node.gpus) for node in settled.plan.cluster.nodes] == [
        (None, 8),
        (8, None),
        (4, 8),
        (2, None),
    ]
    assert messages_of(prepared) == [
        "slots=96 of gpu-1 ignored: there are 8 GPUs; --ranks-per-node 96 takes them nevertheless"
    ]


def test_ranks_per_node_of_the_command_line_win_over_all_slots(tmp_path: Path) -> None:
    prepared = context(tmp_path, ("gpu-1",), Session(""), nodes=(Node("gpu-1", slots=96),))
    with_ranks = dataclasses.replace(
        prepared, plan=dataclasses.replace(prepared.plan, ranks_per_node=4)
    )
    assert participants.settle_slots(with_ranks, known({"gpu-1": 8})) is with_ranks
