"""Connecting to all nodes at once: who was reached, who was not and why, kept before anything else
is asked."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator

from busbw import assess
from busbw.checks import script
from busbw.checks.frame import families
from busbw.fabrics.profile import UNDETECTED
from busbw.inventory.hostlist import fold
from busbw.model import CommandResult
from busbw.run.context import Awaited, Context, Progress
from busbw.store import artefacts
from busbw.store.artefacts import PreflightArtefact, PreflightEntry, ReachArtefact
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.transport import Transport
from busbw.transport.fanout import Fleet, FleetEvent, Report, open_fleet
from busbw.units import counted

# Asking every node once: the script of all families of checks, and where its answers are kept.

STRAGGLER_S = 60.0
"""How much longer than three quarters of the nodes, or all but one, the others may take. A node on which three tools
hang needs 51 s; the script's own limit, every section at its own, is ten minutes and more."""
_MOST_NAMED = 4
"""Nodes without an answer that are named."""


def ask(
    context: Context,
    *,
    within_s: float | None = None,
    section_s: int | None = None,
    sudo: bool = False,
) -> PreflightArtefact:
    """Ask all reached nodes at once, for what the plan's profile and playbook want to know; an
    earlier try of this run is not repeated.

    `within_s` ends the whole, `section_s` every section earlier than their own limits do; what was
    not answered by then is missing. `sudo` puts `sudo -n` before what only root may see.
    """
    done = artefacts.load(context.run, "preflight.json", PreflightArtefact)
    if done is not None:
        return done
    # Which fabric it is may be known from the answers alone: then everything is asked.
    every, policy = (
        families(),
        (None if context.plan.profile.name == UNDETECTED else assess.policy(context.plan)),
    )
    limit_s = script.limit_s(script.sections(every, policy)) if within_s is None else within_s
    boundary = context.plan.run_id
    command = script.build(every, boundary, limit_s, section_s, policy=policy, sudo=sudo)
    commands = {
        node: dataclasses.replace(command, store=f"preflight/{node}.txt")
        for node in context.fleet.sessions
    }
    entries = []
    patience_s = STRAGGLER_S if within_s is None else None
    answers = context.fleet.run(
        commands,
        deadline_s=limit_s + 10,
        straggler_s=patience_s,
        on_event=_awaited(context.progress, commands),
    )
    for answer in answers:
        if isinstance(answer, CommandResult):
            path = f"raw/preflight/{answer.node}.txt"
            stderr = f"{path}.err" if answer.stderr else None
            entries.append(
                PreflightEntry(
                    answer.node,
                    path,
                    stderr,
                    answer.exit_status,
                    answer.problem,
                    round(answer.seconds, 3),
                    answer.answered_s,
                )
            )
    artefact = PreflightArtefact(boundary, tuple(entries))
    artefacts.keep(context.run, "preflight.json", artefact)
    return artefact


def _awaited(progress: Progress, nodes: Iterable[str]) -> Report:
    """Tells which nodes have not answered yet, once they are few."""
    open_nodes = dict.fromkeys(nodes)

    def heard(event: FleetEvent) -> None:
        open_nodes.pop(event.node, None)
        text = f"checking {counted(event.total, 'node')}"
        if 0 < len(open_nodes) <= _MOST_NAMED:
            text += f"; no answer yet: {fold(open_nodes)}"
        progress("check", Awaited(text))

    return heard


@contextlib.contextmanager
def reach(run: RunDir, plan: RunPlan, transport: Transport, progress: Progress) -> Iterator[Fleet]:
    """The open sessions of all nodes that could be reached; every command on them is recorded in
    `run`."""
    nodes, limit_s = plan.cluster.nodes, plan.connect_timeout_s
    progress(
        "reach",
        f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}:"
        f" {fold(node.name for node in nodes)}",
    )
    # Two tries each, in as many waves as the fan-out needs.
    deadline_s = 2 * limit_s * (1 + len(nodes) // plan.forks) + 10
    if transport.name == "ssh":
        # Here, because it loads fabric.
        from busbw.transport.head import with_head

        transport = with_head(transport, plan.head)
    with open_fleet(
        plan.cluster,
        transport,
        forks=plan.forks,
        connect_timeout_s=limit_s,
        deadline_s=deadline_s,
        record=run,
    ) as fleet:
        notes = tuple(f"{node}: {note}" for node, note in fleet.notes)
        if artefacts.load(run, "reach.json", ReachArtefact) is None:
            artefacts.keep(
                run,
                "reach.json",
                ReachArtefact(tuple(fleet.sessions), fleet.unreachable, transport.name, notes),
            )
        for text in (
            *notes,
            *(f"{missing.node} not reached: {missing.reason}" for missing in fleet.unreachable),
        ):
            progress("reach", text)
        yield fleet
