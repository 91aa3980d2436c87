"""Published figures by regime, thresholds, articles: matching, and what may never pass a fabric."""

from __future__ import annotations

import pytest

from busbw.model import Limit, Reference, Status
from busbw.parsers.expect import baselines, cluster, figures, judge
from busbw.parsers.expect.baselines import Regime
from busbw.parsers.expect.cluster import Question
from busbw.parsers.expect.figures import Grade, NicSet, Row, Source, Spread
from busbw.parsers.expect.hardware import Nics, find_gpu

TABLES = figures.load()
EVERY_ROW = (*TABLES.published, *TABLES.thresholds, *TABLES.articles)


def regime(
    gpu: str,
    nodes: int,
    nics: tuple[int, float] | None = (8, 400.0),
    fabric: str = "infiniband",
    *,
    collective: str = "all_reduce",
    gpus: int = 8,
) -> Regime:
    known = find_gpu(gpu)
    assert known is not None
    return Regime(collective, known, nodes, gpus, None if nics is None else NicSet(*nics), fabric)


def names(rows: tuple[Row, ...]) -> list[str]:
    return [row.id for row in rows]


def test_every_table_is_there() -> None:
    found = (
        len(TABLES.published),
        len(TABLES.thresholds),
        len(TABLES.articles),
        len(TABLES.curves),
        len(TABLES.perftest),
    )
    assert found == (274, 63, 11, 4, 24)


def test_ids_are_unique_and_every_figure_has_a_source_and_a_number() -> None:
    ids = [row.id for row in EVERY_ROW]
    assert len(ids) == len(set(ids))
    assert [
        row.id
        for row in EVERY_ROW
        if not row.source.title or (row.busbw_gb_s is None and row.latency_us is None)
    ] == []


def test_no_row_claims_an_expectation_that_is_a_complaint_or_impossible() -> None:
    assert {row.grade for row in TABLES.published} == {Grade.GOOD, Grade.FAIR, Grade.COMPLAINT}
    assert {row.grade for row in TABLES.thresholds} == {Grade.GOOD, Grade.IMPLAUSIBLE}


def test_rows_of_one_regime_are_counted_and_their_median_is_the_reference() -> None:
    found = baselines.match(TABLES, regime("H100", 8))
    assert names(found.exact) == ["h100-4n-ndr", "h100-4n-vp", "h100-8n-cw"]
    assert names(found.other) == ["h100-32n"]
    assert baselines.reference(found) == Reference(
        "published", 365.84, "median of 3 published figures of this regime"
    )


def test_one_two_three_and_four_nodes_are_regimes_of_their_own() -> None:
    by_nodes = [
        names(baselines.match(TABLES, regime("H100", nodes)).exact) for nodes in (2, 3, 4, 64)
    ]
    large = ["h100-4n-ndr", "h100-4n-vp", "h100-8n-cw"]
    assert by_nodes == [
        ["h100-2n-ndr", "h100-2n-nebius", "h100-2n-together", "wutz-h100-1"],
        [],
        large,
        large,
    ]


def test_one_node_needs_no_fabric_and_never_takes_a_loopback_over_nics() -> None:
    found = baselines.match(TABLES, regime("A100", 1, None))
    assert names(found.exact) == ["a100-1n-16g", "a100-80-1n-8g"]
    assert "azure-ndv4-loopback-allreduce" not in [near.row.id for near in found.thresholds]


def test_trays_joined_by_nvlink_are_one_node() -> None:
    assert names(baselines.match(TABLES, regime("GB200", 1, None, gpus=72)).exact) == [
        "gb200-nvl72"
    ]
    assert names(baselines.match(TABLES, regime("GB200", 2, (4, 400.0), gpus=4)).exact) == []


def test_the_nearest_row_is_called_nearest_and_is_no_reference() -> None:
    found = baselines.match(TABLES, regime("H200", 64, fabric="roce"))
    assert (found.exact, [(near.row.id, near.differences) for near in found.nearest]) == (
        (),
        [("h100-4n-roce", ("GPU H100",))],
    )
    assert baselines.reference(found) == Reference(
        "none", None, "no published figure of this regime; the nearest differ in: GPU H100"
    )


def test_nothing_near_is_reported_as_nothing() -> None:
    found = baselines.match(TABLES, regime("V100", 64, (2, 100.0), "efa"))
    assert (found.exact, found.nearest, found.median_gb_s) == ((), (), None)
    assert baselines.reference(found) == Reference(
        "none", None, "no published figure of this regime or near it"
    )


def test_what_a_source_does_not_state_never_matches_exactly() -> None:
    unsaid = {
        row.id
        for row in TABLES.published
        if row.nodes is None or row.gpu is None or row.gpus_per_node is None
    }
    found = {
        row.id
        for gpu in ("V100", "A100", "H100", "H200", "B200", "MI300X")
        for nodes in (1, 2, 3, 4)
        for nics in ((4, 100.0), (8, 200.0), (8, 400.0))
        for fabric in ("infiniband", "roce", "efa")
        for row in baselines.match(TABLES, regime(gpu, nodes, nics, fabric)).exact
    }
    assert found
    assert unsaid
    assert found & unsaid == set()
    near = baselines.match(TABLES, regime("A100", 2, (8, 200.0))).nearest
    assert [(item.row.id, item.differences) for item in near][:1] == [
        ("dgxa100-8hdr", ("node count not stated",))
    ]


def test_an_algorithm_that_was_asked_for_is_never_bridged() -> None:
    gpu = find_gpu("H100")
    assert gpu is not None
    asked = Regime("all_reduce", gpu, 2, 8, NicSet(8, 400.0), "roce", "ring")
    assert names(baselines.match(TABLES, asked).exact) == ["h100-2n-roce-ring"]


def test_a_run_with_a_forced_algorithm_is_shown_and_not_counted() -> None:
    gpu = find_gpu("H100")
    assert gpu is not None
    asked = Regime("all_reduce", gpu, 2, 8, NicSet(8, 400.0), "roce", usual=("nvlstree",))
    found = baselines.match(TABLES, asked)
    assert (names(found.exact), names(found.other), found.median_gb_s) == (
        ["h100-2n-roce"],
        ["h100-2n-roce-ring", "h100-2n-roce-degraded"],
        430.0,
    )


def test_sockets_are_never_near_rdma() -> None:
    gpu = find_gpu("A100")
    assert gpu is not None
    found = baselines.match(TABLES, Regime("all_reduce", gpu, 2, 8, NicSet(1, 100.0), "infiniband"))
    assert [near.row.id for near in found.nearest] == ["p4d-2n-1efa"]


def test_thresholds_stay_apart_and_say_what_differs() -> None:
    found = baselines.match(TABLES, regime("H200", 2, fabric="roce"))
    exact = [near.row.id for near in found.thresholds if not near.differences]
    assert exact == ["oci-ncclscout-h200-2n", "oci-active-h200-2n"]
    assert names(found.exact) == ["h200-2n-oci", "openshift-h200-1"]
    assert {near.row.id: near.differences for near in found.thresholds}["oci-active-h100-2n"] == (
        "GPU H100",
        "NICs 16 x 200 Gb/s",
    )


def test_impossible_thresholds_are_refused_by_name() -> None:
    found = baselines.match(TABLES, regime("H100", 2, (32, 100.0), "efa"))
    assert names(found.refused) == ["aws-healthcheck-p5"]
    assert "aws-healthcheck-p5" not in [near.row.id for near in found.thresholds]


def test_articles_are_a_kind_of_their_own() -> None:
    found = baselines.match(TABLES, regime("H100", 8))
    assert (names(found.articles), found.median_gb_s) == (["article-ib-ndr-8h100"], 365.84)
    assert baselines.match(TABLES, regime("H100", 1, None)).articles == ()


@pytest.mark.parametrize(
    ("gpu", "nodes", "nics", "fabric", "collective", "gpus", "threshold", "share", "blind"),
    [
        ("A100", 1, None, "nvlink-only", "all_reduce", 8, 228.0, 0.76, False),
        ("H100", 1, None, "nvlink-only", "all_reduce", 8, 460.0, 0.66, False),
        ("H100", 2, (16, 200.0), "rocev2", "all_reduce", 8, 440.0, 0.59, False),
        ("B200", 2, (8, 400.0), "rocev2", "all_reduce", 8, 440.0, 0.59, False),
        ("H100", 2, (4, 200.0), "gcp-tcpx", "all_gather", 8, 60.0, 0.32, True),
    ],
)
def test_shipped_thresholds_against_the_limit(
    gpu: str,
    nodes: int,
    nics: tuple[int, float] | None,
    fabric: str,
    collective: str,
    gpus: int,
    threshold: float,
    share: float,
    blind: bool,
) -> None:
    limit = expectation(gpu, nodes, nics, fabric, collective, gpus).limit
    assert (round(threshold / limit.value_gb_s, 2), baselines.blind(threshold, limit)) == (
        share,
        blind,
    )


def expectation(
    gpu: str,
    nodes: int,
    nics: tuple[int, float] | None,
    fabric: str,
    collective: str = "all_reduce",
    gpus: int = 8,
) -> cluster.Expectation:
    given = None if nics is None else Nics(nics[0], f"{nics[1]:g}", nics[1])
    return cluster.answer(Question(collective, nodes, gpus, fabric, find_gpu(gpu), nics=given))


@pytest.mark.parametrize(
    "row",
    [row for row in TABLES.thresholds if row.grade is Grade.IMPLAUSIBLE],
    ids=lambda row: str(row.id),
)
@pytest.mark.parametrize("nodes", [2, 8])
def test_what_is_marked_impossible_is_above_the_limit_of_every_fabric(row: Row, nodes: int) -> None:
    assert row.gpu is not None
    assert row.nics is not None
    assert row.nics.count is not None
    assert row.nics.rate_gbit_s is not None
    assert row.busbw_gb_s is not None
    limit = expectation(row.gpu, nodes, (row.nics.count, row.nics.rate_gbit_s), "efa").limit
    assert baselines.implausible(row.busbw_gb_s.value, limit) is not None


def test_a_promise_above_physics_is_refused_with_both_numbers() -> None:
    limit = Limit(450.0, "(n-1)/(g(k-1)) W", (("k", "8"), ("W", "400 GB/s")))
    assert (
        baselines.implausible(800.0, limit)
        == "800 GB/s is above the physical limit of 450.0 GB/s: (n-1)/(g(k-1)) W, k = 8, W = 400"
        " GB/s"
    )
    assert (
        baselines.implausible(450.0, limit),
        baselines.implausible(450.1, limit),
        baselines.implausible(451.0, limit) is None,
    ) == (
        None,
        None,
        False,
    )


JUDGED = ("H100", 8, (8, 400.0), "infiniband")


@pytest.mark.parametrize(
    ("measured", "contract", "status", "words"),
    [
        (
            338.0,
            None,
            Status.PASS,
            "at least 322 GB/s, where tuned systems begin (ring); the loss of one of 8 NICs"
            " (295.8 GB/s) would lie below it",
        ),
        (
            386.0,
            None,
            Status.PASS,
            "the loss of one of 8 NICs (337.8 GB/s) would lie inside the band too: compare with a"
            " contract, an accepted run or peers",
        ),
        (300.0, None, Status.WARN, "under 322 GB/s, where tuned systems begin (ring): degraded"),
        (
            200.0,
            None,
            Status.FAIL,
            "under 70% of 322 GB/s, where tuned systems begin (ring): something is broken",
        ),
        (500.0, None, Status.FAIL, "500 GB/s is above the physical limit of 450.0 GB/s"),
        (500.0, 380.0, Status.FAIL, "the description is wrong"),
        (386.0, 380.0, Status.PASS, "386 GB/s meets the contract's 380 GB/s"),
        (370.0, 380.0, Status.FAIL, "370 GB/s misses the contract's 380 GB/s"),
    ],
)
def test_a_measured_number_is_judged_and_says_what_it_does_not_prove(
    measured: float, contract: float | None, status: Status, words: str
) -> None:
    found = baselines.match(TABLES, regime("H100", 8))
    comparison = judge.judge(
        measured, 8 << 30, expectation(*JUDGED), baselines.reference(found), contract_gb_s=contract
    )
    assert (comparison.status, words in comparison.reason, comparison.measured_gb_s) == (
        status,
        True,
        measured,
    )


def test_small_messages_are_compared_with_a_curve_or_with_the_model_of_sizes() -> None:
    asked = expectation("B200", 4, (8, 400.0), "efa")
    curves = baselines.curves(TABLES, "all_reduce", find_gpu("B200"), 4, 8)
    assert [curve.id for curve in curves] == ["b200-4n-efa-allreduce"]
    reference = Reference("published", 381.8, "one")
    judged = [
        judge.judge(157.0, 64 << 20, asked, reference, curves).status,
        judge.judge(60.0, 64 << 20, asked, reference, curves).status,
    ]
    assert judged == [Status.PASS, Status.FAIL]
    assert judge.judge(20.0, 64 << 20, asked, reference).status is Status.FAIL
    assert judge.judge(90.0, 64 << 20, asked, reference).status is Status.PASS


@pytest.mark.parametrize(
    ("index", "size", "share"),
    [
        (0, 1 << 20, 0.083),
        (0, 1 << 30, 0.96),
        (1, 1 << 28, 0.76),
        (2, 1 << 26, 0.41),
        (3, 1 << 30, 0.82),
    ],
)
def test_curves_give_the_share_of_the_largest_message(index: int, size: int, share: float) -> None:
    assert baselines.share_at(TABLES.curves[index], size) == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize(
    ("gpu", "nodes", "gpus", "found"),
    [
        ("H200", 1, 8, ["h200-1n-allreduce"]),
        ("A100", 1, 8, ["h200-1n-allreduce", "b200-1n-allreduce"]),
        ("GB200", 1, 72, ["gb200-nvl72-allreduce"]),
        ("H100", 8, 8, ["b200-4n-efa-allreduce"]),
        ("H100", 2, 8, []),
    ],
)
def test_curves_are_those_of_the_same_node_class(
    gpu: str, nodes: int, gpus: int, found: list[str]
) -> None:
    assert [
        curve.id for curve in baselines.curves(TABLES, "all_reduce", find_gpu(gpu), nodes, gpus)
    ] == found
    assert baselines.curves(TABLES, "alltoall", find_gpu(gpu), nodes, gpus) == ()


@pytest.mark.parametrize(
    ("asked", "contract", "notes"),
    [
        (
            JUDGED,
            360.0,
            (
                "360 GB/s is 80% of the limit",
                "meeting it would catch the loss of one of 8 NICs, which leaves 347.8 GB/s at best",
            ),
        ),
        (
            JUDGED,
            330.0,
            (
                "330 GB/s is 73% of the limit",
                (
                    "meeting it would not catch the loss of one of 8 NICs, which leaves 347.8 GB/s"
                    " at best"
                ),
            ),
        ),
        (
            JUDGED,
            430.0,
            (
                "430 GB/s is 96% of the limit",
                (
                    "physics allows it, but NCCL's best algorithm here (ring) is estimated at 397.5"
                    " GB/s"
                ),
                "meeting it would catch the loss of one of 8 NICs, which leaves 347.8 GB/s at best",
            ),
        ),
        (
            ("H100", 2, (8, 400.0), "infiniband"),
            440.0,
            (
                "440 GB/s is 59% of the limit",
                (
                    "NVLink binds, so no number of this case catches the loss of a NIC; ask for"
                    " NCCL_ALGO=Ring or alltoall"
                ),
            ),
        ),
        (("H100", 1, None, "nvlink-only"), 460.0, ("460 GB/s is 66% of the limit",)),
        (
            ("Rubin", 1, None, "nvlink-only"),
            460.0,
            (
                "460 GB/s is 16% of the limit",
                "NCCL's rate for these links is not known, so what it would catch cannot be told",
            ),
        ),
    ],
)
def test_a_contract_says_what_it_would_catch(
    asked: tuple[str, int, tuple[int, float] | None, str], contract: float, notes: tuple[str, ...]
) -> None:
    assert judge.contract_notes(contract, expectation(*asked)) == notes


def test_a_curve_says_nothing_outside_its_sizes() -> None:
    assert (
        baselines.share_at(TABLES.curves[0], 8),
        baselines.share_at(TABLES.curves[0], 1 << 40),
    ) == (None, None)


def test_one_nic_is_shown_with_figures_of_its_rate_only() -> None:
    assert {figure.rate_gbit_s for figure in baselines.nic_figures(TABLES, 200.0)} == {200.0}
    assert baselines.nic_figures(TABLES, 25.0) == ()


def test_the_one_number_of_a_spread_is_typical_else_the_middle() -> None:
    assert (
        Spread(1.0, 2.0, 4.0).value,
        Spread(46.0, None, 48.0).value,
        Spread(high=200.0).value,
    ) == (2.0, 47.0, 200.0)


def test_a_row_is_read_as_it_is_written() -> None:
    assert TABLES.published[1] == Row(
        id="a100-1n-16g",
        grade=Grade.GOOD,
        collective="all_reduce",
        gpu="A100-SXM4",
        gpus_per_node=8,
        nodes=1,
        fabric="intra-node",
        algorithm="ring",
        algorithm_basis="inferred",
        size_bytes=17179869184,
        busbw_gb_s=Spread(typical=234.89),
        source=Source(
            "Machine Learning Engineering Open Book: Inter-node and Intra-node Networking Hardware",
            "https://github.com/stas00/ml-engineering/blob/master/network/README.md",
            "2026-08",
        ),
    )
