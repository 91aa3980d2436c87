"""Whole outputs of jobs: what a run outlived is no cause of its end, and the program's own errors are
named as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli import main, why_reading
from busbw.model import Confidence, Finding
from busbw.parsers.findings.crashes import is_frame
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.findings.evidence import EvidenceSet, Text
from busbw.parsers.findings.searching import search_patterns
from busbw.parsers.logs.scan import scanner_of

OPENIB = "WARNING: There was an error initializing an OpenFabrics device.\n"
TIME_LIMIT = (
    "slurmstepd: error: *** JOB 42 ON n1 CANCELLED AT 2026-07-10T09:00:00 DUE TO TIME LIMIT ***\n"
)
FAILS = "RuntimeError: the model is not there because nobody saved it\n"
FIXTURES = Path(__file__).parents[1] / "fixtures"
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


TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/torch/engine.py", line 12, in run\n'
    '    raise RuntimeError("the NCCL library was not found on this node")\n'
)
STEP_FAILED = "srun: error: n1: task 0: Exited with exit code 1\n"


def test_what_an_ordinary_line_says_long_before_the_failure_is_no_cause() -> None:
    text = "torch: No module named 'torchaudio' for that model\n" + steps(300)
    assert ids(text + TRACEBACK + "engine.LoadError: the loss has no gradient\n")[0] == (
        "program-error"
    )


def test_frames_and_the_source_that_they_quote_say_nothing() -> None:
    text = "torch 2.8\n" + TRACEBACK + "engine.LoadError: the loss has no gradient\n" + STEP_FAILED
    shown = [item.text for each in findings(text) for item in each.evidence]
    assert not [line for line in shown if "File" in line or "raise" in line]
    assert ids(text)[0] == "program-error"


@pytest.mark.parametrize(
    "last",
    [
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:77, remote process exited\n",
        "KeyboardInterrupt\n",
        "RuntimeError: Socket Timeout\n",
        "FatalError: `Termination signal` is detected by the operating system.\n",
    ],
)
def test_what_comes_from_outside_is_no_error_of_the_program(last: str) -> None:
    assert ids("torch 2.8\n" + TRACEBACK + last + STEP_FAILED)[0] != "program-error"


def test_of_several_exceptions_the_last_failure_begins_with_the_first_of_its_own() -> None:
    text = (
        "torch 2.8\n"
        + TRACEBACK
        + "engine.RetryError: the first try\n"
        + steps(300)
        + TRACEBACK
        + "engine.LoadError: the loss has no gradient\n\nThe above exception was the direct cause of the following"
        " exception:\n\n" + TRACEBACK + "engine.StepError: step 300\n" + STEP_FAILED
    )
    first = findings(text)[0]
    assert [item.text for item in first.evidence] == ["engine.LoadError: the loss has no gradient"]


@pytest.mark.parametrize(
    "end",
    [
        "`Trainer.fit` stopped: `max_epochs=10` reached.\n",
        "Total wall time: 0:12:06\n",
        "Finished mdrun on rank 0 Thu Nov 26 10:00:00 2026\n",
        "============ 14 passed, 2 warnings in 12.31s ============\n",
    ],
)
def test_a_job_that_did_its_work_was_not_stopped_by_what_stands_before(end: str) -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n" + steps(5)
    assert findings(text)[0].confidence is not Confidence.POSSIBLE
    assert all(each.confidence is Confidence.POSSIBLE for each in findings(text + end))


def test_a_data_file_that_is_missing_is_no_program_that_is_missing() -> None:
    missing = "FileNotFoundError: [Errno 2] No such file or directory: "
    assert ids("torch 2.8\n" + TRACEBACK + missing + "'/data/train/index.json'\n")[0] == (
        "program-error"
    )
    assert ids("torch 2.8\n" + TRACEBACK + missing + "'/opt/tools/mpirun'\n")[0] == (
        "executable-missing"
    )


def test_a_run_that_somebody_stopped_was_interrupted() -> None:
    first = findings("torch 2.8\n" + steps(5) + TRACEBACK + "KeyboardInterrupt\n")[0]
    assert (first.id, first.confidence) == ("run-interrupted", Confidence.POSSIBLE)


def test_what_pip_says_of_its_resolver_stops_nothing() -> None:
    text = (
        "ERROR: pip's dependency resolver does not currently take into account all the packages that"
        " are installed. This behaviour is the source of the following dependency conflicts.\n"
    )
    assert not [each for each in findings(text) if each.confidence is not Confidence.POSSIBLE]


@pytest.mark.parametrize(
    "line",
    [
        "rm: cannot remove 'out/run_3': No such file or directory",
        "/bin/mkdir: cannot create directory 'out': File exists",
        "I tensorflow/cuda/stub.cc:28] Could not find cuda drivers on your machine, GPU will not be used.",
    ],
)
def test_what_a_script_tidies_up_and_a_library_does_without_is_no_failure(line: str) -> None:
    assert ids(line + "\n" + steps(3)) == []


def test_a_service_of_this_host_that_refuses_says_nothing_of_host_names() -> None:
    curl = "curl: (7) Failed to connect to 127.0.0.1 port 9100: Connection refused\n"
    gloo = "E pair.cc:144] connect to 127.0.1.1:2222 failed: Connection refused\n"
    assert all(each.confidence is Confidence.POSSIBLE for each in findings(curl))
    assert findings(gloo)[0].id == "hostname-resolves-loopback"
    assert findings(gloo)[0].confidence is Confidence.LIKELY


def test_tokens_that_are_counted_are_no_credentials() -> None:
    assert "certificate-rejected" not in ids(
        "ValueError: the context of this model is 2048 tokens, and the request is invalid\n"
    )


def test_a_thing_is_read_behind_many_other_failures() -> None:
    noise = "".join(
        f"ERROR worker {number}: request {wrong}\n"
        for number in range(50)
        for wrong in ("failed", "denied")
    )
    assert "build-nvcc-missing" in ids(noise + "RuntimeError: Could not find nvcc\n")


def test_a_loss_that_is_no_number_is_not_passed() -> None:
    first = findings("torch 2.8\n" + steps(5) + "step 5 loss nan\nstep 6 loss nan\n")[0]
    assert (first.id, first.confidence) == ("loss-not-finite", Confidence.POSSIBLE)
    assert ids(steps(5) + "loss: 2.3 | number of nan iterations: 0\n") == []


@pytest.mark.parametrize(
    ("end", "first"),
    [
        ("Killed\n", "host-memory-exhausted"),
        (
            "./run.sh: line 12: 48213 Killed                  python train.py\n",
            "host-memory-exhausted",
        ),
        ("zsh: killed     python train.py\n", "host-memory-exhausted"),
        ("Segmentation fault (core dumped)\n", "dead-process"),
        ("Terminated\n", "dead-process"),
    ],
)
def test_what_a_shell_says_of_its_program_is_a_failure(end: str, first: str) -> None:
    found = findings(steps(5) + end)
    assert (found[0].id, found[0].confidence) == (first, Confidence.POSSIBLE)
    assert ids(steps(5) + "Killed 3 stale workers\n") == []


@pytest.mark.parametrize(
    "last",
    [
        "KeyError: 'database'",
        "StopIteration",
        "  what():  basic_string::at: __n (which is 4) >= this->size() (which is 4)",
        "Error in readRDS(path) : unknown input format",
        "ERROR :     ServerApp thread raised an exception: 'acc'",
        "FATAL ERROR: variable in data clause is partially present on the device: name=u",
        "ERROR: Unknown command: pair_stile lj (src/input.cpp:280)",
        "     Error in routine cdiaghg (35):",
        "--> FOAM FATAL ERROR:",
        "fatal error: all goroutines are asleep - deadlock!",
    ],
)
def test_last_words_of_a_program_are_its_own_error_and_are_quoted(last: str) -> None:
    (first, *_) = findings(f"{steps(5)}{last}\n")
    assert (first.id, first.confidence) == ("program-error", Confidence.POSSIBLE)
    assert first.cause.endswith("It says: " + " ".join(last.split()))


def test_the_last_run_of_several_in_one_text_is_judged() -> None:
    first_run = "ModuleNotFoundError: No module named 'apex'\n"
    last_run = "Traceback (most recent call last):\nKeyError: 'lr'\nsrun: error: n1: task 0: Exited with exit code 1\n"
    assert ids(first_run)[0] == "python-package-missing"
    assert ids(first_run + steps(200) + last_run)[0] == "program-error"


def test_a_sign_whose_later_lines_were_not_kept_still_reads_the_last_exception() -> None:
    run = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n" + steps(200)
    assert ids(run * 9)[0] == "cuda-oom"


def test_the_end_of_a_text_with_more_failures_than_are_kept_is_read(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    old = f"RuntimeError: retry of shard 3 failed\n{steps(3)}" * 2_000
    path.write_text(f"{old}{steps(300)}Traceback (most recent call last):\nKeyError: 'lr'\n")
    evidence = why_reading.read([str(path)]).evidence
    (first, *_) = diagnose(evidence).findings
    assert first.id == "program-error"
    assert first.cause.endswith("It says: KeyError: 'lr'")


@pytest.mark.parametrize(
    ("frame", "leads"),
    [
        ("/home/me/train.py", "program-error"),
        ("/opt/venv/lib/python3.11/site-packages/peft/x.py", "python-package-missing"),
    ],
)
def test_a_mistake_in_the_users_own_code_is_no_sign_of_packages(frame: str, leads: str) -> None:
    text = f"  File \"{frame}\", line 9, in main\n    save(m, best=1)\nTypeError: save() got an unexpected keyword argument 'best'\n"
    assert ids(f"torch 2.8\nTraceback (most recent call last):\n{text}")[0] == leads


def test_who_only_noticed_the_end_of_another_is_not_the_place() -> None:
    recorded = (FIXTURES / "open_mpi" / "killed-while-connecting.txt").read_text().splitlines()
    # Without mpirun's last word, which names the rank that was killed.
    noticed = "\n".join(recorded[15:31]) + "\n"
    (first, *_) = findings(noticed)
    assert (first.id, first.confidence, first.where) == (
        "dead-process",
        Confidence.POSSIBLE,
        ("node1",),
    )
    broken = "mpirun noticed that process rank 2 with PID 0 on node node3 exited on signal 13 (Broken pipe).\n"
    (first, *_) = findings(broken)
    assert (first.id, first.confidence, first.where) == ("dead-process", Confidence.POSSIBLE, ())


def test_a_lost_daemon_names_its_node() -> None:
    lost = findings((FIXTURES / "open_mpi" / "lost-daemon.txt").read_text())
    assert {each.id: each.where for each in lost} == {
        "mpi-wrong-interface": ("node3",),
        "node-unreachable": ("node3",),
    }


def test_a_parameter_given_twice_is_a_rejected_setting() -> None:
    first = findings((FIXTURES / "open_mpi" / "same-mca-twice.txt").read_text())[0]
    assert (first.id, first.confidence) == ("mpi-setting-rejected", Confidence.LIKELY)


def test_of_lines_that_nobody_knows_one_of_the_last_failure_is_quoted() -> None:
    text = f"ERROR: frobnicator lost its grip\n{steps(500)}ERROR: widget 7 went away\n"
    (first, *_) = findings(text)
    assert first.cause.endswith("It says: ERROR: widget 7 went away")


def test_a_package_that_an_exception_asks_to_install_is_missing() -> None:
    chain = (
        "[rank1]: RuntimeError: Ninja is required to load the extension (pip install ninja to get it)\n"
        "[rank1]: The above exception was the direct cause of the following exception:\n"
        "[rank1]: RuntimeError: Unable to load the op due to ninja not being installed.\n"
        "AttributeError: 'Adam' object has no attribute 'op'\n"
    )
    assert ids(f"torch 2.8\n{chain}")[0] == "python-package-missing"


def test_of_a_whole_output_the_line_comes_before_what_only_shares_words_with_it() -> None:
    line = (
        "ERROR: the prefill node did not hand over the cache to the decode node: transfer failed\n"
    )
    assert ids(f"vllm\n{line}") == ["kv-transfer-failed"]
    assert ids(f"vllm\n{steps(150)}{line}") == ["unmapped-message", "kv-transfer-failed"]


def test_source_that_awaits_is_a_frame() -> None:
    assert is_frame(
        "(APIServer pid=5) ERROR 08-21 10:24:34 [x.py:704]     outputs = await core.get()"
    )


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("  what():  [http_store.cc:53] Wait timeout for key(s): 0", "rendezvous-failed"),
        (
            'level=ERROR msg="Cannot init NVML library; err: ERROR_LIBRARY_NOT_FOUND"',
            "gpu-driver-not-visible",
        ),
        ("job.sh: line 14: cd: /scratch/x: No such file or directory", "executable-missing"),
    ],
)
def test_a_line_that_says_why_leads(line: str, first: str) -> None:
    assert ids(f"{line}\n")[0] == first


def test_a_service_that_is_stopped_and_a_host_by_its_name_are_no_failures() -> None:
    own = "WARNING [launcher.py:98] port 8000 is used by process psutil.Process(pid=7, name='python') launched with command:"
    assert ids(own + "\n") == []
    assert "cuda-driver-too-old" not in ids(" .. nodePTX pid 9972: Test failure common.cu:842\n")


def test_a_warning_is_no_cause_beside_the_exception_that_ended_the_job() -> None:
    warning = "WARNING 08-14 19:24:23 [_custom_ops.py:20] Failed to import from vllm._C with ModuleNotFoundError(\"No module named 'vllm._C'\")\n"
    crash = 'Traceback (most recent call last):\n  File "/home/me/train.py", line 9, in <module>\nValueError: Input matrix is not invertible.\n'
    found = {each.id: each.confidence for each in findings(warning + steps(20) + crash)}
    assert next(iter(found)) == "program-error"
    assert found["python-package-missing"] is Confidence.POSSIBLE
    assert ids(warning)[0] == "python-package-missing"


def test_advice_to_set_a_variable_is_no_rejected_setting() -> None:
    advice = "In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to INFO\n"
    assert ids(
        f"RuntimeError: Expected to have finished reduction in the prior iteration\n{advice}"
    ) == ["framework-api-misuse"]


def test_what_its_writer_calls_information_is_no_failure() -> None:
    prompt = "INFO 09-06 00:41:36 logger.py:36] Received request: prompt: 'Why: CUDA error: out of memory?'\n"
    usage = "2026-06-20 22:46:48,234\tINFO usage.py:77 -- Report failed: HTTPSConnectionPool: Max retries exceeded with url: /\n"
    for text in (prompt, usage + FAILS):
        assert all(each.confidence is Confidence.POSSIBLE for each in findings(text))


def test_what_a_text_without_a_failure_outlived_is_no_cause() -> None:
    warning = "[WARNING] [runner.py:191:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only\n"
    assert ids(warning + steps(20)) == ["hostfile-invalid"]
    assert ids(warning + steps(300)) == []


def test_of_two_likely_causes_the_one_that_the_last_exception_states_leads() -> None:
    noise = "conda: line 3: import: command not found\n"
    package = (
        "Traceback (most recent call last):\nModuleNotFoundError: No module named 'flash_attn'\n"
    )
    assert ids(noise + package)[0] == "python-package-missing"


def test_an_exception_that_nobody_knows_is_the_programs_own_error() -> None:
    text = "starting\nshop.BalanceError: Error code: 402 - you need a positive balance\n"
    assert ids(text)[0] == "program-error"


def test_an_answer_that_a_peer_did_not_give_is_no_error_of_the_program() -> None:
    peer = "starting\njaxlib.XlaRuntimeError: DEADLINE_EXCEEDED: Deadline Exceeded\nRPC: /x.Service/RegisterTask\n"
    assert "program-error" not in ids(peer)


def test_a_weak_sign_does_not_explain_a_reason_stated_in_words() -> None:
    """By way of two entries that nothing shows: a name, the sources of a package, the package."""
    ninja = "RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)\n"
    assert ids(NO_HOST + ninja)[0] == "python-package-missing"
