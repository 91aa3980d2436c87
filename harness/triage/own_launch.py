"""What is collected from the nodes of a benchmark that makes no progress before it is ended: the
commands, and the answers as evidence.

The ranks are found by the mark `BUSBW_JOB` in their environment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from busbw.model import Command, Unreachable
from busbw.parsers.stall.job import RECORD, LaunchPlan, StallEvidence
from busbw.store.artefacts import SampleFile
from busbw.store.run_directory import RunDir
from busbw.triage import offline, script

INTERVAL_S = 2
"""Between the samples."""


def command(job_id: str, store: str, *, ras: bool = True) -> Command:
    """The collecting script as one command, kept as `raw/<store>`; the same text for the same job,
    so that a replay finds its answer."""
    boundary = hashlib.sha256(job_id.encode()).hexdigest()[:16]
    options = script.CollectOptions(interval_s=INTERVAL_S, ras=ras)
    return script.command(options, boundary, store=store)


def commands(job_id: str, nodes: Sequence[str], prefix: str) -> dict[str, Command]:
    """The script for every node, kept as `raw/<prefix>-NODE.txt`."""
    with_ras = script.spread(nodes)
    return {node: command(job_id, f"{prefix}-{node}.txt", ras=node in with_ras) for node in nodes}


def evidence(
    run: RunDir,
    files: Iterable[SampleFile],
    plan: LaunchPlan,
    unreachable: tuple[Unreachable, ...] = (),
    record: str = RECORD,
) -> StallEvidence:
    """The kept answers as evidence on the launch; `record` = the file that names the nodes that did
    not answer."""
    nodes = []
    for file in files:
        content = run.kept(file.path) or b""
        nodes.append(offline.of_text(file.node, content, file.path, None, file.clock_offset_s))
    return StallEvidence(tuple(nodes), unreachable, plan=plan, record=record)
