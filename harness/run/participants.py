"""Who takes part: every node that was reached and has what a launch needs. The others are named
with the reason, never dropped silently."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from busbw import assess
from busbw.assess import detection
from busbw.checks import NodeAnswer, frame, occupied
from busbw.checks.occupied import Occupant
from busbw.checks.software import NodeFacts, facts
from busbw.errors import BusyError, InventoryError, MeasureError
from busbw.fabrics import fabric
from busbw.inventory.hostlist import expand, fold
from busbw.model import Command, Status
from busbw.parsers.tools import squeue
from busbw.run import build, leases
from busbw.run.context import Context
from busbw.store import artefacts
from busbw.store.artefacts import Excluded, Participants

# Refusing nodes that somebody else works on: processes on their GPUs, other users' launchers,
# Slurm jobs of others.

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
    """Jobs of other users on the nodes, and why they cannot be told."""
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


# Settling which fabric a run is on, once its nodes have answered and before anything is launched.


def settle(context: Context) -> Context:
    """The context with the profile that the answers decide, told with the facts; as it is where a
    profile was given.

    Raises:
        UsageError: the answers fit no profile, or several.
    """
    if context.plan.profile.name != fabric.UNDETECTED:
        return context
    plan = assess.load_plan(context.run)
    facts = detection.demand_profile(plan, assess.answers(context.run, plan))
    context.progress("check", f"fabric profile {plan.profile.name}, detected: {facts}")
    return dataclasses.replace(context, plan=plan)


NEEDED = ("sw.mpirun", "sw.room", "cross.mpi", "cross.host_name")
"""Checks without which a node would break the launch for all others."""


def settle_slots(context: Context, known: Mapping[str, NodeFacts]) -> Context:
    """The context without the slots of a hostfile where the node has another number of GPUs: they
    are often its CPUs, and NCCL takes one rank per GPU. An inventory that names `gpus` beside
    `slots` means what it says, and so does --ranks-per-node.
    """
    plan = context.plan
    wrong = {
        node.name: (node.slots, node_facts.gpus)
        for node in plan.cluster.nodes
        if node.slots is not None
        and node.gpus is None
        and (node_facts := known.get(node.name))
        and node_facts.gpus
        and node_facts.gpus != node.slots
    }
    if not wrong or plan.ranks_per_node is not None:
        return context
    for slots, gpus in sorted(set(wrong.values())):
        same = fold(name for name, both in wrong.items() if both == (slots, gpus))
        context.progress(
            "check",
            f"slots={slots} of {same} ignored: there are {gpus} GPUs; --ranks-per-node {slots}"
            " takes them nevertheless",
        )
    nodes = tuple(
        (
            dataclasses.replace(node, slots=None, gpus=wrong[node.name][1])
            if node.name in wrong
            else node
        )
        for node in plan.cluster.nodes
    )
    return dataclasses.replace(
        context,
        plan=dataclasses.replace(plan, cluster=dataclasses.replace(plan.cluster, nodes=nodes)),
    )


def _take_again(context: Context, known: Mapping[str, NodeFacts]) -> None:
    """The nodes of a run that goes on.

    Raises:
        MeasureError: others can change what would be executed.
        BusyError: another run has taken one meanwhile.
    """
    here = tuple(name for name in known if name in context.fleet.sessions)
    untrusted = leases.take(context, here, build.work_root(known))
    for node, reason in untrusted.items():
        raise MeasureError(
            f"{node} can no longer be measured on",
            seen=reason,
            next_step="look at that folder, then start a new run",
        )


def choose(context: Context, answers: tuple[NodeAnswer, ...]) -> Participants:
    """The nodes that take part, and the one that starts the launcher.

    Raises:
        MeasureError: no node is left.
        BusyError: somebody else, or another run, works on one of them.
    """
    done = artefacts.load(context.run, "participants.json", Participants)
    known = {answer.node.name: facts(answer) for answer in answers}
    if done is not None:
        _take_again(context, {name: known[name] for name in done.nodes if name in known})
        return done
    failed: dict[str, str] = {}
    for check in frame.judge(frame.families(), answers, frame.everything(NEEDED)):
        if check.check_id in NEEDED and check.status is Status.FAIL:
            failed.setdefault(check.node, f"{check.check_id}: {check.seen}")
    by_name = {answer.node.name: answer for answer in answers}
    taken: list[str] = []
    excluded: list[Excluded] = []
    for node in context.plan.cluster.nodes:
        answer = by_name.get(node.name)
        if node.name not in context.fleet.sessions:
            continue
        if answer is None:
            excluded.append(Excluded(node.name, "it gave no answer to the preflight script"))
        elif node.name in failed:
            excluded.append(Excluded(node.name, failed[node.name]))
        elif answer.problem is not None:
            excluded.append(Excluded(node.name, answer.problem))
        elif facts(answer).mpi is None:
            excluded.append(Excluded(node.name, "it did not say which mpirun it has"))
        else:
            taken.append(node.name)
    head = context.plan.head
    if taken and head not in taken:
        head = taken[0]
    occupation = look(context, tuple(by_name[name] for name in taken), head)
    for text in occupation.unseen:
        context.progress("check", f"not seen whether others use the nodes: {text}")
    refuse(context, occupation, tuple(taken))
    root = build.work_root({name: known[name] for name in taken})
    untrusted = leases.take(context, tuple(taken), root)
    taken = [name for name in taken if name not in untrusted]
    excluded += [Excluded(name, reason) for name, reason in untrusted.items()]
    if not taken:
        reasons = "; ".join(f"{e.node}: {e.reason}" for e in excluded[:5]) or "no node was reached"
        raise MeasureError(
            "no node can take part",
            seen=reasons,
            next_step="busbw check shows every node's answers",
        )
    head = head if head in taken else taken[0]
    participants = Participants(tuple(taken), head, tuple(excluded), occupation.unseen)
    artefacts.keep(context.run, "participants.json", participants)
    return participants
