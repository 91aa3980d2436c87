"""Launches from start to end: started detached on the head node, watched, and looked at before they
are ended when they make no progress.

How long one ran is the node's word, what nobody watched included; how long it was silent is the sum
of what the commands took. Neither is this process's clock: a replay of the recorded answers decides
exactly as the run did.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.launch import nccl_tests
from busbw.model import BenchmarkCase, Command, CommandResult, Invocation, Unreachable
from busbw.parsers.stall import judge
from busbw.parsers.stall.job import LaunchPlan
from busbw.run import job
from busbw.run.context import Context, Row
from busbw.run.launch_counters import forget, take, taken
from busbw.run.rank_logs import collect, prepare
from busbw.store import artefacts
from busbw.store.artefacts import CaseArtefact, CpuLoad, SampleFile
from busbw.text import whole_number
from busbw.transport import Session
from busbw.triage import clocks, own_launch
from busbw.units import format_duration

ROW_WIDTH = 110
"""Columns of a data row that are shown while it runs: size, times and bandwidths; what -I adds is
left to the report."""
LOST_POLLS = 3
"""Polls in a row that may fail before the head node counts as gone."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A case with its command line and its place."""

    case: BenchmarkCase
    invocation: Invocation
    nodes: tuple[str, ...]
    """In the order of their ranks."""
    ranks_per_node: int
    directory: str
    """Of the job, absolute, on the head node."""
    job_id: str
    head: str
    """The node that starts the launcher."""
    groups: tuple[tuple[str, ...], ...] = ()
    order: int = 0
    concurrent_with: str = ""
    """Launches with one such name run side by side."""
    log_dir: str | None = None
    """On every node, for NCCL's log of each rank; None = there is none."""


@dataclass(frozen=True, slots=True)
class _Ending:
    state: str
    seconds: float
    problem: str
    samples: tuple[SampleFile, ...] = ()
    unreachable: tuple[Unreachable, ...] = ()
    bytes_before_end: tuple[int, int] | None = None
    quiet: tuple[str, str] | None = None
    loads: tuple[CpuLoad | None, CpuLoad | None] = (None, None)


_Collected = tuple[tuple[SampleFile, ...], tuple[Unreachable, ...]]
"""The samples of a launch, and the nodes that gave none."""
_OnHead = tuple[Launch, Session]
"""A launch that is to be made, and the session of its head node."""


def measure(context: Context, launch: Launch) -> CaseArtefact:
    """Run one launch, or go on with it where an earlier busbw left it. Leaves nothing of it on the
    nodes."""
    (artefact,) = measure_together(context, (launch,))
    return artefact


def measure_together(context: Context, launches: tuple[Launch, ...]) -> tuple[CaseArtefact, ...]:
    """The same for launches on different nodes, side by side: all are started, then all are watched
    to their ends."""
    outcomes = {
        each.case.id: artefacts.load(
            context.run, f"cases/{each.case.id}/outcome.json", CaseArtefact
        )
        for each in launches
    }
    todo: list[_OnHead] = []
    for launch in launches:
        if outcomes[launch.case.id] is not None:
            continue
        head = context.fleet.sessions.get(launch.head)
        if head is not None:
            todo.append((launch, head))
            continue
        unreached = _Ending("not-started", 0.0, f"head node {launch.head} cannot be reached")
        outcomes[launch.case.id] = _finish(context, launch, None, unreached)
    for launch, head in todo:
        _forget_earlier(context, launch, head)
    gpus = not any(launch.groups for launch, _ in todo)
    take(context, {launch.case.id: launch.nodes for launch, _ in todo}, "before", gpus=gpus)
    for launch, head in todo:
        _make_ready(context, launch, head)
    began, endings = _run_to_their_ends(context, todo)
    for launch, head in todo:
        if endings[launch.case.id].state != "ended":
            # Not started, too: it may run, and only the answer was lost.
            _end(context, launch, head)
    ran = [launch for launch, _ in todo if endings[launch.case.id].state != "not-started"]
    take(context, {launch.case.id: launch.nodes for launch in ran}, "after", gpus=gpus)
    for launch, head in todo:
        case_id = launch.case.id
        if launch in ran and launch.log_dir is not None:
            collect(context, case_id, launch.nodes, launch.log_dir)
        outcomes[case_id] = _finish(
            context, launch, head, endings[case_id], began[case_id] if launch in ran else ""
        )
    return tuple(artefact for artefact in outcomes.values() if artefact is not None)


def _run_to_their_ends(
    context: Context, todo: Sequence[_OnHead]
) -> tuple[dict[str, str], dict[str, _Ending]]:
    """By case: when its launch began, and how it ended."""
    began: dict[str, str] = {}
    endings: dict[str, _Ending] = {}
    try:
        for launch, head in todo:
            began[launch.case.id] = context.now()
            if (failed := _start(launch, head)) is not None:
                endings[launch.case.id] = failed
        for launch, head in todo:
            if launch.case.id not in endings:
                endings[launch.case.id] = _watch(context, launch, head)
    except BaseException:
        # Ctrl-C and the like: nothing of ours goes on running on the nodes, and a resumed run
        # starts these launches afresh.
        for launch, head in todo:
            if launch.case.id in began:
                _end(context, launch, head)
                _remove(context, launch, head)
            forget(context, launch.case.id)
        raise
    return began, endings


@dataclass(frozen=True, slots=True)
class Wait:
    """How a wait for free CPUs ended."""

    seconds: float
    free: bool
    """No more tasks of others want the CPUs than there are, as far as the node can tell."""


def wait_until_quiet(context: Context, head: str, case_id: str) -> Wait:
    """Where that launch ran while others used the head's CPUs: wait for them to end, for a while."""
    before = artefacts.load(context.run, f"cases/{case_id}/outcome.json", CaseArtefact)
    session = context.fleet.sessions.get(head)
    if session is None or before is None or before.load is None or not before.load.busy:
        return Wait(0.0, free=True)
    answer = session.run(job.quiet())
    load = job.parse_load(answer.stdout)
    still = f"; now {load.tasks_per_cpu:.1f}" if load is not None else ""
    context.progress(
        case_id,
        f"others used the CPUs of {head}, {before.load.tasks_per_cpu:.1f} tasks for each CPU: waited"
        f" {format_duration(answer.seconds)} before measuring again{still}",
    )
    return Wait(answer.seconds, free=load is None or not load.busy)


def _forget_earlier(context: Context, launch: Launch, head: Session) -> None:
    """What an earlier try left of it, where that is no measurement of this one."""
    if context.run.was_set_aside(f"cases/{launch.case.id}/outcome.json"):
        # It was given up, and a part of it may have been ended where it could be.
        _end(context, launch, head)
        _remove(context, launch, head)
    if taken(context, launch.case.id) and not head.run(job.exists(launch.directory)).ok:
        # An earlier try was killed before its launch: what has moved since then is not this
        # launch's.
        forget(context, launch.case.id)


def _make_ready(context: Context, launch: Launch, head: Session) -> None:
    if launch.log_dir is not None:
        prepare(context, launch.nodes, launch.log_dir)
    writer = _writer(context, launch, head)
    if writer is not head:
        writer.run(Command(("mkdir", "-p", "--", launch.directory), timeout_s=30, label="mkdir"))


def _start(launch: Launch, head: Session) -> _Ending | None:
    """None = it runs, or an earlier busbw had started it."""
    started = head.run(
        job.start(launch.directory, launch.invocation.argv, job.marks(launch.job_id))
    )
    if started.ok:
        return None
    return _Ending(
        "not-started",
        started.seconds,
        started.problem or started.err().strip() or f"exit status {started.exit_status}",
    )


def _writer(context: Context, launch: Launch, head: Session) -> Session:
    """The node of rank 0, which writes the JSON."""
    return context.fleet.sessions.get(launch.nodes[0], head)


def _remove(context: Context, launch: Launch, head: Session) -> None:
    writer = _writer(context, launch, head)
    for session in (head,) if writer is head else (head, writer):
        session.run(job.remove(launch.directory))


def _watch(context: Context, launch: Launch, head: Session) -> _Ending:
    """Poll a launch until it ends, its head node or its process is lost, or it is overdue."""
    case = launch.case
    elapsed_s = quiet_s = 0.0
    patience_s = case.stall_s
    last_output = sampled = context.now()
    seen_bytes = attempts = 0
    collected: _Collected | None = None
    while True:
        polled = _poll(context, launch, head, seen_bytes)
        elapsed_s += polled.seconds
        quiet_s += polled.seconds
        position = polled.position
        if position is None:
            return _Ending("unwatched", elapsed_s, polled.problem)
        elapsed_s = elapsed_s if position.age_s is None else position.age_s
        if position.output:
            _show(context, launch, position.output)
            seen_bytes, quiet_s, collected = seen_bytes + len(position.output), 0.0, None
            last_output = context.now()
        if position.state == "ended":
            return _Ending("ended", elapsed_s, "", loads=position.loads)
        if position.state != "running":
            problem = "the job left no exit status: its process was killed or the node restarted"
            return _Ending("lost", elapsed_s, problem)
        if collected is not None:
            # Polled once more after the samples: a job that ended between them ended, and its ranks
            # are rightly gone.
            printed_bytes = (seen_bytes, position.error_bytes)
            state, problem = _overdue(case, quiet_s)
            quiet = (last_output, sampled)
            return _Ending(state, elapsed_s, problem, *collected, printed_bytes, quiet)
        if quiet_s < patience_s and elapsed_s < case.timeout_s:
            continue
        attempts += 1
        sampled = context.now()
        silence = f"no output for {format_duration(quiet_s)}: taking samples of the nodes"
        context.progress(case.id, silence)
        files, unreachable = _take_samples(context, launch, attempts)
        may_wait = elapsed_s < case.timeout_s and not unreachable
        if may_wait and _moving(context, launch, files):
            patience_s = quiet_s + case.stall_s
        else:
            collected = (files, unreachable)


@dataclass(frozen=True, slots=True)
class _Polled:
    position: job.PollAnswer | None
    """None = the head node gave no answer, `LOST_POLLS` times in a row."""
    seconds: float
    """That the commands took."""
    problem: str


def _poll(context: Context, launch: Launch, head: Session, seen_bytes: int) -> _Polled:
    """How far the launch is; asked again while the head node gives no answer."""
    seconds, problem = 0.0, ""
    for _ in range(LOST_POLLS):
        context.heartbeat()
        answer = head.run(job.poll(launch.directory, seen_bytes))
        seconds += answer.seconds
        position = job.parse_poll(answer.stdout)
        if position is not None:
            return _Polled(position, seconds, "")
        problem = f"{head.node} stopped answering: {answer.problem or answer.err().strip()}"
    return _Polled(None, seconds, problem)


def _overdue(case: BenchmarkCase, quiet_s: float) -> tuple[str, str]:
    """The state and the problem of a launch that is ended because it makes no progress."""
    if quiet_s >= case.stall_s:
        return "stalled", f"no output for {quiet_s:.0f} s"
    return "timed-out", f"not ended after {case.timeout_s:.0f} s"


def _moving(context: Context, launch: Launch, files: tuple[SampleFile, ...]) -> bool:
    """Whether the ranks did something between the two samples of a node."""
    plan = LaunchPlan({}, {}, mark=launch.job_id)
    return judge.moving(own_launch.evidence(context.run, files, plan))


def _show(context: Context, launch: Launch, output: bytes) -> None:
    """Tell the user the newest data row; what is kept is fetched whole at the end."""
    lines = output.decode("utf-8", "replace").splitlines()
    rows = [line for line in lines if line[:1] == " " and "0" <= line.strip()[:1] <= "9"]
    if rows:
        row = Row(rows[-1].rstrip()[:ROW_WIDTH])
        row.planned = launch.case.sizes.planned()
        context.progress(launch.case.id, row)


def _end(context: Context, launch: Launch, head: Session) -> None:
    head.run(job.end(launch.directory))
    commands = {
        node: job.sweep(launch.job_id) for node in launch.nodes if node in context.fleet.sessions
    }
    context.fleet.run(commands, deadline_s=45.0)


def _finish(
    context: Context, launch: Launch, head: Session | None, ending: _Ending, began: str = ""
) -> CaseArtefact:
    base = f"cases/{launch.case.id}"
    exit_status = None
    paths: dict[str, str | None] = {}
    if head is not None and ending.state != "not-started":
        paths = _fetch_output(context, launch, head)
        exit_status = _exit_status(
            head.run(job.fetch(launch.directory, "status", f"{base}/exit_status"))
        )
    artefact = CaseArtefact(
        case=launch.case,
        invocation=launch.invocation,
        nodes=launch.nodes,
        ranks_per_node=launch.ranks_per_node,
        state=ending.state,
        exit_status=exit_status if ending.state == "ended" else None,
        seconds=round(ending.seconds, 3),
        stdout=paths.get("stdout"),
        stderr=paths.get("stderr"),
        json=paths.get("result.json"),
        samples=ending.samples,
        unreachable=ending.unreachable,
        problem=ending.problem,
        groups=launch.groups,
        order=launch.order,
        concurrent_with=launch.concurrent_with,
        began=began,
        bytes_before_end=ending.bytes_before_end,
        quiet=ending.quiet,
        load_before=ending.loads[0],
        load_after=ending.loads[1],
    )
    artefacts.keep(context.run, f"{base}/outcome.json", artefact)
    if head is not None:
        # Only now: whoever is killed in between finds the launch finished, and does not make it
        # again.
        _remove(context, launch, head)
    return artefact


def _fetch_output(context: Context, launch: Launch, head: Session) -> dict[str, str | None]:
    """Where what the launch wrote is kept, by the name of its file; None = it is not there."""
    base = f"cases/{launch.case.id}"
    fetched = {}
    for stream in ("stdout", "stderr"):
        store = f"{base}/{stream}.txt"
        answer = head.run(job.fetch(launch.directory, stream, store))
        fetched[stream] = f"raw/{store}" if answer.ok else None
    store = f"{base}/result.json"
    writer = _writer(context, launch, head)
    answer = writer.run(nccl_tests.fetch_json(f"{launch.directory}/result.json", store))
    fetched["result.json"] = f"raw/{store}" if answer.ok else None
    return fetched


def _exit_status(result: CommandResult) -> int | None:
    text = result.out().strip()
    return whole_number(text) if result.ok else None


def _take_samples(context: Context, launch: Launch, attempt: int) -> _Collected:
    """Two samples of every node of the launch, kept before anything is ended."""
    prefix = f"cases/{launch.case.id}/samples-{attempt}"
    reached = [node for node in launch.nodes if node in context.fleet.sessions]
    commands = own_launch.commands(launch.job_id, reached, prefix)
    files, unreachable = [], []
    sent_s, answered_s = time.time(), dict[str, float]()
    for answer in context.fleet.run(
        commands,
        deadline_s=60.0,
        on_event=lambda e: answered_s.update({e.node: sent_s + e.seconds}),
    ):
        if isinstance(answer, Unreachable):
            unreachable.append(answer)
        elif answer.ok:
            offset = clocks.of_answer(sent_s, answered_s[answer.node], answer.out())
            path = f"raw/{prefix}-{answer.node}.txt"
            files.append(SampleFile(answer.node, path, offset.seconds if offset else None))
        else:
            problem = answer.problem or f"the script ended with exit status {answer.exit_status}"
            unreachable.append(Unreachable(answer.node, problem))
    return tuple(files), tuple(unreachable)
