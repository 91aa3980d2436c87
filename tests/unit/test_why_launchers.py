"""Composed outputs of launchers: which cause a job's end has, and where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from busbw.cli import main

BORDER = "-" * 74 + "\n"
LOST_DAEMON = (
    BORDER
    + """PRTE has lost communication with a remote daemon.

  HNP daemon   : [prterun-node1-9137@0,0] on node node1
  Remote daemon: [prterun-node1-9137@0,2] on node node3

This is usually due to either a failure of the TCP network
connection to the node, or possibly an internal failure of
the daemon itself. We cannot recover from this failure, and
therefore will terminate the job.
"""
    + BORDER
)
EXIT_132 = (
    BORDER
    + """mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[22222,1],3]
  Exit code:    132
"""
    + BORDER
)
MEMLOCK = (
    BORDER
    + """The OpenFabrics (openib) BTL failed to initialize while trying to
allocate some locked memory.  This typically can indicate that the
memlock limits are set too low.  The failure occurred
here:

  Local host:    gpu-n17
  Memlock limit: 65536
"""
    + BORDER
)
WORK = "".join(f"INFO  trainer: loaded shard {n} of 400 in 0.1 s\n" for n in range(200))


@pytest.fixture
def first_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Finding and place of the first answer."""

    def ask(text: str) -> tuple[str, str]:
        path = tmp_path / "job.log"
        path.write_text(text)
        assert main(["why", str(path)]) in (1, 3)
        answer = capsys.readouterr().out
        cause = re.search(r"CAUSE \(\w+\) .*\[([\w-]+)\]", answer)
        place = re.search(r"^  where +(.*)$", answer, re.MULTILINE)
        return cause[1] if cause else "", place[1] if place else ""

    return ask


def test_a_daemon_lost_after_work_had_been_reached_over_the_interface(first_cause) -> None:
    complete = "node1:41:42 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n"
    assert first_cause(LOST_DAEMON)[0] == "mpi-wrong-interface"
    assert first_cause(complete + LOST_DAEMON) == ("node-unreachable", "node3")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("srun: error: gpu-003: task 12: Illegal instruction (core dumped)\n", "rank 12, gpu-003"),
        (EXIT_132, ""),
    ],
)
def test_an_instruction_that_the_cpu_lacks(text: str, place: str, first_cause) -> None:
    assert first_cause(text) == ("cpu-instruction-missing", place)


def test_an_illegal_instruction_of_a_gpu_is_none_of_the_cpu(first_cause) -> None:
    cause, _ = first_cause("RuntimeError: CUDA error: an illegal instruction was encountered\n")
    assert cause != "cpu-instruction-missing"


@pytest.mark.parametrize("end", ["", "srun: error: gpu-n17: task 3: Exited with exit code 1\n"])
def test_what_a_node_lacks_it_still_lacks_after_200_lines(end: str, first_cause) -> None:
    assert first_cause(MEMLOCK + WORK + end) == ("memlock-limit", "gpu-n17")


def test_a_backtrace_of_ucx_without_its_head_is_a_crash(first_cause) -> None:
    text = """==== backtrace (tid: 254025) ====
 0  /lib/x86_64-linux-gnu/libucs.so.0(ucs_handle_error+0x2ec) [0x72f8e4ec8f2c]
 1  /lib/x86_64-linux-gnu/libc.so.6(+0x458d0) [0x72f8edc458d0]
 2  /lib/x86_64-linux-gnu/libmpi.so.40(ompi_mpi_init+0x80) [0x72f8ee48be30]
"""
    assert first_cause(text) == ("mpi-crash", "")


def test_a_trap_of_the_processor_is_the_programs_own(first_cause) -> None:
    text = "[n7:6778:0:6778] Caught signal 8 (Floating point exception: floating-point overflow)\n"
    assert first_cause(text) == ("program-error", "n7")


@pytest.mark.parametrize(
    "text",
    [
        "librccl-net.so: cannot open shared object file: No such file or directory.\n",
        "srun: error: n1: task 1: Exited with exit code 1\n"
        + WORK
        + ':::MLL 1582542308.215 run_stop: {"value": null, "metadata": {"status": "success"}}\n',
    ],
)
def test_what_nobody_needs_and_what_a_finished_training_outlived_is_no_cause(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text(text)
    main(["why", str(path)])
    assert "CAUSE" not in capsys.readouterr().out


def test_a_step_that_slurm_ends_because_a_task_failed_was_not_ended_by_slurm(first_cause) -> None:
    text = (
        "gpu1:41:42 [0] net_ib.cc:1571 NCCL WARN NET/IB: could not find mr 0x7f22 inside cache\n"
        "srun: error: gpu1: task 3: Exited with exit code 1\n"
        "slurmstepd: error: *** STEP 7.0 ON gpu1 CANCELLED AT 2026-11-15T03:30:12 DUE TO TASK FAILURE ***\n"
    )
    assert first_cause(text)[0] not in ("", "job-ended-by-scheduler")


@pytest.mark.parametrize("end", ["exit status 0", "mpirun exit: 0"])
def test_what_went_wrong_before_the_launcher_ended_with_0_was_outlived(
    end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "--------------------------------------------------------------------------\n"
        "ERROR (coll/xhc)\nInitialization failed, error code -1\nFalling back to another component\n"
        "libfabric:1:2:verbs:core:vrb_init():2294<warn> hwloc_topology_load failed, falling back to none policy\n"
    )
    (tmp_path / "log").write_text(f"{text}1024  2.24\n{end}\n")
    assert main(["why", str(tmp_path / "log")]) == 0
    (tmp_path / "log").write_text(f"{text}{end}\nFatal error: step 2 failed\n")
    assert main(["why", str(tmp_path / "log")]) != 0
    capsys.readouterr()


def test_the_node_that_the_others_lost_is_the_place_and_not_the_one_that_reports_it(
    first_cause,
) -> None:
    """As four nodes of the lab print it when rank 1 on node2 is killed, and a neighbour reads first."""
    block = (
        BORDER + "An MPI communication peer process has unexpectedly disconnected.  This\n"
        "usually indicates a failure in the peer process (e.g., a crash or\n"
        "otherwise exiting without calling MPI_FINALIZE first).\n\n"
        "  Local host: {}\n  Local PID:  23\n  Peer host:  {}\n" + BORDER
    )
    text = "".join(
        block.format(*pair) for pair in (("node1", "node2"), ("node4", "node1"), ("node3", "node2"))
    )
    text += (
        "[node1:00023] *** An error occurred in MPI_Sendrecv\n"
        "[node1:00023] *** MPI_ERR_INTERN: internal error\n"
        "[node1:00023] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"
    )
    assert first_cause(text) == ("dead-process", "node2")
    lost = "[node1][[3,1],0][btl_tcp_frag.c:241:mca_btl_tcp_frag_recv] peer: node2 readv failed: Connection reset by peer (104)\n"
    assert first_cause(lost + text) == ("dead-process", "node2")


@pytest.mark.parametrize(
    "end",
    [
        BORDER
        + "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
        "Aborted (core dumped)\n",
        "ncclUnhandledCudaError\n",
    ],
)
def test_of_an_end_that_says_nothing_the_line_before_is_quoted(
    end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text("loading\nmesh has 12 of 64 partitions\n\n" + end)
    assert main(["why", str(path)]) == 1
    assert f"{path}:2  mesh has 12 of 64 partitions" in capsys.readouterr().out


HELP = (
    BORDER
    + """The gremlin framework was asked to hold the launch of this job until all
quorum members agree on a colour.

  Local host:   gpu-07
"""
    + BORDER
)
WARNED = HELP.replace("The gremlin", "WARNING: the gremlin")


def ask(tmp_path: Path, text: str) -> int:
    path = tmp_path / "job.log"
    path.write_text(text)
    return main(["why", str(path)])


def test_a_help_block_that_nobody_knows_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(tmp_path, "mpirun -np 8 ./job\n" + HELP) == 3
    assert "job.log:3  The gremlin framework was asked" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        HELP.removeprefix(BORDER),  # cut off in front
        HELP.removeprefix(BORDER) + "[gpu-07:99] 1 more process has sent this message\n" + WARNED,
        "step 1\n" + HELP.removesuffix(BORDER),  # cut off behind
        WARNED * 40 + HELP,  # behind more borders than are kept
    ],
)
def test_a_help_block_that_lacks_a_border_or_stands_behind_many_does_not_pass(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(tmp_path, text) == 3
    assert "The gremlin framework was asked" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        HELP.removeprefix(BORDER) + WORK,
        "+ mpirun -np 8 ./job\n" + WARNED + "step 1\n",  # in front of a block, not in one
        WARNED * 40 + "step 1\n",
        HELP + WORK,  # it went on
        WARNED,
        WORK + BORDER + WORK + BORDER,  # rules of a program of its own, far apart
        HELP + "Training completed.\n",
        "pyxis: creating container filesystem: pyxis_574688.0\n"
        "pyxis: starting container: pyxis_574688.0\n" + WORK,
        "SUCCESS:  nhc:  Health check passed:  check_gpu_xid: GPU XID error check passed\n"
        '2026-03-04 13:03:12 nhc: Running check:  "check_gpu_ecc"\nTraining completed.\n',
        "[2026-03-04T13:26:03.372] debug:  Waiting for job 4711's prolog to complete\nTraining completed.\n",
        "[   14.4] amdgpu 0000:05:00.0: [drm] Cannot find any crtc or sizes\n" + WORK,
        "gcs_client.cc:185: Failed to get cluster ID from GCS server: TimedOut: no answer\n"
        "Job 'raysubmit_1' succeeded\n",
    ],
)
def test_a_help_block_that_ended_nothing_is_no_failure(text: str, tmp_path: Path) -> None:
    assert ask(tmp_path, text) == 0


def test_what_a_launcher_goes_on_without_is_no_cause(first_cause) -> None:
    text = (
        "[WARNING] [runner.py:232:fetch_hostfile] Unable to find hostfile, will proceed with"
        " training with local resources only.\n"
        "RuntimeError: Unable to proceed, no GPU resources available\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    )
    assert first_cause(text)[0] == "gpu-driver-not-visible"


def test_a_kernel_that_locked_up_and_panicked_stopped(first_cause) -> None:
    line = "2026-07-04T02:47:0{}.5+00:00 gpu-36 kernel: {}\n"
    locked = line.format(6, "watchdog: Watchdog detected hard LOCKUP on cpu 44")
    panic = line.format(8, "Kernel panic - not syncing: Hard LOCKUP")
    assert first_cause(locked + panic) == ("node-rebooted", "gpu-36")


def test_what_the_program_says_stands_before_what_its_launcher_reports(first_cause) -> None:
    said = "[ERROR] The number of requested GPUs (8) is greater than the number of GPUs available (4) on node (c0107)\n"
    assert first_cause(said * 3 + EXIT_132.replace("132", "3")) == (
        "invalid-device-ordinal",
        "c0107",
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "libfabric:1:2:efa:mr:efa_mr_reg_impl():1013<warn> Unable to register MR of 4194304 bytes: Bad address\n"
            "n1:1:2 [1] ofi_mr_result nccl_ofi_ofiutils_mr_regattr():468 NCCL WARN NET/OFI Couldn't register"
            " memory region with regattr. RC: -14, ERROR: Bad address\n",
            "efa-mr-register-type2",
        ),
        (
            "[1.0] infiniband rdmap113s0: Failed to pin and map user space memory[-12]\n"
            "libfabric:1:2:efa:mr:efa_mr_reg_impl():1013<warn> Unable to register MR of 8388608 bytes:"
            " Cannot allocate memory, ibv pd: 0x55d0\n",
            "memlock-limit",
        ),
    ],
)
def test_what_a_device_lacks_stands_before_the_call_that_failed_for_it(
    text: str, cause: str, first_cause
) -> None:
    assert first_cause(text)[0] == cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "[2026-10-04T07:43:55.306] [7.batch] error: Could not open stdout file /home/a/7.out:"
            " Disk quota exceeded\n",
            "disk-full",
        ),
        (
            "[17.1] [cn7:35:0]  mm_iface.c:779 UCX  ERROR The UCX_MM_FIFO_ELEM_SIZE parameter (16) must"
            " be larger than the FIFO element header size (18 bytes).\n"
            "[cn7:4410] pml_ucx.c:309  Error: Failed to create UCP worker\n"
            "[cn7:4410] PML ucx cannot be selected\n",
            "mpi-setting-rejected",
        ),
        (
            "Apr 06 14:44:51 leaf12 switchd[2001]: swp17: excessive link flaps (12 in 10 s), port"
            " moved to protodown (linkflap)\n",
            "link-flaps",
        ),
    ],
)
def test_the_reason_of_a_refused_call_stands_first(text: str, cause: str, first_cause) -> None:
    assert first_cause(text)[0] == cause
