"""Asking every node once: the script of all families of checks, and where its answers are kept."""

from __future__ import annotations

import dataclasses

from busbw import artefacts
from busbw.artefacts import PreflightArtefact, PreflightEntry
from busbw.preflight import script
from busbw.preflight.families import families
from busbw.records import CommandResult
from busbw.stages.context import Context


def ask(context: Context, *, within_s: float | None = None, section_s: int | None = None) -> PreflightArtefact:
    """Ask all reached nodes at once; what was asked in an earlier try of this run is not asked again.

    `within_s` ends the whole, `section_s` every section earlier than their own limits do; what was not answered by then is missing.
    """
    done = artefacts.load(context.run, "preflight.json", PreflightArtefact)
    if done is not None:
        return done
    known = families()
    sections = [section for family in known for section in family.sections]
    limit_s = script.limit_s(sections) if within_s is None else within_s
    boundary = context.plan.run_id
    command = script.build(known, boundary, limit_s, section_s)
    commands = {node: dataclasses.replace(command, store=f"preflight/{node}.txt") for node in context.fleet.sessions}
    entries = []
    for answer in context.fleet.run(commands, deadline_s=limit_s + 10):
        if isinstance(answer, CommandResult):
            path = f"raw/preflight/{answer.node}.txt"
            stderr = f"{path}.err" if answer.stderr else None
            entries.append(PreflightEntry(answer.node, path, stderr, answer.exit_status, answer.problem, round(answer.seconds, 3)))
    artefact = PreflightArtefact(boundary, tuple(entries))
    artefacts.keep(context.run, "preflight.json", artefact)
    return artefact
