"""Who takes part: every node that was reached and has what a launch needs. The others are named
with the reason, never dropped silently."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from busbw.checks import NodeAnswer, frame
from busbw.checks.software import NodeFacts, facts
from busbw.errors import MeasureError
from busbw.inventory.hostlist import fold
from busbw.model import Status
from busbw.run import build, leases
from busbw.run.context import Context
from busbw.run.occupants import look, refuse
from busbw.store import artefacts
from busbw.store.artefacts import Excluded, Participants

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
