"""`busbw why --live`: which rank of a running job holds the others up, on which node, why, and what
to do. Reads only."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import write_message
from busbw.codec import dump_json
from busbw.errors import UsageError
from busbw.inventory import fold
from busbw.model import Finding, Unreachable
from busbw.parsers.stall.suspect import ranks_text
from busbw.parsers.stall.ticket import clock, drain_commands, ticket
from busbw.parsers.stall.verdict import Event, StallClass, StallVerdict
from busbw.reports import phrases, terminal
from busbw.reports.safe import one_line
from busbw.units import counted, format_duration

if TYPE_CHECKING:
    from busbw.model import Cluster
    from busbw.parsers.stall.job import StallEvidence
    from busbw.triage.script import CollectOptions

_EXIT = {StallClass.MOVING: 0, StallClass.NO_JOB: 3}
_LIVE_EVIDENCE = 5


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


def live_exit_status(verdict: StallVerdict) -> int:
    """0 = it moves, 1 = it is stalled, 3 = there is no job to judge."""
    return _EXIT.get(verdict.kind, 1)


def live_document(verdict: StallVerdict, directory: str) -> str:
    """The JSON document."""
    return dump_json(
        LiveDocument(
            schema="busbw.why-live/1",
            kind=verdict.kind.value,
            headline=verdict.headline,
            job=verdict.job,
            world=verdict.world,
            ranks_found=len(verdict.ranks),
            nodes=_nodes(verdict),
            culprit_ranks=verdict.culprit_ranks,
            culprit_nodes=verdict.culprit_nodes,
            since=None if verdict.since_s is None else clock(verdict.since_s),
            watchdog_left_s=(
                None if verdict.watchdog_left_s is None else round(verdict.watchdog_left_s, 1)
            ),
            findings=verdict.findings,
            timeline=verdict.timeline,
            unreachable=verdict.unreachable,
            notes=verdict.notes,
            drain=drain_commands(verdict),
            ticket=ticket(verdict, directory),
            directory=directory,
        )
    )


def live_answer(verdict: StallVerdict, directory: str, collected_s: float | None) -> str:
    """The verdict for people: verdict, culprit, evidence, what to do, timeline, ticket."""
    out = [_job(verdict), ""]
    for number, finding in enumerate(verdict.findings):
        out += _live_finding(finding, verdict, collected_s, first=number == 0)
    out += [line.text for line in terminal.unreached(verdict.unreachable)]
    out += ["", *_watchdog(verdict)] if verdict.watchdog_left_s is not None else []
    if verdict.timeline and verdict.kind is not StallClass.MOVING:
        out += ["", "last events, all nodes, one clock"]
        out += [f"  {clock(e.at_s)[11:19]}  {e.node:<12}  {e.text}" for e in verdict.timeline[-12:]]
    out += ["", *(f"note: {note}" for note in verdict.notes[:8])] if verdict.notes else []
    if live_exit_status(verdict) == 1:
        out += [
            "",
            "ticket",
            *(f"  | {line}" for line in ticket(verdict, directory).splitlines()),
        ]
    out.append("")
    out.append(
        f"busbw: {_state(verdict)} {verdict.kind.value} {' '.join(verdict.culprit_nodes)}"
        f" {directory}".replace("  ", " ")
    )
    return "\n".join(one_line(line) for line in out) + "\n"


def brief(verdict: StallVerdict) -> str:
    """One line, for a watcher and for a scheduler's hook."""
    return one_line(f"busbw: {_state(verdict)} {verdict.kind.value}: {verdict.headline}")


def _state(verdict: StallVerdict) -> str:
    return {0: "MOVING", 1: "STALLED", 3: "UNKNOWN"}[live_exit_status(verdict)]


def _nodes(verdict: StallVerdict) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rank.node for rank in verdict.ranks))


def _job(verdict: StallVerdict) -> str:
    count = (
        f"{len(verdict.ranks)} of {verdict.world} ranks"
        if verdict.world
        else counted(len(verdict.ranks), "rank")
    )
    where = fold(_nodes(verdict)) or "no node"
    return (
        f"job {verdict.job or '(without a name)'}  {count} on {where}   (read only; nothing was"
        " changed or signalled)"
    )


def _live_finding(
    finding: Finding, verdict: StallVerdict, collected_s: float | None, *, first: bool
) -> list[str]:
    sign = {0: "▲", 1: "✖", 3: "?"}[live_exit_status(verdict)] if first else " "
    kind = f"{verdict.kind.value.upper()}  " if first else "also  "
    place = _place(finding, verdict)
    # That a job moves, or is not there, has no culprit to be sure of.
    is_state = first and live_exit_status(verdict) != 1
    sure = (
        "" if is_state else f", {phrases.sure(replace(finding, where=(place,) if place else ()))}"
    )
    out = [f"{sign} {kind}{finding.title}   [{finding.id}{sure}]"]
    out += [f"  cause     {finding.cause}"] if finding.cause else []
    if first and verdict.since_s is not None:
        ago = ""
        if collected_s:
            earlier_s = max(0.0, collected_s - verdict.since_s)
            ago = f", {format_duration(earlier_s)} before the samples"
        out.append(f"  since     {clock(verdict.since_s)}{ago}")
    out += [f"  where     {place}"] if place else []
    for item in finding.evidence[:_LIVE_EVIDENCE]:
        out.append(f"  evidence  {phrases.location(item)}  {item.text}")
    for number, fix in enumerate(finding.fixes, 1):
        out.append(f"  do        {phrases.fix_step(number, fix)}")
        out += [f"               {command}" for command in fix.commands]
    out += [f"  confirm   {step}" for step in finding.would_settle]
    return out


def _place(finding: Finding, verdict: StallVerdict) -> str:
    """As people say it: `node4 eth0 (ranks 6 and 7)`; empty = no place is named."""
    known = {*_nodes(verdict), *verdict.culprit_nodes, *verdict.flagged_nodes}
    known |= {each.node for each in verdict.unreachable}
    if verdict.kind is StallClass.NO_JOB:
        known |= set(finding.where)
    ranks = [each for each in finding.where if each.startswith("rank ")]
    names = [each for each in finding.where if each in known]
    parts = [each for each in finding.where if each not in known and each not in ranks]
    between = phrases.path(finding, names)
    text = " ".join(part for part in (between or fold(names), ", ".join(parts)) if part)
    if not ranks:
        return text
    who = ranks_text([int(each.removeprefix("rank ")) for each in ranks])
    return f"{text} ({who})" if text else who


def _watchdog(verdict: StallVerdict) -> list[str]:
    left = verdict.watchdog_left_s or 0.0
    if left <= 0:
        return [
            "the framework's watchdog has run out: it ends the job, and its processes with their"
            " evidence, any moment"
        ]
    return [
        f"the framework's watchdog ends the job in about {format_duration(left)}; what is kept here"
        " stays"
    ]


_HEARTBEAT_S = 30.0
"""A watch repeats what did not change so often, so that one sees that it is there."""
_LOOK = "busbw why --live"
_MEASURES = re.compile(r"\bbusbw (?:run|check)\b")


def targeted(
    verdict: StallVerdict, target: tuple[str, ...], nodes: tuple[str, ...]
) -> StallVerdict:
    """The verdict with each command of busbw that it prints for the same job: `target` = the options
    that chose it, `nodes` = those that name its nodes to the other commands."""

    looks = f"{_LOOK} {shlex.join(target)}".strip()
    given = "".join(f" {shlex.quote(word)}" for word in nodes)

    def whole(text: str) -> str:
        return _MEASURES.sub(lambda match: match[0] + given, text.replace(_LOOK, looks))

    findings = []
    for finding in verdict.findings:
        fixes = (replace(f, commands=tuple(map(whole, f.commands))) for f in finding.fixes)
        settle = tuple(map(whole, finding.would_settle))
        findings.append(replace(finding, fixes=tuple(fixes), would_settle=settle))
    return replace(verdict, findings=tuple(findings))


def _target(args: argparse.Namespace, cluster: Cluster) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The user's own options that chose the job, and those that name its nodes."""
    chosen = (("-i", args.inventory), ("-w", args.nodes), ("-x", args.exclude))
    nodes = tuple(word for name, value in chosen if value for word in (name, value))
    job: tuple[str, ...] = ()
    for name, value in (("--job", args.job), ("--pid", args.pid)):
        job += (name, str(value)) if value is not None else ()
    local = ("--local",) if args.local else ()
    named = nodes or (("-w", fold([node.name for node in cluster.nodes])) if args.job else ())
    return (*nodes, *job, *local), named


def run_live(args: argparse.Namespace) -> int:
    """Collect, judge, print. 0 = it moves, 1 = it is stalled, 3 = there is no job to judge."""
    from busbw.triage import script

    options = script.CollectOptions(
        interval_s=args.interval or script.INTERVAL_S, stacks=args.stacks
    )
    if not 1 <= options.interval_s <= 600:
        raise UsageError(
            f"--interval {options.interval_s} is too short or too long",
            seen="expected 1 to 600",
            next_step="leave it out: 5 s",
        )
    if args.print_script:
        import secrets

        sys.stdout.write(script.text(options, secrets.token_hex(8)))
        return 0
    cluster = cluster_of(args)
    if args.watch is None:
        answer, _ = sample(args, options, cluster)
        _print(args, answer)
        return live_exit_status(answer.verdict)
    return _watch(args, options, cluster)


def offline(args: argparse.Namespace, directory: str) -> int:
    """The verdict on a directory of collected answers."""
    from busbw.triage import offline

    path = Path(directory)
    evidence = offline.evidence(path, offline.load(path))
    answer = judged(path, directory, evidence, None, redact=args.redact, elsewhere=True)
    _print(args, answer)
    return live_exit_status(answer.verdict)


def cluster_of(args: argparse.Namespace) -> Cluster:
    """The nodes to look at.

    Raises:
        UsageError: the options contradict each other, or the inventory is wrong.
    """
    from busbw import inventory
    from busbw.model import Cluster, Node
    from busbw.triage import slurm_job

    if (args.inventory or "").partition(":")[0] == "lab":
        from busbw.lab.enter import become_inside

        become_inside(args.inventory)
    given = args.nodes or args.inventory
    if args.local or (args.pid is not None and not given and args.job is None):
        if given:
            raise UsageError(
                "--local means this machine",
                seen="-w or -i with --local",
                next_step="leave them out",
            )
        name = os.uname().nodename.partition(".")[0]
        args.transport = "local"
        return Cluster((Node(name),), name, "this machine")
    nodes = args.nodes
    if args.job is not None and nodes is None:
        nodes = slurm_job.nodes_of(args.job)
    return inventory.resolve(args.inventory, nodes, args.exclude, os.environ)


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """One verdict, with aliases where they were requested."""

    verdict: StallVerdict
    directory: str
    """As it is shown."""
    collected_s: float | None
    """Since 1970; None = not known."""


def sample(
    args: argparse.Namespace,
    options: CollectOptions,
    cluster: Cluster,
    *,
    again: bool = False,
) -> tuple[LiveAnswer, Path]:
    """Collect once and judge; the answer, and the directory of its evidence. again: what the user
    should know of the cluster was said before."""
    from busbw.cli.console import Console, now
    from busbw.parsers.stall.job import RequestedJob
    from busbw.store import run_directory
    from busbw.transport.choose import make
    from busbw.triage import collect

    console = Console(quiet=args.json)
    for note in () if again else cluster.notes:
        console.progress("note", note)
    run = run_directory.create(args.out, now(), "live", link="latest-live")
    transport = make(args.transport, ssh_config=cluster.ssh_config)
    limits = collect.Limits(connect_s=args.connect_timeout, forks=args.forks)
    requested = RequestedJob(slurm=args.job, pid=args.pid)
    collected = collect.collect(
        run, cluster, transport, options, requested, limits, console.progress
    )
    directory = run.shown
    here = args.transport == "local"
    evidence = collected.evidence
    answer = judged(
        run.path,
        directory,
        evidence,
        None if here else cluster,
        redact=args.redact,
        target=_target(args, cluster),
    )
    return answer, run.path


def judged(
    path: Path,
    directory: str,
    evidence: StallEvidence,
    cluster: Cluster | None,
    *,
    redact: bool,
    elsewhere: bool = False,
    target: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
) -> LiveAnswer:
    """The verdict on what lies in `path`, shown as `directory`; where names are redacted, the list
    of them is kept beside the evidence. `cluster`: how its nodes are reached, for the commands; None
    = they are run on the node itself, or, `elsewhere`, nothing says how it is reached."""
    from busbw.parsers.stall.judge import judge

    verdict = targeted(judge(evidence), *target)
    if (cluster is not None or elsewhere) and not redact:
        from busbw.assess import commands

        placed = (
            commands.naming(verdict.findings, tuple(each.node for each in evidence.nodes))
            if cluster is None
            else commands.reaching(verdict.findings, cluster)
        )
        verdict = replace(verdict, findings=placed)
    if redact:
        from busbw.reports.redact import Redactor, names_file
        from busbw.store.whole_files import write_atomically

        names = [each.node for each in evidence.nodes]
        names += [each.node for each in verdict.unreachable]
        hosts = [each.host for each in evidence.nodes if each.host]
        redactor = Redactor(dict.fromkeys(names), (), hosts)
        redactor.learn(verdict)
        verdict, directory = redactor.record(verdict), redactor.text(directory)
        write_atomically(path / "redacted-names.csv", names_file(redactor), mode=0o600)
    return LiveAnswer(verdict, directory, evidence.now_s)


def _print(args: argparse.Namespace, answer: LiveAnswer) -> None:
    if args.json:
        sys.stdout.write(live_document(answer.verdict, answer.directory))
        return
    text = live_answer(answer.verdict, answer.directory, answer.collected_s)
    if sys.stdout.isatty():
        from busbw.cli.why_text import broken

        text = broken(text, shutil.get_terminal_size().columns)
    sys.stdout.write(text)


def _watch(args: argparse.Namespace, options: CollectOptions, cluster: Cluster) -> int:
    """Sample again and again; keep the evidence of the last sample that moved, and of the stall.
    Waits for a job where none is named; ends with the stall, or with the job. 0 = the job ended, 1 =
    it is stalled, 3 = there is no such job, or no node was reached."""
    from busbw.units import parse_duration

    try:
        every_s = parse_duration(args.watch)
    except ValueError as error:
        raise UsageError(
            f"--watch {args.watch!r} is no time", seen=str(error), next_step="--watch 10s"
        ) from error
    before: Path | None = None
    seen = False
    said, said_s = "", 0.0
    while True:
        began = time.monotonic()
        answer, kept = sample(args, options, cluster, again=before is not None)
        verdict = answer.verdict
        if brief(verdict) != said or began - said_s >= _HEARTBEAT_S:
            said, said_s = brief(verdict), began
            write_message(f"{said}\n")
        no_job = verdict.kind is StallClass.NO_JOB
        seen |= bool(verdict.ranks)
        none_reached = len(verdict.unreachable) == len(cluster.nodes)
        named = args.job is not None or args.pid is not None
        if live_exit_status(verdict) == 1 or (no_job and (seen or named or none_reached)):
            _print(args, answer)
            ended = no_job and seen and not none_reached
            return 0 if ended else live_exit_status(verdict)
        if no_job and before is None:
            write_message("busbw: waiting for a job on these nodes; Ctrl-C ends it\n")
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)
        before = kept
        time.sleep(max(0.0, every_s - (time.monotonic() - began)))
