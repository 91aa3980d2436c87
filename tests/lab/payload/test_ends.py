"""How a run ends: exit codes, refusals, the watchdog, a killed rank."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.parsers.nccl_tests import results_json
from busbw.parsers.nccl_tests import table as nccl_tests_table

pytestmark = pytest.mark.lab

LIMIT_S = 400.0


@pytest.mark.parametrize(("least", "word", "status"), [("1e-6", "OK", 0), ("1e6", "FAILED", 7)])
def test_the_least_bandwidth_decides_word_and_exit_code(
    run: Callable[..., Any], least: str, word: str, status: int
) -> None:
    ended = run("all_reduce", 2, "-b", "64K", "-e", "64K", "-n", "2", NCCL_TESTS_MIN_BW=least)
    assert re.search(rf"^# Avg bus bandwidth    : [\d.e-]+ {word}$", ended.out, re.MULTILINE)
    assert ended.exit_status == status


def test_too_few_emulated_gpus_is_exit_5(run: Callable[..., Any]) -> None:
    ended = run("all_reduce", 3, "-b", "8", "-e", "8", LAB_NGPU="2", NCCL_TESTS_DEVICE="0")
    assert ended.exit_status == 5
    assert (
        "Invalid number of GPUs: 3 requested but only 2 were found.\nPlease check the number of"
        " processes and GPUs per process.\n" in ended.err
    )
    assert ended.rows == []


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("-h",), 0, "USAGE: all_reduce_perf"),
        (("-q", "1"), 0, "invalid option '?'"),
        (("-b", "8X"), 255, "invalid size specified for 'minbytes'"),
        (("-e", "-5"), 255, "invalid size specified for 'maxbytes'"),
        (
            ("-b", "64M", "-e", "1M"),
            255,
            "invalid sizes for 'minbytes' and 'maxbytes': 67108864 > 1048576",
        ),
        (("-n", "0"), 255, "-n and -m must be at least 1"),
        (("-d", "half"), 5, "type 'half' is not available in host memory"),
        (("-o", "avg"), 5, "op 'avg' is not available in host memory"),
        (("-G", "1"), 5, "option -G '1' is not available in host memory"),
        (("-g", "2"), 5, "one process is one emulated GPU: -t 1 -g 1, not -t 1 -g 2"),
        (("-t", "2"), 5, "one process is one emulated GPU: -t 1 -g 1, not -t 2 -g 1"),
    ],
)
def test_refusals_have_nccl_tests_exit_codes(
    binaries: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    done = subprocess.run(
        (binaries / "all_reduce_perf", *words),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, said in done.stdout + done.stderr) == (status, True), done


def test_an_unknown_type_goes_on_with_float_and_says_so(run: Callable[..., Any]) -> None:
    ended = run("all_reduce", 1, "-b", "8", "-e", "8", "-n", "1", "-d", "quad")
    assert ended.out.startswith("invalid type quad, defaulting to float .. \n")
    assert [row[2] for row in ended.rows] == ["float"]


def test_a_skip_without_iterations_to_skip_is_turned_off(run: Callable[..., Any]) -> None:
    ended = run("all_reduce", 1, "-b", "8", "-e", "8", "-n", "3", "-I", "1", "-K", "3")
    assert "per-iteration skip (-K) must be between 0 and 2. Disabling.\n" in ended.err
    assert ended.exit_status == 0


def test_a_broadcast_from_no_rank_is_refused(run: Callable[..., Any]) -> None:
    ended = run("broadcast", 2, "-b", "8", "-e", "8", "-r", "2")
    assert (ended.exit_status, ended.rows) == (6, [])
    assert "-r must be a rank of the group" in ended.err


def test_the_watchdog_ends_a_run_whose_rank_hangs(
    endless: Callable[..., Any], tmp_path: Path
) -> None:
    job = endless("-T", "2", "-J", "out.json")
    job.await_rows(2)
    os.kill(job.pid_of(1), signal.SIGSTOP)
    assert job.process.wait(timeout=400) == 4
    assert re.search(r"\S+: Test timeout \(2s\) \S+:\d+\n", job.text)
    (result,) = nccl_tests_table.parse(job.text)
    assert not result.complete
    # Process 0 closes the document without an end, unless another's watchdog ends the job first:
    # then it is cut off after a row.
    text = (tmp_path / "out.json").read_text()
    document = results_json.parse(text)
    assert '"end_time"' not in text
    assert (document.complete, len(document.rows) >= 2) == (False, True)


def test_a_killed_rank_is_the_launchers_137_and_keeps_the_finished_rows(
    endless: Callable[..., Any], tmp_path: Path
) -> None:
    job = endless("-J", "out.json")
    job.await_rows(3)
    os.kill(job.pid_of(2), signal.SIGKILL)
    assert job.process.wait(timeout=400) == 137
    assert re.search(r"process rank 2 with PID \d+ on node \S+ exited on signal 9", job.text)
    (table,) = nccl_tests_table.parse(job.text)
    document = results_json.parse((tmp_path / "out.json").read_text())
    assert (table.complete, document.complete) == (False, False)
    assert len(table.rows) >= 3
    assert len(document.rows) >= 3
