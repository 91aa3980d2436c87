"""Who takes part: every node that was reached and has what a launch needs. The others are named with the reason, never dropped silently."""

from __future__ import annotations

from busbw import artefacts
from busbw.artefacts import Excluded, Participants
from busbw.errors import MeasureError
from busbw.preflight import NodeAnswer, families, judge
from busbw.preflight.software import facts
from busbw.records import Status
from busbw.stages.context import Context

NEEDED = ("sw.mpirun", "cross.mpi")
"""Checks without which a node would break the launch for all others."""


def choose(context: Context, answers: tuple[NodeAnswer, ...]) -> Participants:
    """The nodes that take part, and the one that starts the launcher.

    Raises:
        MeasureError: no node is left.
    """
    done = artefacts.load(context.run, "participants.json", Participants)
    if done is not None:
        return done
    failed: dict[str, str] = {}
    for check in judge.judge(families.families(), answers, judge.everything(NEEDED)):
        if check.check_id in NEEDED and check.status is Status.FAIL:
            failed.setdefault(check.node, f"{check.check_id}: {check.found}")
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
        elif facts(answer).mpi is None:
            excluded.append(Excluded(node.name, answer.problem or "it did not say which mpirun it has"))
        else:
            taken.append(node.name)
    if not taken:
        reasons = "; ".join(f"{e.node}: {e.reason}" for e in excluded[:5]) or "no node was reached"
        raise MeasureError("no node can take part", seen=reasons, next_step="busbw check shows every node's answers")
    head = context.plan.head if context.plan.head in taken else taken[0]
    participants = Participants(tuple(taken), head, tuple(excluded))
    artefacts.keep(context.run, "participants.json", participants)
    return participants
