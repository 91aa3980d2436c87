"""Refusing nodes that somebody else works on: processes on their GPUs, other users' launchers, Slurm jobs of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from busbw.errors import BusyError, InventoryError
from busbw.inventory.hostlist import expand, fold
from busbw.parsers.nodes import squeue
from busbw.preflight import NodeAnswer, occupied
from busbw.preflight.occupied import Occupant
from busbw.preflight.software import facts
from busbw.records import Command
from busbw.stages.context import Context

_SQUEUE_S = 20.0
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Occupation:
    """Who else works on the nodes of a run."""

    occupants: tuple[Occupant, ...]
    unseen: tuple[str, ...]
    """What of it could not be seen, and why; () = all was."""


def look(context: Context, answers: tuple[NodeAnswer, ...], head: str) -> Occupation:
    """From what the nodes answered; on a cluster of Slurm's the head is asked once whose jobs are on them."""
    found: list[Occupant] = []
    hidden: dict[str, list[str]] = {}
    for answer in answers:
        found += occupied.occupants(answer, facts(answer).user_id)
        for text in occupied.unseen(answer):
            hidden.setdefault(text, []).append(answer.node.name)
    if any(occupied.schedules(answer) for answer in answers):
        jobs, problem = _jobs(context, answers, head)
        found += jobs
        if problem:
            hidden.setdefault(f"Slurm jobs of others: {problem}", []).extend(a.node.name for a in answers)
    return Occupation(tuple(found), tuple(f"{text} ({fold(nodes)})" for text, nodes in hidden.items()))


def refuse(context: Context, occupation: Occupation, nodes: tuple[str, ...]) -> None:
    """Nothing where the nodes are free, or where the user wants it nevertheless.

    Raises:
        BusyError: somebody works on `nodes`; `seen` names the owners.
    """
    there = [each for each in occupation.occupants if each.node in nodes]
    if not there:
        return
    busy = fold(each.node for each in there)
    groups: dict[str, list[str]] = {}
    for each in there:
        owner = f"of {each.owner}" if each.owner else "of an owner that is not seen from here"
        groups.setdefault(f"{each.what} {owner}", []).append(each.node)
    told = [f"{fold(where)}: {what}" for what, where in groups.items()]
    more = f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    seen = f"{'; '.join(told[:_SHOWN])}{more}"
    if context.plan.force:
        context.say("check", f"measured beside others, as asked for: {seen}")
        return
    # The next try has to ask again: by then they may be free.
    context.run.set_aside("preflight.json")
    what = f"{len({each.node for each in there})} of {len(nodes)} nodes are in use by somebody else"
    raise BusyError(what, seen=seen, next_step=f"wait, leave them out (-x {busy}), or measure beside them with --force")


def _jobs(context: Context, answers: tuple[NodeAnswer, ...], head: str) -> tuple[list[Occupant], str]:
    """Jobs of other users on the nodes, and why they cannot be told."""
    answer = context.fleet.sessions[head].run(Command(squeue.ARGV, timeout_s=_SQUEUE_S, label="squeue"))
    if not answer.ok:
        said = (answer.problem or answer.err().strip() or f"exit status {answer.exit_status}").splitlines()[0]
        return [], f"squeue on {head}: {said}"
    names = _names(answers)
    users = {each.node.name: facts(each).user_id for each in answers}
    found = []
    for job in squeue.parse(answer.out()):
        try:
            places = expand(job.nodes)
        except InventoryError:
            return [], f"squeue on {head} names nodes as {job.nodes!r}"
        for place in places:
            node = names.get(place)
            if node is not None and job.user_id != users.get(node):
                found.append(Occupant(node, f"Slurm job {job.number}", job.user))
    return found, ""


def _names(answers: tuple[NodeAnswer, ...]) -> Mapping[str, str]:
    """Inventory name by every name a node goes by."""
    found: dict[str, str] = {}
    for answer in answers:
        for name in (facts(answer).host_name, answer.node.name):
            if name:
                found[name] = found[name.partition(".")[0]] = answer.node.name
    return found
