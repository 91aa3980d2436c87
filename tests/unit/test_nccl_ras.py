"""RAS reports, composed in the wording of NCCL 2.24.3 to 2.30.7 and RCCL 2.28
(`src/ras/client_support.cc`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.errors import UnknownLayout
from busbw.model import RasEvent, RasFinding, RasGroup, RasRank, RasRankState, RasReport
from busbw.parsers.logs.nccl_ras import FORMAT, read

HEAD = """NCCL version 2.28.9 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.004s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
"""
ROW = "    0         1         4         8        32        32   RUNNING  {errors}\n"
GROUP = RasGroup(1, 4, "8", 32, 32, "RUNNING", ())


def report_of(text: str) -> RasReport:
    (report,) = read([text.encode()]).records
    assert isinstance(report, RasReport)
    return report


def finding_of(text: str) -> RasFinding:
    (finding,) = report_of(text).findings
    return finding


def test_a_healthy_report_is_read_whole() -> None:
    document = read(
        [(HEAD + ROW.format(errors="OK") + "\nErrors\n======\n\nWarnings\n========\n\n").encode()]
    )
    assert document.records == (RasReport("2.28.9", "NCCL", 4, 32, 32, (GROUP,), (), (), 0.004),)
    assert (document.complete, document.problems, document.faults) == (True, (), ())


def test_rccl_writes_its_own_first_line() -> None:
    text = HEAD.replace(
        "NCCL version 2.28.9 compiled with CUDA 12.9",
        'RCCL version 2.28.3 compiled with ROCm "7.0.2.0-56-9428210"',
    )
    report = report_of(text + ROW.format(errors="OK"))
    assert (report.library, report.nccl_version, report.groups) == ("RCCL", "2.28.3", (GROUP,))


def test_a_job_that_misses_a_process_names_it_and_its_rank() -> None:
    document = read(
        [
            (
                HEAD + "    0         1         4       7-8        32        31   RUNNING "
                " INCOMPLETE\n\nErrors\n======\n\nINCOMPLETE\n  Missing communicator data from 1"
                " job process\n  Process 52017 on node 10.0.0.2 managing GPU 5\n\n#0-0"
                " (5c9ac0b1e5a13c77) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank"
                " 13 -- GPU 5 (NVML 7) managed by process 52017 on node"
                " 10.0.0.2\n\nWarnings\n========\n"
            ).encode()
        ]
    )
    (report,) = document.records
    assert isinstance(report, RasReport)
    assert report.groups == (RasGroup(1, 4, "7-8", 32, 31, "RUNNING", ("INCOMPLETE",)),)
    assert report.findings == (
        RasFinding(
            "INCOMPLETE",
            21,
            None,
            None,
            "Missing communicator data from 1 job process",
            (),
            (RasRank(None, "10.0.0.2", 52017, "5"),),
        ),
        RasFinding(
            "INCOMPLETE",
            25,
            "5c9ac0b1e5a13c77",
            None,
            "Missing communicator data from 1 rank",
            (),
            (RasRank(13, "10.0.0.2", 52017, "5 (NVML 7)"),),
        ),
    )
    assert document.faults == (
        (
            "line 21: INCOMPLETE Missing communicator data from 1 job process (process 52017 on"
            " 10.0.0.2)"
        ),
        (
            "line 25: INCOMPLETE communicator 5c9ac0b1e5a13c77: Missing communicator data from 1"
            " rank (rank 13 on 10.0.0.2)"
        ),
    )


MISMATCH = "#0-0 (27a079b828ff1a75) MISMATCH\n"


@pytest.mark.parametrize(
    ("lines", "subject", "groups", "ranks"),
    [
        (  # 2.24: all kinds counted together
            (
                "  Communicator ranks have different collective operation counts\n  26 ranks have"
                " launched up to operation 6650\n  6 ranks have launched up to operation 6649\n "
                " Rank 0 -- GPU 0 managed by process 483072 on node 10.0.0.1\n  Rank 2 -- GPU 2"
                " managed by process 483074 on node 10.0.0.1\n"
            ),
            "collective",
            (
                (26, "launched up to operation 6650", 6650),
                (6, "launched up to operation 6649", 6649),
            ),
            (RasRank(0, "10.0.0.1", 483072, "0", 6649), RasRank(2, "10.0.0.1", 483074, "2", 6649)),
        ),
        (  # 2.26 and later: one block per kind, a group of one has no line of its own
            (
                "  Communicator ranks have different AllReduce operation counts\n  30 ranks have"
                " launched up to operation 6650\n  Rank 21 has launched up to operation 6649 -- GPU"
                " 5 managed by process 61003 on node 10.0.0.3\n"
            ),
            "AllReduce",
            ((30, "launched up to operation 6650", 6650),),
            (RasRank(21, "10.0.0.3", 61003, "5", 6649),),
        ),
        (
            (
                "  Communicator ranks have different AllGather operation counts\n  30 ranks have"
                " launched up to operation 12\n  Rank 21 has not launched any operations --"
                " [process information not found]\n"
            ),
            "AllGather",
            ((30, "launched up to operation 12", 12),),
            (RasRank(21, None, None, None, 0),),
        ),
        (
            (
                "  Communicator ranks have different status\n  26 ranks have status RUNNING\n"
                "  Rank 3 has status INIT -- GPU 3 managed by process 61003 on node 10.0.0.3\n"
            ),
            "status",
            ((26, "status RUNNING", None),),
            (RasRank(3, "10.0.0.3", 61003, "3", None, "INIT"),),
        ),
    ],
)
def test_a_mismatch_tells_the_groups_and_names_the_outliers(
    lines: str,
    subject: str,
    groups: tuple[tuple[int, str, int | None], ...],
    ranks: tuple[RasRank, ...],
) -> None:
    finding = finding_of("Warnings\n========\n\n" + MISMATCH + lines)
    assert (finding.kind, finding.communicator, finding.line_no) == (
        "MISMATCH",
        "27a079b828ff1a75",
        4,
    )
    assert (finding.subject, finding.groups, finding.ranks) == (subject, groups, ranks)


def test_two_kinds_under_one_heading_are_two_findings() -> None:
    findings = report_of(
        MISMATCH
        + "  Communicator ranks have different AllGather operation counts\n  3 ranks have launched"
        " up to operation 9\n  Rank 1 has launched up to operation 8 -- GPU 1 managed by process"
        " 5 on node 10.0.0.1\n  Communicator ranks have different AllReduce operation counts\n  3"
        " ranks have launched up to operation 5\n  Rank 1 has launched up to operation 6 -- GPU 1"
        " managed by process 5 on node 10.0.0.1\n"
    ).findings
    assert [(each.subject, each.ranks[0].operation, each.line_no) for each in findings] == [
        ("AllGather", 8, 1),
        ("AllReduce", 6, 5),
    ]


@pytest.mark.parametrize(
    ("lines", "kind", "ranks"),
    [
        (
            (
                "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n "
                " Process 3748990 on node 10.0.0.1 managing GPU 3\n"
            ),
            "DEAD",
            (RasRank(None, "10.0.0.1", 3748990, "3"),),
        ),
        (
            (
                "DEAD\n  2 job processes are considered dead (unreachable via the RAS network)\n "
                " Process 1 on node 10.0.0.1 managing GPUs 3,4\n  Process 2 on node 10.0.0.1"
                " managing GPUs 5,6 (NVML 0,1)\n"
            ),
            "DEAD",
            (RasRank(None, "10.0.0.1", 1, "3,4"), RasRank(None, "10.0.0.1", 2, "5,6 (NVML 0,1)")),
        ),
        (
            "TIMEOUT\n  Encountered 3 communication timeouts while gathering communicator data\n",
            "TIMEOUT",
            (),
        ),
        (
            (
                "#0-0 (27a079b828ff1a75) ERROR\n  Asynchronous error on 1 rank\n  Rank 6 reported"
                " Remote process error -- GPU 6 managed by process 9 on node 10.0.0.1\n"
            ),
            "ERROR",
            (RasRank(6, "10.0.0.1", 9, "6", None, None, "Remote process error"),),
        ),
        (  # up to 2.25
            (
                "#0-0 (27a079b828ff1a75) INCOMPLETE\n  Missing communicator data from 2 ranks\n "
                " The missing ranks: 13, 14\n"
            ),
            "INCOMPLETE",
            (RasRank(13, None, None, None), RasRank(14, None, None, None)),
        ),
    ],
)
def test_every_other_block_names_its_ranks_or_processes(
    lines: str, kind: str, ranks: tuple[RasRank, ...]
) -> None:
    finding = finding_of(lines)
    assert (finding.kind, finding.ranks) == (kind, ranks)


def test_no_data_at_all_is_a_whole_report() -> None:
    document = read(
        [(HEAD.split("Group ")[0] + "No communicator data collected!\n\nErrors\n======\n").encode()]
    )
    assert (document.complete, document.records) == (
        True,
        (RasReport("2.28.9", "NCCL", 4, 32, 32, (), (), (), 0.004),),
    )


def test_a_table_that_announces_what_is_not_below_it_is_incomplete() -> None:
    document = read([(HEAD + ROW.format(errors="INCOMPLETE,MISMATCH")).encode()])
    assert not document.complete
    assert document.problems == (
        "only a part of a report: no table of communicators, or not all that its table announces",
    )
    assert read([(HEAD + ROW.format(errors="OK")).encode()]).complete


def rank(index: int, count: int, **status: object) -> dict[str, object]:
    return {
        "rank": index,
        "host": "10.0.0.1",
        "pid": 41011 + index,
        "cuda_dev": index,
        "nvml_dev": index,
        "status": {
            "init_state": 0,
            "async_error": 0,
            "finalize_called": False,
            "destroy_flag": False,
            "abort_flag": False,
            **status,
        },
        "collective_counts": {"AllGather": 12, "AllReduce": count},
    }


JSON_REPORT = {
    "nccl_version": "2.28.9",
    "timestamp": "2026-07-10 09:00:00",
    "communicators_count": 1,
    "communicators": [
        {
            "hash": "0x5c9ac0b1e5a13c77",
            "size": 5,
            "ranks": [rank(0, 6650), rank(1, 6650), rank(2, 6650), rank(3, 6649, async_error=6)],
            "missing_ranks": [
                {
                    "rank": 4,
                    "host": "10.0.0.2",
                    "pid": 52017,
                    "cuda_dev": 5,
                    "nvml_dev": 7,
                    "status": {"unresponsive": True, "considered_dead": False},
                }
            ],
        }
    ],
    "ras": {"collection_time_sec": 0.004, "timeouts_count": 2},
}


def test_json_lists_every_rank_and_reports_what_the_text_would_have() -> None:
    document = read([json.dumps(JSON_REPORT, indent=2).encode()])
    (report,) = document.records
    assert isinstance(report, RasReport)
    assert (report.nccl_version, report.collection_s, report.timeouts, len(report.ranks)) == (
        "2.28.9",
        0.004,
        2,
        5,
    )
    assert report.ranks[3] == RasRankState(
        "5c9ac0b1e5a13c77",
        3,
        "10.0.0.1",
        41014,
        3,
        3,
        False,
        0,
        6,
        False,
        False,
        False,
        None,
        None,
        (("AllGather", 12), ("AllReduce", 6649)),
    )
    assert report.ranks[4] == RasRankState(
        "5c9ac0b1e5a13c77",
        4,
        "10.0.0.2",
        52017,
        5,
        7,
        True,
        unresponsive=True,
        considered_dead=False,
    )
    assert report.findings == (
        RasFinding(
            "INCOMPLETE",
            None,
            "5c9ac0b1e5a13c77",
            None,
            "1 of 5 ranks did not answer",
            (),
            (RasRank(4, "10.0.0.2", 52017, "5 (NVML 7)"),),
        ),
        RasFinding(
            "ERROR",
            None,
            "5c9ac0b1e5a13c77",
            None,
            "errors on 1 rank",
            (),
            (RasRank(3, "10.0.0.1", 41014, "3", None, None, "async_error 6"),),
        ),
        RasFinding(
            "MISMATCH",
            None,
            "5c9ac0b1e5a13c77",
            "AllReduce",
            "Communicator ranks have different AllReduce operation counts",
            (
                (3, "launched up to operation 6650", 6650),
                (1, "launched up to operation 6649", 6649),
            ),
            (RasRank(3, "10.0.0.1", 41014, "3", 6649, None, "async_error 6"),),
        ),
    )


def test_a_rank_in_another_state_is_a_mismatch_of_status() -> None:
    report = {
        "communicators": [
            {"hash": "0xab", "ranks": [rank(0, 5), rank(1, 5), rank(2, 5, init_state=7)]}
        ]
    }
    finding = finding_of(json.dumps(report))
    assert (finding.subject, finding.groups) == (
        "status",
        ((2, "status RUNNING", None), (1, "status INIT", None)),
    )
    assert finding.ranks == (RasRank(2, "10.0.0.1", 41013, "2", None, "INIT"),)


def test_the_monitor_stream_is_read_as_text_and_as_objects_over_many_lines() -> None:
    text = (
        "[2026-07-10 09:00:00] PEER_DEAD: Process 52017 on node 10.0.0.2 managing GPU 5\n"
        "[2026-07-10 09:00:01] PEER_NEW: Process 3 on node 10.0.0.9\n"
    )
    first = RasEvent(
        "2026-07-10 09:00:00",
        None,
        "PEER_DEAD",
        "10.0.0.2",
        52017,
        "5",
        "Process 52017 on node 10.0.0.2 managing GPU 5",
    )
    document = read([text.encode()])
    assert document.records[0] == first
    assert document.faults == ("PEER_DEAD: Process 52017 on node 10.0.0.2 managing GPU 5",)
    stream = json.dumps(
        {
            "timestamp": "2026-07-10 09:00:00",
            "group": "LIFECYCLE",
            "event": "PEER_DEAD",
            "peer": {"host": "10.0.0.2", "pid": 52017, "cuda_devs": [5], "nvml_devs": [5]},
            "details": "gone",
        },
        indent=1,
    )
    whole = read([(stream + "\n" + stream).encode()])
    assert (
        whole.records
        == (
            RasEvent(
                "2026-07-10 09:00:00", "LIFECYCLE", "PEER_DEAD", "10.0.0.2", 52017, "5", "gone"
            ),
        )
        * 2
    )
    cut = read([(stream + "\n" + stream[:-20]).encode()])
    assert (len(cut.records), cut.complete, cut.problems[-1]) == (
        1,
        False,
        "the last event is truncated",
    )


@pytest.mark.parametrize(
    "text",
    ["", "hello\n", '{"version": "2.10", "entries": []}', '{"communicators": [', "{" * 50_000],
)
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(UnknownLayout):
        read([text.encode()])
    assert FORMAT.looks_like(text.encode()) == 0.0


CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "nccl-debug"


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not beside this checkout")
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("083", ()),
        ("084", ("INCOMPLETE", "INCOMPLETE")),
        ("085", ("DEAD",)),
        ("086", ("MISMATCH",)),
        ("087", ("MISMATCH",)),
    ],
)
def test_the_reports_of_the_corpus_are_read(name: str, kinds: tuple[str, ...]) -> None:
    assert (
        tuple(each.kind for each in report_of((CORPUS / f"{name}.txt").read_text()).findings)
        == kinds
    )
