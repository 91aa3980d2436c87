"""Slurm's messages, composed in the wording of Slurm 20.02 to 24.05."""

from __future__ import annotations

import pytest

from busbw.errors import UnknownLayout
from busbw.model import LauncherFailure, LauncherLog
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.logs.slurm import FORMAT, PATTERNS, read

CASES = """
srun: error: node-b: task 11: Exited with exit code 3
    task-exit-code, cause, rank 11, node node-b, code 3, detail 11
srun: error: node-[b-c]: tasks 8-15: Exited with exit code 3
    task-exit-code, cause, rank 8, node node-[b-c], code 3, detail 8-15
srun: error: node-b: task 11: Segmentation fault (core dumped)
    task-signal, cause, rank 11, node node-b, detail 11
srun: error: node-b: tasks 0,3-4: Killed
    task-signal, cause, rank 0, node node-b, detail 0,3-4
srun: error: node-b: task 11: Out Of Memory
    task-out-of-memory, cause, rank 11, node node-b, detail 11
slurmstepd: error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks have been OOM \
Killed.
    oom-kill, cause, code 1, detail 42.0
slurmstepd: error: Detected 2 oom-kill event(s) in step 42.0 cgroup. Some of your processes may \
have been killed
    oom-kill, cause, code 2, detail step
srun: error: Task launch for StepId=42.0 failed on node node-b: Communication connection failure
    launch-failed, cause, node node-b, detail Communication connection failure
srun: error: Application launch failed: Communication connection failure
    application-launch-failed, cause, detail Communication connection failure
srun: error: Timed out waiting for job step to complete
    step-wait-timeout, cause
srun: error: timeout waiting for task launch, started 8 of 16 tasks
    launch-timeout, cause, code 8, detail 16
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
    step-aborted, secondary
srun: Force Terminated StepId=42.0
    step-terminated, secondary
slurmstepd: error: *** STEP 42.0 ON node-b CANCELLED AT 2026-07-10T09:00:00 ***
    cancelled, secondary, node node-b
slurmstepd: error: *** STEP 42.0 ON node-b CANCELLED AT 2026-07-10T09:00:00 DUE TO TIME LIMIT ***
    time-limit, cause, node node-b
slurmstepd: error: *** STEP 42.0 ON node-b CANCELLED AT 2026-07-10T09:00:00 DUE TO PREEMPTION ***
    preempted, cause, node node-b
slurmstepd: error: *** STEP 42.0 ON node-b CANCELLED AT 2026-07-10T09:00:00 DUE TO NODE FAILURE, \
SEE SLURMCTLD LOG FOR DETAILS ***
    node-failure, cause, node node-b
slurmstepd: error: *** JOB 42 ON node-b CANCELLED AT 2026-07-10T09:00:00 DUE TO JOB REQUEUE ***
    requeued, note, node node-b
slurmstepd: error: *** STEP 42.0 ON node-b FAILED (non-zero exit code or other failure mode) ***
    step-failed, cause, node node-b
slurmstepd: error: execve(): /opt/all_reduce_perf: No such file or directory
    executable-missing, cause, detail /opt/all_reduce_perf
srun: error: Unable to create step for job 42: More processors requested than permitted
    step-refused, cause, detail More processors requested than permitted
srun: Job 42 step creation temporarily disabled, retrying (Requested nodes are busy)
    step-waits, note
srun: error: Unable to allocate resources: Requested node configuration is not available
    allocation-refused, cause, detail Requested node configuration is not available
srun: job 42 queued and waiting for resources
    queued, note, code 42
srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files
    mpi-plugin, cause, detail mpi/pmix
The application appears to have been direct launched using "srun",\\nbut OMPI was not built with \
SLURM's PMI support
    no-pmi, cause
srun: StepId=42.0 tasks 0-3: running
    task-states, note, detail 0-3
"""
"""A message, and below it what it says."""


def words_of(failure: LauncherFailure) -> str:
    words = [failure.kind, failure.role.name.lower()]
    known = {
        "rank": failure.rank,
        "node": failure.node,
        "code": failure.code,
        "detail": failure.detail,
    }
    words += [f"{name} {value}" for name, value in known.items() if value is not None]
    return ", ".join(words)


LINES = CASES.strip().splitlines()


@pytest.mark.parametrize(("text", "expected"), list(zip(LINES[::2], LINES[1::2], strict=True)))
def test_a_message_is_read_with_its_tasks_node_and_reason(text: str, expected: str) -> None:
    message = text.replace(r"\n", "\n")
    (log,) = read([f"before\n{message}\nafter\n".encode()]).records
    assert isinstance(log, LauncherLog)
    assert list(map(words_of, log.failures)) == [expected.strip()]


def test_waiting_in_the_queue_is_no_fault_and_a_killed_step_is() -> None:
    assert read([b"srun: job 42 queued and waiting for resources\n"]).faults == ()
    assert read([b"srun: error: node-b: task 11: Out Of Memory\n"]).faults == (
        "line 1: srun: error: node-b: task 11: Out Of Memory [rank 11, node node-b]",
    )


def test_a_text_without_any_of_it_is_refused_and_no_rule_is_slow() -> None:
    with pytest.raises(UnknownLayout):
        read([b"hello\n"])
    assert FORMAT.looks_like(b"hello") == 0.0
    assert Scanner(PATTERNS).slow == ()
