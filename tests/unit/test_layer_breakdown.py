"""The layers of a run in one table, and the sentence that tells the fabric from NCCL's set-up only
where the numbers do."""

from __future__ import annotations

import dataclasses

import pytest

from busbw.model import (
    BenchmarkCase,
    Blame,
    BlameState,
    Collective,
    Comparison,
    Component,
    ComponentKind,
    Confidence,
    LaunchRole,
    Reference,
    Sizes,
    Status,
    Uncovered,
)
from busbw.parsers.blame.layer_breakdown import (
    Breakdown,
    RailLink,
    Ring,
    break_down,
    conclude,
    finding,
)
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.playbook import ChecksPlan, Playbook, SurveyPlan
from busbw.survey import layer_breakdown

PAIRS = (("gpu1", "gpu2"), ("gpu3", "gpu4"))


def links(*shares: tuple[float, float]) -> tuple[RailLink, ...]:
    """(raw link as a share of 50 GB/s, what the benchmark gets of it) of each rail of two pairs."""
    half = len(shares) // 2
    return tuple(
        RailLink(
            PAIRS[i // half],
            i % half,
            "ib_write_bw",
            50 * raw,
            50 * raw * gets,
            "raw/link-baseline/x.txt",
        )
        for i, (raw, gets) in enumerate(shares)
    )


GOOD = Breakdown(
    links=links((0.98, 0.95), (0.97, 0.94), (0.98, 0.95), (0.98, 0.94)),
    line_gb_s=50.0,
    intra_node=Ring(400.0, "raw/cases/survey-alone/result.json"),
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
        ("link baseline: slowest 48.50 GB/s by ib_write_bw (gpu1 – gpu2 rail 1): 97% of line rate"),
        "benchmark over one rail: 94% to 95% of its link baseline",
        "NVLink alone: 400.0 GB/s a node",
        "network alone: 92.00 GB/s a node: 95% of the link baseline",
        "everything: 91.00 GB/s a node: 94% of the link baseline",
    ]


FABRIC = links((0.98, 0.95), (0.45, 0.94), (0.98, 0.95), (0.98, 0.94))
SETUP = links((0.98, 0.4), (0.97, 0.41), (0.98, 0.4), (0.98, 0.42))
BOTH = links((0.98, 0.95), (0.45, 0.4), (0.98, 0.95), (0.98, 0.94))


@pytest.mark.parametrize(
    ("changed", "says", "where", "settled"),
    [
        (
            {"links": FABRIC},
            "the fabric is slow, not NCCL: a link baseline is 45% of line rate",
            ("gpu1", "gpu2"),
            True,
        ),
        (
            {"links": FABRIC, "line_gb_s": None},
            "a link is slow, not NCCL: its baseline is 46% of the best one",
            ("gpu1", "gpu2"),
            True,
        ),
        (
            {"links": SETUP},
            (
                "NCCL's settings are at fault, the links are good: the benchmark gets at most 42% of"
                " the link baseline"
            ),
            ("NCCL",),
            True,
        ),
        (
            {"links": BOTH},
            (
                "inconclusive between the fabric and NCCL's settings: a link is slow, and the"
                " benchmark's share of it varies"
            ),
            (),
            False,
        ),
        (
            {"everything": Ring(45.0)},
            (
                "the fabric is good, NCCL's intra-node settings are at fault: the network alone gives"
                " 95%"
            ),
            ("NCCL",),
            True,
        ),
        (
            {"everything": Ring(45.0), "network": Ring(46.0)},
            "pairs are good, and all nodes together get 47%",
            ("fabric",),
            True,
        ),
        (
            {"everything": Ring(45.0), "network": Ring(None)},
            "inconclusive between the fabric and NCCL's settings: 46% of the layers",
            (),
            False,
        ),
        (
            {"links": ()},
            "inconclusive between the fabric and NCCL's settings: no link baseline was measured",
            (),
            False,
        ),
        (
            {"everything": Ring(None)},
            (
                "inconclusive between the fabric and NCCL's settings: a ring over all nodes was not"
                " measured"
            ),
            (),
            False,
        ),
        # A node whose NVLink gives little holds everything back by itself: what lies below is its
        # inside then.
        (
            {"intra_node": Ring(60.0), "everything": Ring(55.0)},
            "no layer falls short: everything together gets 92%",
            (),
            True,
        ),
    ],
)
def test_fabric_and_settings_are_separated_only_where_the_numbers_separate_them(
    changed: dict[str, Ring | tuple[RailLink, ...] | None],
    says: str,
    where: tuple[str, ...],
    settled: bool,
) -> None:
    table = dataclasses.replace(GOOD, **changed)  # type: ignore[arg-type]  # each value is of its field's type
    conclusion = conclude(table)
    assert conclusion.text.startswith(says), conclusion
    assert (conclusion.where, conclusion.would_settle == "") == (where, settled)
    told = finding(table)
    assert told.confidence is (Confidence.LIKELY if settled else Confidence.POSSIBLE)
    assert (told.status is Status.PASS) == conclusion.text.startswith("no layer")


def ring(role: LaunchRole, nodes: tuple[str, ...], busbw: float, ranks: int = 8) -> GroupSample:
    launch = f"survey-{role.value}"
    return GroupSample(
        nodes,
        1 << 30,
        (busbw,) * 5,
        f"raw/cases/{launch}/result.json",
        launch=launch,
        role=role,
        ranks_per_node=ranks,
    )


def test_rates_of_rings_become_rates_of_a_node() -> None:
    samples = (
        ring(LaunchRole.WHOLE, ("gpu1", "gpu2", "gpu3"), 360.0),
        ring(LaunchRole.NETWORK, ("gpu1", "gpu2", "gpu3"), 46.0),
        ring(LaunchRole.ALONE, ("gpu1",), 370.0),
        ring(LaunchRole.ALONE, ("gpu2",), 350.0),
        ring(LaunchRole.PAIRS, ("gpu1", "gpu2"), 45.0, 1),
    )
    found = break_down(samples, (), None, emulated=False)
    assert (found.intra_node.gb_s, found.network.gb_s, found.everything.gb_s) == (
        400.0,
        368.0,
        360.0,
    ), (
        "the slowest inside over seven of eight hops; eight ranks that each send over the network;"
        " a ring as it is"
    )
    lab = break_down(samples, (), None, emulated=True)
    assert (lab.intra_node.gb_s, lab.network.gb_s) == (
        None,
        46.0,
    ), "variables of NCCL change nothing on emulated nodes, which have no NVLink"


CASE = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(1 << 30, 1 << 30))
SLOW = Blame(Component(ComponentKind.NODE, ("gpu1",)), BlameState.SLOW, 1.0, 2.0, ())


def book(when: str) -> Playbook:
    return Playbook(
        "p",
        "",
        None,
        ChecksPlan(),
        (CASE,),
        (),
        SurveyPlan("always", 1.0, 1, 1, ("pairs",), when),
        "nccl-tests",
    )


def compared(case_id: str, status: Status) -> tuple[Comparison, ...]:
    return (Comparison(case_id, 1 << 30, 1.0, Reference("peers", 2.0, "peers"), 0.5, status, ""),)


def test_layers_are_measured_where_a_case_falls_short_or_something_is_suspected() -> None:
    short, passing, round_1 = (
        compared("all-reduce", Status.FAIL),
        compared("all-reduce", Status.PASS),
        compared("survey-pairs-1", Status.FAIL),
    )
    assert layer_breakdown.requested(book("on-shortfall"), short, ())
    assert layer_breakdown.requested(book("on-shortfall"), passing, (SLOW,))
    assert not layer_breakdown.requested(book("on-shortfall"), (*passing, *round_1), ()), (
        "a group that was slow once is no case that falls short"
    )
    assert not layer_breakdown.requested(book("never"), short, (SLOW,))
    assert layer_breakdown.requested(book("always"), passing, ())


def test_a_layer_that_was_not_measured_is_uncovered_and_one_that_no_node_has_is_not() -> None:
    short = compared("all-reduce", Status.FAIL)
    (nothing,) = layer_breakdown.uncovered(book("on-shortfall"), short, (), None)
    assert nothing == Uncovered(
        "which layer is slow (no layer was measured)",
        "no budget was left, or their launches failed",
        "busbw run --survey --budget 20m",
    )
    missing = dataclasses.replace(
        GOOD,
        network=Ring(None),
        intra_node=Ring(None),
        no_intra_node="one rank a node uses none",
    )
    (some,) = layer_breakdown.uncovered(book("on-shortfall"), short, (), missing)
    assert some.what == "which layer is slow (without network alone)"
    assert layer_breakdown.uncovered(book("on-shortfall"), short, (), GOOD) == ()
