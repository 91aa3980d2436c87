"""Who loses packets, by the TCP segments that were sent again: on recorded surveys of the lab,
simulated ones, and texts of a node."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw.model import Component, ComponentKind, Confidence, Finding, Status
from busbw.parsers.blame import loss
from busbw.parsers.blame.loss import PairTraffic
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.tools import counters
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import CounterFile, CountersArtefact
from busbw.survey import retransmitted
from busbw.survey.schedule import circle

FIXTURES = Path(__file__).parents[1] / "fixtures"
SURVEYS = json.loads((FIXTURES / "survey" / "segments-sent-again.json").read_text())["surveys"]
NODES = tuple(f"n{i}" for i in range(8))


@pytest.mark.parametrize(
    "survey", SURVEYS, ids=[f"{s['fault']}-{len(s['leaf_of'])}-{s['load']}" for s in SURVEYS]
)
def test_recorded_surveys_name_who_loses_packets_and_nobody_else(survey: dict[str, object]) -> None:
    pairs = tuple(
        PairTraffic(tuple(nodes), launch, sent, again, "raw/x.txt")
        for launch, nodes, sent, again in survey["pairs"]
    )  # type: ignore[attr-defined]
    found = loss.findings(pairs, Fabric(tuple(survey["leaf_of"].items())))  # type: ignore[attr-defined]
    named, culprit = {finding.where for finding in found}, (str(survey["node"]),)
    fault = str(survey["fault"])
    if fault.startswith("uplink"):
        # Narrow uplinks drop segments too: in every launch, or at times as full ones do, which
        # proves nothing. That they are slow is found elsewhere.
        assert named <= {culprit}
    else:
        assert named == ({culprit} if fault.startswith("loss") else set())


def rounds(
    count: int, seed: int, lossy: dict[frozenset[str], float], usual: float = 0.0003
) -> tuple[PairTraffic, ...]:
    """`lossy`: share that is lost more, by a node or by both nodes of a path."""
    dice, found = random.Random(seed), []
    for number in range(count):
        for pair in circle(NODES, number)[0]:
            share = usual + sum(more for names, more in lossy.items() if names <= set(pair))
            again = sum(dice.random() < share for _ in range(6000))
            found.append(
                PairTraffic(
                    pair, f"survey-pairs-{number + 1}", 6000, again, f"raw/{number}.txt", 25
                )
            )
    return tuple(found)


def told(pairs: tuple[PairTraffic, ...]) -> Finding:
    (finding,) = loss.findings(pairs, Fabric(()))
    return finding


def test_a_node_that_loses_one_packet_in_a_hundred_is_a_warning_with_numbers_of_it_and_of_others() -> (
    None
):
    found = told(rounds(4, 1, {frozenset({"n3"}): 0.01}))
    assert (found.id, found.status, found.where, found.confidence) == (
        "packets-lost",
        Status.WARN,
        ("n3",),
        Confidence.LIKELY,
    )
    assert found.title.startswith("n3 loses packets: 1.")
    assert ", in 4 of 4 launches; of the other pairs 0.0" in found.title
    mine, contrast = found.evidence[:4], found.evidence[4:]
    assert all("n3" in e.text and "segments sent again" in e.text for e in mine)
    partners = {name for e in mine for name in e.text.partition(":")[0].split(" + ")} - {"n3"}
    assert all(
        "n3" not in e.text and partners & set(e.text.partition(":")[0].split(" + "))
        for e in contrast
    ), "what they lose with others"


def test_two_nodes_and_a_path_are_told_apart() -> None:
    found = loss.findings(
        rounds(7, 2, {frozenset({"n1"}): 0.02, frozenset({"n6"}): 0.01}), Fabric(())
    )
    assert {f.where for f in found} == {("n1",), ("n6",)}
    twice = rounds(7, 3, {frozenset({"n2", "n5"}): 0.02})
    assert told(
        (
            *twice,
            *(
                PairTraffic(p.nodes, f"{p.launch}-again", p.sent, p.retransmitted, p.artefact)
                for p in twice
            ),
        )
    ).where == ("n2 – n5",)


@pytest.mark.parametrize("usual", [0.0, 0.0005, 0.002, 0.01])
def test_good_nodes_lose_nothing_that_is_told_whatever_is_usual(usual: float) -> None:
    for seed in range(40):
        assert loss.findings(rounds(5, seed, {}, usual), Fabric(())) == ()


def test_a_launch_in_which_chance_drops_fewer_does_not_acquit_a_lossy_node_of_four() -> None:
    """Shares of one survey of the lab, of a node that loses one packet in a hundred: segments leave
    in bursts, so that one launch in thirty shows a third of the loss."""
    nodes, shares = ("n1", "n2", "n3", "n4"), (0.0035, 0.006, 0.008)
    pairs = tuple(
        PairTraffic(pair, f"survey-pairs-{number}", 17_000, round(17_000 * share), "raw/x.txt")
        for number, lossy in enumerate(shares)
        for pair in circle(nodes, number)[0]
        for share in (lossy if "n2" in pair else 0.0005,)
    )
    assert told(pairs).where == ("n2",)


def test_one_launch_accuses_nobody_and_little_traffic_says_nothing() -> None:
    lossy = {frozenset({"n3"}): 0.05}
    assert loss.findings(rounds(1, 1, lossy), Fabric(())) == ()
    few = tuple(
        PairTraffic(p.nodes, p.launch, 600, p.retransmitted // 10, p.artefact)
        for p in rounds(4, 1, lossy)
    )
    assert loss.levels(few, Fabric(())) == ()
    assert loss.findings((), Fabric(())) == ()


def test_the_segments_of_a_node_are_read_with_their_line_and_nothing_is_made_up() -> None:
    text = (FIXTURES / "counters" / "virtio.txt").read_text()
    sent, again, line_no = counters.segments(text) or (0, 0, 0)
    assert (sent, again) == (522416, 1252)
    assert text.splitlines()[line_no - 1].startswith("Tcp: 1 200 120000 -1 ")
    whole = {r.counter: (r.value, r.line_no) for r in counters.parse(text, "n").readings}
    assert (whole["TcpOutSegs"], whole["TcpRetransSegs"]) == ((sent, line_no), (again, line_no))
    assert counters.segments("") is None
    assert counters.segments(text.replace("== tcp", "== udp")) is None
    assert counters.segments(text[: text.index("Tcp: 1 200")]) is None


def test_a_node_whose_segments_could_not_be_counted_is_told_with_the_reason_and_the_others_are_counted(
    tmp_path: Path,
) -> None:
    run = run_directory.create(tmp_path, "2026-11-22T09:00:00Z", "survey")
    text = (FIXTURES / "counters" / "virtio.txt").read_text()
    grown = text.replace(" 522416 1252 ", " 532416 1352 ")
    assert grown != text
    after = {
        "n1": grown,
        "n2": grown,
        "n3": None,
        "n4": grown,
        "n5": text,
        "n6": grown,
        "n7": text.replace("== tcp", "== udp"),
        "n8": grown,
    }
    for moment, texts in (("before", dict.fromkeys(after, text)), ("after", after)):
        paths = {
            n: run.write_raw(f"cases/a/counters-{moment}/{n}.txt", t) if t else None
            for n, t in texts.items()
        }
        files = tuple(
            CounterFile(n, path, "" if path else "did not answer within 10 s")
            for n, path in paths.items()
        )
        artefacts.keep(run, f"cases/a/counters-{moment}.json", CountersArtefact(moment, files))
    (run.raw / "cases/a/counters-after/n6.txt").unlink()
    nodes = (("n1", "n2"), ("n3", "n4"), ("n5", "n6"), ("n7", "n8"), ("n9", "n1"))
    case, samples = SimpleNamespace(id="a"), tuple(SimpleNamespace(nodes=pair) for pair in nodes)
    counted, why = retransmitted.pairs_of(
        run, SimpleNamespace(artefact=SimpleNamespace(case=case), samples=samples)
    )  # type: ignore[arg-type]
    assert [(p.nodes, p.sent, p.retransmitted, p.artefact) for p in counted] == [
        (("n1", "n2"), 20000, 200, "raw/cases/a/counters-after/n1.txt")
    ]
    assert why == {
        "n3": "no counters after: did not answer within 10 s",
        "n6": "no counters after: raw/cases/a/counters-after/n6.txt is not there",
        "n5": "its counters did not grow during the launch, or began anew",
        "n7": "its counters do not say how many TCP segments were sent",
        "n9": "no counters were taken",
    }
    (said,) = retransmitted.not_counted(
        {
            node: {"a": "no counters were taken", "b": "no counters were taken"}
            for node in ("n3", "n4")
        }
    )
    assert (said.what, said.why) == (
        "packets lost by the pairs of n3, n4",
        "no counters were taken, in 2 launches",
    )
    (many,) = retransmitted.not_counted(
        {f"n{i}": {"a": "no counters were taken"} for i in range(1000)}
    )
    assert many.what.endswith("n7 and 992 more")


def test_what_is_slow_says_whether_packets_are_lost_there_and_beside_what_is_usual() -> None:
    pairs = rounds(4, 5, {frozenset({"n1"}): 0.04, frozenset({"n6"}): 0.03})
    node, rail, other = (
        Component(ComponentKind.NODE, ("n1",)),
        Component(ComponentKind.RAIL, ("n1",), 2),
        Component(ComponentKind.NODE, ("n6",)),
    )
    (said,) = loss.evidence(pairs, node, (node, other), Fabric(()))
    assert re.fullmatch(
        r"TCP segments sent again by the pairs of n1: [34]\.\d\d%, in 3 launches; by pairs"
        r" without a suspect: 0\.0\d%",
        said.text,
    ), said.text
    assert loss.evidence(pairs, rail, (rail, other), Fabric(())) == (said,), "counted per node"
    assert (
        loss.evidence(
            pairs,
            Component(ComponentKind.NODE, ("n2",)),
            (node, other, Component(ComponentKind.NODE, ("n2",))),
            Fabric(()),
        )
        == ()
    )
    assert loss.evidence((), node, (node,), Fabric(())) == ()
    leaves = Fabric(tuple((name, f"leaf{int(name[1:]) // 4}") for name in NODES))
    narrow = rounds(4, 5, {frozenset({a, b}): 0.05 for a in NODES[:4] for b in NODES[4:]})
    between = Component(ComponentKind.LEAF_PAIR, ("leaf0", "leaf1"))
    (said,) = loss.evidence(narrow, between, (between,), leaves)
    assert said.text.startswith("TCP segments sent again by the pairs over it: "), said.text
