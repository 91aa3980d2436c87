"""From the launches of a run to a contract's answer: criteria, the run without the suspects, the
questions of a buyer, the hardware seen."""

from __future__ import annotations

import dataclasses

import pytest
from plans import bare_playbook, run_plan

from busbw.assess import contract as acceptance
from busbw.assess import headline
from busbw.assess.appraisal import Appraisal
from busbw.assess.expectation import Hardware, NodeHardware
from busbw.assess.launches import Launch
from busbw.checks import NodeAnswer, SectionOutput
from busbw.fabrics.profile import undetected
from busbw.model import (
    BenchmarkCase,
    BenchmarkResult,
    BenchmarkRow,
    Blame,
    BlameState,
    CaseOutcome,
    CheckResult,
    Cluster,
    Collective,
    Component,
    ComponentKind,
    CriterionResult,
    HardwareId,
    Invocation,
    LaunchRole,
    Measurement,
    Node,
    ProviderAnswer,
    Sizes,
    Status,
)
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.playbook import Contract
from busbw.playbook.contract import Criterion
from busbw.store.artefacts import CaseArtefact
from busbw.survey import without_suspects

GIB = 1 << 30
NODES = ("n1", "n2", "n3")
CASE = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(GIB, GIB))
WITHOUT_SUSPECTS = dataclasses.replace(
    CASE, id="rest-all-reduce", role=LaunchRole.WITHOUT_SUSPECTS, required=False
)
RAILS = tuple((f"mlx5_{i}", 400.0) for i in range(8))
HARDWARE = Hardware(
    tuple(NodeHardware(n, (), RAILS, ("InfiniBand",), 4096) for n in NODES),
    None,
    None,
    None,
    None,
    (),
)
APPRAISED = Appraisal(HARDWARE, {}, (), (), (), (), ())
NOBODY = BlameOutcome((), 380.0, 0.15, NODES, "")


def launch(
    case: BenchmarkCase, busbw: float, nodes: tuple[str, ...] = NODES, status: Status = Status.PASS
) -> Launch:
    row = BenchmarkRow(
        case.sizes.maximum_bytes, 4, "float", "sum", None, Measurement(50.0, busbw, busbw, 0), None
    )
    table = BenchmarkResult(
        case.collective.value, 24, 3, (row,), (), busbw, 0, "2.30.7", "2.19.6", True, ()
    )
    artefact = CaseArtefact(
        case,
        Invocation(case.id, (), (), nodes, 60.0, 24),
        nodes,
        8,
        "ended",
        0,
        1.0,
        f"raw/cases/{case.id}/stdout.txt",
        None,
        None,
    )
    return Launch(
        artefact,
        (table,),
        CaseOutcome(case, status, "wrong data", (table,), 0, 1.0, (), nodes),
        (),
        (),
    )


def thrice(*busbw: float) -> tuple[Launch, ...]:
    cases = (
        CASE,
        *(
            dataclasses.replace(CASE, id=f"all-reduce-trial-{n}", repeats="all-reduce")
            for n in (2, 3)
        ),
    )
    return tuple(launch(case, value) for case, value in zip(cases, busbw, strict=True))


@pytest.mark.parametrize("order", [(100.0, 380.0, 384.0), (384.0, 100.0, 380.0)])
def test_a_headline_speaks_of_the_launch_that_decides(order: tuple[float, ...]) -> None:
    best = headline.best_row(thrice(*order))
    assert best is not None
    assert best[1].out_of_place is not None
    assert best[1].out_of_place.busbw_gb_s == 380.0


CONTRACT = Contract((Criterion("C1", "all-reduce", GIB, busbw_gb_s=370.0),), "Order", 3)


def criteria(
    outcomes: tuple[Launch, ...], contract: Contract = CONTRACT
) -> tuple[CriterionResult, ...]:
    return acceptance.criteria_of(contract, outcomes, APPRAISED)


def test_the_launches_of_a_case_and_its_repeats_measure_a_criterion() -> None:
    (criterion,) = criteria(thrice(380.0, 381.0, 382.0))
    assert (criterion.measured, criterion.launches, criterion.nodes, criterion.status) == (
        381.0,
        3,
        3,
        Status.PASS,
    )
    assert criterion.artefacts[-1] == "raw/cases/all-reduce-trial-3/stdout.txt"


@pytest.mark.parametrize(
    ("outcomes", "contract", "reason"),
    [
        ((), CONTRACT, "case all-reduce did not run"),
        (
            thrice(380.0, 381.0, 382.0),
            Contract((Criterion("C1", "all-reduce", 2 * GIB, 370.0),)),
            "2 GiB is not among its sizes",
        ),
        (
            (launch(CASE, 500.0, status=Status.FAIL),),
            CONTRACT,
            "a launch is not to be believed: wrong data",
        ),
    ],
)
def test_what_was_not_measured_says_why(
    outcomes: tuple[Launch, ...], contract: Contract, reason: str
) -> None:
    (criterion,) = criteria(outcomes, contract)
    assert (criterion.measured, criterion.status, criterion.reason) == (
        None,
        Status.UNKNOWN,
        reason,
    )


def test_a_criterion_of_time_is_of_the_row_of_its_size() -> None:
    (criterion,) = criteria(
        thrice(1.0, 1.0, 1.0), Contract((Criterion("L", "all-reduce", GIB, time_us=60.0),))
    )
    assert (criterion.measured, criterion.unit, criterion.status) == (50.0, "µs", Status.PASS)


@pytest.mark.parametrize(
    ("busbw", "cleared"),
    [
        (381.0, "without the suspects, on 2 nodes, the failures clear (C1: 381.0 GB/s)"),
        (200.0, "without the suspects, on 2 nodes, the failures do not clear (C1: 200.0 GB/s)"),
    ],
)
def test_the_run_without_the_suspects_says_whether_the_failures_clear(
    busbw: float, cleared: str
) -> None:
    again = launch(WITHOUT_SUSPECTS, busbw, ("n1", "n2"))
    outcomes = (*thrice(190.0, 191.0, 192.0), again)
    assert acceptance.without_suspects(CONTRACT, outcomes, criteria(outcomes), APPRAISED) == cleared
    assert criteria(outcomes)[0].measured == 191.0, "it is no launch of the contract's own case"


def test_who_is_left_out_is_a_node_the_node_of_a_rail_or_one_end_of_a_path() -> None:
    flagged = tuple(
        Blame(part, BlameState.SLOW, 1.0, 2.0, ())
        for part in (
            Component(ComponentKind.NODE, ("n2",)),
            Component(ComponentKind.RAIL, ("n3",), 2),
            Component(ComponentKind.PAIR, ("n1", "n2")),
            Component(ComponentKind.RAIL_PLANE, (), 1),
        )
    )
    assert without_suspects.suspects(flagged, NODES) == ("n2", "n3", "n1")


def answers(
    outcomes: tuple[Launch, ...],
    checks: tuple[CheckResult, ...] = (),
    leaves: tuple[str, ...] = (),
    outcome: BlameOutcome = NOBODY,
) -> tuple[ProviderAnswer, ...]:
    labels = [(("leaf", leaf),) for leaf in leaves] or [()] * len(NODES)
    cluster = Cluster(
        tuple(Node(n, labels=own) for n, own in zip(NODES, labels, strict=True)), "n1", "-w"
    )
    book = bare_playbook(CASE)
    plan = run_plan(cluster, book, undetected())
    return acceptance.answers(plan, outcomes, (), checks, outcome, APPRAISED)


def test_a_buyers_questions_are_answered_from_measurement_where_it_can() -> None:
    outcomes = thrice(380.0, 381.0, 382.0)
    results = answers(
        outcomes, (CheckResult("roce.pfc", "n1", Status.FAIL, "off", "on", "mlnx_qos"),)
    )
    assert [(each.measured, each.answer) for each in results] == [
        (
            True,
            (
                "a ring over all 3 nodes gives 100% of a good pair; which nodes share a leaf is not"
                " known: label them"
            ),
        ),
        (True, "8 x 400 Gb/s InfiniBand on 3 nodes, as the ports say"),
        (
            True,
            (
                "collectives over 3 nodes with every element verified, up to 1 GiB; a training job"
                " of yours is still to run"
            ),
        ),
        (True, "all-reduce: 381.0 GB/s at 1 GiB"),
        (
            True,
            (
                "roce.pfc differ from what is wanted (as the hosts say); the switches are the"
                " provider's to show"
            ),
        ),
        (False, "ask for it: who is called, how fast, and what is paid meanwhile"),
    ]


def test_a_slow_node_is_not_taken_for_an_oversubscribed_fabric() -> None:
    flagged = dataclasses.replace(
        NOBODY,
        blames=(Blame(Component(ComponentKind.NODE, ("n3",)), BlameState.SLOW, 190.0, 381.0, ()),),
    )
    slow = thrice(190.0, 191.0, 192.0)
    alone = answers(slow, outcome=flagged)[0]
    assert (alone.measured, alone.answer[:12]) == (False, "not measured")

    again = launch(WITHOUT_SUSPECTS, 381.0, ("n1", "n2"))
    first = answers((*slow, again), outcome=flagged)[0]
    assert (
        first.answer
        == "a ring over the 2 nodes without the suspects gives 100% of a good pair; which nodes"
        " share a leaf is not known: label them"
    )


def test_pairs_within_and_across_leaves_tell_of_the_uplinks() -> None:
    survey = launch(dataclasses.replace(CASE, id="survey-pairs-1", split="DIV 16"), 1.0)
    samples = tuple(
        GroupSample(nodes, GIB, (rate,) * 5, "x")
        for nodes, rate in ((("n1", "n2"), 400.0), (("n1", "n3"), 200.0), (("n2", "n3"), 210.0))
    )
    survey = dataclasses.replace(
        survey,
        artefact=dataclasses.replace(survey.artefact, groups=(("n1", "n2"),)),
        samples=samples,
    )
    first = answers((survey,), leaves=("a", "a", "b"))[0]
    assert (
        first.answer
        == "pairs on one leaf 400.0 GB/s, across leaves 205.0 GB/s (51%), one pair a leaf at a time"
    )


def test_without_a_measurement_the_questions_say_what_to_ask_for() -> None:
    assert [each.measured for each in answers(())] == [False, True, False, False, False, False]


def test_gpus_and_adapters_are_known_by_what_nobody_can_change() -> None:
    sections = {
        "gpu_query": SectionOutput(
            "gpu_query",
            "index, uuid, name\n0, GPU-aa, NVIDIA H100 80GB HBM3\n1, [N/A], NVIDIA H100 80GB"
            " HBM3\n",
            "",
            0,
            1,
        ),
        "ibv_devices": SectionOutput(
            "ibv_devices",
            "    device  node GUID\n    mlx5_0  b83fd20300aa0010\n    efa_0  0000000000000000\n",
            "",
            0,
            9,
        ),
    }
    parts = acceptance.parts(NodeAnswer(Node("n1"), sections, "raw/preflight/n1.txt", None))
    assert parts == (
        HardwareId("n1", "GPU 0", "GPU-aa"),
        HardwareId("n1", "mlx5_0", "b83fd20300aa0010"),
    )
