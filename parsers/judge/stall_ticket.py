"""The ticket that goes with a stall: what is known in the words of an incident, and the line that takes the node out of service."""

from __future__ import annotations

import datetime
import shlex

from busbw.parsers.judge.stall_records import StallClass, StallJudgement
from busbw.records import Finding

_NO_DRAIN = frozenset(
    (StallClass.SLOW, StallClass.NO_JOB, StallClass.OUTSIDE, StallClass.UNKNOWN, StallClass.RANK_BEHIND, StallClass.RANKS_DISAGREE)
)
"""Where the program, or nobody, is to blame: a healthy node stays in service."""


def clock(at_s: float) -> str:
    """A time since 1970 as people write it, UTC.

    >>> clock(0)
    '1970-01-01 00:00:00 UTC'
    """
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def drain_commands(judgement: StallJudgement) -> tuple[str, ...]:
    """The commands that take the culprit's node out of service; () = no node is to blame. Nothing runs them here."""
    if (
        judgement.kind in _NO_DRAIN
        or len(judgement.culprit_nodes) != 1
        or judgement.findings[0].id in ("stall-rank-stopped", "stall-rank-out-of-memory")
    ):
        return ()
    node = shlex.quote(judgement.culprit_nodes[0])
    reason = f"busbw {judgement.findings[0].id} {_plain(judgement.headline)}"[:120]
    slurm = f'scontrol update nodename={node} state=drain reason="{reason}"'
    kubernetes = f"kubectl cordon {node}"
    if judgement.job.startswith("slurm"):
        return (slurm,)
    pods = any(rank.process.variable("KUBERNETES_SERVICE_HOST") for rank in judgement.ranks)
    return (kubernetes,) if pods else (slurm, kubernetes)


def ticket(judgement: StallJudgement, directory: str) -> str:
    """The text to paste; `directory` = where the evidence is."""
    first = judgement.findings[0]
    lines = [f"Stalled job {judgement.job or '(no id)'}: {judgement.headline}", f"kind: {judgement.kind.value}, {first.confidence.value}"]
    if judgement.since_s is not None:
        lines.append(f"since: {clock(judgement.since_s)}")
    lines.append(f"job: {len(judgement.ranks)} of {judgement.world or 'unknown'} ranks found")
    lines += [f"evidence: {e.artefact}{f':{e.line_no}' if e.line_no else ''}: {e.text}" for e in first.evidence[:4]]
    lines += [f"cause: {first.cause}"] if first.cause else []
    lines += [f"do {n}: {step}" for n, step in enumerate(_steps(first), 1)]
    lines += [f"run: {command}" for command in drain_commands(judgement)]
    lines.append(f"files: {directory}")
    return "\n".join(lines)


def _steps(finding: Finding) -> list[str]:
    return [fix.summary for fix in finding.fixes]


def _plain(text: str) -> str:
    """Nothing that a shell would read inside double quotes."""
    return "".join(letter if letter.isalnum() or letter in " .,:;()-_/" else " " for letter in text)
