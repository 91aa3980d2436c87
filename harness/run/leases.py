"""Which run uses a node: taken before anything is launched there, shown to every other run, given
back at the end.

A lease lies on the node itself, so that it holds for whoever starts a run, from wherever; on shared
homes each node has its own. A run renews its leases while it measures. A lease counts no more when
its process is known to have ended, or has not renewed it for `STALE_S`; and never while a process
of that run is on the node.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from busbw import shell
from busbw.checks.leases import STALE_S, Lease, parse
from busbw.errors import BusyError
from busbw.inventory.hostlist import fold
from busbw.model import Command, CommandResult, Unreachable
from busbw.run import controller, job, occupants
from busbw.run.checking import ProbedNodes
from busbw.run.cleanup import why_not
from busbw.run.context import Context
from busbw.units import format_duration

RENEW_S = 300.0
_DEADLINE_S = 40.0
_PACKAGE = "busbw.run"


def ended(leases: Iterable[Lease], process_ended: Callable[[int, str], bool]) -> Mapping[str, str]:
    """The runs that have ended without giving their nodes back, with how it is known."""
    by_run: dict[str, list[Lease]] = {}
    for lease in leases:
        by_run.setdefault(lease.run_id, []).append(lease)
    by_run.pop("", None)
    reasons = {run_id: _why_ended(tuple(each), process_ended) for run_id, each in by_run.items()}
    return {run_id: reason for run_id, reason in reasons.items() if reason}


def _why_ended(leases: tuple[Lease, ...], process_ended: Callable[[int, str], bool]) -> str:
    """Empty = it may go on."""
    first = leases[0]
    if any(lease.running for lease in leases):
        return ""
    if first.pid is not None and process_ended(first.pid, first.at):
        return f"process {first.pid} has ended"
    age_s = min(lease.age_s for lease in leases)
    return f"not renewed for {format_duration(age_s)}" if age_s > STALE_S else ""


def take(context: Context, nodes: tuple[str, ...], root: str = "") -> dict[str, str]:
    """Take these nodes, and make the work folder `root` on them in the same step. Gives the nodes on
    which others could change what is executed below it, with the reason: those are not taken.

    Raises:
        BusyError: another run has one of them, and the user did not say --force; none is taken.
    """
    try:
        answers = _answers(context, nodes, root, ())
        reasons = {node: reason for node, answer in answers.items() if (reason := why_not(answer))}
        leases = _of(answers)
        over = _ended(context, leases)
        if over:
            touched = tuple(dict.fromkeys(each.node for each in leases if each.run_id in over))
            answers |= _answers(context, touched, root, tuple(over))
            leases = _of(answers)
            for run_id, why in over.items():
                context.progress("check", f"took over {fold(touched)} of run {run_id}: {why}")
        _refuse(context, leases, nodes)
    except BaseException:
        release(context, nodes)
        raise
    _note_unleased(context, answers)
    return {node: f"its work folder: {reason}" for node, reason in reasons.items()}


@contextmanager
def alone_on(nodes: ProbedNodes) -> Iterator[Context]:
    """The reached nodes for this run alone: refused where somebody else works on them, given back at
    the end.

    Raises:
        BusyError: other jobs or another run of busbw are on the nodes.
    """
    context = nodes.context
    occupation = occupants.look(context, nodes.answers, context.plan.head)
    here = tuple(context.fleet.sessions)
    occupants.refuse(context, occupation, here)
    take(context, here)
    try:
        yield context
    finally:
        release(context, here)


def release(context: Context, nodes: tuple[str, ...]) -> None:
    """Give the nodes back; where the run has no lease nothing happens."""
    script = job.lease_script() + 'free_lease "$1"\n'
    argv = ("sh", "-c", script, "busbw-release", context.plan.run_id)
    _run(context, nodes, Command(argv, timeout_s=30, label="remove"))


class Heartbeat:
    """Renews the leases of a run, now and then, when it is called often."""

    def __init__(self, context: Context, nodes: tuple[str, ...]) -> None:
        self._context, self._nodes = context, nodes
        self._due = time.monotonic() + RENEW_S

    def __call__(self) -> None:
        if time.monotonic() < self._due:
            return
        script = job.lease_script("keep_lease.sh")
        argv = ("sh", "-c", script, "busbw-renew", self._context.plan.run_id)
        _run(self._context, self._nodes, Command(argv, timeout_s=30, label="renew"))
        self._due = time.monotonic() + RENEW_S


def _run(
    context: Context, nodes: tuple[str, ...], command: Command
) -> dict[str, CommandResult | Unreachable]:
    here = [node for node in nodes if node in context.fleet.sessions]
    answers = context.fleet.run(dict.fromkeys(here, command), deadline_s=_DEADLINE_S)
    return {answer.node: answer for answer in answers}


def _answers(
    context: Context, nodes: tuple[str, ...], root: str, over: tuple[str, ...]
) -> dict[str, CommandResult | Unreachable]:
    plan = context.plan
    base = root.removesuffix("/.cache/busbw") if root.endswith("/.cache/busbw") else "/tmp"
    folder = (shell.load(_PACKAGE, "work_folder.sh") + "shift 2\n", root, base)
    before, *places = folder if root else ("",)
    script = before + job.lease_script("take_lease.sh")
    own = (plan.run_id, plan.controller, " ".join(over), "force" if plan.force else "")
    argv = ("sh", "-c", script, "busbw-folder", *places, *own)
    return _run(context, nodes, Command(argv, timeout_s=30, label="folder"))


def _of(answers: Mapping[str, CommandResult | Unreachable]) -> tuple[Lease, ...]:
    results = (answer for answer in answers.values() if isinstance(answer, CommandResult))
    return tuple(lease for answer in results for lease in parse(answer.node, answer.out()))


def _ended(context: Context, leases: tuple[Lease, ...]) -> Mapping[str, str]:
    if context.plan.force:
        return {}
    if context.run.run_id != context.plan.run_id:
        # A replay: whatever was in the way then was taken over, or there would be no recording.
        return {lease.run_id: "as then" for lease in leases if lease.run_id}
    return ended(leases, controller.ended)


def _refuse(context: Context, leases: tuple[Lease, ...], nodes: tuple[str, ...]) -> None:
    if not leases:
        return
    nodes_by_holder: dict[str, list[str]] = {}
    for lease in leases:
        nodes_by_holder.setdefault(lease.holder, []).append(lease.node)
    seen = "; ".join(f"{fold(names)}: {holder}" for holder, names in nodes_by_holder.items())
    if context.plan.force:
        context.progress("check", f"measured beside another run, as requested: {seen}")
        return
    held = {lease.node for lease in leases}
    count = f"{len(held)} of {len(nodes)} nodes"
    raise BusyError(
        f"{count} are in use by another busbw run",
        seen=seen,
        next_step=(
            "let it end, or end what it left with `busbw cleanup RUN` there; leave them out"
            f" (-x {fold(held)}), or measure beside it with --force"
        ),
    )


def _note_unleased(context: Context, answers: Mapping[str, CommandResult | Unreachable]) -> None:
    for node, answer in answers.items():
        if isinstance(answer, CommandResult) and (
            why := re.search(r"^unleased (.*)$", answer.out(), re.M)
        ):
            context.progress("check", f"{node}: other runs cannot see that it is in use: {why[1]}")
