"""What a person can do about a finding of a hung job: the catalogue's steps, with the names that are known
and without those that do not fit this job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace

from busbw.model import Fix
from busbw.parsers.findings import catalogue
from busbw.parsers.stall.case import Case
from busbw.parsers.stall.suspect import Suspect
from busbw.parsers.stall.ticket import fits_scheduler, plain


def fixes(suspect: Suspect, case: Case, *, spare: bool = False) -> tuple[Fix, ...]:
    """The catalogue's steps with the names that are known. No step acts on a node that is not known
    to be the fault's: of a path, of several places where a rank may be, of an address of nobody.
    `spare` = none that ends the job or takes nodes away."""
    job = case.job
    values = {"REASON": plain(suspect.reason or suspect.title)}
    known = {*case.by_name, *(each.node for each in case.evidence.unreachable)}
    if len(suspect.nodes) == 1 and suspect.nodes[0] in known:
        values["NODE"] = shlex.quote(suspect.nodes[0])
    if suspect.devices:
        values["PLACE"] = shlex.quote(suspect.devices[0])
        values["INTERFACE"] = shlex.quote(suspect.devices[0].partition("/")[0])
    # busbw has ended a launch of its own, and its processes with it.
    if suspect.pids and job.plan is None:
        values["PID"] = " ".join(map(str, suspect.pids))
    slurm = next((rank.process.variable("SLURM_JOB_ID") for rank in job.ranks), None)
    if slurm:
        values["JOB"] = shlex.quote(slurm)
    return steps(suspect.id, values, case, spare=spare)


def steps(
    finding_id: str, values: Mapping[str, str], case: Case, *, spare: bool = False
) -> tuple[Fix, ...]:
    """The steps of an entry that a person can take now."""
    every = (_step(fix, values, case, spare=spare) for fix in catalogue.fixes(finding_id))
    return tuple(step for step in every if step is not None)


def settling(finding_id: str, case: Case) -> tuple[str, ...]:
    """What would settle it and was not done."""
    return tuple(text for text in catalogue.entry(finding_id).settle if _open(text, case))


def _open(text: str, case: Case) -> bool:
    """Whether it can still be done: stacks are read once, and a launch of our own has ended."""
    done = case.job.plan is not None or any(each.stacks for each in case.nodes)
    return not (done and "--stacks" in text)


_CAPITALS = re.compile(r"\b(?:NODE|PID|JOB|INTERFACE)\b")


def _step(fix: Fix, values: Mapping[str, str], case: Case, *, spare: bool) -> Fix | None:
    """One step with the commands whose words are all known and that the job's scheduler has; None =
    none of its commands is left, or it harms what is spared."""
    job = case.job
    if spare and (fix.disruptive or fix.needs == "scheduler-admin"):
        return None
    fitting = [
        command
        for command in fix.commands
        if set(_CAPITALS.findall(command)) <= values.keys()
        and fits_scheduler(command, job.name, job.ranks)
        and _open(command, case)
    ]
    if fix.commands and not fitting:
        return None
    if "NODE" not in values:
        fix = replace(fix, summary=fix.summary.replace(", without this node", ""))
    (whole,) = catalogue.with_values((replace(fix, commands=tuple(fitting)),), **values)
    return whole
