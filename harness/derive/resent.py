"""What the nodes of each pair of a survey sent again during its launches, from the counters around them, and who loses packets by that."""

from __future__ import annotations

from busbw import artefacts
from busbw.artefacts import CountersArtefact
from busbw.derive import grouping
from busbw.derive.launches import Launch
from busbw.outside import decoded
from busbw.parsers.judge import blame_loss
from busbw.parsers.judge.blame import BlameOutcome
from busbw.parsers.judge.blame_loss import Carried
from busbw.parsers.judge.blame_parts import PartKind
from busbw.parsers.nodes import counters
from busbw.plan import RunPlan
from busbw.records import Finding
from busbw.rundir import RunDir

_OF_ONE_NODE = (PartKind.NODE, PartKind.RAIL, PartKind.INSIDE)


def findings(run: RunDir, plan: RunPlan, made: tuple[Launch, ...], outcome: BlameOutcome) -> tuple[Finding, ...]:
    """Who loses packets; () also where the benchmark's traffic is not TCP's, which no kernel's counter of segments sees.

    Raises:
        RunDirError: an artefact is not readable.
    """
    if plan.profile.family != "tcp":
        return ()
    # Queues before what is slow overflow, and drop packets themselves.
    slow = {(level.sample.launch, frozenset(level.sample.nodes)) for level in outcome.explained}
    bad = {name for part in outcome.accused if part.kind in _OF_ONE_NODE for name in part.names}
    pairs = (pair for launch in made for pair in _pairs(run, launch))
    unexplained = tuple(p for p in pairs if (p.launch, frozenset(p.nodes)) not in slow and not bad & set(p.nodes))
    return blame_loss.findings(unexplained, grouping.fabric(run, plan))


def _pairs(run: RunDir, launch: Launch) -> tuple[Carried, ...]:
    groups = dict.fromkeys(sample.nodes for sample in launch.samples if len(sample.nodes) == 2)
    if not groups:
        return ()
    sent = _sent(run, launch.artefact.case.id)
    found = []
    for nodes in groups:
        each = [sent[node] for node in nodes if node in sent]
        if len(each) == len(nodes):
            path, line_no = max(each, key=lambda node: node[1])[2:]
            found.append(Carried(nodes, launch.artefact.case.id, sum(n[0] for n in each), sum(n[1] for n in each), path, line_no))
    return tuple(found)


def _sent(run: RunDir, case_id: str) -> dict[str, tuple[int, int, str, int]]:
    """Per node: segments sent, of them again, the later counters' artefact and line. A node without both snapshots is missing."""
    before, after = (artefacts.load(run, f"cases/{case_id}/counters-{moment}.json", CountersArtefact) for moment in ("before", "after"))
    if before is None or after is None:
        return {}
    paths = {file.node: file.path for file in before.files}
    found = {}
    for file in after.files:
        first, second = (_segments(run, path) for path in (paths.get(file.node), file.path))
        # Counters start anew with the node.
        if first is not None and second is not None and file.path is not None and second[0] > first[0] and second[1] >= first[1]:
            found[file.node] = (second[0] - first[0], second[1] - first[1], file.path, second[2])
    return found


def _segments(run: RunDir, path: str | None) -> tuple[int, int, int] | None:
    content = run.read_raw(path.removeprefix("raw/")) if path else None
    return counters.segments(decoded(content)) if content is not None else None
