"""The course of a stalled launch, and the topology, as a run directory tells them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import live_answers
from plans import run_plan

from busbw import playbook
from busbw.assess import launches, layout, timeline
from busbw.fabrics.profile import undetected
from busbw.model import (
    BenchmarkCase,
    Cluster,
    Collective,
    Invocation,
    Node,
    Sizes,
    StallStory,
    StoryEvent,
    StoryRank,
    Unreachable,
)
from busbw.store.artefacts import CaseArtefact, SampleFile
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir

CASE = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(1 << 20, 1 << 20))
NODES = ("n1", "n2")


def plan_of(nodes: tuple[Node, ...]) -> RunPlan:
    return run_plan(
        Cluster(nodes, nodes[0].name, "cluster.yaml"), playbook.load("quick"), undetected()
    )


def artefact(**changes: object) -> CaseArtefact:
    """A launch of two ranks a node that was ended."""
    invocation = Invocation("all-reduce", ("mpirun",), (), NODES, 60.0, 4)
    base = CaseArtefact(CASE, invocation, NODES, 2, "stalled", None, 21.0, None, None, None)
    return dataclasses.replace(base, problem="no output for 15 s", **changes)  # type: ignore[arg-type]


def stories(run: RunDir, **changes: object) -> tuple[StallStory, ...]:
    return timeline.stories(run, [launches.read(run, artefact(**changes), {})])


def run_with(folder: Path, *lines: str) -> RunDir:
    (folder / "raw").mkdir()
    (folder / "raw" / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return RunDir(folder)


def test_a_node_that_does_not_answer_leaves_what_the_run_noted_and_who_was_not_found(
    tmp_path: Path,
) -> None:
    run = run_with(
        tmp_path,
        '{"at": "2026-11-21T12:00:00Z", "step": "all-reduce", "kind": "note", "text": "all_reduce'
        ' on 2 nodes, 4 ranks"}',
        '{"at": "2026-11-21T12:00:02Z", "step": "all-reduce", "kind": "row", "size_bytes":'
        ' 65536, "text": "  65536  16384 float sum -1 8706.78 0.01"}',
        '{"at": "2026-11-21T12:00:03Z", "step": "latency", "kind": "note", "text": "of another'
        ' case"}',
        "cut off in the mid",
        '{"at": "yesterday", "step": "all-reduce", "kind": "note", "text": "without a time"}',
        '{"at": "2026-11-21T12:00:17Z", "step": "all-reduce", "kind": "note", "text": "no output'
        ' for 15 s: taking samples of the nodes"}',
    )
    gone = Unreachable("n2", "no answer within 60 s")
    quiet = ("2026-11-21T12:00:02Z", "2026-11-21T12:00:17Z")
    (found,) = stories(run, unreachable=(gone,), quiet=quiet)
    began = found.events[0].at_s
    assert (found.case_id, found.ended, found.why, found.silent) == (
        "all-reduce",
        "stalled",
        "no output for 15 s",
        ("n2",),
    )
    assert found.quiet == (began + 2, began + 17)
    assert found.events == (
        StoryEvent(began, "busbw", "all_reduce on 2 nodes, 4 ranks"),
        StoryEvent(began + 2, "busbw", "row of 65536 bytes"),
        StoryEvent(began + 17, "busbw", "no output for 15 s: taking samples of the nodes"),
    )
    assert found.ranks == tuple(
        StoryRank(rank, NODES[rank // 2], "not found", "", None, rank >= 2) for rank in range(4)
    )


def test_what_nodes_wrote_stands_in_the_order_of_our_clock_however_far_theirs_are_off(
    tmp_path: Path,
) -> None:
    run = run_with(
        tmp_path,
        '{"at": "2026-11-21T12:00:00Z", "step": "all-reduce", "kind": "note", "text": "all_reduce'
        ' on 2 nodes, 4 ranks"}',
    )
    samples = []
    for number, (ahead, wrote) in enumerate(((3600.0, 9.0), (-3600.0, 5.0)), 1):
        began, name = live_answers.NOW + ahead, f"raw/cases/all-reduce/samples-1-n{number}.txt"
        parts = {
            "self": (
                f"host n{number} now {began} up 9000.0 boot b{number} tick 100\naddress eth0"
                f" 10.0.0.{number}\n"
            ),
            "ranks": (
                f"pid 10{number}\nBUSBW_JOB=x1\nWORLD_SIZE=4\nRANK={number}\nexe"
                " /opt/all_reduce_perf\n"
            ),
            "look-1": (
                f"look {began}\nstate 10{number} S parent 1 ticks 1 start 700000 rss 5 io 0 wchan"
                " ep_poll\n"
            ),
            "logs": (
                f"log 9 {began - wrote:.0f} 10{number} /out/r{number}\nend of log\nstep 7\nend of"
                " tail\n"
            ),
        }
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(live_answers.framed(parts))
        samples.append(SampleFile(f"n{number}", name, ahead))
    (found,) = stories(run, samples=tuple(samples))
    wrote_last = [
        (event.who, round(event.at_s - live_answers.NOW))
        for event in found.events
        if "last wrote" in event.text
    ]
    assert wrote_last == [("n1", -9), ("n2", -5)]


def test_a_launch_that_ended_by_itself_has_no_story(tmp_path: Path) -> None:
    assert stories(run_with(tmp_path)) == ()


def test_the_inventorys_labels_are_a_topology_only_where_every_node_has_one(tmp_path: Path) -> None:
    labelled = tuple(
        Node(name, rails=("eth0", "eth1"), labels=(("leaf", f"leaf{name[-1]}"),)) for name in NODES
    )
    found = layout.known(run_with(tmp_path), plan_of(labelled))
    assert found is not None
    assert [(nic.node, nic.rail, nic.device, nic.leaf) for nic in found.nics] == [
        ("n1", 0, "eth0", "leaf1"),
        ("n1", 1, "eth1", "leaf1"),
        ("n2", 0, "eth0", "leaf2"),
        ("n2", 1, "eth1", "leaf2"),
    ]
    assert (found.links, found.errors) == ((), ())
    assert (
        layout.known(
            RunDir(tmp_path), plan_of((labelled[0], dataclasses.replace(labelled[1], labels=())))
        )
        is None
    )
