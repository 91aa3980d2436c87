"""Gates, references, proofs and sensitivity: what a number is compared with, what passes, and what
a run would have seen."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from scripts import loaded

from busbw.assess import appraisal, proof, ungated
from busbw.assess.expectation import NodeHardware, hardware_of, outlook
from busbw.assess.series import Series
from busbw.checks import NodeAnswer, SectionOutput
from busbw.fabrics.profile import MustSee
from busbw.model import (
    BenchmarkCase,
    Collective,
    Comparison,
    Finding,
    NcclLog,
    Node,
    Reference,
    Sizes,
    Status,
)
from busbw.model.counters import RailBytes
from busbw.model.history import ComparableRun, Number, Regime
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.expect import sensitivity
from busbw.parsers.expect.sensitivity import Watch
from busbw.parsers.logs import nccl_debug
from busbw.playbook import ChecksPlan, Gate, Playbook, SurveyPlan

GIB = 1 << 30


SIM = loaded("tests/bench/gate_sensitivity.py")
CASE = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(8 * GIB, 8 * GIB))
PEERS = BlameOutcome((), 380.0, 0.15, SIM.NODES, "", visible_loss=0.15)
NO_PEERS = BlameOutcome((), None, 0.15, (), "fewer than three nodes")


def book(*gates_: Gate, cases: tuple[BenchmarkCase, ...] = (CASE,)) -> Playbook:
    return Playbook(
        "p", "", None, ChecksPlan(), cases, gates_, SurveyPlan("never", 1.0, 1, 1, ()), "nccl-tests"
    )


def launches(*busbw: float, case: BenchmarkCase = CASE) -> tuple[object, ...]:
    repeats = (
        dataclasses.replace(case, id=f"{case.id}-trial-{n}", repeats=case.id)
        for n in range(2, len(busbw) + 1)
    )
    return tuple(
        SIM.launch(each, value) for each, value in zip((case, *repeats), busbw, strict=True)
    )


def compared(
    gate: Gate, *busbw: float, outcome: BlameOutcome = PEERS, **more: object
) -> Comparison:
    return appraisal.compare(book(gate), launches(*busbw), outcome, **more)[0]  # type: ignore[arg-type]  # composed by the simulation


BEST = Gate("all-reduce", 0, "best", minimum_ratio=0.8)


def test_repeated_launches_are_one_number_with_an_interval() -> None:
    gate_result = compared(BEST, 370.0, 380.0, 372.0)
    assert (
        gate_result.measured_gb_s,
        gate_result.launches,
        gate_result.status,
        gate_result.nodes,
    ) == (
        372.0,
        3,
        Status.PASS,
        SIM.NODES,
    )
    assert gate_result.launches_below == 0
    assert gate_result.half_interval_gb_s == pytest.approx(13.2, abs=0.1)
    assert gate_result.reason == "97.9% (median of 3 launches); at least 80% is wanted"


def test_one_slow_launch_of_three_is_a_note_beside_a_pass_and_two_fail() -> None:
    plan = SimpleNamespace(playbook=book(BEST))

    def judged(*busbw: float) -> tuple[Status, int, list[tuple[str, bool]]]:
        own = launches(*busbw)
        numbers = appraisal.compare(book(BEST), own, PEERS)  # type: ignore[arg-type]  # composed by the simulation
        notes = appraisal._slow_launches(plan, own, numbers)  # type: ignore[arg-type]
        first = numbers[0]
        return first.status, first.launches_below, [(each.id, each.required) for each in notes]

    assert judged(270.0, 370.0, 372.0) == (Status.PASS, 1, [("slow-launch-once", False)])
    assert judged(270.0, 372.0, 271.0) == (Status.FAIL, 2, [])
    assert judged(370.0, 372.0, 371.0) == (Status.PASS, 0, [])


def earlier(busbw: float, nodes: tuple[str, ...] = SIM.NODES) -> ComparableRun:
    regime = Regime("infiniband", "8 x H100", "8 x 400", len(nodes), 64, False)
    number = Number(
        "all-reduce", "all_reduce", "bandwidth", 8 * GIB, "", (busbw - 1.0, busbw, busbw + 1.0)
    )
    return ComparableRun("old", "2026-11-20T00:00:00Z", "PASS", regime, (number,), (), nodes)


def test_the_clusters_own_accepted_runs_come_before_peers_and_are_stricter() -> None:
    gate_result = compared(BEST, 340.0, 341.0, 342.0, accepted=(earlier(400.0), earlier(380.0)))
    assert gate_result.reference == Reference(
        "accepted-run", 390.0, "median of 2 accepted runs of these nodes"
    )
    assert (gate_result.status, gate_result.reason) == (
        Status.FAIL,
        "87% (median of 3 launches); at least 95% is wanted",
    )
    assert compared(BEST, 340.0, 341.0, 342.0).status is Status.PASS
    scattered = compared(BEST, 330.0, 340.0, 350.0, accepted=(earlier(380.0),))
    assert (scattered.status, scattered.reason) == (
        Status.FAIL,
        "89% (median of 3 launches); at least 91% is wanted, not 95%, because its launches scatter by 3%",
    )
    alone = compared(BEST, 340.0, accepted=(earlier(380.0),))
    assert (alone.status, alone.reason) == (
        Status.PASS,
        "89%; at least 85% is wanted, not 95%, because its launches scatter by 5%",
    ), "one launch does not tell its own noise"
    assert (
        compared(BEST, 340.0, accepted=(earlier(400.0, SIM.NODES[:4]),)).reference.kind == "peers"
    ), "fewer nodes are another thing"


def test_where_a_gate_wants_peers_and_has_none_an_accepted_run_of_these_nodes_decides() -> None:
    gate = dataclasses.replace(BEST, reference="peers")
    assert compared(gate, 375.0, accepted=(earlier(380.0),)).reference.kind == "peers"
    good = compared(gate, 375.0, outcome=NO_PEERS, accepted=(earlier(380.0),))
    assert (good.reference.kind, good.status) == ("accepted-run", Status.PASS)
    slow = compared(gate, 200.0, outcome=NO_PEERS, accepted=(earlier(380.0),))
    assert slow.status is Status.FAIL
    for others in ((), (earlier(380.0, SIM.NODES[:4]),)):
        alone = compared(gate, 375.0, outcome=NO_PEERS, accepted=others)
        assert (alone.reference.kind, alone.status) == ("peers", Status.UNKNOWN)


def test_published_figures_alone_never_pass_and_may_fail() -> None:
    known = {"all-reduce": SIM.outlook("infiniband")}
    fine = compared(BEST, 375.0, outcome=NO_PEERS, outlooks=known)
    low = compared(BEST, 150.0, outcome=NO_PEERS, outlooks=known)
    assert (fine.reference.kind, fine.status) == ("published", Status.UNKNOWN)
    assert low.status is Status.FAIL
    assert fine.limit is not None
    assert fine.limit.value_gb_s == 450.0


def test_above_physics_is_an_error_of_the_description_even_where_peers_agree() -> None:
    gate_result = compared(
        BEST,
        460.0,
        outcome=dataclasses.replace(PEERS, reference_gb_s=460.0),
        outlooks={"all-reduce": SIM.outlook("infiniband")},
    )
    assert gate_result.status is Status.FAIL
    assert gate_result.reason.startswith("above the physical limit of 450.0 GB/s")


@pytest.mark.parametrize(
    ("gate", "case", "reason"),
    [
        (dataclasses.replace(BEST, minimum_trials=3), CASE, "1 launches; at least 3 are wanted"),
        (
            BEST,
            dataclasses.replace(CASE, iterations=2),
            "2 timed iterations; at least 3 are wanted",
        ),
        (
            dataclasses.replace(BEST, reference="accepted-run"),
            CASE,
            "nothing to compare with: no accepted run of these nodes measured this size",
        ),
    ],
)
def test_too_few_samples_or_no_reference_is_unknown(
    gate: Gate, case: BenchmarkCase, reason: str
) -> None:
    (gate_result,) = appraisal.compare(book(gate, cases=(case,)), launches(375.0, case=case), PEERS)  # type: ignore[arg-type]  # as above
    assert (gate_result.status, gate_result.reason) == (Status.UNKNOWN, reason)


def test_a_number_that_nothing_judges_never_passes() -> None:
    (gate_result,) = appraisal.compare(book(), launches(375.0), NO_PEERS)  # type: ignore[arg-type]  # as above
    assert (gate_result.status, gate_result.reason) == (Status.UNKNOWN, "compared with nothing")


def test_a_launch_that_broke_is_not_reported_as_compared_with_nothing_besides() -> None:
    (launch,) = launches(375.0)
    compared = appraisal.compare(book(), (launch,), NO_PEERS)  # type: ignore[arg-type]  # as above
    (finding,) = appraisal.compared_with_nothing((launch,), compared)  # type: ignore[arg-type]  # as above
    assert finding.id == "not-compared"
    died = Finding("dead-process", Status.UNKNOWN, "a rank died", ("n2",), ())
    broken = replace(
        launch,  # type: ignore[type-var]  # as above
        findings=(died,),
        outcome=replace(launch.outcome, status=Status.UNKNOWN),  # type: ignore[attr-defined]  # as above
    )
    assert appraisal.compared_with_nothing((broken,), compared) == ()
    whole = replace(launch, findings=(died,))  # type: ignore[type-var]  # as above
    assert appraisal.compared_with_nothing((whole,), compared) == (finding,)


def test_the_level_is_shown_beside_the_gate_and_counts_only_where_it_is_bad() -> None:
    known = {"all-reduce": SIM.outlook("infiniband")}
    slow = dataclasses.replace(PEERS, reference_gb_s=150.0)
    everywhere = appraisal.compare(book(BEST), launches(148.0), slow, known)  # type: ignore[arg-type]  # as above
    fine = appraisal.compare(book(BEST), launches(375.0), PEERS, known)  # type: ignore[arg-type]  # as above
    assert [each.status for each in everywhere] == [
        Status.PASS,
        Status.FAIL,
    ], "all nodes alike slow: peers cannot see it"
    assert [each.status for each in fine] == [Status.PASS, Status.SKIPPED]


def test_each_class_of_sizes_is_represented_by_its_largest_and_small_ones_warn_at_worst() -> None:
    sizes = (8, 64 << 10, 128 << 10, 256 << 20, GIB, 8 * GIB)
    numbers = tuple(Series(CASE, size, (1.0,), SIM.NODES) for size in sizes)
    assert [each.size_bytes for each in ungated.largest_of_classes(numbers)] == [
        64 << 10,
        256 << 20,
        8 * GIB,
    ]
    case = dataclasses.replace(CASE, sizes=Sizes(256 << 20, 256 << 20))
    known = {"all-reduce": SIM.outlook("infiniband")}
    level, *_ = appraisal.compare(book(cases=(case,)), launches(20.0, case=case), PEERS, known)  # type: ignore[arg-type]  # as above
    assert (level.status, level.size_bytes) == (Status.WARN, 256 << 20)
    assert level.reason.endswith("something is broken")


def test_a_gate_sees_a_fault_only_where_it_moves_the_number_beyond_the_noise() -> None:
    lost, half = sensitivity.faults(8, 400.0)[:2]
    gate = Watch("all-reduce", 0.8, 0.01)
    assert (gate.catches(half), gate.catches(lost), gate.resolves) == (
        True,
        False,
        pytest.approx(0.218, abs=1e-3),
    )
    assert Watch("all-reduce", 0.9, 0.01).catches(lost)
    assert not Watch("all-reduce", 0.9, 0.05).catches(lost)


def test_where_nvlink_binds_a_lost_rail_leaves_the_number_as_it_was() -> None:
    two_nodes = outlook(SIM.cluster("infiniband"), "infiniband", "all_reduce", 2, 8).expectation
    eight = SIM.outlook("infiniband").expectation
    assert two_nodes is not None
    assert two_nodes.blind.startswith("NVLink binds, not the network")
    assert sensitivity.bandwidth_left(two_nodes, 7 / 8) == 1.0
    assert sensitivity.bandwidth_left(eight, 7 / 8) == pytest.approx(7 / 8)


def test_the_words_of_the_sensitivity_carry_the_numbers() -> None:
    known = sensitivity.faults(8, 400.0)
    summary = [
        each.summary()
        for each in sensitivity.sense(
            known, (Watch("pairs", 0.85, 0.01),), ((sensitivity.TCP, "every rank uses IB"),)
        )
    ]
    assert summary == [
        (
            "does not detect: one of 8 rails lost (leaves 88% of the node's network): pairs:"
            " 88% of this run's number, gate 85% (noise 1.0%)"
        ),
        ("detects: a port at half rate (leaves 50% of the node's network): pairs: 50%, gate 85%"),
        ("detects: GPUDirect RDMA off (leaves 35% of the node's network): pairs: 35%, gate 85%"),
        "detects: fallback to TCP (leaves 2% of the node's network): every rank uses IB",
        (
            "does not detect: 5% lost on one uplink (leaves 95% of the node's network): pairs:"
            " 95% of this run's number, gate 85% (noise 1.0%)"
        ),
    ]


MUST_SEE = MustSee(("IB", "IBext*"), gdr=True)


def proofs(
    fault: str, *, traffic: tuple[RailBytes, ...] = (), ranks: int = 16
) -> dict[str, proof.Proof]:
    log = SIM.log_of("infiniband", fault, "gpu-003")
    all_proofs = proof.proofs(
        MUST_SEE, log, ranks, SIM.cluster("infiniband").nodes, traffic, "raw/cases/proof/stdout.txt"
    )
    return {each.id: each for each in all_proofs}


def test_a_healthy_log_proves_transport_gpudirect_and_rails() -> None:
    all_proofs = proofs("none")
    assert {name: each.status for name, each in all_proofs.items()} == dict.fromkeys(
        ("transport", "gpudirect", "rails"), Status.PASS
    )
    assert dict(proof.excluded(tuple(all_proofs.values()))) == {
        sensitivity.TCP: "every rank says that it uses IB",
        sensitivity.NO_GPUDIRECT: "all 16 kinds of channel between nodes end in /GDRDMA",
        sensitivity.MISSING_RAIL: "NCCL lists every fitted rail on every rank",
    }
    assert (
        proof.findings(tuple(all_proofs.values()), logged=True),
        proof.uncovered(tuple(all_proofs.values())),
    ) == ((), ())


@pytest.mark.parametrize(
    ("fault", "id_", "title"),
    [
        (sensitivity.TCP, "transport", "2 of 16 ranks use the network Socket, not IB or IBext*"),
        (
            sensitivity.NO_GPUDIRECT,
            "gpudirect",
            (
                "2 ranks send over the network through host memory: their channels do not end in"
                " /GDRDMA"
            ),
        ),
        (sensitivity.MISSING_RAIL, "rails", "NCCL does not use mlx5_7 of gpu-003"),
    ],
)
def test_a_proof_that_failed_is_a_failure_that_names_the_node(
    fault: str, id_: str, title: str
) -> None:
    all_proofs = proofs(fault)
    assert (all_proofs[id_].status, all_proofs[id_].where) == (Status.FAIL, ("gpu-003",))
    by_id = {
        finding.id: finding for finding in proof.findings(tuple(all_proofs.values()), logged=True)
    }
    assert (by_id[f"{id_}-not-proven"].status, by_id[f"{id_}-not-proven"].title) == (
        Status.FAIL,
        title,
    )


def test_ranks_that_logged_nothing_leave_a_proof_open_and_named() -> None:
    all_proofs = proofs("none", ranks=64)
    assert all_proofs["transport"].status is Status.UNKNOWN
    assert (
        proof.uncovered((all_proofs["transport"],))[0].why
        == "every rank says that it uses IB, but 48 ranks said nothing"
    )
    nothing = proof.proofs(MUST_SEE, None, 16, (), (), "x")
    assert [each.status for each in nothing] == [Status.UNKNOWN, Status.UNKNOWN]


def test_bytes_of_the_ports_prove_rails_before_the_log_does() -> None:
    healthy, lost = (
        SIM.traffic("infiniband", fault, "gpu-003") for fault in ("none", sensitivity.MISSING_RAIL)
    )
    assert (
        proofs("none", traffic=healthy)["rails"].text
        == "all 8 rails of every node carried their share of the bytes"
    )
    rails = proofs("none", traffic=lost)["rails"]
    assert (rails.status, rails.where) == (Status.FAIL, ("gpu-003 mlx5_7",))


@pytest.mark.parametrize(("largest_bytes", "warns"), [(1 << 30, True), (64 << 10, False)])
def test_ports_that_stand_still_warn_only_where_the_launch_had_bytes_to_move(
    largest_bytes: int, warns: bool
) -> None:
    nodes = SIM.cluster("infiniband").nodes
    still = tuple(
        replace(rail, sent_bytes=1000) for rail in SIM.traffic("infiniband", "none", "gpu-003")
    )
    all_proofs = proof.proofs(MUST_SEE, None, 16, nodes, still, "x", largest_bytes=largest_bytes)
    assert (Status.WARN in {each.status for each in all_proofs}) is warns


def test_a_plugin_that_some_ranks_lack_is_a_failure_and_one_that_nobody_names_is_open() -> None:
    text = SIM.log_text("efa", "none", "")
    whole = nccl_debug.read([text.encode()]).records[0]
    partly = nccl_debug.read(
        [
            text.replace(
                "gpu-002:104:104 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.16.2\n", ""
            ).encode()
        ]
    ).records[0]
    silent = nccl_debug.read(
        ["".join(line for line in text.splitlines(True) if "NET/OFI" not in line).encode()]
    ).records[0]
    must_see = MustSee(("AWS Libfabric",), "NET/OFI", gdr=True)
    for log, status in ((whole, Status.PASS), (partly, Status.FAIL), (silent, Status.UNKNOWN)):
        assert isinstance(log, NcclLog)
        assert {each.id: each.status for each in proof.proofs(must_see, log, 16, (), (), "x")}[
            "plugin"
        ] is status


def answer(name: str, gpu: str, ports: int) -> NodeAnswer:
    query = "index, uuid, name\n" + "".join(f"{i}, GPU-{name}-{i}, {gpu}\n" for i in range(8))
    lines = [
        f"port mlx5_{i} 1 {k} {v}"
        for i in range(ports)
        for k, v in (("state", "4: ACTIVE"), ("rate", "400 Gb/sec (4X NDR)"))
    ]
    sysfs = "".join(f"rdma mlx5_{i} fw_ver 28.39\n" for i in range(ports)) + "\n".join(lines) + "\n"
    sections = {
        k: SectionOutput(k, text, "", 0, 1)
        for k, text in (("gpu_query", query), ("rdma_sysfs", sysfs))
    }
    return NodeAnswer(Node(name), sections, f"raw/preflight/{name}.txt", None)


@pytest.mark.parametrize(
    ("answers", "missing"),
    [
        ((answer("n1", "NVIDIA H100 80GB HBM3", 8), answer("n2", "NVIDIA H100 80GB HBM3", 8)), ()),
        (
            (answer("n1", "NVIDIA H100 80GB HBM3", 8), answer("n2", "NVIDIA A100-SXM4-80GB", 8)),
            (
                (
                    "the nodes do not have the same GPUs: 8 x NVIDIA A100-SXM4-80GB on n2; 8 x"
                    " NVIDIA H100 80GB HBM3 on n1"
                ),
            ),
        ),
        (
            (answer("n1", "NVIDIA H100 80GB HBM3", 8), answer("n2", "NVIDIA H100 80GB HBM3", 7)),
            ("the nodes do not have the same network: 7 x 400 Gb/s on n2; 8 x 400 Gb/s on n1",),
        ),
        (
            (answer("n1", "NVIDIA T4", 8), answer("n2", "NVIDIA T4", 8)),
            ("the tables do not know the GPU 'NVIDIA T4'",),
        ),
    ],
)
def test_hardware_that_is_mixed_or_unknown_gives_a_reason_and_no_number(
    answers: tuple[NodeAnswer, ...], missing: tuple[str, ...]
) -> None:
    hardware = hardware_of(answers, ("n1", "n2"))
    assert hardware.missing == missing
    result = outlook(hardware, "infiniband", "all_reduce", 2, 8)
    assert (result.expectation is None) == bool(missing)
    assert result.why_not == "; ".join(missing)


def test_the_survey_is_a_watch_only_where_it_compared_anything() -> None:
    samples = SIM.pair_samples(dict.fromkeys(SIM.NODES, 380.0), random.Random(1))
    assert appraisal.survey_watch(samples, NO_PEERS) == ()
    assert appraisal.survey_watch(samples, PEERS)[0].margin == 0.85


def test_one_rail_of_a_node_is_no_rail_to_lose() -> None:
    one = (NodeHardware("n1", (), (("mlx5_0", 400.0),), (), None),)
    assert [each.id for each in proof.proofs(MustSee(), None, 2, one, (), "x")] == []
    assert sensitivity.MISSING_RAIL not in {fault.id for fault in sensitivity.faults(1, 50.0)}


@pytest.mark.parametrize("name", sorted(SIM.FABRICS))
def test_each_fault_of_a_fabric_is_caught_or_listed_as_out_of_sight(name: str) -> None:
    faults = [
        fault for fault in SIM.fault_names(name) if fault not in (SIM.HEALTHY, sensitivity.UPLINK)
    ]
    assert {fault: SIM.share_failed(name, fault, 1) for fault in faults} == dict.fromkeys(
        faults, 1.0
    )
    assert SIM.share_failed(name, SIM.HEALTHY, 1) == 0.0
    assert SIM.share_saying(name, sensitivity.UPLINK, 1) == 0.0
