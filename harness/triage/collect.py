"""Gathering the evidence of a stalled job from all nodes at once, kept in a run directory before
anything is concluded."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import busbw
from busbw.inventory import fold
from busbw.model import Answer, Cluster, CommandResult, Unreachable
from busbw.parsers.stall.job import RequestedJob, StallEvidence
from busbw.reports.terminal import unreachable_by_reason
from busbw.run.context import Progress
from busbw.store import artefacts
from busbw.store.run_directory import RunDir
from busbw.survey.places import fabric_of
from busbw.transport import Transport
from busbw.transport.fanout import Fleet, open_fleet
from busbw.triage import offline, script
from busbw.triage.clocks import Clocks
from busbw.triage.script import CollectOptions

SCHEMA = "busbw.live/1"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long gathering may take."""

    connect_s: float = 5.0
    answer_s: float = 30.0
    """Of all nodes together, the wait between the samples included."""
    forks: int = 64


@dataclass(frozen=True, slots=True)
class Collected:
    """What was kept, and the same as read."""

    artefact: offline.LiveArtefact
    evidence: StallEvidence


def collect(
    run: RunDir,
    cluster: Cluster,
    transport: Transport,
    options: CollectOptions,
    requested: RequestedJob,
    limits: Limits,
    progress: Progress,
) -> Collected:
    """Ask every node once; keep `raw/live/NODE.txt` and `raw/live.json`. A node that does not
    answer is in its `unreachable`."""
    names = tuple(node.name for node in cluster.nodes)
    boundary = secrets.token_hex(8)
    asked_s = time.time()
    clocks = Clocks()
    # Two tries each, in as many waves as the fan-out needs.
    connecting_s = 2 * limits.connect_s * (1 + len(names) // limits.forks) + 2
    with open_fleet(
        cluster,
        clocks.watched(transport),
        forks=limits.forks,
        connect_timeout_s=limits.connect_s,
        deadline_s=connecting_s,
        record=run,
    ) as fleet:
        tell_unreached(fleet.unreachable, progress)
        chosen = script.spread(tuple(fleet.sessions))
        answers = _send(fleet, tuple(fleet.sessions), options, chosen, boundary, limits.answer_s)
        header = _header(cluster, requested, boundary, asked_s)
        artefact = _with_answers(header, run, answers, fleet.unreachable, clocks)
        evidence = offline.evidence(run.path, artefact)
        second = _nodes_for_ras(evidence)
        if options.ras and second:
            # The job's RAS lives on nodes that were not asked for it: two of them are enough.
            progress("ras", f"asking {', '.join(second)} as well")
            more_answers = _send(
                fleet, second, options, second, boundary, limits.answer_s, again=True
            )
            again = {answer.node: answer for answer in more_answers}
            kept = [
                again.get(a.node, a) if isinstance(again.get(a.node), CommandResult) else a
                for a in answers
            ]
            artefact = _with_answers(header, run, kept, fleet.unreachable, clocks, tuple(again))
            evidence = offline.evidence(run.path, artefact)
    artefacts.keep(run, "live.json", artefact)
    return Collected(artefact, evidence)


def tell_unreached(unreachable: tuple[Unreachable, ...], progress: Progress) -> None:
    """One line for all nodes with the same reason."""
    for same in unreachable_by_reason(unreachable):
        names, reason = fold([each.node for each in same]), same[0].reason
        if len(same) == 1:
            progress("reach", f"{names} not reached: {reason}")
        else:
            progress("reach", f"{len(same)} nodes not reached: {names}: {reason}")


def _send(
    fleet: Fleet,
    names: Sequence[str],
    options: CollectOptions,
    ras: Sequence[str],
    boundary: str,
    answer_s: float,
    *,
    again: bool = False,
) -> list[Answer]:
    commands = {}
    for name in names:
        own_options = replace(options, ras=options.ras and name in ras)
        store = _store(name, again=again)
        commands[name] = script.command(own_options, boundary, store=store)
    return list(fleet.run(commands, deadline_s=answer_s + options.interval_s))


def _store(name: str, *, again: bool) -> str:
    return f"live/{name}{'-again' if again else ''}.txt"


def _nodes_for_ras(evidence: StallEvidence) -> tuple[str, ...]:
    """Up to two nodes where RAS listens and was not asked, where no answer of the others holds a
    report."""
    answers = [answer for node in evidence.nodes for answer in node.ras if answer is not None]
    if any(answer.report is not None for answer in answers):
        return ()
    names = []
    for node in evidence.nodes:
        first = node.ras[0]
        if first is not None and first.listens and not first.probed:
            names.append(node.node)
    return tuple(names[:2])


def _header(
    cluster: Cluster, requested: RequestedJob, boundary: str, asked_s: float
) -> offline.LiveArtefact:
    """What is known before a node answers."""
    return offline.LiveArtefact(
        schema=SCHEMA,
        tool_version=busbw.__version__,
        asked_s=round(asked_s, 3),
        boundary=boundary,
        source=cluster.source,
        slurm=requested.slurm,
        pid=requested.pid,
        mark=requested.mark,
        files=(),
        unreachable=(),
        leaves=fabric_of(cluster, None).leaf_of,
    )


def _with_answers(
    header: offline.LiveArtefact,
    run: RunDir,
    answers: Sequence[Answer],
    unreachable: Sequence[Unreachable],
    clocks: Clocks,
    again: Sequence[str] = (),
) -> offline.LiveArtefact:
    """`again`: nodes whose second answer counts."""
    files, gone = [], list(unreachable)
    for answer in answers:
        if isinstance(answer, Unreachable):
            gone.append(answer)
            continue
        name = _store(answer.node, again=answer.node in again)
        if run.read_raw(name) is None:
            gone.append(
                Unreachable(
                    answer.node,
                    answer.problem
                    or f"no answer, exit status {answer.exit_status}: {answer.err().strip()[:200]}",
                )
            )
            continue
        offset = clocks.offset(answer.node, answer.out())
        files.append(
            offline.LiveFile(
                node=answer.node,
                path=f"raw/{name}",
                exit_status=answer.exit_status,
                problem=answer.problem,
                seconds=round(answer.seconds, 3),
                clock_offset_s=offset.seconds if offset else None,
                clock_uncertain_s=offset.uncertain_s if offset else None,
            )
        )
    return replace(header, files=tuple(files), unreachable=tuple(dict.fromkeys(gone)))
