"""What of a node itself holds a job up: it does not answer, or a file system that the ranks use is
full or does not answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from busbw.model import Evidence, Unreachable
from busbw.parsers.stall.evidence import NodeEvidence, at
from busbw.parsers.stall.job import Job, Nodes, RankSeen, nodes_of
from busbw.parsers.stall.ranks import state_line
from busbw.parsers.stall.suspect import Strength, Suspect, ranks_text
from busbw.parsers.tools.proc_host import mount_of


def unreachable_nodes(
    unreachable: Sequence[Unreachable], job: Job, *, awaited: bool
) -> Iterator[Suspect]:
    """Nodes that did not answer us and on which ranks of the job should be. One on which none can
    be is not the job's.

    `awaited` = the others' kernels, or RAS, do not reach a node either that did not answer: it is
    not only our path to it.
    """
    for node in unreachable:
        ranks = tuple(missing.rank for missing in job.missing if missing.nodes == (node.node,))
        if job.world is not None and not any(node.node in missing.nodes for missing in job.missing):
            continue
        there = f", and {ranks_text(ranks)} should run there" if ranks else ""
        waiting = "; the others wait for it" if awaited else ""
        yield Suspect(
            "stall-node-unreachable",
            "reach",
            Strength.FACT,
            f"{node.node} does not answer{there}{waiting}",
            (Evidence(job.record, None, f"{node.node}: {node.reason}"),),
            ranks=ranks,
            nodes=(node.node,),
            reason="does not answer",
            awaited=awaited,
        )


def disks(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """Ranks in disk sleep in both samples, and ranks that write to a full file system."""
    for node in nodes_of(job, nodes):
        here = job.on(node.node)
        for rank in here:
            suspect = _disk_sleep(rank, node) or _full_disk(rank, node)
            if suspect is not None:
                yield suspect
        if "disks" in node.hung_sections and here:
            text = "df did not end within its limit: a mount does not answer"
            evidence = Evidence(node.artefact, node.disks_line_no or None, text)
            title = f"a file system that the ranks on {node.node} use does not answer"
            yield _storage(here[0], title, evidence, "a mount")


def _disk_sleep(rank: RankSeen, node: NodeEvidence) -> Suspect | None:
    if not _sleeps(rank) or rank.second is None:
        return None
    own = (path for pid, path in node.places if pid == rank.process.pid)
    title = (
        f"rank {rank.rank} on {node.node} waits for a disk ({rank.second.wait_channel}); the others"
        " wait for it"
    )
    return _storage(rank, title, state_line(node, rank), next(own, rank.process.directory))


def _full_disk(rank: RankSeen, node: NodeEvidence) -> Suspect | None:
    for pid, path in node.places:
        system = mount_of(path, node.file_systems) if pid == rank.process.pid else None
        if system is None or not system.full:
            continue
        title = (
            f"rank {rank.rank} on {node.node} writes to {system.mount}, which is full; the others"
            " wait for it"
        )
        text = f"{system.source} on {system.mount}: {system.available_kib} KiB available"
        evidence = at(node, node.disks_line_no, system.line_no, text)
        return _storage(rank, title, evidence, system.mount)
    return None


def _storage(rank: RankSeen, title: str, evidence: Evidence, place: str) -> Suspect:
    return Suspect(
        "stall-host-storage",
        "disk",
        Strength.FACT,
        title,
        (evidence,),
        ranks=(rank.rank,),
        nodes=(rank.node,),
        devices=(place,),
    )


def _sleeps(rank: RankSeen) -> bool:
    """In disk sleep in both samples, in the same place, without having used the CPU in between."""
    if rank.first is None or rank.second is None:
        return False
    same = rank.first.wait_channel == rank.second.wait_channel and (rank.cpu_ticks or 0) <= 1
    return rank.first.state == rank.second.state == "D" and same
