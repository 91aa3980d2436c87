"""PyTorch's messages. gloo's are recorded (tests/fixtures/watchdog); ProcessGroupNCCL's are
composed in the wording of the versions named."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import UnknownLayout
from busbw.model import WatchdogEvent, WatchdogLog
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.logs.watchdog import FORMAT, PATTERNS, read

FIXTURES = Path(__file__).parents[1] / "fixtures" / "watchdog"
WORK = (
    "WorkNCCL(SeqNum=57, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for"
    " 600038 milliseconds before timing out."
)
CAUGHT = f"Watchdog caught collective operation timeout: {WORK}"


def log_of(text: str) -> WatchdogLog:
    (log,) = read([text.encode()]).records
    assert isinstance(log, WatchdogLog)
    return log


@pytest.mark.parametrize(
    ("prefix", "rank", "group", "group_rank"),
    [
        ("[E ProcessGroupNCCL.cpp:475] [Rank 3] ", 3, None, None),  # 2.0
        ("[rank3]:[E ProcessGroupNCCL.cpp:563] [Rank 3] ", 3, None, None),  # 2.2
        ("[rank3]:[E ProcessGroupNCCL.cpp:563] [PG 1 Rank 0] ", 3, "1", 0),  # 2.3
        # 2.4
        ("[rank3]:[E710 09:00:00.426415540 ProcessGroupNCCL.cpp:607] [PG 0 (default_pg) Rank 3] ", 3, "0 (default_pg)", 3),
        # 2.5
        ("[rank3]:[E710 09:00:00.426415540 ProcessGroupNCCL.cpp:616] [PG ID 2 PG GUID 3 Rank 1] ", 3, "3", 1),
        ("[rank3]:[E710 09:00:00.426415540 ProcessGroupNCCL.cpp:629] [PG ID 0 PG GUID 0(default_pg) Rank 3] ", 3, "0(default_pg)", 3),
        ("(RayWorkerWrapper pid=927, ip=10.0.0.2) [rank3]:[E710 09:00:00.4 x.cpp:6] [PG ID 0 PG GUID 0(default_pg) Rank 3] ", 3, "0(default_pg)", 3),
        ("[default3]:[rank11]:[E710 09:00:00.4 x.cpp:6] [PG ID 4 PG GUID 9(dp) Rank 3] ", 3, "9(dp)", 3),
        ("", None, None, None),
    ],
)  # fmt: skip
def test_a_time_out_is_reported_behind_every_versions_prefix(
    prefix: str, rank: int | None, group: str | None, group_rank: int | None
) -> None:
    (event,) = log_of(f"before\n{prefix}{CAUGHT}\n").events
    assert event == WatchdogEvent(
        kind="collective-timeout",
        line_no=2,
        text=" ".join(f"{prefix}{CAUGHT}".split()),
        rank=rank,
        group=group,
        group_rank=group_rank,
        sequence=57,
        operation="ALLREDUCE",
        elements_in=1024,
        elements_out=1024,
        timeout_ms=600000,
        elapsed_ms=600038,
    )


def test_a_time_out_wrapped_over_two_lines_and_one_of_an_old_version_are_reported() -> None:
    wrapped, old = log_of(
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL\n(SeqNum=4565,"
        " OpType=ALLREDUCE, Timeout(ms)=600000)\n\n[Rank 2] Watchdog caught collective operation"
        " timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran for 1802710 milliseconds\n"
    ).events
    assert (
        wrapped.rank,
        wrapped.sequence,
        wrapped.operation,
        wrapped.timeout_ms,
        wrapped.elements_in,
    ) == (
        1,
        4565,
        "ALLREDUCE",
        600000,
        None,
    )
    assert (old.rank, old.sequence, old.operation, old.elapsed_ms) == (
        2,
        None,
        "BROADCAST",
        1802710,
    )


PG = "[rank3]:[E710 09:00:00.4 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 3] "


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            PG + "failure detected by watchdog at work sequence id: 57 PG status: last enqueued work: 57, last completed work: 56",
            {"kind": "failure-detected", "sequence": 57, "last_enqueued": 57, "last_completed": 56},
        ),
        (
            "[rank3]:[E x.cpp:1] [PG 1 Rank 3] Timeout at NCCL work: 57, last enqueued NCCL work: 58, last completed NCCL work: 56.",
            {"kind": "work-failed", "sequence": 57, "last_enqueued": 58, "last_completed": 56},
        ),
        (
            "[rank3]:[E x.cpp:1] [PG 1 Rank 3] Exception (either an error or timeout) detected by watchdog at work: 57, "
            "last enqueued NCCL work: 57, last completed NCCL work: 18446744073709551615.",
            {"kind": "work-failed", "sequence": 57, "last_enqueued": 57, "last_completed": None},
        ),
        (
            PG + "Received a dump signal due to a collective timeout from  rank 7 and we will try our best to dump the debug info. "
            "Last enqueued NCCL work: 57, last completed NCCL work: 56.",
            {"kind": "dump-signal", "other_rank": 7, "last_enqueued": 57, "last_completed": 56},
        ),
        (PG + "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.",
         {"kind": "heartbeat", "detail": "480 seconds"}),
        (PG + "Heartbeat monitor timed out! Process will be terminated after dumping debug info.", {"kind": "heartbeat"}),
        (PG + "ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1", {"kind": "dump"}),
        (PG + "To avoid data inconsistency, we are taking the entire process down.", {"kind": "process-ended"}),
        (PG + "Stack trace of the failed collective not found, potentially because FlightRecorder is disabled.", {"kind": "no-recorder"}),
        (
            "[rank3]: torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:2251, unhandled system error, NCCL version 2.27.5",
            {"kind": "nccl-error", "detail": "2.27.5"},
        ),
        (
            "[rank3]: RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running collective: CollectiveFingerPrint("
            "SequenceNumber=18, OpType=ALLREDUCE, TensorShape=[8]), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=22, "
            "OpType=BROADCAST, TensorShape=[9])",
            {"kind": "mismatch", "sequence": 18, "operation": "ALLREDUCE", "other_rank": 0,
             "detail": "Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=22, OpType=BROADCAST, TensorShape=[9]"},
        ),
        ("[rank3]: RuntimeError: [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 8000 ms",
         {"kind": "monitored-barrier", "other_rank": 1, "timeout_ms": 8000, "detail": "1, 2"}),
        ("[rank3]: torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 8/16 clients joined.",
         {"kind": "store-timeout", "detail": "8/16 clients joined"}),
        ("[rank3]: Not all ranks joining collective, sequence number: 57 missing ranks: {5}",
         {"kind": "analyser-missing", "sequence": 57, "other_rank": 5, "detail": "{5}"}),
        ("[rank3]: Culprit rank 5; Error type: UNDECIDED", {"kind": "analyser-culprit", "other_rank": 5, "detail": "UNDECIDED"}),
    ],
)  # fmt: skip
def test_every_other_message_is_reported(text: str, told: dict[str, object]) -> None:
    (event,) = log_of(text + "\n").events
    assert event.rank == 3
    blank = dict.fromkeys(
        (
            "sequence",
            "operation",
            "last_enqueued",
            "last_completed",
            "other_rank",
            "timeout_ms",
            "detail",
        )
    )
    expected = {**blank, **told}
    assert {name: getattr(event, name) for name in expected} == expected


def test_nccls_own_last_error_is_kept_with_the_exception() -> None:
    (event,) = log_of(
        "[rank3]: torch.distributed.DistBackendError: NCCL error in: x.cpp:77, remote process"
        " exited, NCCL version 2.27.5\nncclRemoteError: A call failed possibly due to a network"
        " error or a remote process exiting prematurely.\nLast error:\nsocketProgress: Connection"
        " closed by remote peer node-b<47001>\n"
    ).events
    assert event.text.endswith(
        "Last error: socketProgress: Connection closed by remote peer node-b<47001>"
    )


def test_the_ranks_that_enqueued_less_than_the_others_are_named() -> None:
    lines = [
        f"[rank{rank}]:[E x.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] failure detected by"
        " watchdog at work sequence id: 57 PG status: last enqueued work:"
        f" {56 if rank == 2 else 57}, last completed work: 56"
        for rank in range(4)
    ]
    log = log_of(
        "\n".join([*lines, f"[rank0]:[E x.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 0] {CAUGHT}"])
    )
    assert (log.behind, log.timed_out) == ((2,), (0,))


def test_recorded_a_barrier_names_the_rank_that_did_not_arrive() -> None:
    document = read([(FIXTURES / "monitored-barrier.txt").read_bytes()])
    (log,) = document.records
    assert isinstance(log, WatchdogLog)
    assert [(each.kind, each.line_no, each.rank, each.other_rank) for each in log.events] == [
        ("monitored-barrier", 1, 0, 1),
        ("monitored-barrier", 2, 0, 1),
        ("gloo-timeout", 4, None, None),
        ("barrier-broken", 5, 2, 0),
        ("barrier-broken", 6, 2, 0),
        ("gloo-closed", 8, None, None),
        ("barrier-broken", 9, 3, 0),
        ("barrier-broken", 10, 3, 0),
        ("gloo-closed", 12, None, None),
    ]
    assert document.faults == (
        "line 1 rank 0: monitored-barrier (rank 1 named)",
        "line 2 rank 0: monitored-barrier (rank 1 named)",
        (
            "line 4: gloo-timeout:"
            " [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed"
            " out waiting 4000ms for recv operation to complete"
        ),
    )


def test_recorded_a_mismatch_names_both_ranks_and_the_operation() -> None:
    events = log_of((FIXTURES / "mismatch.txt").read_text()).events
    assert [(each.rank, each.other_rank, each.sequence, each.operation) for each in events] == [
        (0, 2, 5, "ALLREDUCE"),
        (1, 2, 5, "ALLREDUCE"),
        (2, 0, 5, "ALLREDUCE"),
        (3, 2, 5, "ALLREDUCE"),
    ]


def test_recorded_time_outs_of_gloo_are_reported_per_rank() -> None:
    events = log_of((FIXTURES / "gloo-timeout.txt").read_text()).events
    assert [(each.kind, each.rank, each.timeout_ms) for each in events] == [
        ("gloo-timeout", rank, 6000) for rank in (0, 2, 3)
    ]


def test_a_text_without_any_of_it_is_refused_and_no_pattern_is_slow() -> None:
    with pytest.raises(UnknownLayout) as refused:
        read([b"hello\n"])
    assert refused.value.seen == "hello"
    assert FORMAT.looks_like(b"hello") == 0.0
    assert FORMAT.looks_like(CAUGHT.encode()) == 0.7
    assert Scanner(PATTERNS).slow == ()
