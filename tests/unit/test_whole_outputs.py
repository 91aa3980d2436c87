"""Whole outputs of jobs: what a run outlived is no cause of its end, and the program's own errors are
named as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli import main
from busbw.model import Confidence, Finding
from busbw.parsers.findings.diagnose import diagnose, search_patterns
from busbw.parsers.findings.evidence import EvidenceSet, Text
from busbw.parsers.logs.scan import scanner_of

OPENIB = "WARNING: There was an error initializing an OpenFabrics device.\n"
TIME_LIMIT = (
    "slurmstepd: error: *** JOB 42 ON n1 CANCELLED AT 2026-07-10T09:00:00 DUE TO TIME LIMIT ***\n"
)
NO_HOST = "[W328 00:09:35.1 socket.cpp:209] [c10d] The hostname of the client socket cannot be retrieved. err=-3\n"


def steps(number: int) -> str:
    return "".join(f"step {step} loss 0.{step}\n" for step in range(number))


def findings(text: str) -> tuple[Finding, ...]:
    scan = scanner_of(search_patterns()).scan([text.encode()])
    return diagnose(EvidenceSet((Text("job.out", scan.hits, scan.lines),))).findings


def ids(text: str) -> list[str]:
    return [each.id for each in findings(text)]


def test_a_warning_before_long_work_does_not_explain_the_time_limit() -> None:
    first, *rest = findings(OPENIB + steps(300) + TIME_LIMIT)
    assert (first.id, first.confidence) == ("job-ended-by-scheduler", Confidence.CERTAIN)
    assert all(each.confidence is Confidence.POSSIBLE for each in rest)
    assert ids(OPENIB + TIME_LIMIT)[0] == "openib-btl-fails"


def test_a_library_may_hang_behind_its_warning_while_others_go_on() -> None:
    warning = (
        "gpu1:41:50 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4> with status=12\n"
    )
    assert ids(warning + steps(300) + TIME_LIMIT) == ids(warning + TIME_LIMIT)


def test_what_was_outlived_is_no_answer_where_something_else_failed() -> None:
    assert "name-resolution-failed" in ids(NO_HOST)
    text = (
        NO_HOST
        + steps(300)
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    assert ids(text)[0] == "cuda-oom"
    assert "name-resolution-failed" not in ids(text)


@pytest.mark.parametrize(
    "last",
    [
        "KeyError: 'lr'",
        "[rank6]: AssertionError",
        " 3: RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 8x4)",
        "gpu7: [rank9]: binascii.Error: Incorrect padding",
        "Fortran runtime error: End of file",
    ],
)
def test_an_exception_of_the_program_is_its_own_error(last: str) -> None:
    end = "srun: error: n1: task 3: Exited with exit code 1\n"
    (first, *_) = findings(f"{steps(5)}Traceback (most recent call last):\n{last}\n{end}")
    assert (first.id, first.confidence) == ("program-error", Confidence.LIKELY)


def test_an_exception_that_another_sign_reads_is_that_ones() -> None:
    text = "ValueError: Invalid rank 9, should be in the interval [0, 7]\n"
    assert ids(text)[0] == "framework-api-misuse"
    assert "program-error" not in ids(text)


def test_the_programs_error_is_no_more_than_possible_beside_a_likely_cause() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\nKeyError: 'lr'\n"
    assert ids(text)[0] == "cuda-oom"


def test_information_about_a_condition_does_not_lead_over_a_general_failure() -> None:
    condition = (
        "n1:7:8 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for GPU 0[0] / HCA 0 'mlx5_0'"
        " (no module or not supported by GPU)\n"
    )
    failure = "n2:9:10 [0] NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129\n"
    assert ids(condition + failure)[0].startswith("retry-exceeded")


def test_advice_how_to_silence_a_warning_is_no_demand() -> None:
    text = "Warning: ops are serialized. Silence this by setting the environment variable TORCH_X to 0\n"
    assert findings(f"[rank3]:[W320 20:48:51.6 ProcessGroupNCCL.cpp:3961] {text}") == ()
    assert ids("RuntimeError: this requires setting the environment variable CUDA_X to 1\n")


def test_a_training_that_ended_outlived_its_warnings() -> None:
    assert "name-resolution-failed" in ids(NO_HOST)
    text = NO_HOST + steps(3) + "[INFO] [launch.py:367:main] Process 163158 exits successfully.\n"
    assert all(each.confidence is Confidence.POSSIBLE for each in findings(text))


def test_what_starts_the_run_complained_before_the_run_worked() -> None:
    help_text = "A requested component was not found, or was unable to be opened.  This\n"
    assert ids(help_text + TIME_LIMIT)[0] == "mpi-component-missing"
    assert ids(help_text + steps(300) + TIME_LIMIT)[0] == "job-ended-by-scheduler"


def test_what_hung_a_job_stands_near_its_end() -> None:
    cause = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    assert ids(cause + steps(50) + TIME_LIMIT)[0] == "cuda-oom"
    assert ids(cause + steps(600) + TIME_LIMIT)[0] == "job-ended-by-scheduler"


def test_what_callers_add_to_an_exception_is_no_error_of_its_own() -> None:
    first = "AssertionError: 64 is not divisible by 6\n"
    assert "program-error" not in ids(f"{first}[rank0]: AssertionError: 64 when making the model\n")


def test_an_error_that_nothing_failed_behind_is_never_silent(tmp_path: Path) -> None:
    notes = [f"note {number}" for number in range(150)]
    path = tmp_path / "job.out"
    path.write_text("\n".join(["torch on 8 GPUs", "CustomError: the ring did not form", *notes]))
    assert main(["why", str(path)]) != 0


def test_a_progress_bar_does_not_hide_the_report_before_it(tmp_path: Path) -> None:
    warning = "n1:7:9 [0] include/socket.h:1 NCCL WARN Net : Call to connect failed : refused"
    path = tmp_path / "job.out"
    path.write_bytes(f"torch\n{warning}\r 40%|#### | 2/5\n".encode())
    assert main(["why", str(path)]) != 0
