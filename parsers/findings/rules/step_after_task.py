"""A Slurm step that is cancelled after one of its tasks failed: srun ends the step itself, so that
the scheduler is not the cause.

`srun --kill-on-bad-exit` is the default of most MPI plugins (srun(1), Slurm 24.05). A cancellation
by time limit, preemption or a user names its reason, or has no failed task before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_TASK = Watch(
    "task",
    r"srun: error: \S+: tasks? \S+: (?:Exited with exit code|Segmentation|Killed|Aborted|Bus error"
    r"|Out Of Memory|Illegal|Floating)",
)
_STEP = Watch("step", r"\*\*\* STEP \S+ ON \S+ CANCELLED AT \S+ \*\*\*")
_REASON = Watch(
    "reason",
    r"CANCELLED AT \S+ DUE TO |\*\*\* JOB \S+ ON \S+ CANCELLED AT|srun: forcing job termination",
)


def _judge(view: View) -> Iterator[Clue]:
    tasks = view.sightings(_TASK.name)
    if not tasks or view.sightings(_REASON.name):
        return
    for line in view.sightings(_STEP.name)[:1]:
        # srun and slurmstepd write beside each other: a task's line may come a little later.
        yield line.clue("job-ended-by-scheduler", Weight.EXCLUDES, "slurm")


RULE = Rule(
    name="step-after-task",
    conclusion="A step that is cancelled when one of its tasks has failed was ended by that task.",
    watches=(_TASK, _STEP, _REASON),
    judge=_judge,
    fires=(
        Fires(
            "srun: error: gpu4: task 7: Exited with exit code 3\n"
            "slurmstepd: error: *** STEP 42.0 ON gpu3 CANCELLED AT 2026-07-10T09:00:00 ***\n",
            (("job-ended-by-scheduler", "excludes"),),
        ),
    ),
    silent=(
        "slurmstepd: error: *** STEP 42.0 ON gpu3 CANCELLED AT 2026-07-10T09:00:00 ***\n",
        (
            "slurmstepd: error: *** STEP 42.0 ON gpu3 CANCELLED AT 2026-07-10T09:00:00 DUE TO TIME"
            " LIMIT ***\n"
            "srun: error: gpu4: task 7: Exited with exit code 3\n"
        ),
        (
            "slurmstepd: error: *** STEP 42.0 ON gpu3 CANCELLED AT 2026-07-10T09:00:00 ***\n"
            "srun: error: gpu4: task 7: Terminated\n"
        ),
        (
            "srun: forcing job termination\n"
            "slurmstepd: error: *** STEP 42.0 ON gpu3 CANCELLED AT 2026-07-10T09:00:00 ***\n"
            "srun: error: gpu4: task 7: Killed\n"
        ),
    ),
)
