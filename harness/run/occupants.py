"""Refusing nodes that somebody else works on: processes on their GPUs, other users' launchers,
Slurm jobs of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from busbw.checks import NodeAnswer, occupied
from busbw.checks.occupied import Occupant
from busbw.checks.software import facts
from busbw.errors import BusyError, InventoryError
from busbw.inventory.hostlist import expand, fold
from busbw.model import Command
from busbw.parsers.tools import squeue
from busbw.run.context import Context

_SQUEUE_S = 20.0
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Occupation:
    """Who else works on the nodes of a run."""

    occupants: tuple[Occupant, ...]
    unseen: tuple[str, ...]
    """What of it could not be seen, and why; () = all was."""


def look(context: Context, answers: tuple[NodeAnswer, ...], head: str) -> Occupation:
    """From what the nodes answered; on a cluster of Slurm's the head is asked once whose jobs are
    on them."""
    occupants: list[Occupant] = []
    hidden: dict[str, list[str]] = {}
    for answer in answers:
        occupants += occupied.occupants_of_others(answer)
        for text in occupied.unseen(answer):
            hidden.setdefault(text, []).append(answer.node.name)
    if any(occupied.schedules(answer) for answer in answers):
        jobs, problem = _jobs(context, answers, head)
        occupants += jobs
        if problem:
            hidden.setdefault(f"Slurm jobs of others: {problem}", []).extend(
                a.node.name for a in answers
            )
    return Occupation(
        tuple(occupants), tuple(f"{text} ({fold(nodes)})" for text, nodes in hidden.items())
    )


def refuse(context: Context, occupation: Occupation, nodes: tuple[str, ...]) -> None:
    """Nothing where the nodes are free, or where the user runs with --force.

    Raises:
        BusyError: other jobs run on `nodes`; `seen` names the owners.
    """
    occupants = [each for each in occupation.occupants if each.node in nodes]
    if not occupants:
        return
    nodes_by_job: dict[str, list[str]] = {}
    for each in occupants:
        owner = f"of {each.owner}" if each.owner else "of an owner that is not seen from here"
        nodes_by_job.setdefault(f"{each.what} {owner}", []).append(each.node)
    jobs = [f"{fold(names)}: {job}" for job, names in nodes_by_job.items()]
    listed = "; ".join(jobs[:_SHOWN])
    if len(jobs) > _SHOWN:
        listed += f"; and {len(jobs) - _SHOWN} more"
    if context.plan.force:
        context.progress("check", f"measured beside others, as asked for: {listed}")
        return
    # The next try has to ask again: by then they may be free.
    context.run.set_aside("preflight.json")
    names = {each.node for each in occupants}
    busy = fold(names)
    what = f"{len(names)} of {len(nodes)} nodes are in use by somebody else"
    raise BusyError(
        what,
        seen=listed,
        next_step=f"wait, leave them out (-x {busy}), or measure beside them with --force",
    )


def _jobs(
    context: Context, answers: tuple[NodeAnswer, ...], head: str
) -> tuple[list[Occupant], str]:
    """Jobs of other users on the nodes, and why they are not known."""
    answer = context.fleet.sessions[head].run(
        Command(squeue.ARGV, timeout_s=_SQUEUE_S, label="squeue")
    )
    if not answer.ok:
        text = (
            answer.problem or answer.err().strip() or f"exit status {answer.exit_status}"
        ).splitlines()[0]
        return [], f"squeue on {head}: {text}"
    names = _names(answers)
    users = {each.node.name: facts(each).user_id for each in answers}
    others = []
    for job in squeue.parse(answer.out()):
        try:
            places = expand(job.nodes)
        except InventoryError:
            return [], f"squeue on {head} names nodes as {job.nodes!r}"
        for place in places:
            node = names.get(place)
            if node is not None and job.user_id != users.get(node):
                others.append(Occupant(node, f"Slurm job {job.number}", job.user))
    return others, ""


def _names(answers: tuple[NodeAnswer, ...]) -> Mapping[str, str]:
    """Inventory name by every name a node goes by."""
    names: dict[str, str] = {}
    for answer in answers:
        for name in (facts(answer).host_name, answer.node.name):
            if name:
                names[name] = names[name.partition(".")[0]] = answer.node.name
    return names
