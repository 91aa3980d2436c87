"""An MPIJob for a run: applied, waited for, its pods' logs kept, deleted again. Everything through
`kubectl` on this machine."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from busbw.errors import LaunchError
from busbw.launch import mpijob
from busbw.launch.mpijob import MpiJob
from busbw.model import Command, CommandResult, Node, Unreachable
from busbw.parsers.logs.json_values import items, loaded, mapping, text_of
from busbw.run.context import Progress
from busbw.store import artefacts
from busbw.store.run_directory import RunDir
from busbw.transport.kubectl import CONTEXT, NAMESPACE, kubectl
from busbw.transport.local import LocalTransport
from busbw.units import counted

READY_S = 600.0
"""How long the pods may take: an image of CUDA's has some GB."""
_FILE = "kubernetes.json"
_ASK_S = 60.0
_PAUSE_S = 2.0
_LISTING = "kubectl get pods"


@dataclass(frozen=True, slots=True)
class Workers:
    """`raw/kubernetes.json`: the job of a run, so that --resume can ask for the same."""

    job: MpiJob
    context: str | None


def remember(run: RunDir, workers: Workers) -> None:
    """Write the job down, once."""
    if remembered(run) is None:
        artefacts.keep(run, _FILE, workers)


def remembered(run: RunDir) -> Workers | None:
    """The job of the run; None = it has none."""
    return artefacts.load(run, _FILE, Workers)


@contextmanager
def running(
    job: MpiJob, context: str | None, progress: Progress, *, ready_s: float = READY_S
) -> Iterator[None]:
    """The job with all its workers ready; deleted at the end, whatever happened. One that is there
    already, of a run that was cut off, is taken as it is, with what still runs in its pods, unless
    it has ended since: then it is made anew.

    Raises:
        LaunchError: kubectl refused it, or the workers were not ready in time; `seen` says what
        each was waiting for.
    """
    prefix = kubectl(job.namespace, context)
    if _has_ended(
        _kubectl(prefix, "get", "mpijob", job.name, "--ignore-not-found", "--output=json")
    ):
        progress("pods", f"MPIJob {job.name} has ended: made anew")
        _kubectl(prefix, "delete", "mpijob", job.name, "--wait=true", "--ignore-not-found")
    applied = _kubectl(prefix, "apply", "-f", "-", stdin=mpijob.manifest(job).encode())
    if not applied.ok:
        raise LaunchError(
            f"kubectl does not take the MPIJob {job.name}",
            seen=_reason(applied),
            next_step=(
                "is the MPI operator (kubeflow.org/v2beta1) there? kubectl get crd"
                " mpijobs.kubeflow.org"
            ),
        )
    try:
        progress("pods", f"MPIJob {job.name}: waiting for {counted(job.workers, 'worker')}")
        _await_ready(job, prefix, ready_s)
        yield
    finally:
        deleted = _kubectl(
            prefix, "delete", "mpijob", job.name, "--wait=false", "--ignore-not-found"
        )
        progress(
            "pods",
            (
                f"MPIJob {job.name} deleted"
                if deleted.ok
                else f"MPIJob {job.name} may be left: {_reason(deleted)}"
            ),
        )


def keep_logs(job: MpiJob, context: str | None, run: RunDir) -> None:
    """What the workers' containers printed, and the events about their pods, as raw/kubernetes/…;
    what cannot be had is said there."""
    prefix = kubectl(job.namespace, context)
    for pod in mpijob.pods(job):
        logs = _kubectl(prefix, "logs", pod, "--all-containers", "--tail=2000")
        run.write_raw(f"kubernetes/{pod}.log", logs.stdout if logs.ok else _reason(logs).encode())
    events = _kubectl(prefix, "get", "events", "--sort-by=.lastTimestamp")
    run.write_raw("kubernetes/events.txt", events.stdout if events.ok else _reason(events).encode())


def inventory(job: MpiJob, context: str | None) -> str:
    """The workers as an inventory of busbw's own form: each by the name under which the others
    reach it."""
    labels = {NAMESPACE: job.namespace, CONTEXT: context}
    present = {name: value for name, value in labels.items() if value}
    nodes = [
        {"name": f"{pod}.{job.name}", "gpus": max(job.gpus, 1)}
        | ({"labels": present} if present else {})
        for pod in mpijob.pods(job)
    ]
    return json.dumps({"launcher": mpijob.LAUNCHER.name, "nodes": nodes}, indent=1)


def _has_ended(answer: CommandResult) -> bool:
    """Whether the job is there and its pods will not come back: it ran into its deadline, or
    failed."""
    try:
        status = mapping(mapping(loaded(answer.stdout)).get("status"))
    except ValueError:
        # What kubectl says against the apply that follows is reported there.
        return False
    conditions = [mapping(each) for each in items(status, "conditions")]
    return any(_is_true(each, "Succeeded") or _is_true(each, "Failed") for each in conditions)


def _is_true(condition: dict[str, object], kind: str) -> bool:
    return condition.get("type") == kind and condition.get("status") == "True"


def _await_ready(job: MpiJob, prefix: tuple[str, ...], ready_s: float) -> None:
    end = time.monotonic() + ready_s
    waiting: dict[str, str] = {}
    while True:
        listed = _kubectl(
            prefix,
            "get",
            "pods",
            f"--selector=training.kubeflow.org/job-name={job.name}",
            "--output=json",
        )
        waiting = (
            dict.fromkeys(mpijob.pods(job), "not there yet") | _states(listed)
            if listed.ok
            else {job.name: _reason(listed)}
        )
        waiting = {pod: state for pod, state in waiting.items() if state and "-launcher" not in pod}
        if not waiting:
            return
        if time.monotonic() > end:
            pod, state = next(iter(waiting.items()))
            raise LaunchError(
                f"{len(waiting)} of {job.workers} workers were not ready within {ready_s:.0f} s",
                seen=f"{pod}: {state}",
                next_step=f"{' '.join(prefix)} describe pod {pod}",
            )
        time.sleep(_PAUSE_S)


def _states(listed: CommandResult) -> dict[str, str]:
    """What every pod waits for, empty = it is ready."""
    try:
        answer = mapping(loaded(listed.stdout))
    except ValueError as error:
        return {_LISTING: f"not understood: {error}"}
    if not isinstance(answer.get("items"), list):
        return {_LISTING: "not understood: no list of pods"}
    return dict(_state(number, mapping(pod)) for number, pod in enumerate(items(answer, "items")))


def _state(number: int, pod: dict[str, object]) -> tuple[str, str]:
    """The pod's name and what it waits for."""
    name = text_of(mapping(pod.get("metadata")), "name")
    if name is None:
        return f"pod {number} of the list", "not understood"
    return name, _waits(mapping(pod.get("status")))


def _waits(status: dict[str, object]) -> str:
    conditions = [mapping(each) for each in items(status, "conditions")]
    if any(_is_true(each, "Ready") for each in conditions):
        return ""
    for container in items(status, "containerStatuses"):
        waits = mapping(mapping(mapping(container).get("state")).get("waiting"))
        if waits:
            return f"{text_of(waits, 'reason')}: {text_of(waits, 'message') or ''}"
    for condition in conditions:
        why = text_of(condition, "message") or text_of(condition, "reason")
        if condition.get("status") == "False" and why:
            return why
    return text_of(status, "phase") or "unknown"


def _kubectl(prefix: tuple[str, ...], *rest: str, stdin: bytes = b"") -> CommandResult:
    session = LocalTransport().connect(Node("localhost"), 5.0)
    assert not isinstance(session, Unreachable)  # this machine is always reached
    return session.run(Command((*prefix, *rest), stdin=stdin, timeout_s=_ASK_S))


def _reason(result: CommandResult) -> str:
    return result.problem or result.err().strip() or f"exit status {result.exit_status}"
