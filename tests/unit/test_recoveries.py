"""Trouble that is over: what a writer reports and takes back further down is no cause of anything.

All texts are composed in the wordings of their writers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli import main

_STEPS = "".join(f"step {number} loss 2.1\n" for number in range(40))
_LOST = (
    "Mar 11 03:11:30 gpu-051 kernel: Lustre: scratch-MDT0000-mdc-ffff88: Connection to scratch-MDT0000"
    " (at 10.20.3.88@o2ib) was lost; in progress operations using this service will wait for recovery\n"
)
_RESTORED = (
    "Mar 11 03:11:37 gpu-051 kernel: Lustre: scratch-MDT0000-mdc-ffff88: Connection restored to"
    " 10.20.3.88@o2ib (at 10.20.3.88@o2ib)\n"
)
_SILENT = "[2026-03-11T03:02:28.101] error: Nodes gpu-014 not responding\n"
_ANSWERS = "[2026-03-11T03:03:01.200] Node gpu-014 now responding\n"
_PENDING = (
    "9m  Warning  FailedScheduling  pod/ft-worker-1  0/12 nodes are available: 12 Insufficient"
    " nvidia.com/gpu.\n"
)
_SCHEDULED = (
    "8m  Normal  Scheduled  pod/ft-worker-1  Successfully assigned ml/ft-worker-1 to gpu-3\n"
)
_NO_ANSWER = "[91220.6] nfs: server nas-02 not responding, still trying\n"
_ANSWER = "[91290.6] nfs: server nas-02 OK\n"
PAIRS = (
    (_LOST, _RESTORED),
    (_SILENT, _ANSWERS),
    (_PENDING, _SCHEDULED),
    (_NO_ANSWER, _ANSWER),
)


def why(path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    path.write_text(text)
    status = main(["why", str(path)])
    return status, capsys.readouterr().out


@pytest.mark.parametrize(("trouble", "end"), PAIRS)
def test_what_is_over_is_no_finding_and_what_is_not_is_one(
    trouble: str, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = why(tmp_path / "log", trouble + _STEPS + end, capsys)
    assert (status, "CAUSE" in out) == (0, False), out
    for open_text in (trouble + _STEPS, end + _STEPS + trouble):
        status, out = why(tmp_path / "log", open_text, capsys)
        assert (status, "CAUSE" in out) == (1, True), out


def test_another_node_that_answers_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = _ANSWERS.replace("gpu-014", "gpu-015")
    assert why(tmp_path / "log", _SILENT + other, capsys)[0] == 1


def test_trouble_that_is_over_is_named_where_a_job_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = "[rank3]: OSError: [Errno 5] Input/output error: '/scratch/data.bin'\n"
    status, out = why(tmp_path / "log", _NO_ANSWER + failed + _ANSWER, capsys)
    assert status == 1
    assert "io-straggler" in out


def test_a_job_that_was_started_again_and_finished_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api = "torch/distributed/elastic/agent/server/api.py"
    text = (
        f"{_STEPS}E0311 02:45:02.002000 2210 torch/distributed/elastic/multiprocessing/api.py:869]"
        " failed (exitcode: -6) local_rank: 2 (pid: 2306) of binary: /opt/conda/bin/python\n"
        f"I0311 02:45:02.4 2210 {api}:906] [default] Worker group FAILED. 3/3 attempts left; will"
        f" restart worker group\n{_STEPS}"
        f"I0311 03:45:40.1 2210 {api}:875] [default] worker group successfully finished. Waiting 300"
        " seconds for other agents to finish.\n"
    )
    assert why(tmp_path / "log", text, capsys)[0] == 0


def test_a_request_that_a_server_turned_down_is_no_failure_of_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "INFO:     Application startup complete.\n"
        "ERROR 03-11 09:13:01 [serving_chat.py:199] Error in preprocessing prompt inputs\n"
        "ERROR 03-11 09:13:01 [serving_chat.py:199] ValueError: This model's maximum context length is"
        " 8192 tokens. However, your request has 9120 input tokens.\n"
        'INFO:     10.0.3.7:51 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request\n'
        "INFO:     Application shutdown complete.\n"
    )
    status, out = why(tmp_path / "log", text, capsys)
    assert (status, "CAUSE" in out) == (0, False), out


def test_a_slot_that_states_too_little_power_at_boot_is_no_fault_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = (
        "[    7.98] mlx5_core 0000:18:00.0: mlx5_pcie_event:299:(pid 1621): Detected insufficient power"
        " on the PCIe slot (27W).\n"
    )
    status, out = why(tmp_path / "gpu-7.dmesg", line, capsys)
    assert (status, "transceiver-hot" in out) == (0, True), out


@pytest.mark.parametrize(
    "line",
    [
        "Mar 11 02:18:11 gpu-07 snapd[1302]: stateengine.go:149: state ensure error: Post"
        ' "https://api": dial tcp: lookup api: Temporary failure in name resolution\n',
        "Mar 11 03:00:00 gpu-07 kubelet[2101]: E0311 03:00:00.1 2101 summary_sys_containers.go:83]"
        ' "Failed to get system container stats" err="failed to get container info"\n',
        "/usr/bin/id: cannot find name for group ID 5012\n",
        "    MST PCI module is not loaded\n",
        "[ops@gpu-07 ~]$ sudo umount /mnt/x\numount: /mnt/x: target is busy.\n",
    ],
)
def test_what_concerns_no_job_is_no_finding(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = why(tmp_path / "log", line + _STEPS + "NCCL version 2.21.5+cuda12.4\n", capsys)
    assert (status, "CAUSE" in out) == (0, False), out


@pytest.mark.parametrize(("seen", "status"), [("2m", 0), ("2m (x240 over 41m)", 3)])
def test_a_pod_that_stays_unready_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seen: str, status: int
) -> None:
    log = tmp_path / "events.log"
    log.write_text(
        f"  Warning  Unhealthy  {seen}  kubelet  Readiness probe failed: connection refused\n"
    )
    assert main(["why", str(log)]) == status
    assert ("Readiness probe failed" in capsys.readouterr().out) is bool(status)


def test_what_a_server_of_models_says_of_itself_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "ERROR 03-11 09:13:01 [serving_chat.py:199] Internal Server Error: worker died\n"
    status, out = why(tmp_path / "log", text, capsys)
    assert (status, "worker died" in out) == (3, True), out
