"""What dumps and RAS answers of a stalled job say together. The dumps and answers are composed in
the documented formats, but for gloo's."""

import json
from pathlib import Path

from busbw.model import FlightDump, RasReport
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import EvidenceSet, Fact
from busbw.parsers.findings.stalls import from_dumps, from_reports
from busbw.parsers.logs import flight_recorder, nccl_ras
from busbw.parsers.stall.recorders import Progress, progress

FIXTURES = Path(__file__).parents[1] / "fixtures" / "flight_recorder"
REDUCE = ("nccl:all_reduce", [4096], "started")
DONE = ("nccl:all_reduce", [4096], "completed")


def dump(
    rank: int, *operations: tuple[str, list[int], str], ranks: int = 4, first: int = 55
) -> tuple[Progress, ...]:
    entries = [
        {
            "record_id": at,
            "pg_id": 0,
            "process_group": ["0", "default_pg"],
            "collective_seq_id": first + at,
            "is_p2p": False,
            "profiling_name": name,
            "input_sizes": [shape],
            "state": state,
        }
        for at, (name, shape, state) in enumerate(operations)
    ]
    last = first + len(operations) - 1
    completed = first + sum(state == "completed" for _, _, state in operations) - 1
    text = {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": last,
                "last_started_collective": last,
                "last_completed_collective": completed,
            }
        },
        "entries": entries,
    }
    (found,) = flight_recorder.read([json.dumps(text).encode()]).records
    assert isinstance(found, FlightDump)
    return progress(f"nccl_trace_rank_{rank}", flight_recorder.of_rank(found, rank))


def told(facts: tuple[Fact, ...]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (each.id, each.confidence.value, each.where)
        for each in diagnose(EvidenceSet((), facts)).findings
    ]


def test_the_rank_that_launched_less_than_what_the_others_wait_in_did_not_enter() -> None:
    facts = from_dumps(
        [*dump(0, DONE, REDUCE), *dump(1, DONE, REDUCE), *dump(2, DONE), *dump(3, DONE, REDUCE)]
    )
    assert [(fact.evidence.artefact, fact.evidence.text) for fact in facts] == [
        (
            "nccl_trace_rank_2",
            "process group default_pg: 3 ranks wait in operation 56; this rank launched 55",
        )
    ]
    assert told(facts) == [("rank-not-entering", "likely", ("rank 2",))]


def test_a_rank_that_runs_another_operation_at_the_same_number_is_out_of_step() -> None:
    facts = from_dumps(
        [
            *dump(0, DONE, REDUCE),
            *dump(1, DONE, ("nccl:broadcast", [1], "scheduled")),
            *dump(2, DONE, REDUCE),
        ]
    )
    assert told(facts)[0] == ("collective-desync", "likely", ("rank 1",))


def test_a_rank_that_sends_another_size_is_named() -> None:
    facts = from_dumps(
        [
            *dump(0, DONE, REDUCE),
            *dump(1, DONE, REDUCE),
            *dump(2, DONE, ("nccl:all_reduce", [64, 65], "started")),
        ]
    )
    assert told(facts)[0] == ("size-mismatch", "likely", ("rank 2",))


def test_unequal_shards_of_an_all_to_all_are_no_mismatch() -> None:
    unequal = [
        dump(rank, DONE, ("nccl:all_to_all", [100 + rank], "started"), ranks=2) for rank in range(2)
    ]
    assert "size-mismatch" not in [
        finding for finding, _, _ in told(from_dumps(each for one in unequal for each in one))
    ]


def test_an_operation_that_all_ranks_started_and_none_completes_is_stuck_below_the_program() -> (
    None
):
    facts = from_dumps(each for rank in range(4) for each in dump(rank, DONE, REDUCE))
    assert told(facts)[0][:2] == ("all-launched-not-completed", "likely")


def test_one_dump_of_four_never_blames_anybody() -> None:
    assert told(from_dumps(dump(0, DONE, REDUCE))) == [
        ("rank-not-entering", "possible", ("rank 0",))
    ]


def test_dumps_in_which_all_completed_say_nothing() -> None:
    assert from_dumps([*dump(0, DONE, DONE), *dump(1, DONE)]) == ()


def test_gloo_never_says_completed_so_who_launched_less_is_only_possible() -> None:
    ranks: list[Progress] = []
    for number in range(4):
        (found,) = flight_recorder.read(
            [(FIXTURES / f"straggler-rank{number}.json").read_bytes()]
        ).records
        assert isinstance(found, FlightDump)
        ranks += progress(f"{number}", flight_recorder.of_rank(found, number))
    assert told(from_dumps(ranks)) == [("rank-not-entering", "possible", ("rank 1",))]


def answer(*communicators: tuple[str, list[int]], dead: int | None = None) -> RasReport:
    """RAS's JSON; rank n of every communicator is process 100+n. A rank that is `dead` is listed as
    missing."""

    def rank(number: int, count: int) -> dict[str, object]:
        where = {
            "rank": number,
            "host": f"10.0.0.{number + 1}",
            "pid": 100 + number,
            "cuda_dev": 0,
            "nvml_dev": 0,
        }
        if number == dead:
            return {**where, "status": {"unresponsive": True, "considered_dead": True}}
        return {
            **where,
            "status": {"init_state": 0, "async_error": 0},
            "collective_counts": {"AllReduce": count, "Broadcast": 1},
        }

    tree = {
        "nccl_version": "2.28.7",
        "communicators_count": len(communicators),
        "communicators": [
            {
                "hash": name,
                "ranks": [
                    rank(number, count) for number, count in enumerate(counts) if number != dead
                ],
                "missing_ranks": [
                    rank(number, count) for number, count in enumerate(counts) if number == dead
                ],
            }
            for name, counts in communicators
        ],
    }
    (report,) = nccl_ras.read([json.dumps(tree).encode()]).records
    assert isinstance(report, RasReport)
    return report


def asked(*reports: RasReport) -> list[tuple[str, str, tuple[str, ...]]]:
    return told(from_reports([(f"{number}.json", report) for number, report in enumerate(reports)]))


def test_of_few_ranks_behind_those_are_named() -> None:
    assert asked(answer(("0xa1", [64, 64, 64, 60]))) == [
        ("rank-not-entering", "likely", ("rank 3", "10.0.0.4"))
    ]


def test_of_few_ranks_ahead_the_ranks_ahead_are_named_and_not_those_who_wait() -> None:
    found = asked(answer(("0xa1", [64, 64, 65, 64])))
    assert found[0] == ("collective-desync", "likely", ("rank 2", "10.0.0.3"))
    assert [confidence for _, confidence, _ in found[1:]] == ["possible"]


def test_a_process_that_no_longer_answers_is_dead_for_certain() -> None:
    assert asked(answer(("0xa1", [64, 64, 64]), dead=1)) == [
        ("dead-process", "certain", ("rank 1", "10.0.0.2"))
    ]


def test_two_processes_behind_in_one_communicator_each_wait_for_each_other() -> None:
    assert asked(answer(("0xa1", [5, 6]), ("0xb2", [10, 9])))[0][:2] == (
        "multi-comm-deadlock",
        "likely",
    )


def test_one_process_behind_in_two_communicators_is_late_and_no_deadlock() -> None:
    assert "multi-comm-deadlock" not in [
        finding for finding, _, _ in asked(answer(("0xa1", [5, 6]), ("0xb2", [9, 10])))
    ]


def test_equal_counts_are_healthy_once_and_worth_a_look_when_they_do_not_move() -> None:
    still = answer(("0xa1", [64, 64, 64]))
    assert asked(still) == []
    assert asked(still, answer(("0xa1", [65, 65, 65]))) == []
    assert asked(still, still) == [("all-launched-not-completed", "possible", ())]
