"""Slurm's messages, composed in the wording of Slurm 20.02 to 24.05."""

from __future__ import annotations

import pytest

from busbw.errors import UnknownLayout
from busbw.model import LauncherLog, WarningRole
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.logs.slurm import FORMAT, PATTERNS, read

CAUSE, ECHO, NOTE = WarningRole.CAUSE, WarningRole.SECONDARY, WarningRole.NOTE
CANCELLED = "slurmstepd: error: *** STEP 42.0 ON node-b CANCELLED AT 2026-07-10T09:00:00"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "srun: error: node-b: task 11: Exited with exit code 3",
            ("task-exit-code", CAUSE, 11, "node-b", 3, "11"),
        ),
        (
            "srun: error: node-[b-c]: tasks 8-15: Exited with exit code 3",
            ("task-exit-code", CAUSE, 8, "node-[b-c]", 3, "8-15"),
        ),
        (
            "srun: error: node-b: task 11: Segmentation fault (core dumped)",
            ("task-signal", CAUSE, 11, "node-b", None, "11"),
        ),
        (
            "srun: error: node-b: tasks 0,3-4: Killed",
            ("task-signal", CAUSE, 0, "node-b", None, "0,3-4"),
        ),
        (
            "srun: error: node-b: task 11: Out Of Memory",
            ("task-out-of-memory", CAUSE, 11, "node-b", None, "11"),
        ),
        (
            (
                "slurmstepd: error: Detected 1 oom_kill event in StepId=42.0. Some of the step"
                " tasks have been OOM Killed."
            ),
            ("oom-kill", CAUSE, None, None, 1, "42.0"),
        ),
        (
            (
                "slurmstepd: error: Detected 2 oom-kill event(s) in step 42.0 cgroup. Some of your"
                " processes may have been killed"
            ),
            ("oom-kill", CAUSE, None, None, 2, "step"),
        ),
        (
            (
                "srun: error: Task launch for StepId=42.0 failed on node node-b: Communication"
                " connection failure"
            ),
            ("launch-failed", CAUSE, None, "node-b", None, "Communication connection failure"),
        ),
        (
            "srun: error: Application launch failed: Communication connection failure",
            (
                "application-launch-failed",
                CAUSE,
                None,
                None,
                None,
                "Communication connection failure",
            ),
        ),
        (
            "srun: error: Timed out waiting for job step to complete",
            ("step-wait-timeout", CAUSE, None, None, None, None),
        ),
        (
            "srun: error: timeout waiting for task launch, started 8 of 16 tasks",
            ("launch-timeout", CAUSE, None, None, 8, "16"),
        ),
        (
            "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
            ("step-aborted", ECHO, None, None, None, None),
        ),
        ("srun: Force Terminated StepId=42.0", ("step-terminated", ECHO, None, None, None, None)),
        (CANCELLED + " ***", ("cancelled", ECHO, None, "node-b", None, None)),
        (CANCELLED + " DUE TO TIME LIMIT ***", ("time-limit", CAUSE, None, "node-b", None, None)),
        (CANCELLED + " DUE TO PREEMPTION ***", ("preempted", CAUSE, None, "node-b", None, None)),
        (
            CANCELLED + " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
            ("node-failure", CAUSE, None, "node-b", None, None),
        ),
        (
            CANCELLED.replace("STEP 42.0", "JOB 42") + " DUE TO JOB REQUEUE ***",
            ("requeued", NOTE, None, "node-b", None, None),
        ),
        (
            (
                "slurmstepd: error: *** STEP 42.0 ON node-b FAILED (non-zero exit code or other"
                " failure mode) ***"
            ),
            ("step-failed", CAUSE, None, "node-b", None, None),
        ),
        (
            "slurmstepd: error: execve(): /opt/all_reduce_perf: No such file or directory",
            ("executable-missing", CAUSE, None, None, None, "/opt/all_reduce_perf"),
        ),
        (
            (
                "srun: error: Unable to create step for job 42: More processors requested than"
                " permitted"
            ),
            ("step-refused", CAUSE, None, None, None, "More processors requested than permitted"),
        ),
        (
            "srun: Job 42 step creation temporarily disabled, retrying (Requested nodes are busy)",
            ("step-waits", NOTE, None, None, None, None),
        ),
        (
            (
                "srun: error: Unable to allocate resources: Requested node configuration is not"
                " available"
            ),
            (
                "allocation-refused",
                CAUSE,
                None,
                None,
                None,
                "Requested node configuration is not available",
            ),
        ),
        ("srun: job 42 queued and waiting for resources", ("queued", NOTE, None, None, 42, None)),
        (
            (
                "srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all"
                " files"
            ),
            ("mpi-plugin", CAUSE, None, None, None, "mpi/pmix"),
        ),
        (
            (
                'The application appears to have been direct launched using "srun",\nbut OMPI was'
                " not built with SLURM's PMI support"
            ),
            ("no-pmi", CAUSE, None, None, None, None),
        ),
        ("srun: StepId=42.0 tasks 0-3: running", ("task-states", NOTE, None, None, None, "0-3")),
    ],
)
def test_a_message_is_reported_with_its_tasks_node_and_reason(
    text: str, expected: tuple[object, ...]
) -> None:
    (log,) = read([f"before\n{text}\nafter\n".encode()]).records
    assert isinstance(log, LauncherLog)
    assert [
        (each.kind, each.role, each.rank, each.node, each.code, each.detail)
        for each in log.failures
    ] == [expected]


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
