"""Groups, blame, case and run verdicts: what a number may be believed to say."""

from __future__ import annotations

import dataclasses

import pytest

from busbw.model import (
    BenchmarkCase,
    BenchmarkResult,
    BenchmarkRow,
    CaseOutcome,
    Collective,
    Component,
    ComponentKind,
    Evidence,
    LauncherFailure,
    Measurement,
    ProcessTimes,
    RankLine,
    Sizes,
    Status,
    WarningRole,
)
from busbw.parsers import verdict
from busbw.parsers.blame import blame, courses
from busbw.parsers.nccl_tests import groups, proof
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.parsers.nccl_tests.proof import LostPeer
from busbw.survey.schedule import pair_rounds

GOOD, NOISE = 10.0, (1.0, 0.98, 1.02, 0.99, 1.01)


def failure(kind: str, node: str, code: int) -> LauncherFailure:
    return LauncherFailure(
        kind, f"{kind} {code}", WarningRole.CAUSE, 1, "as printed", rank=1, node=node, code=code
    )


LOST = LostPeer("node1", "node2", "eth0", 4, "node1: Test network failure …")


@pytest.mark.parametrize(
    ("lost", "failures", "culprit"),
    [
        ((LOST,), (failure("signal", "node3", 9),), ("node3",)),
        ((LOST,), (failure("exit-status", "node1", 1),), ("node2",)),
        ((LOST,), (failure("signal", "node4", 15),), ("node2",)),
        ((), (failure("exit-status", "node1", 1),), ("node1",)),
        ((), (), ()),
    ],
)
def test_a_rank_that_was_killed_is_named_before_whom_survivors_lost(
    lost: tuple[LostPeer, ...], failures: tuple[LauncherFailure, ...], culprit: tuple[str, ...]
) -> None:
    hosts, cause = proof.culprits(lost, failures)
    assert hosts == culprit
    assert bool(cause) == bool(culprit)


def pairs(
    nodes: tuple[str, ...],
    capacity: dict[str, float],
    paths: dict[frozenset[str], float] | None = None,
) -> tuple[GroupSample, ...]:
    """Every pair as the slower of its nodes and its path gives it, with a little noise."""
    samples = []
    for number in pair_rounds(nodes):
        for group in number.groups:
            rate = min(
                [capacity.get(node, GOOD) for node in group]
                + [(paths or {}).get(frozenset(group), GOOD)]
            )
            samples.append(
                GroupSample(
                    group,
                    4 << 20,
                    tuple(rate * factor for factor in NOISE),
                    f"raw/cases/survey-{number.id}/result.json",
                )
            )
    return tuple(samples)


FOUR = ("node1", "node2", "node3", "node4")


def test_healthy_nodes_are_not_blamed() -> None:
    outcome = blame.solve(pairs(FOUR, {}))
    assert (outcome.blames, outcome.cleared, outcome.inseparable) == ((), FOUR, "")


def test_a_node_that_is_slow_with_every_partner_is_blamed_and_its_partners_are_not() -> None:
    outcome = blame.solve(pairs(FOUR, {"node3": 5.0}))
    assert [(b.component, b.capacity_gb_s) for b in outcome.blames] == [
        (Component(ComponentKind.NODE, ("node3",)), pytest.approx(5.0, rel=0.03))
    ]
    assert outcome.cleared == ("node1", "node2", "node4")
    flagged = [e for e in outcome.blames[0].seen_in if "node3" in e.text]
    assert len(flagged) == 3, "every pair with node3 is evidence"
    assert any("node3" not in e.text for e in outcome.blames[0].seen_in), (
        "the contrast without it is evidence too"
    )


def test_two_slow_nodes_of_four_are_both_blamed() -> None:
    # Five of six groups are slow: only in a second round is it no longer chance that node3 is slow
    # with others than node1.
    once = pairs(FOUR, {"node1": 4.0, "node3": 5.0})
    again = tuple(
        dataclasses.replace(s, artefact=s.artefact.replace("survey-", "survey-again-"))
        for s in once
    )
    assert {b.component.label for b in blame.solve((*once, *again)).blames} == {"node1", "node3"}
    assert {b.component.label for b in blame.solve(once).blames} <= {"node1", "node3"}


def test_a_slow_path_between_good_nodes_is_not_called_a_slow_node() -> None:
    slow = pairs(FOUR, {}, {frozenset(("node1", "node4")): 5.0})
    bad = next(s for s in slow if set(s.nodes) == {"node1", "node4"})
    again = tuple(
        dataclasses.replace(bad, artefact=f"raw/cases/survey-pairs-{number}/result.json")
        for number in (4, 5)
    )
    outcome = blame.solve((*slow, *again))
    assert [b.component for b in outcome.blames] == [
        Component(ComponentKind.PAIR, ("node1", "node4"))
    ]
    assert blame.solve(slow).blames == blame.solve((*slow, again[0])).blames == (), (
        "one launch accuses nobody, nor do two of a path"
    )


def test_one_slow_node_of_three_is_found_by_the_pair_without_it() -> None:
    outcome = blame.solve(pairs(("a", "b", "c"), {"b": 2.0}))
    assert [b.component.label for b in outcome.blames] == ["b"]


def test_two_nodes_cannot_be_distinguished_and_that_is_reported() -> None:
    outcome = blame.solve(pairs(("a", "b"), {"b": 2.0}))
    assert (outcome.blames, outcome.reference_gb_s) == ((), None)
    assert "cannot be told" in outcome.inseparable
    compared = courses.compare_groups(
        "survey-pairs-1", (("a", "b"),), "raw/cases/survey-pairs-1/result.json", outcome
    )
    assert [c.status for c in compared] == [Status.UNKNOWN]


def test_a_loss_within_the_noise_is_not_blamed() -> None:
    samples = [
        dataclasses.replace(
            s, busbw_gb_s=tuple(s.median_gb_s * f for f in (0.5, 1.0, 1.5, 0.7, 1.3))
        )
        for s in pairs(FOUR, {"node3": 7.0})
    ]
    assert blame.solve(tuple(samples)).blames == ()


def test_a_path_that_was_slow_once_and_good_in_the_next_launch_is_not_blamed() -> None:
    disturbed = pairs(FOUR, {}, {frozenset(("node1", "node4")): 5.0})
    again = [
        GroupSample(
            ("node1", "node4"),
            4 << 20,
            tuple(GOOD * f for f in NOISE),
            f"raw/cases/survey-pairs-{number}/result.json",
        )
        for number in (4, 5)
    ]
    outcome = blame.solve((*disturbed, *again))
    assert outcome.blames == ()
    compared = [
        c
        for s in disturbed
        for c in courses.compare_groups("survey", (s.nodes,), s.artefact, outcome)
    ]
    assert {c.status for c in compared if set(c.nodes) == {"node1", "node4"}} == {Status.PASS}
    artefacts = {sample.artefact for sample in (*disturbed, *again)}
    (note,) = courses.slow_groups(outcome, artefacts)
    assert (note.id, note.required, note.title) == (
        "slow-group-once",
        False,
        "slow once, not again: node1 + node4 50% of its peers in 1 of 3 launches",
    )
    assert courses.slow_groups(outcome, set()) == (), "of another run: not this one's to tell"


def test_a_slow_group_that_no_suspect_explains_says_in_how_many_launches_it_was_slow() -> None:
    """One inside that is slow wherever it is measured, and another that is slow beside it once: as
    a loaded machine shows them."""

    def alone(launch: str, levels: tuple[float, ...]) -> list[GroupSample]:
        artefact = f"raw/cases/{launch}/result.json"
        return [
            GroupSample((n,), 4 << 20, tuple(GOOD * x * f for f in NOISE), artefact)
            for n, x in zip(FOUR, levels, strict=True)
        ]

    def verdicts_of(*launches: tuple[float, ...]) -> dict[str, str]:
        samples = [
            s
            for number, levels in enumerate(launches)
            for s in alone(f"survey-alone-{number}", levels)
        ]
        outcome = blame.solve(tuple(samples))
        assert outcome.blames == ()
        groups = tuple((n,) for n in FOUR)
        compared = courses.compare_groups(
            "survey", groups, "raw/cases/survey-alone-0/result.json", outcome
        )
        return {
            c.nodes[0]: f"{c.status} {c.reason.partition('; ')[2]}"
            for c in compared
            if "; " in c.reason
        }

    assert verdicts_of((0.75, 1.36, 1.0, 1.0), (0.74, 0.66, 1.0, 1.0)) == {
        "node1": f"{Status.WARN} slow in 2 of its 2 launches, not enough to flag it"
    }
    assert verdicts_of((0.75, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0)) == {
        "node1": f"{Status.PASS} seen once, not reproduced"
    }
    assert verdicts_of((0.75, 1.0, 1.0, 1.0)) == {
        "node1": f"{Status.WARN} seen in one launch only, not measured again"
    }


def test_a_disturbance_of_half_the_iterations_flags_nobody() -> None:
    half = tuple(
        (
            dataclasses.replace(s, busbw_gb_s=(5.0,) * 8 + (10.0, 9.9, 10.1, 10.0) * 2)
            if set(s.nodes) == {"node1", "node4"}
            else s
        )
        for s in pairs(FOUR, {})
    )
    assert blame.solve(half).blames == ()


def test_every_pair_is_measured_once_and_no_node_is_in_two_groups_of_a_round() -> None:
    for count in (2, 3, 4, 5, 8, 9, 33):
        nodes = tuple(f"n{i}" for i in range(count))
        seen = [frozenset(group) for number in pair_rounds(nodes) for group in number.groups]
        assert len(seen) == len(set(seen)) == count * (count - 1) // 2
        for number in pair_rounds(nodes):
            assert len(number.order()) == len(set(number.order()))
            assert set(number.order()) | set(number.idle) == set(nodes)


def result(**changes: object) -> BenchmarkResult:
    rows = tuple(
        BenchmarkRow(
            size,
            size // 4,
            "float",
            "sum",
            None,
            Measurement(10.0, 1.0, 1.5, 0),
            Measurement(10.0, 1.0, 1.5, 0),
            line_no=9,
        )
        for size in (1024, 2048, 4096)
    )
    ranks = tuple(RankLine(i, f"node{i // 2 + 1}", i % 2, "host memory", group=0) for i in range(4))
    base = BenchmarkResult("all_reduce", 4, 2, rows, ranks, 1.5, 0, None, None, True, ())
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]  # the changes are fields by name


def launch(*results: BenchmarkResult, **changes: object) -> proof.LaunchOutput:
    planned = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(1024, 4096))
    base = proof.LaunchOutput(
        planned,
        "ended",
        0,
        results or (result(),),
        4,
        ("node1", "node2"),
        "raw/cases/all-reduce/stdout.txt",
        (),
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]  # the changes are fields by name


@pytest.mark.parametrize(
    ("largest", "status"), [(64 << 10, Status.PASS), (64 << 20, Status.UNKNOWN)]
)
def test_one_side_far_slower_counts_only_where_bytes_take_the_time(
    largest: int, status: Status
) -> None:
    row = result().rows[0]
    assert row.out_of_place is not None
    slow = dataclasses.replace(row.out_of_place, time_us=row.out_of_place.time_us * 6)
    rows = (dataclasses.replace(row, size_bytes=largest, in_place=slow),)
    case = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(largest, largest))
    assert proof.judge(launch(result(rows=rows), case=case)).status is status


def test_a_complete_output_on_the_planned_ranks_is_believed() -> None:
    assert proof.judge(launch()).status is Status.PASS


@pytest.mark.parametrize(
    ("fault", "finding", "status"),
    [
        (launch(results=()), "nothing-measured", Status.UNKNOWN),
        (launch(result(rows=result().rows[:2])), "sizes-missing", Status.UNKNOWN),
        (
            launch(result(complete=False, problems=("no footer",))),
            "output-incomplete",
            Status.UNKNOWN,
        ),
        (launch(result(ranks=result().ranks[::2])), "ranks-not-as-planned", Status.FAIL),
        (launch(planned_hosts=("node1", "node9")), "hosts-not-as-planned", Status.FAIL),
        (launch(result(nranks=1), result(nranks=1)), "binary-without-mpi", Status.FAIL),
        (launch(result(out_of_bounds=8)), "wrong-data", Status.FAIL),
        (launch(exit_status=7), "launch-failed", Status.UNKNOWN),
        (launch(state="lost", exit_status=None), "launch-not-ended", Status.UNKNOWN),
    ],
)
def test_a_number_that_is_not_the_number_meant_never_passes(
    fault: proof.LaunchOutput, finding: str, status: Status
) -> None:
    judged = proof.judge(fault)
    assert (judged.status, [f.id for f in judged.findings]) == (status, [finding])


def test_wrong_elements_fail_and_cite_the_row() -> None:
    rows = (
        dataclasses.replace(result().rows[0], out_of_place=Measurement(10.0, 1.0, 1.5, 3)),
        *result().rows[1:],
    )
    judged = proof.judge(launch(result(rows=rows)))
    assert judged.status is Status.FAIL
    assert judged.findings[0].evidence[0] == Evidence(
        "raw/cases/all-reduce/stdout.txt", 9, "3 wrong elements at 1 KiB"
    )


def test_the_group_of_a_survey_is_as_slow_as_its_slowest_process() -> None:
    times = tuple(
        ProcessTimes(
            1 << 20, False, rank, f"node{rank // 2 + 1}", rank // 2, (100.0 + 10 * rank, 200.0)
        )
        for rank in range(4)
    )
    ranks = tuple(
        RankLine(i, f"node{i // 2 + 1}", i % 2, "host memory", group=i // 2) for i in range(4)
    )
    samples = groups.group_samples(result(process_times=times, ranks=ranks), "raw/x.json")
    assert [s.nodes for s in samples] == [("node1",), ("node2",)]
    assert samples[0].busbw_gb_s == pytest.approx(
        (2 * 1 / 2 * (1 << 20) / 110e3, (1 << 20) / 200e3)
    )


def test_a_run_without_any_measurement_is_unknown_not_passed() -> None:
    assert verdict.decide((), (), (), (), ()).exit_status == 3


def test_a_required_case_that_never_ran_is_unknown_whatever_else_passed() -> None:
    planned = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(1024, 4096))
    passed = CaseOutcome(planned, Status.PASS, "", (result(),), 0, 1.0, (), ("node1",))
    assert verdict.decide((), (passed,), (), (), ()).status is Status.PASS
    assert verdict.decide((), (passed,), (), (), (), ("alltoall",)).exit_status == 3


def test_advisory_findings_never_decide() -> None:
    findings = proof.judge(launch(result(out_of_bounds=8))).findings
    advisory = tuple(dataclasses.replace(f, required=False) for f in findings)
    assert verdict.decide((), (), (), advisory, ()).status is Status.UNKNOWN
    assert verdict.decide((), (), (), findings, ()).status is Status.FAIL


def test_paths_that_no_launch_measured_are_reported_as_not_launch() -> None:
    samples = pairs(("a", "b", "c", "d"), {})
    limits = verdict.sensitivity(samples, blame.solve(samples))
    assert limits[0].startswith("detects: a node or a path that gives less than ")
    assert not any("not measured with each other" in line for line in limits)
    some = tuple(s for s in samples if set(s.nodes) not in ({"a", "d"}, {"b", "c"}))
    limits = verdict.sensitivity(some, blame.solve(some))
    assert limits[0].startswith("detects: a node or a path that was measured that gives less than ")
    assert (
        "does not detect: a slow path between nodes that were not measured with each other: 2 of 6 (a"
        " – d, b – c)" in limits
    )
    few = tuple(
        s
        for s in pairs(tuple(f"n{i}" for i in range(6)), {})
        if set(s.nodes) in ({"n0", "n1"}, {"n2", "n3"}, {"n4", "n5"})
    )
    first = "n0 – n2, n0 – n3, n0 – n4, n0 – n5, n1 – n2, n1 – n3, n1 – n4, n1 – n5"
    assert verdict.sensitivity(few, blame.solve(few))[2].endswith(
        f"with each other: 12 of 15 ({first} and 4 more)"
    )
