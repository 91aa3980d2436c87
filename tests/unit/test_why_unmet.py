"""Composed outputs of programs that no table knows, and of what such outputs hold without a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli import why_reading
from busbw.model import Confidence, Finding
from busbw.parsers.findings.diagnose import Diagnosis, diagnose

STEPS = "".join(f"2026-03-11 04:12:{n:02d} step {n} done\n" for n in range(10, 30))
ON_TWO_HOSTS = """\
cn1:41:41 [0] NCCL INFO Bootstrap: Using eno1:10.1.7.11<0>
cn1:41:41 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
cn1:41:60 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eno1:10.1.7.11<0>
cn1:41:60 [0] NCCL INFO ncclCommInitRank comm 0x5581 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x6c8d - Init START
cn2:52:52 [0] NCCL INFO Bootstrap: Using bond0:10.5.8.12<0>
cn2:52:52 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
cn2:52:71 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB bond0:10.5.8.12<0>
cn2:52:71 [0] NCCL INFO ncclCommInitRank comm 0x5599 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x6c8d - Init START
"""


def ask(tmp_path: Path, text: str) -> Diagnosis:
    path = tmp_path / "job.log"
    path.write_text(text)
    return diagnose(why_reading.read([str(path)]).evidence)


def ask_first(tmp_path: Path, text: str) -> Finding:
    return ask(tmp_path, text).findings[0]


@pytest.mark.parametrize(
    "line",
    [
        "2026/03/11 04:12:30.1 store[4711] <ERROR>: Invalid key k7 [table.go:88]",
        "Error in move operation - Resource temporarily unavailable",
        "Cannot parse the address tcp:/n1 of the cache",
        "03/11/2026 04:12:30.1;0001;mom;Svr;mom;cutting the file failed. ERR : Invalid argument",
        "03/11/2026 04:12:30.1;0001;mom;Svr;mom;Error getting the bound address",
        "malformed table; err: no rows found",
        "Fail to list after k7: No such device",
        "init_device.cu:nvshmemid_hostlib_init_attr:96: nvshmem API called before nvshmem_init",
    ],
)
def test_a_failure_of_an_unknown_program_is_not_passed_over(tmp_path: Path, line: str) -> None:
    diagnosis = ask(tmp_path, STEPS + line + "\n" + STEPS)
    lines = [
        *diagnosis.unexplained,
        *(item for each in diagnosis.findings for item in each.evidence),
    ]
    assert line in [each.text for each in lines]


@pytest.mark.parametrize(
    "line",
    [
        "ulimit -l: unlimited",
        "max locked memory (ulimit -l) = unlimited",
        "Connection to the store timed out once, reconnected in 1.2 s",
        "restartPolicy: OnFailure",
        "max error: 1.19e-07",
        "validation error 0.231 (best 0.229)",
        "put done; err: <nil>",
        "error: The message above about an undefined variable is innocuous.",
    ],
)
def test_words_of_failure_without_a_failure_are_no_finding(tmp_path: Path, line: str) -> None:
    diagnosis = ask(tmp_path, STEPS + line + "\n" + STEPS)
    assert (diagnosis.findings, diagnosis.unexplained) == ((), ())


def test_an_unlimited_limit_is_no_cause_beside_another_failure(tmp_path: Path) -> None:
    text = "ulimit -l: unlimited\n" + STEPS + "FATAL:   container creation failed\n"
    assert "memlock-limit" not in [each.id for each in ask(tmp_path, text).findings]


def test_what_only_differs_stands_behind_what_a_line_reports(tmp_path: Path) -> None:
    failed = (
        "cn2:52:72 [0] include/alloc.h:223 NCCL WARN Failed to malloc 268435456 bytes\n"
        "cn2: Test NCCL failure common.cu:1361 'unhandled system error'\n"
    )
    first = ask_first(tmp_path, ON_TWO_HOSTS + failed)
    assert (first.id, first.where[:1]) == ("host-memory-exhausted", ("cn2",))


@pytest.mark.parametrize(
    "text",
    [
        "  Normal  Scheduled  61s  default-scheduler  Successfully assigned bench/w-0 to n3\n"
        '  Warning FailedMount 61s  kubelet  MountVolume.SetUp failed for volume "kube-api" :'
        " failed to sync configmap cache: timed out waiting for the condition\n"
        "  Normal  Started  21s  kubelet  Started container worker\n",
        "[W0311 04:12:09.1 socket.cpp:752] [c10d] The client socket has failed to connect to"
        " [n1]:29500 (errno: 111 - Connection refused).\n"
        "[I0311 04:12:11.3 socket.cpp:908] [c10d] The client socket has connected to [n1]:29500"
        " on [n2]:41022.\n" + STEPS,
        "[    5.6139] mlx5_core 0000:ca:00.0 ens1np0: Link down\n"
        "[    9.1003] mlx5_core 0000:ca:00.0 ens1np0: Link up\n",
    ],
)
def test_what_came_up_later_is_no_cause(tmp_path: Path, text: str) -> None:
    found = ask(tmp_path, text).findings
    assert [each.id for each in found if each.confidence is not Confidence.POSSIBLE] == []


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "misc/gdrwrap.cc:211 NCCL WARN GDRCOPY lib wrapper not initialized.",
            "gdrcopy-unavailable",
        ),
        (
            "proxy.cc:1892 NCCL WARN [Service thread] Unknown command 542393671 from localRank -1",
            "socket-crosstalk",
        ),
        (
            "dev_runtime.cc:1126 NCCL WARN User requested GIN but not all ranks support GIN",
            "gin-not-available",
        ),
    ],
)
def test_a_message_of_nccl_stands_before_what_tests_say_of_it(
    tmp_path: Path, line: str, cause: str
) -> None:
    text = (
        f"cn2:52:72 [0] {line}\n"
        "cn2: Test NCCL failure common.cu:1005 'invalid argument (run with NCCL_DEBUG=WARN for details)'\n"
    )
    assert ask_first(tmp_path, text).id == cause
