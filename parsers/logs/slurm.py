"""What Slurm's srun and slurmstepd say when a step cannot start or ends badly. Wordings of Slurm
20.02 to 24.05.

>>> (log,) = read([b"srun: error: node-b: task 11: Exited with exit code 3\\n"]).records
>>> (ended,) = log.failures
>>> ended.kind, ended.node, ended.rank, ended.code
('task-exit-code', 'node-b', 11, 3)
"""

from __future__ import annotations

from busbw.model import LauncherFailure, WarningRole
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.launcher_rules import Rule, document, failures, patterns
from busbw.parsers.logs.scan import LineFormat, Scan

_SECONDARY, _NOTE = WarningRole.SECONDARY, WarningRole.NOTE
_TASKS = r"srun: error: (?P<node>\S+): tasks? (?P<detail>(?P<rank>\d+)[\d,-]*): "
"""Hosts and tasks are Slurm ranges; `rank` is the first task, `detail` all of them."""
_STEP = r"(?:STEP|JOB) [\d.+\w]+ ON (?P<node>\S+) CANCELLED AT \S+"

RULES: tuple[Rule, ...] = (
    Rule(
        "task-exit-code",
        _TASKS + r"Exited with exit code (?P<code>\d+)",
        "a task ended with an error of its own",
    ),
    Rule("task-out-of-memory", _TASKS + r"Out Of Memory", "the step's memory limit"),
    Rule(
        "task-signal",
        _TASKS + r"(?:Segmentation fault|Killed|Aborted|Bus error|Terminated|Floating point"
        r" exception|Illegal instruction|Hangup|Interrupt)",
        "a task was ended by a signal; Killed and Terminated may be Slurm's own clean-up",
    ),
    Rule(
        "oom-kill",
        r"Detected (?P<code>\d+) oom[_-]kill event\(?s?\)? in"
        r" (?:StepId=)?(?P<detail>\w[\w.+]*\w)",
        "the kernel killed tasks over the step's memory limit",
    ),
    Rule("memory-limit", r"Exceeded (?:job|step) memory limit", "the step's memory limit"),
    Rule(
        "launch-failed",
        r"Task launch for (?:StepId=)?\S+ failed on node (?P<node>\S+): (?P<detail>.+?)\s*$",
        "slurmd on that node could not be reached or refused",
    ),
    Rule(
        "application-launch-failed",
        r"srun: error: Application launch failed: (?P<detail>.+?)\s*$",
        "no task could be started",
    ),
    Rule(
        "step-wait-timeout", r"Timed out waiting for job step to complete", "a node is slow or dead"
    ),
    Rule(
        "launch-timeout",
        r"timeout waiting for task launch, started (?P<code>\d+) of (?P<detail>\d+) tasks",
        "some tasks never started: a node is slow or dead",
    ),
    Rule(
        "step-aborted",
        r"srun: Job step aborted: Waiting up to \d+ seconds",
        "the step is being ended",
        role=_SECONDARY,
    ),
    Rule(
        "step-terminated",
        r"srun: Force Terminated|_step_signal: Terminating|launch/slurm: .*Terminating",
        "the step is being ended",
        role=_SECONDARY,
    ),
    Rule(
        "time-limit",
        _STEP + r" DUE TO TIME LIMIT",
        "the job took longer than its time limit: a stall, or too short a limit",
    ),
    Rule("preempted", _STEP + r" DUE TO PREEMPTION", "another job took the nodes"),
    Rule(
        "node-failure", _STEP + r" DUE TO NODE FAILURE", "a node failed; slurmctld's log names it"
    ),
    Rule(
        "requeued", _STEP + r" DUE TO JOB REQUEUE", "the job was put back in the queue", role=_NOTE
    ),
    Rule(
        "memory-error",
        r"(?:STEP|JOB) \S+ ON (?P<node>\S+) .*UNCORRECTABLE MEMORY ERROR",
        "the node's memory failed",
    ),
    Rule(
        "step-failed",
        r"(?:STEP|JOB) \S+ ON (?P<node>\S+) FAILED",
        "the step ended with an error on that node",
    ),
    Rule(
        "cancelled",
        _STEP + r" \*\*\*",
        "cancelled, by somebody or after another failure",
        role=_SECONDARY,
    ),
    Rule(
        "executable-missing",
        r"execve\(\): (?P<detail>\S+): (?:No such file or directory|Permission denied|Exec format"
        r" error)",
        "the program is not there, or not executable, on that node",
    ),
    Rule(
        "step-refused",
        r"Unable to create step for job \d+: (?P<detail>.+?)\s*$",
        "the allocation has not what the step asks for",
    ),
    Rule(
        "step-waits",
        r"step creation (?:still |temporarily )?disabled, retrying",
        "another step holds the resources",
        role=_NOTE,
    ),
    Rule(
        "allocation-refused",
        r"Unable to allocate resources: (?P<detail>.+?)\s*$",
        "the request cannot be met",
    ),
    Rule(
        "queued",
        r"srun: job (?P<code>\d+) queued and waiting for resources",
        "it waits in the queue",
        role=_NOTE,
    ),
    Rule(
        "port-reserved",
        r"unable to claim reserved port, retrying",
        "two steps want the same MPI ports",
        role=_NOTE,
    ),
    Rule(
        "mpi-plugin",
        r"Couldn't find the specified plugin name for (?P<detail>mpi/\w+)|Invalid MPI type",
        "this Slurm has no such --mpi= plugin (srun --mpi=list)",
    ),
    Rule(
        "pmi-failed",
        r"PMI2_Init failed|(?P<detail>mpi/pmix\S*): .*(?:error|abort)",
        "tasks and Slurm speak different PMI",
    ),
    Rule(
        "no-pmi",
        r"OMPI was not built with SLURM'?s? PMI support",
        "Open MPI was built without the PMI that srun offers",
    ),
    Rule(
        "task-states",
        r"srun: (?:StepId=\S+ )?tasks? (?P<detail>[\d,-]+): (?:running|exited|failed to" r" start)",
        "Slurm's view of the tasks",
        role=_NOTE,
    ),
)
PATTERNS = patterns("slurm", RULES)
"""For the scanner; ids begin with `slurm.`."""


def failures_of(scan: Scan) -> tuple[LauncherFailure, ...]:
    """The failures in a scan for `PATTERNS` (hits of other patterns are left alone)."""
    return failures("slurm", RULES, scan)


def document_of(scan: Scan) -> Document:
    """What srun printed.

    Raises:
        UnknownLayout: none of its messages is in the text.
    """
    return document("slurm", failures_of(scan), scan, "Slurm", "srun")


LINES = LineFormat("slurm", PATTERNS, document_of)
read = LINES.read


def _looks_like(head: bytes) -> float:
    return 0.7 if b"srun:" in head or b"slurmstepd:" in head else 0.0


FORMAT = Format("slurm", "Slurm launcher output", _looks_like, read, embedded=True)
