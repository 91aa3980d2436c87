"""The layers of a run in one table, and the sentence that tells the fabric from NCCL's set-up only
where the numbers do."""

from __future__ import annotations

import dataclasses

import pytest

from busbw.assess import link_baseline
from busbw.model import (
    BenchmarkCase,
    Blame,
    BlameState,
    Collective,
    Comparison,
    Component,
    ComponentKind,
    Confidence,
    Reference,
    Sizes,
    Status,
    Uncovered,
)
from busbw.parsers.blame.layers import Decomposition, Layer, Ring, concluded, decomposed, finding
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.playbook import ChecksPlan, Playbook, SurveyPlan

PAIRS = (("gpu1", "gpu2"), ("gpu3", "gpu4"))


def links(*shares: tuple[float, float]) -> tuple[Layer, ...]:
    """(raw link as a share of 50 GB/s, what the benchmark gets of it) of each rail of two pairs."""
    half = len(shares) // 2
    return tuple(
        Layer(
            PAIRS[i // half], i % half, "ib_write_bw", 50 * raw, 50 * raw * gets, "raw/layers/x.txt"
        )
        for i, (raw, gets) in enumerate(shares)
    )


GOOD = Decomposition(
    links=links((0.98, 0.95), (0.97, 0.94), (0.98, 0.95), (0.98, 0.94)),
    line_gb_s=50.0,
    inside=Ring(400.0, "raw/cases/survey-alone/result.json"),
    network=Ring(92.0, "raw/cases/survey-network/result.json"),
    everything=Ring(91.0, "raw/cases/survey-whole/result.json"),
    ranks_per_node=8,
)


def test_a_healthy_table_has_one_row_for_each_layer_with_its_share_of_the_one_below() -> None:
    found = finding(GOOD)
    assert (found.status, found.required, found.title) == (
        Status.PASS,
        False,
        "no layer falls short: everything together gets 94% of what lies below",
    )
    assert [e.text for e in found.evidence] == [
        (
            "raw link: slowest 48.50 GB/s by ib_write_bw (gpu1 – gpu2 rail 1): 97% of what a rail"
            " was built for"
        ),
        "the benchmark over one rail: 94% to 95% of its raw link",
        "NVLink alone: 400.0 GB/s a node",
        "network alone: 92.00 GB/s a node: 95% of the raw links",
        "everything: 91.00 GB/s a node: 94% of the raw links",
    ]


FABRIC = links((0.98, 0.95), (0.45, 0.94), (0.98, 0.95), (0.98, 0.94))
SETUP = links((0.98, 0.4), (0.97, 0.41), (0.98, 0.4), (0.98, 0.42))
BOTH = links((0.98, 0.95), (0.45, 0.4), (0.98, 0.95), (0.98, 0.94))


@pytest.mark.parametrize(
    ("changed", "says", "where", "settled"),
    [
        (
            {"links": FABRIC},
            "the fabric is slow, NCCL is not: a raw link gives 45% of what it was built for",
            ("gpu1", "gpu2"),
            True,
        ),
        (
            {"links": SETUP},
            (
                "NCCL is set up badly, the links are good: the benchmark gets at most 42% of the"
                " raw link"
            ),
            ("NCCL",),
            True,
        ),
        (
            {"links": BOTH},
            (
                "the fabric and NCCL's set-up cannot be told apart: the raw link is slow, and what"
                " the benchmark gets"
            ),
            (),
            False,
        ),
        (
            {"everything": Ring(45.0)},
            (
                "the fabric is good and NCCL is set up badly inside the nodes: the network alone"
                " gives 95%"
            ),
            ("NCCL",),
            True,
        ),
        (
            {"everything": Ring(45.0), "network": Ring(46.0)},
            "links are good two by two, and all nodes together get 47%",
            ("fabric",),
            True,
        ),
        (
            {"everything": Ring(45.0), "network": Ring(None)},
            "the fabric and NCCL's set-up cannot be told apart: 46% of the layers",
            (),
            False,
        ),
        (
            {"links": ()},
            "the fabric and NCCL's set-up cannot be told apart: no raw link was measured",
            (),
            False,
        ),
        (
            {"everything": Ring(None)},
            (
                "the fabric and NCCL's set-up cannot be told apart: a ring over all nodes was not"
                " measured"
            ),
            (),
            False,
        ),
        # A node whose NVLink gives little holds everything back by itself: what lies below is its
        # inside then.
        (
            {"inside": Ring(60.0), "everything": Ring(55.0)},
            "no layer falls short: everything together gets 92%",
            (),
            True,
        ),
    ],
)
def test_fabric_and_set_up_are_told_apart_only_where_the_numbers_separate_them(
    changed: dict[str, Ring | tuple[Layer, ...]], says: str, where: tuple[str, ...], settled: bool
) -> None:
    table = dataclasses.replace(GOOD, **changed)  # type: ignore[arg-type]  # each value is of its field's type
    sentence, named, settles = concluded(table)
    assert sentence.startswith(says), sentence
    assert (named, settles == "") == (where, settled)
    told = finding(table)
    assert told.confidence is (Confidence.LIKELY if settled else Confidence.POSSIBLE)
    assert (told.status is Status.PASS) == sentence.startswith("no layer")


def ring(launch: str, nodes: tuple[str, ...], busbw: float, ranks: int = 8) -> GroupSample:
    return GroupSample(
        nodes,
        1 << 30,
        (busbw,) * 5,
        f"raw/cases/{launch}/result.json",
        launch=launch,
        ranks_per_node=ranks,
    )


def test_rates_of_rings_become_rates_of_a_node() -> None:
    samples = (
        ring("survey-whole", ("gpu1", "gpu2", "gpu3"), 360.0),
        ring("survey-network", ("gpu1", "gpu2", "gpu3"), 46.0),
        ring("survey-alone", ("gpu1",), 370.0),
        ring("survey-alone", ("gpu2",), 350.0),
        ring("survey-pairs-1", ("gpu1", "gpu2"), 45.0, 1),
    )
    found = decomposed(samples, (), None, (), emulated=False)
    assert (found.inside.gb_s, found.network.gb_s, found.everything.gb_s) == (
        400.0,
        368.0,
        360.0,
    ), (
        "the slowest inside over seven of eight hops; eight ranks that each send over the network;"
        " a ring as it is"
    )
    lab = decomposed(samples, (), None, (), emulated=True)
    assert (lab.inside.gb_s, lab.network.gb_s) == (
        None,
        46.0,
    ), "variables of NCCL change nothing on emulated nodes, which have no NVLink"


CASE = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(1 << 30, 1 << 30))
SLOW = Blame(Component(ComponentKind.NODE, ("gpu1",)), BlameState.SLOW, 1.0, 2.0, ())


def book(decompose: str, groups: tuple[str, ...] = ("pairs",)) -> Playbook:
    return Playbook(
        "p",
        "",
        None,
        ChecksPlan(),
        (CASE,),
        (),
        SurveyPlan("always", 1.0, 1, 1, groups, decompose),
        "nccl-tests",
    )


def compared(case_id: str, status: Status) -> tuple[Comparison, ...]:
    return (Comparison(case_id, 1 << 30, 1.0, Reference("peers", 2.0, "peers"), 0.5, status, ""),)


def test_a_run_is_taken_apart_where_a_case_falls_short_or_something_is_accused() -> None:
    short, passing, round_1 = (
        compared("all-reduce", Status.FAIL),
        compared("all-reduce", Status.PASS),
        compared("survey-pairs-1", Status.FAIL),
    )
    assert link_baseline.wanted(book("on-shortfall"), short, ())
    assert link_baseline.wanted(book("on-shortfall"), passing, (SLOW,))
    assert not link_baseline.wanted(book("on-shortfall"), (*passing, *round_1), ()), (
        "a group that was slow once is no case that falls short"
    )
    assert not link_baseline.wanted(book("never"), short, (SLOW,))
    assert link_baseline.wanted(book("always"), passing, ())
    assert link_baseline.wanted(book("never", ("pairs", "layers")), passing, ())


def test_what_of_the_layers_was_not_measured_is_told_and_what_no_node_has_is_not() -> None:
    short = compared("all-reduce", Status.FAIL)
    (nothing,) = link_baseline.uncovered(book("on-shortfall"), short, (), ())
    assert nothing == Uncovered(
        "which layer is slow: all of them",
        "no budget was left, or their launches failed",
        "busbw run --survey --budget 20m",
    )
    missing = dataclasses.replace(
        GOOD,
        network=Ring(None),
        inside=Ring(None),
        missing=(("NVLink alone", "one rank a node uses none"),),
    )
    (some,) = link_baseline.uncovered(book("on-shortfall"), short, (), (finding(missing),))
    assert some.what == "which layer is slow: network alone"
    assert link_baseline.uncovered(book("on-shortfall"), short, (), (finding(GOOD),)) == ()
