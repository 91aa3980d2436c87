"""Asking every node once: the script of all families of checks, and where its answers are kept."""

from __future__ import annotations

import dataclasses

from busbw import artefacts, derive, profile
from busbw.artefacts import PreflightArtefact, PreflightEntry
from busbw.preflight import script
from busbw.preflight.families import families
from busbw.records import CommandResult
from busbw.stages.context import Context

STRAGGLER_S = 60.0
"""How much longer than three quarters of the nodes the others may take. A node on which three tools hang needs 51 s; the script's own limit,
every section at its own, is ten minutes and more."""


def ask(context: Context, *, within_s: float | None = None, section_s: int | None = None, sudo: bool = False) -> PreflightArtefact:
    """Ask all reached nodes at once, for what the plan's profile and playbook want to know; an earlier try of this run is not repeated.

    `within_s` ends the whole, `section_s` every section earlier than their own limits do; what was not answered by then is missing. `sudo`
    puts `sudo -n` before what only root may see.
    """
    done = artefacts.load(context.run, "preflight.json", PreflightArtefact)
    if done is not None:
        return done
    # Which fabric it is may be told by the answers alone: then everything is asked.
    known, wanted = families(), None if context.plan.profile.name == profile.UNDETECTED else derive.demand(context.plan)
    limit_s = script.limit_s(script.sections(known, wanted)) if within_s is None else within_s
    boundary = context.plan.run_id
    command = script.build(known, boundary, limit_s, section_s, demand=wanted, sudo=sudo)
    commands = {node: dataclasses.replace(command, store=f"preflight/{node}.txt") for node in context.fleet.sessions}
    entries = []
    patience_s = STRAGGLER_S if within_s is None else None
    for answer in context.fleet.run(commands, deadline_s=limit_s + 10, straggler_s=patience_s):
        if isinstance(answer, CommandResult):
            path = f"raw/preflight/{answer.node}.txt"
            stderr = f"{path}.err" if answer.stderr else None
            entries.append(PreflightEntry(answer.node, path, stderr, answer.exit_status, answer.problem, round(answer.seconds, 3)))
    artefact = PreflightArtefact(boundary, tuple(entries))
    artefacts.keep(context.run, "preflight.json", artefact)
    return artefact
