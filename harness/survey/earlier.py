"""What earlier surveys of the same nodes measured, for the blame model of this run; kept in its
`raw/`, so that it judges the same for ever."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from busbw.assess import launches
from busbw.assess.checks import answers, load_plan
from busbw.checks.software import facts
from busbw.errors import BusbwError, UsageError
from busbw.model import LaunchRole
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import Participants
from busbw.store.concluded import result_of
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir

FILE = "earlier-samples.json"
_OPEN = frozenset({"suspicion-open", "not-separated"})
"""Findings that more launches settle. A run that named somebody for sure, or nobody, is over: what
was slow in it may be fixed since."""
_RECENT = timedelta(hours=4)
_NEWEST = 3
"""Runs that count by themselves, at most."""


def left_open(run: RunDir, plan: RunPlan) -> tuple[RunDir, ...]:
    """The newest runs beside this one whose surveys left open who is slow, of the same nodes, with
    the same settings, not long ago: together they may tell."""
    began, found = datetime.fromisoformat(plan.started), []
    # A run's name begins with its time.
    for folder in sorted(run.path.parent.iterdir(), reverse=True):
        if folder.is_symlink() or folder == run.path or not (folder / "run.json").is_file():
            continue
        other = RunDir(folder)
        try:
            theirs = load_plan(other)
            if began - datetime.fromisoformat(theirs.started) > _RECENT:
                break
            if _alike(theirs, plan) and _is_open(other) and of_run(other):
                found.append(other)
        except (BusbwError, ValueError):
            # What cannot be read says nothing.
            continue
    return tuple(found[:_NEWEST])


def _alike(theirs: RunPlan, plan: RunPlan) -> bool:
    def settings(of: RunPlan) -> tuple[object, ...]:
        nodes = tuple((node.name, node.address, node.rails) for node in of.cluster.nodes)
        return nodes, of.words, of.overrides, of.ranks_per_node, of.pml, of.mpi_plugin

    return settings(theirs) == settings(plan)


def _is_open(run: RunDir) -> bool:
    return any(finding.id in _OPEN for finding in result_of(run).findings)


def take(
    run: RunDir, plan: RunPlan, paths: Sequence[Path], *, unasked: bool = False
) -> tuple[GroupSample, ...]:
    """Keep the groups that those runs measured on nodes of this one; their own earlier groups come
    along.

    Args:
        unasked: nobody named these runs; they count only where this one finds nothing good.

    Each launch stays a launch of its own, named after its run: what was slow for everybody that day
    is nobody's today.

    Raises:
        UsageError: a run measured no groups of these nodes, or emulated ones were mixed with real
        ones.
        RunDirError: a folder is no run.
    """
    known = {node.name for node in plan.cluster.nodes}
    samples: list[GroupSample] = []
    for path in paths:
        other = run_directory.open_existing(path.resolve())
        theirs = load_plan(other)
        if theirs.cluster.emulated != plan.cluster.emulated:
            raise UsageError(
                "runs of emulated and of real nodes say nothing about each other",
                seen=str(path),
                next_step="leave that run out of --with",
            )
        own = [sample for sample in of_run(other) if set(sample.nodes) <= known]
        if not own:
            raise UsageError(
                f"{path} measured no groups of these nodes",
                seen="no survey of them in it",
                next_step="busbw run --survey",
            )
        taken = [of_earlier_run(sample, other.run_id) for sample in own]
        samples += [dataclasses.replace(sample, unasked=unasked) for sample in taken]
    pooled = tuple(dict.fromkeys(samples))
    artefacts.keep(run, FILE, pooled)
    return pooled


def of_earlier_run(sample: GroupSample, run_id: str) -> GroupSample:
    """The sample as one of another run: its launch is named after that run, and plays no role in
    this one."""
    prefix, together = f"{run_id}/", sample.concurrent_with
    return dataclasses.replace(
        sample,
        launch=_named(sample.launch, prefix),
        role=LaunchRole.PLAYBOOK,
        concurrent_with=_named(together, prefix) if together else "",
        artefact=f"raw/{FILE}",
        line_no=None,
    )


def _named(launch: str, prefix: str) -> str:
    """After its run; one of a still earlier run has its name already."""
    return launch if "/" in launch else prefix + launch


def load(run: RunDir) -> tuple[GroupSample, ...]:
    """The groups that were kept; () = the run was started without any.

    Raises:
        RunDirError: the file is not readable.
    """
    return artefacts.load(run, FILE, tuple[GroupSample, ...]) or ()


def of_run(run: RunDir) -> tuple[GroupSample, ...]:
    """The groups that a run measured, with those that it was given.

    Raises:
        RunDirError: it has no plan, or an artefact is not readable.
    """
    return (*load(run), *measured_by(run))


def measured_by(run: RunDir) -> tuple[GroupSample, ...]:
    """The groups that a run measured itself.

    Raises:
        RunDirError: as `of_run`.
    """
    plan = load_plan(run)
    known = {answer.node.name: facts(answer) for answer in answers(run, plan)}
    participants = artefacts.load(run, "participants.json", Participants)
    head = participants.head if participants is not None else ""
    own = launches.load(run, known, launches.on_head_of(plan, head))
    return tuple(sample for launch in own for sample in launch.samples)


def carry(recording: Path, run: RunDir) -> None:
    """A replay judges with what the recording was given."""
    content = run_directory.open_existing(recording.resolve()).read_raw(FILE)
    if content is not None:
        run.write_raw(FILE, content)
