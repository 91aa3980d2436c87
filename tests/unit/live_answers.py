"""Answers of nodes composed in the script's own format, for the tests of the judgement on a live
job; RAS's in the documented forms."""

from __future__ import annotations

import json

from busbw.model import Unreachable
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.job import StallEvidence
from busbw.parsers.stall.judge import judge
from busbw.parsers.stall.verdict import StallClass, StallVerdict
from busbw.triage import offline

B = "b0undary1"
NOW = 1_795_000_000.0
HZ = 100
UP = 9000.0


def framed(sections: dict[str, str], status: dict[str, int] | None = None) -> bytes:
    """An answer of the script."""
    text = f"busbw-live 1 {B}\n"
    for name, body in sections.items():
        text += (
            f"\n@@{B} begin {name}\n{body.rstrip()}\n\n@@{B} end {name}"
            f" {(status or {}).get(name, 0)}\n"
        )
    return (text + f"\n@@{B} done\n").encode()


def node(
    number: int,
    *,
    ranks: tuple[int, ...] = (),
    world: int = 4,
    state: str = "S",
    wchan: str = "ep_poll",
    ticks: int = 0,
    look: str = "",
    status: dict[str, int] | None = None,
    processes: str | None = None,
    **sections: str,
) -> NodeEvidence:
    """One node with one rank by default; `look` = further lines of both looks, `ticks` = CPU time
    of its ranks between them."""
    mine = ranks or (number,)
    own = (
        f"host n{number} now {NOW:.1f} up {UP} boot boot-{number} tick {HZ}\naddress lo"
        f" 127.0.0.1\naddress eth0 10.0.0.{number}\n"
    )
    slurm = "".join(
        f"pid {100 + r}\nWORLD_SIZE={world}\nRANK={r}\nSLURM_JOB_ID=881234\nexe"
        " /usr/bin/python3\nlibrary libnccl.so.2\n"
        for r in mine
    )

    def seen(at: float, used: int) -> str:
        states = "".join(
            f"state {100 + r} {state} parent 1 ticks {used} start 700000 rss 5 io 0 wchan {wchan}\n"
            for r in mine
        )
        links = "" if "eth0/" in look else "eth0/operstate:up\neth0/carrier:1\n"
        return f"look {at}\n{states}{look}{links}"

    parts = {
        "self": own,
        "ranks": slurm if processes is None else processes,
        "look-1": seen(NOW, 10),
        **{k.replace("_", "-"): v for k, v in sections.items()},
    }
    return offline.of_text(
        f"n{number}",
        framed({**parts, "look-2": seen(NOW + 5, 10 + ticks)}, status),
        f"n{number}.txt",
        None,
        0.0,
    )


def nodes(count: int = 4, **changed: NodeEvidence) -> tuple[NodeEvidence, ...]:
    return tuple(changed.get(f"n{number}") or node(number) for number in range(count))


def judged(
    given: tuple[NodeEvidence, ...],
    gone: tuple[Unreachable, ...] = (),
    leaves: dict[str, str] | None = None,
) -> StallVerdict:
    return judge(StallEvidence(given, gone, now_s=NOW, leaves=leaves or {}))


def told(
    given: tuple[NodeEvidence, ...], gone: tuple[Unreachable, ...] = ()
) -> tuple[StallClass, tuple[int, ...], tuple[str, ...]]:
    found = judged(given, gone)
    return found.kind, found.culprit_ranks, found.culprit_nodes


def ras(
    *communicators: tuple[str, dict[int, dict[str, int]]], dead: tuple[int, ...] = (), init: int = 0
) -> str:
    """RAS's answer as JSON: communicator → rank → counts; those in `dead` are missing and
    considered dead."""

    def place(rank: int) -> dict[str, object]:
        return {
            "rank": rank,
            "host": f"10.0.0.{rank}",
            "pid": 100 + rank,
            "cuda_dev": 0,
            "nvml_dev": 0,
        }

    listed = [
        {
            "hash": name,
            "size": len(ranks),
            "ranks": [
                {**place(r), "status": {"init_state": init}, "collective_counts": c}
                for r, c in ranks.items()
                if r not in dead
            ],
            "missing_ranks": [
                {**place(r), "status": {"unresponsive": True, "considered_dead": True}}
                for r in ranks
                if r in dead
            ],
        }
        for name, ranks in communicators
    ]
    document = {
        "nccl_version": "2.28.9",
        "communicators_count": len(listed),
        "communicators": listed,
        "ras": {"timeouts_count": 0},
    }
    return "listens\nasked localhost 28028\nOK\nOK\n" + json.dumps(document, indent=2)


def reduces(**counts: int) -> dict[int, dict[str, int]]:
    return {int(rank[1:]): {"AllReduce": count, "AllGather": 3} for rank, count in counts.items()}


def asked(*answers: str) -> NodeEvidence:
    """Node 0 with RAS's answers to both questions."""
    return node(0, ras_1=answers[0], ras_2=answers[-1])


HEALTHY = ("0xa1", reduces(r0=64, r1=64, r2=64, r3=64))
SPLIT = ("0xa1", reduces(r0=64, r1=64, r2=63, r3=64))


XID = (
    "[ 8000.5] NVRM: Xid (PCI:0000:43:00): 79, pid=102, name=python3, GPU has fallen off the bus.\n"
)


def socket(local: int, peer: int, inode: int, retries: int = 0, moved: int = 900000) -> str:
    timer = f"timer:(on,12sec,{retries})" if retries else ""
    queue = 65536 if retries else 0
    # What is sent again renews `lastsnd`.
    sent_ms = 300 if retries else 40000
    return (
        f"own {100 + local}\n{inode}\nESTAB 0 {queue} 10.0.0.{local}:5000 10.0.0.{peer}:6000"
        f" {timer} ino:{inode} sk:1 <->\t cubic bytes_acked:{moved} bytes_received:0"
        f" lastsnd:{sent_ms} lastrcv:40000 lastack:40000\n"
    )
