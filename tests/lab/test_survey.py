"""The survey in the lab, a short form: a slow rail and a slow path. The whole matrix of faults is a
command, `make fault-matrix`."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import cgroups, faults, files, processes
from busbw.lab.state import LabState
from busbw.model import Component, ComponentKind

pytestmark = pytest.mark.lab

PLAYBOOK = str(Path(__file__).parents[1] / "bench" / "fault_matrix.yaml")

COUNTED = "30s"
"""Time for some launches, where only what they count matters: a loaded node keeps a survey open until
its budget ends."""


@pytest.fixture
def rails(lab_factory: Callable[..., LabState]) -> LabState:
    """Four nodes with two rails each on two leaves, every link shaped."""
    return lab_factory(
        built=True,
        nodes=4,
        rails=2,
        leaves=2,
        rate_bit_s=60e6,
        uplink_rate_bit_s=240e6,
        gpus=2,
    )


def survey(lab: LabState, out: Path, *more: str, playbook: str = PLAYBOOK) -> Any:
    words = [
        sys.executable,
        "-m",
        "busbw",
        "run",
        playbook,
        "-i",
        f"lab:{lab.name}",
        "--out",
        str(out),
        "-q",
        *(more or ("--budget", "90s")),
    ]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode in (0, 1, 3), done
    return json.loads((out / "latest" / "run.json").read_text())


def label(component: dict[str, Any]) -> str:
    return Component(
        ComponentKind(component["kind"]), tuple(component["names"]), component["rail"]
    ).label


def test_half_a_rail_is_found_and_nothing_but_it_and_what_cannot_be_distinguished_from_it_is_named(
    rails: LabState, tmp_path: Path
) -> None:
    faults.slow(rails, "node3", 20e6, "eth1")
    with_layers = tmp_path / "layers.yaml"
    with_layers.write_text(
        Path(PLAYBOOK)
        .read_text()
        .replace("groups: [pairs]", "groups: [pairs], layer_breakdown: on-shortfall")
    )
    run = survey(rails, tmp_path, "--budget", "180s", playbook=str(with_layers))
    first = run["findings"][0]
    assert (run["verdict"], first["status"]) == ("FAIL", "FAIL"), run["headline"]
    assert "node3 rail 1" in first["title"], first
    named = {label(b["component"]) for b in run["blame"]}
    assert named <= {"node3 rail 1", "leaf leaf2 rail 1"}, run["blame"]
    slow = {
        tuple(c["nodes"])
        for c in run["comparisons"]
        if c["case_id"].startswith("survey-pairs-") and c["status"] == "FAIL"
    }
    assert slow
    assert all("node3" in nodes for nodes in slow), slow
    splits = {
        c["case"]["split"] for c in run["cases"] if c["case"]["id"].startswith("survey-pairs-")
    }
    assert splits == {"DIV 2"}, "two ranks of the same rail are a group"
    # The shaper is below NCCL: iperf3 over that rail alone gets as little.
    links = {
        (tuple(c["nodes"]), c["reason"].partition(":")[0]): c
        for c in run["comparisons"]
        if c["case_id"] == "layer-breakdown"
    }
    slow_links = [place for place, c in links.items() if "the link itself is slow" in c["reason"]]
    reasons = {place: c["reason"] for place, c in links.items()}
    assert len(links) == 4, reasons
    assert len(slow_links) == 1, reasons
    assert "node3" in slow_links[0][0], reasons
    assert slow_links[0][1] == "rail 1", reasons
    # One table of all layers, and never the sentence that NCCL is to blame for a shaped link.
    (table,) = (f for f in run["findings"] if f["id"] == "layer-breakdown")
    assert [e["text"].partition(":")[0] for e in table["evidence"]] == [
        "link baseline",
        "benchmark over one rail",
        "NVLink alone",
        "network alone",
        "everything",
    ], table
    assert table["title"].startswith(
        (
            "a link is slow, not NCCL: its baseline is ",
            "inconclusive between the fabric and NCCL's settings",
        )
    ), table
    alone = next(c["case"] for c in run["cases"] if c["case"]["id"] == "survey-network")
    assert dict(alone["env"]) == {
        "NCCL_ALGO": "Ring",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
    }


@pytest.mark.long
def test_a_slow_path_is_named_as_a_path_and_its_ends_are_not(
    rails: LabState, tmp_path: Path
) -> None:
    faults.slow(rails, "node1", 20e6, toward="node4")
    run = survey(rails, tmp_path, "--budget", "150s")
    assert {tuple(map(label, (b["component"], *b["also"]))) for b in run["blame"]} == {
        ("node1 – node4",)
    }, run["findings"]
    first = run["findings"][0]
    assert (first["id"], run["verdict"]) == ("slow-pair", "FAIL")
    # On a busy machine it is only possible that it is the pair.
    assert first["title"].startswith(
        ("the pair node1 – node4 is slow: ", "slow with the pair node1 – node4: ")
    )
    # Confirmed: its ends with others at the same time, then with each other again.
    texts = [e["text"] for e in first["evidence"] if "confirm" in e["text"]]
    measured, conclusion = [t.split(": ")[:2] for t in texts[:-1]], texts[-1]
    assert measured[0] == ["confirmation, measured again", "node1 + node4"], texts
    assert [how for how, _ in measured[1:]] == ["confirmation, with another partner"] * 2, texts
    # Where noise makes one of the others suspicious, the last good node serves both ends in turn.
    others = [
        set(pair.split(" + ")) - {end}
        for (_, pair), end in zip(measured[1:], ("node1", "node4"), strict=True)
    ]
    assert [len(other) for other in others] == [1, 1], texts
    assert set().union(*others) <= {"node2", "node3"}, texts
    assert conclusion.startswith("confirmed: "), texts

    # One more launch that does not even load the path, with what was measured before: still named.
    again = survey(rails, tmp_path / "again", "--budget", "1ms", "--with", str(tmp_path / "latest"))
    assert [c["case"]["id"] for c in again["cases"]] == ["proof", "survey-pairs-1"]
    assert {tuple(map(label, (b["component"], *b["also"]))) for b in again["blame"]} == {
        ("node1 – node4",)
    }, again["findings"]
    assert not [f for f in again["findings"] if f["id"] == "layer-breakdown"]


def test_a_node_that_loses_one_packet_in_a_hundred_is_named_by_what_is_sent_again(
    rails: LabState, tmp_path: Path
) -> None:
    faults.loss(rails, "node2", 1.0)
    run = survey(rails, tmp_path)
    lossy = [f for f in run["findings"] if f["id"] == "packets-lost"]
    # On a busy machine its groups stumble so often that it is accused for that: then its segments
    # need not be counted.
    assert {tuple(f["where"]) for f in lossy} | {
        (label(b["component"]),) for b in run["blame"]
    } == {("node2",)}, run["findings"]
    assert run["verdict"] in ("WARN", "FAIL"), run["headline"]
    # Under load what was measured while busy may lead it; the node is named all the same.
    assert "node2" in run["headline"], run["headline"]
    for finding in lossy:
        evidence = finding["evidence"][0]
        line = (
            (tmp_path / "latest" / evidence["artefact"])
            .read_text()
            .splitlines()[evidence["line_no"] - 1]
        )
        assert line.startswith("Tcp: "), line
    # A node whose counters were lost is told, and its pairs are not taken for good ones.
    for path in (tmp_path / "latest" / "raw" / "cases").glob(
        "survey-pairs-*/counters-after/node2.txt"
    ):
        path.unlink()
    subprocess.run(
        [sys.executable, "-m", "busbw", "report", str(tmp_path / "latest")],
        check=False,
        stdin=subprocess.DEVNULL,
    )
    blind = json.loads((tmp_path / "latest" / "run.json").read_text())
    assert [u["what"] for u in blind["uncovered"] if u["what"].startswith("packets lost")] == [
        "packets lost by the pairs of node2"
    ]
    assert not [f for f in blind["findings"] if f["id"] == "packets-lost"]


def test_both_nodes_of_a_leaf_are_named_and_the_leaf_is_not(
    rails: LabState, tmp_path: Path
) -> None:
    """Every group that loads the leaf is as slow as a leaf at half its rate would make it: who sends
    again what the narrow place dropped decides."""
    for node in ("node3", "node4"):
        faults.slow(rails, node, 30e6)
    run = survey(rails, tmp_path, "--survey", "--fresh", "--budget", "150s")
    assert [(label(b["component"]), b["also"]) for b in run["blame"]] in (
        [("node3", []), ("node4", [])],
        [("node4", []), ("node3", [])],
    ), run["findings"]
    for blamed in run["blame"]:
        proof = [e for e in blamed["seen_in"] if "its own port is the narrow place" in e["text"]]
        line = (tmp_path / "latest" / proof[0]["artefact"]).read_text().splitlines()
        assert line[proof[0]["line_no"] - 1].startswith("Tcp: "), proof


def test_a_cpu_limit_is_named_by_how_often_it_stopped_the_node(
    rails: LabState, tmp_path: Path
) -> None:
    if rails.cgroup is None:
        pytest.skip(f"no control groups: {rails.cannot}")
    # Ranks that wait for links take little: loops want the rest, and get less than their share of a busy
    # machine's CPUs, so that it is the limit that stops them.
    faults.cpu_limit(rails, "node2", 0.2)
    faults.cpu_load(rails, "node2", 300, 4)
    run = survey(rails, tmp_path, "--budget", COUNTED)
    counted = (cgroups.of(rails, "node2") / "cpu.stat").read_text()
    if "nr_throttled 0\n" in counted:
        pytest.skip("other work left the node less than its limit, which stopped nothing")
    stopped = [f for f in run["findings"] if f["id"] == "cpu-throttled"]
    assert [f["where"] for f in stopped] == [["node2"]], run["findings"]
    assert {label(b["component"]) for b in run["blame"]} <= {"node2"}, run["findings"]
    proof = stopped[0]["evidence"][0]
    line = (tmp_path / "latest" / proof["artefact"]).read_text().splitlines()[proof["line_no"] - 1]
    assert "-node2/cpu.stat:nr_throttled " in line, line


def test_other_work_on_a_node_is_named_with_it(rails: LabState, tmp_path: Path) -> None:
    faults.cpu_load(rails, "node2", 300, 4)
    run = survey(rails, tmp_path, "--budget", COUNTED)
    shared = [f for f in run["findings"] if f["id"] == "cpu-shared"]
    assert [f["where"] for f in shared] == [["node2"]], run["findings"]
    assert {label(b["component"]) for b in run["blame"]} <= {"node2"}, run["findings"]
    proof = shared[0]["evidence"][0]
    line = (tmp_path / "latest" / proof["artefact"]).read_text().splitlines()[proof["line_no"] - 1]
    assert line.startswith("tasks "), line


def test_a_node_that_stops_in_a_launch_is_named_and_no_rank_of_another_is_missed(
    rails: LabState, tmp_path: Path
) -> None:
    quick = tmp_path / "quick.yaml"
    quick.write_text(Path(PLAYBOOK).read_text().replace("stall: 20s", "stall: 6s"))
    words = [
        sys.executable,
        "-m",
        "busbw",
        "run",
        str(quick),
        "-i",
        f"lab:{rails.name}",
        "--survey",
        "--out",
        str(tmp_path),
        "-q",
    ]
    job = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    try:
        printed = files.node_directory(rails, rails.nodes[0]) / "home/.cache/busbw/jobs"
        processes.wait_until(
            lambda: any(
                b"Rank" in path.read_bytes() for path in printed.glob("*/survey-pairs-1/stdout")
            ),
            90,
            "the survey's first launch",
        )
        faults.stall(rails, "node3")
        assert job.wait(timeout=400) == 1
    finally:
        job.kill()
        job.wait()
    run = json.loads((tmp_path / "latest" / "run.json").read_text())
    assert {(f["id"], *f["where"]) for f in run["findings"] if f["status"] == "FAIL"} == {
        ("stall-rank-stopped", "node3")
    }, run["findings"]
    assert " on node3 are stopped" in run["headline"], run["headline"]
    title = run["findings"][0]["title"]
    assert title.startswith(run["headline"]), title
    assert " the others wait for them (survey-pairs-1, " in title, title


def test_a_binary_that_cannot_time_all_groups_of_a_launch_gets_a_launch_for_each_at_the_same_time(
    rails: LabState, tmp_path: Path
) -> None:
    faults.slow(rails, "node3", 20e6)
    older = tmp_path / "older.yaml"
    text = Path(PLAYBOOK).read_text()
    older.write_text(
        text.replace("size: 2M", "size: 1M").replace(
            "gates: []", "env: {LAB_SPEAKS: 2.18.3}\ngates: []"
        )
    )
    run = survey(rails, tmp_path, "--budget", "1ms", playbook=str(older))
    _, made = run["cases"]
    assert (
        made["case"]["id"],
        made["status"],
        made["case"]["split"],
        made["case"]["per_iteration"],
    ) == (
        "survey-pairs-1",
        "PASS",
        None,
        False,
    )
    raw = tmp_path / "latest" / "raw"
    told = [json.loads(line) for line in (raw / "events.jsonl").read_text().splitlines()]
    said = next(event["text"] for event in told if event["step"] == "survey")
    assert said.startswith("one mpirun per group: the binary is nccl-tests 2.18.3"), said
    # The tables of both groups came in turn: they ran at the same time.
    lines = (raw / "cases" / "survey-pairs-1" / "stdout.txt").read_text().splitlines()
    groups = [line[:2] for line in lines if line[:2] in ("@0", "@1")]
    assert groups != sorted(groups), "one after the other"
    # Each on the nodes that were planned, with ten values, and the slowed node's took longer.
    times = made["results"][0]["process_times"]
    hosts = {
        number: {each["host"] for each in times if each["group"] == number} for number in (0, 1)
    }
    assert hosts == {0: {"node1", "node2"}, 1: {"node3", "node4"}}
    assert {len(each["times_us"]) for each in times} == {5}
    medians = {
        number: statistics.median(
            t for each in times if each["group"] == number for t in each["times_us"]
        )
        for number in (0, 1)
    }
    assert medians[1] > 1.5 * medians[0], medians


def test_the_shards_of_a_round_are_launched_side_by_side_and_judged_as_one_moment(
    rails: LabState, tmp_path: Path
) -> None:
    shards = tmp_path / "shards.yaml"
    shards.write_text(
        Path(PLAYBOOK).read_text().replace("groups: [pairs]", "groups: [pairs], shard: 2")
    )
    run = survey(rails, tmp_path, "--budget", "1ms", playbook=str(shards))
    made = {c["case"]["id"]: tuple(c["nodes"]) for c in run["cases"][1:]}
    assert made == {"survey-pairs-1-a": ("node1", "node2"), "survey-pairs-1-b": ("node3", "node4")}
    assert {c["status"] for c in run["cases"]} == {"PASS"}, run["findings"]
    raw = tmp_path / "latest" / "raw"
    outcomes = [json.loads((raw / "cases" / name / "outcome.json").read_text()) for name in made]
    assert [each["concurrent_with"] for each in outcomes] == ["pairs-1-a", "pairs-1-a"]
    # The second was started before the first was asked how far it is: commands of one node are
    # numbered in their order.
    labels = [
        path.name.split("-", 1)[1].removesuffix(".json")
        for path in sorted((raw / "nodes" / "node1").glob("*.json"))
    ]
    starts = [number for number, label in enumerate(labels) if label == "start"]
    assert len(starts) == 3, labels
    assert "poll" not in labels[starts[1] : starts[2]], labels
    assert {
        tuple(c["nodes"]) for c in run["comparisons"] if c["case_id"].startswith("survey-pairs-1")
    } <= {
        ("node1", "node2"),
        ("node3", "node4"),
    }
