"""How the judgement on a live job is told: as text for a terminal and as a JSON document."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.codec import dump_json
from busbw.inventory import fold
from busbw.parsers.judge.stall_records import Event, StallClass, StallJudgement
from busbw.parsers.judge.stall_ticket import clock, drain_commands, ticket
from busbw.records import Finding, Unreachable
from busbw.reports.safe import one_line
from busbw.units import format_duration

_EXIT = {StallClass.SLOW: 0, StallClass.NO_JOB: 3}
_EVIDENCE = 5


@dataclass(frozen=True, slots=True)
class LiveDocument:
    """What `--json` prints."""

    schema: str
    kind: str
    headline: str
    job: str
    world: int | None
    ranks_found: int
    nodes: tuple[str, ...]
    culprit_ranks: tuple[int, ...]
    culprit_nodes: tuple[str, ...]
    since: str | None
    watchdog_left_s: float | None
    findings: tuple[Finding, ...]
    timeline: tuple[Event, ...]
    unreachable: tuple[Unreachable, ...]
    notes: tuple[str, ...]
    drain: tuple[str, ...]
    ticket: str
    directory: str


def exit_status(judgement: StallJudgement) -> int:
    """0 = it moves, 1 = it is stalled, 3 = there is no job to judge."""
    return _EXIT.get(judgement.kind, 1)


def document(judgement: StallJudgement, directory: str) -> str:
    """The JSON document."""
    return dump_json(
        LiveDocument(
            schema="busbw.why-live/1",
            kind=judgement.kind.value,
            headline=judgement.headline,
            job=judgement.job,
            world=judgement.world,
            ranks_found=len(judgement.ranks),
            nodes=_nodes(judgement),
            culprit_ranks=judgement.culprit_ranks,
            culprit_nodes=judgement.culprit_nodes,
            since=None if judgement.since_s is None else clock(judgement.since_s),
            watchdog_left_s=None if judgement.watchdog_left_s is None else round(judgement.watchdog_left_s, 1),
            findings=judgement.findings,
            timeline=judgement.timeline,
            unreachable=judgement.unreachable,
            notes=judgement.notes,
            drain=drain_commands(judgement),
            ticket=ticket(judgement, directory),
            directory=directory,
        )
    )


def answer(judgement: StallJudgement, directory: str, asked_s: float | None) -> str:
    """The judgement for people: verdict, culprit, evidence, what to do, timeline, ticket."""
    out = [_job(judgement), ""]
    for number, finding in enumerate(judgement.findings):
        out += _finding(finding, judgement, asked_s, first=number == 0)
    out += ["", *_watchdog(judgement)] if judgement.watchdog_left_s is not None else []
    if judgement.timeline and judgement.kind is not StallClass.SLOW:
        out += ["", "last events, all nodes, one clock"]
        out += [f"  {clock(e.at_s)[11:19]}  {e.node:<12}  {e.text}" for e in judgement.timeline[-12:]]
    out += ["", *(f"note: {note}" for note in judgement.notes[:8])] if judgement.notes else []
    if exit_status(judgement) == 1:
        out += ["", "ticket", *(f"  | {line}" for line in ticket(judgement, directory).splitlines())]
    out.append("")
    out.append(f"busbw: {_word(judgement)} {judgement.kind.value} {' '.join(judgement.culprit_nodes)} {directory}".replace("  ", " "))
    return "\n".join(one_line(line) for line in out) + "\n"


def brief(judgement: StallJudgement) -> str:
    """One line, for a watcher and for a scheduler's hook."""
    return one_line(f"busbw: {_word(judgement)} {judgement.kind.value}: {judgement.headline}")


def _word(judgement: StallJudgement) -> str:
    return {0: "MOVING", 1: "STALLED", 3: "UNKNOWN"}[exit_status(judgement)]


def _nodes(judgement: StallJudgement) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rank.node for rank in judgement.ranks))


def _job(judgement: StallJudgement) -> str:
    count = f"{len(judgement.ranks)} of {judgement.world} ranks" if judgement.world else f"{len(judgement.ranks)} ranks"
    where = fold(_nodes(judgement)) or "no node"
    return f"job {judgement.job or '(without a name)'}  {count} on {where}   (read only; nothing was changed or signalled)"


def _finding(finding: Finding, judgement: StallJudgement, asked_s: float | None, *, first: bool) -> list[str]:
    sign = {0: "▲", 1: "✖", 3: "?"}[exit_status(judgement)] if first else " "
    kind = f"{judgement.kind.value.upper()}  " if first else "also  "
    out = [f"{sign} {kind}{finding.title}   [{finding.id}, {finding.confidence.value}]"]
    out += [f"  cause     {finding.cause}"] if finding.cause else []
    if first and judgement.since_s is not None:
        ago = f", {format_duration(max(0.0, asked_s - judgement.since_s))} before it was asked" if asked_s else ""
        out.append(f"  since     {clock(judgement.since_s)}{ago}")
    out += [f"  where     {', '.join(finding.where)}"] if finding.where else []
    for item in finding.evidence[:_EVIDENCE]:
        at = item.artefact if not item.line_no else f"{item.artefact}:{item.line_no}"
        out.append(f"  evidence  {at}  {item.text}")
    for number, fix in enumerate(finding.fixes, 1):
        notes = ([f"needs {fix.needs}"] if fix.needs != "user" else []) + (["disrupts the job"] if fix.disruptive else [])
        out.append(f"  do     {number}  {fix.summary}{'   # ' + ', '.join(notes) if notes else ''}")
        out += [f"            {command}" for command in fix.commands]
    out += [f"  settle    {step}" for step in finding.would_settle]
    return out


def _watchdog(judgement: StallJudgement) -> list[str]:
    left = judgement.watchdog_left_s or 0.0
    if left <= 0:
        return ["the framework's watchdog has run out: it ends the job, and its processes with their evidence, any moment"]
    return [f"the framework's watchdog ends the job in about {format_duration(left)}; what is kept here stays"]
