"""`busbw why --live`: which rank of a running job holds the others up, on which node, why, and what to do. Reads only."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import UsageError

if TYPE_CHECKING:
    from busbw.parsers.judge.stall_records import NodeEvidence, StallJudgement
    from busbw.records import Cluster
    from busbw.triage.offline import LiveArtefact


def register(parser: argparse.ArgumentParser) -> None:
    """The options of `busbw why` that concern a live job."""
    live = parser.add_argument_group("a job that runs or hangs now (reads only: nothing is changed, restarted or signalled)")
    live.add_argument("--live", action="store_true", help="ask the job's nodes, twice, and name the culprit")
    live.add_argument("-w", "--nodes", metavar="HOSTLIST", help="such as gpu-[001-016]; with -i: only these of it")
    live.add_argument("-i", "--inventory", metavar="FILE", help="YAML, Ansible or Open MPI hostfile; `lab` for the embedded lab")
    live.add_argument("-x", "--exclude", metavar="HOSTLIST", help="leave these out")
    live.add_argument("--job", metavar="SLURM_ID", help="the nodes of this Slurm job")
    live.add_argument("--pid", type=int, metavar="PID", help="the job of this process; without -w, -i or --job: on this machine")
    live.add_argument("--local", action="store_true", help="this machine alone, as from a scheduler's epilog")
    live.add_argument("--watch", metavar="TIME", help="look again every so often, such as 10s, until it stalls or ends")
    live.add_argument("--interval", type=int, metavar="S", help="seconds between the two looks (default 5)")
    live.add_argument("--stacks", action="store_true", help="read stacks with py-spy or gdb: this pauses every rank for a moment")
    live.add_argument("--print-script", action="store_true", help="print the collecting script, for sites that run it by their own means")
    live.add_argument(
        "--redact",
        action="store_true",
        help="tell it with aliases for hosts, addresses, GUIDs, serials and users, for a ticket that travels; redacted-names.csv stays at home",
    )
    live.add_argument("--transport", choices=("ssh", "openssh", "local"), default="ssh", help="how nodes are reached (default ssh)")
    live.add_argument("-f", "--forks", type=int, default=64, metavar="N", help="nodes asked at once (default 64)")
    live.add_argument("--connect-timeout", type=float, default=5.0, metavar="S", help="limit of one connection, in seconds (default 5)")
    live.add_argument("-o", "--out", type=Path, default=Path("runs"), metavar="DIR", help="where the evidence is kept (default runs)")


def run(args: argparse.Namespace) -> int:
    """Ask, judge, tell. 0 = it moves, 1 = it is stalled, 3 = there is no job to judge."""
    from busbw.triage import script

    asking = script.Asking(interval_s=args.interval or script.INTERVAL_S, stacks=args.stacks)
    if not 1 <= asking.interval_s <= 600:
        raise UsageError(
            f"--interval {asking.interval_s} is too short or too long", seen="expected 1 to 600", next_step="leave it out: 5 s"
        )
    if args.print_script:
        import secrets

        sys.stdout.write(script.text(asking, secrets.token_hex(8)))
        return 0
    if (args.inventory or "").partition(":")[0] == "lab":
        from busbw.lab.enter import become_inside

        become_inside(args.inventory)
    cluster = _cluster(args)
    if args.watch is None:
        told, _ = _once(args, asking, cluster)
        _tell(args, told)
        from busbw.cli import why_live_text

        return why_live_text.exit_status(told.judgement)
    return _watch(args, asking, cluster)


def offline(args: argparse.Namespace, directory: str) -> int:
    """The judgement on a directory of collected answers."""
    from busbw.cli import why_live_text
    from busbw.triage import offline

    path = Path(directory)
    artefact = offline.load(path)
    told = _told(args, path, directory, artefact, offline.evidence(path, artefact))
    _tell(args, told)
    return why_live_text.exit_status(told.judgement)


def _cluster(args: argparse.Namespace) -> Cluster:
    from busbw import inventory
    from busbw.records import Cluster, Node
    from busbw.triage import slurm_job

    given = args.nodes or args.inventory
    if args.local or (args.pid is not None and not given and args.job is None):
        if given:
            raise UsageError("--local means this machine", seen="-w or -i beside --local", next_step="leave them out")
        name = os.uname().nodename.partition(".")[0]
        args.transport = "local"
        return Cluster((Node(name),), name, "this machine")
    nodes = args.nodes
    if args.job is not None and nodes is None:
        nodes = slurm_job.nodes_of(args.job)
    return inventory.resolve(args.inventory, nodes, args.exclude, os.environ)


@dataclass(frozen=True, slots=True)
class _Told:
    """One answer to the question, with aliases where that was asked for."""

    judgement: StallJudgement
    directory: str
    """As it is shown."""
    asked_s: float
    """Since 1970; 0 = not known."""


def _once(args: argparse.Namespace, asking: object, cluster: Cluster) -> tuple[_Told, Path]:
    from busbw import rundir
    from busbw.cli.console import Console, now
    from busbw.parsers.judge.stall_ranks import Wanted
    from busbw.transport.choose import make
    from busbw.triage import collect
    from busbw.triage.script import Asking

    assert isinstance(asking, Asking)
    console = Console(quiet=args.json)
    run = rundir.create(args.out, now(), "live")
    transport = make(args.transport, ssh_config=cluster.ssh_config)
    limits = collect.Limits(connect_s=args.connect_timeout, forks=args.forks)
    made = collect.collect(run, cluster, transport, asking, Wanted(slurm=args.job, pid=args.pid), limits, console.say)
    return _told(args, run.path, os.path.relpath(run.path), made.artefact, made.evidence), run.path


def _told(args: argparse.Namespace, path: Path, directory: str, artefact: LiveArtefact, evidence: tuple[NodeEvidence, ...]) -> _Told:
    """The judgement on what lies in `path`, told as `directory`; with --redact, who is who is kept beside the evidence."""
    from busbw.triage import offline

    judgement = offline.judge(path, artefact, evidence)
    if args.redact:
        from busbw import rundir
        from busbw.reports.redact import Redactor, names_file

        nodes = (*(each.node for each in evidence), *(each.node for each in judgement.unreachable))
        redactor = Redactor(dict.fromkeys(nodes), (), [each.host for each in evidence if each.host])
        judgement, directory = redactor.record(judgement), redactor.text(directory)
        rundir.write_whole(path / "redacted-names.csv", names_file(redactor), mode=0o600)
    return _Told(judgement, directory, artefact.asked_s)


def _tell(args: argparse.Namespace, told: _Told) -> None:
    from busbw.cli import why_live_text

    text = (
        why_live_text.document(told.judgement, told.directory)
        if args.json
        else why_live_text.answer(told.judgement, told.directory, told.asked_s or None)
    )
    sys.stdout.write(text)


def _watch(args: argparse.Namespace, asking: object, cluster: Cluster) -> int:
    """Look again and again; keep the evidence of the last look that moved, and of the stall. Ends with the stall, or with the job."""
    from busbw.cli import why_live_text
    from busbw.parsers.judge.stall_records import StallClass
    from busbw.units import parse_duration

    try:
        every_s = parse_duration(args.watch)
    except ValueError as error:
        raise UsageError(f"--watch {args.watch!r} is no time", seen=str(error), next_step="--watch 10s") from error
    before: Path | None = None
    while True:
        began = time.monotonic()
        told, kept = _once(args, asking, cluster)
        judgement = told.judgement
        sys.stderr.write(why_live_text.brief(judgement) + "\n")
        ended = judgement.kind is StallClass.NO_JOB and before is not None
        if why_live_text.exit_status(judgement) == 1 or ended:
            _tell(args, told)
            return 0 if ended else 1
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)
        before = kept
        time.sleep(max(0.0, every_s - (time.monotonic() - began)))
