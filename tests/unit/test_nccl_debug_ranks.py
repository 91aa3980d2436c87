"""What NCCL's debug log says of a job's ranks together: who is missing, which line is whose, what
is folded. Composed but for the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import UnknownLayout
from busbw.model import CommState, Communicator, LogLine, NcclLog
from busbw.parsers.logs.nccl_debug import FORMAT, read
from busbw.parsers.logs.nccl_line import parse_line

PREFIX = "gpu1:4711:4720 [3] NCCL INFO "
BASE = LogLine(1, "INFO", "Using network IB", "gpu1", 4711, 4720, 3)


def log_of_ranks(*texts: str) -> NcclLog:
    (log,) = read(["\n".join(texts).encode()]).records
    assert isinstance(log, NcclLog)
    return log


def test_a_rank_that_never_starts_and_one_that_never_completes_are_named() -> None:
    lines = []
    for rank in (0, 1, 2):
        text = (
            f"n{rank}:4{rank}:5 [0] NCCL INFO ncclCommInitRank comm 0x{rank}1 rank {rank} nranks 4"
            " cudaDev 0 busId 1 commId 0xab - Init "
        )
        lines.append(text + "START")
        if rank != 1:
            lines.append(text + "COMPLETE")
    log = log_of_ranks(*lines)
    assert log.missing_ranks == (3,)
    assert log.stuck == (
        "communicator ab: 1 of 4 ranks began their start and did not complete it (1)",
    )
    document = read(["\n".join(lines).encode()])
    assert document.faults == (*log.stuck, "1 rank never logged the start of the communicator: 3")
    assert document.complete


def test_a_log_of_one_rank_of_many_does_not_call_the_others_missing() -> None:
    log = log_of_ranks(
        "n0:4:5 [0] NCCL INFO comm 0x1 rank 0 nranks 16 cudaDev 0 busId 1 commId 0xab - Init"
        " COMPLETE"
    )
    assert log.missing_ranks == ()


def test_a_line_glued_to_a_row_of_the_table_belongs_to_its_process() -> None:
    log = log_of_ranks(
        "gpu1:41:42 [0] NCCL INFO Using network IB",
        "     8388608       2097152     float     sum      -1gpu1:41:42 [0] NCCL INFO Channel 00/0"
        " : 0[0] -> 8[0] [send] via NET/IB/0",
    )
    assert [(each.process, each.networks, len(each.connections)) for each in log.processes] == [
        ("gpu1:41", ("IB",), 1)
    ]


def test_a_destroyed_communicator_is_folded_into_the_one_that_was_started() -> None:
    (facts,) = log_of_ranks(
        "n0:4:5 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 2 busId 1"
        " commId 0xab - Init COMPLETE",
        "n0:4:5 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 1 - Destroy COMPLETE",
    ).processes
    assert facts.communicators == (
        Communicator(
            "0x1", 0, 1, CommState.DESTROYED, 2, "ab", 0, 2, "1", None, "ncclCommInitRank"
        ),
    )


def test_error_traces_are_counted_by_the_name_of_their_result() -> None:
    log = log_of_ranks(
        "n0:4:5 [0] NCCL INFO misc/socket.cc:628 -> 3",
        "n0:4:5 [0] NCCL INFO init.cc:1558 (initTransportsRank) -> 1",
        "n0:4:5 [0] NCCL INFO group.cc:64 -> 3 [Async thread]",
    )
    assert log.results == (("ncclInternalError", 2), ("ncclUnhandledCudaError", 1))


def test_a_text_without_a_line_of_nccl_is_refused_with_its_first_line() -> None:
    with pytest.raises(UnknownLayout) as refused:
        read([b"\n\n  hello there  \nmore\n"])
    assert refused.value.lines() == (
        "error: no line of NCCL's debug log in it",
        "seen: hello there",
        (
            "next: run with NCCL_DEBUG=INFO (and NCCL_DEBUG_FILE=nccl.%h.%p.log) and read what it"
            " writes"
        ),
    )
    assert FORMAT.looks_like(b"hello") == 0.0
    assert FORMAT.looks_like(b"a:1:2 [0] NCCL INFO x\n" * 4) == 0.9


CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "nccl-debug"


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not beside this checkout")
def test_every_nccl_line_of_the_corpus_is_understood() -> None:
    for path in sorted(CORPUS.glob("*.txt")):
        text = path.read_text(errors="replace")
        for line_no, text_line in enumerate(text.splitlines(), 1):
            if any(f"NCCL {level} " in text_line for level in ("INFO", "WARN")):
                assert parse_line(text_line, line_no) is not None, (path.name, text_line)
        try:
            document = read([text.encode()])
        except UnknownLayout:
            assert "NCCL INFO" not in text
            assert "NCCL WARN" not in text
            continue
        (log,) = document.records
        assert isinstance(log, NcclLog)
        assert log.lines == len(text.splitlines())
        assert len(log.warnings) == text.count("NCCL WARN ")
