"""The ticket that goes with a stall: what is known in the words of an incident, and the line that
takes the node out of service."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence

from busbw.parsers.stall.job import RankSeen
from busbw.parsers.stall.verdict import StallClass, StallVerdict

_NO_DRAIN = frozenset(
    (
        StallClass.MOVING,
        StallClass.NO_JOB,
        StallClass.OUTSIDE,
        StallClass.UNKNOWN,
        StallClass.RANK_BEHIND,
        StallClass.RANKS_DISAGREE,
    )
)
"""Where the program, or nobody, is to blame: a healthy node stays in service."""
_HEALTHY_NODE = ("stall-rank-stopped", "stall-job-suspended", "stall-rank-out-of-memory")


def clock(at_s: float) -> str:
    """A time since 1970 as people write it, UTC.

    >>> clock(0)
    '1970-01-01 00:00:00 UTC'
    """
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def fits_scheduler(command: str, job: str, ranks: Sequence[RankSeen]) -> bool:
    """Whether the scheduler of the job with this name, as far as it is known, has the command."""
    slurm = job.startswith("slurm")
    pods = any(rank.process.variable("KUBERNETES_SERVICE_HOST") for rank in ranks)
    program = command.partition(" ")[0]
    if program == "kubectl":
        return not slurm
    return program != "scontrol" or slurm or not pods


def drain_commands(verdict: StallVerdict) -> tuple[str, ...]:
    """The commands that take the culprit's node out of service; () = no node is to blame. Nothing
    runs them here."""
    first = verdict.findings[0]
    if verdict.kind in _NO_DRAIN or first.id in _HEALTHY_NODE or len(verdict.culprit_nodes) != 1:
        return ()
    node = shlex.quote(verdict.culprit_nodes[0])
    reason = f"busbw {first.id} {plain(verdict.headline)}"[:120]
    commands = (
        f'scontrol update nodename={node} state=drain reason="{reason}"',
        f"kubectl cordon {node}",
    )
    return tuple(each for each in commands if fits_scheduler(each, verdict.job, verdict.ranks))


def ticket(verdict: StallVerdict, directory: str) -> str:
    """The text to paste; `directory` = where the evidence is."""
    first = verdict.findings[0]
    lines = [
        f"Stalled job {verdict.job or '(no id)'}: {verdict.headline}",
        f"kind: {verdict.kind.value}, {first.confidence.value}",
    ]
    if verdict.since_s is not None:
        lines.append(f"since: {clock(verdict.since_s)}")
    lines.append(f"job: {len(verdict.ranks)} of {verdict.world or 'unknown'} ranks found")
    for item in first.evidence[:4]:
        line_no = f":{item.line_no}" if item.line_no else ""
        lines.append(f"evidence: {item.artefact}{line_no}: {item.text}")
    if first.cause:
        lines.append(f"cause: {first.cause}")
    lines += [f"do {number}: {fix.summary}" for number, fix in enumerate(first.fixes, 1)]
    lines += [f"run: {command}" for command in drain_commands(verdict)]
    lines.append(f"files: {directory}")
    return "\n".join(lines)


def plain(text: str) -> str:
    """Nothing that a shell would read inside double quotes."""
    return "".join(letter if letter.isalnum() or letter in " .,:;()-_/" else " " for letter in text)
