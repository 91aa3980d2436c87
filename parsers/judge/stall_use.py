"""What GPUs and RDMA ports do while the job stands: who runs no kernel or still computes, whose link drops or corrupts what it carries.

A kernel that waits in a collective spins: 100 % utilisation at a fraction of the power. A GPU at 0 % has been given no kernel, one that draws far
more than its fellows is still at work. Neither proves why, so both only say where to look.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from busbw.parsers.judge.stall_devices import nodes_of
from busbw.parsers.judge.stall_ranks import Job
from busbw.parsers.judge.stall_records import NodeEvidence, RankSeen, StallClass
from busbw.parsers.judge.stall_suspects import KEEP, RESTART, WITHOUT_NODE, Strength, Suspect, at, drain
from busbw.parsers.nodes.nvidia_query import QueryRow
from busbw.parsers.nodes.proc_ports import Port
from busbw.records import Evidence, Fix

_FEWEST = 4
"""GPUs of a job below which none is the odd one."""
_IDLE, _SPINS = 5.0, 90.0
"""Per cent of utilisation: at most, no kernel ran; at least, one ran all the time."""
_WORKS = 1.5
"""Times the power of its fellows from which on a GPU computes while they spin."""
_ALIKE = 1.25
"""How far apart the fellows' powers may be for that: what computes varies, what spins does not."""
_FLAPS = ("link_downed", "carrier_changes")
_CORRUPTS = ("symbol_error", "port_rcv_errors", "link_error_recovery")


@dataclass(frozen=True, slots=True)
class _Used:
    rank: RankSeen
    node: NodeEvidence
    row: QueryRow
    utilisation: float
    power_w: float | None


def gpus(job: Job, nodes: Mapping[str, NodeEvidence]) -> Iterator[Suspect]:
    """The few GPUs that run nothing, or still work, while all others of the job spin."""
    used = [each for rank in job.ranks if (each := _used(rank, nodes[rank.node])) is not None]
    if len(used) < _FEWEST:
        return
    idle = [each for each in used if each.utilisation <= _IDLE]
    spinning = [each for each in used if each.utilisation >= _SPINS]
    if idle and len(idle) + len(spinning) == len(used) and _few(len(idle), len(used)):
        for each in idle:
            others = f"while the {len(spinning)} others of the job spin in theirs"
            yield _late(each, f"runs no kernel ({each.utilisation:g} % utilisation) {others}")
    if len(spinning) == len(used):
        yield from _working(used)


def _working(used: list[_Used]) -> Iterator[Suspect]:
    known = sorted(((each.power_w, each) for each in used if each.power_w), key=lambda pair: pair[0])
    if len(known) < len(used):
        return
    usual = statistics.median(power for power, _ in known)
    hot = [each for power, each in known if power >= _WORKS * usual]
    rest = [power for power, _ in known if power < _WORKS * usual]
    if not hot or not _few(len(hot), len(used)) or max(rest) > _ALIKE * min(rest):
        return
    for each in hot:
        yield _late(
            each, f"draws {each.power_w:g} W and still computes, while the {len(rest)} others spin at {min(rest):g} to {max(rest):g} W"
        )


def _few(count: int, total: int) -> bool:
    return count <= max(1, total // 4)


def _used(rank: RankSeen, node: NodeEvidence) -> _Used | None:
    """The GPU of a rank, by the driver's list of processes, else by the local rank; None = not told, or not the same in both looks."""
    first, second = node.gpus or (), node.gpus_after or ()
    mine = {user.text("gpu_uuid") for user in node.gpu_users if user.number("pid") == rank.process.pid}
    local = rank.process.local_rank
    rows = [row for row in first if (row.text("uuid") in mine if node.gpu_users else row.number("index") == local)]
    if len(rows) != 1:
        return None
    later = next((row for row in second if row.text("uuid") == rows[0].text("uuid")), rows[0])
    both = [value for row in (rows[0], later) if (value := row.number("utilization.gpu")) is not None]
    powers = [value for row in (rows[0], later) if (value := row.number("power.draw")) is not None]
    if len(both) < 2 or (min(both) <= _IDLE) != (max(both) <= _IDLE) or (min(both) >= _SPINS) != (max(both) >= _SPINS):
        return None
    return _Used(rank, node, rows[0], both[0], statistics.fmean(powers) if powers else None)


def _late(each: _Used, does: str) -> Suspect:
    rank, node = each.rank, each.node
    index = each.row.text("index") or "?"
    line = node.gpu_line_no + 1 + next(i for i, row in enumerate(node.gpus or ()) if row is each.row)
    said = ", ".join(
        f"{name} {each.row.text(name)}" for name in ("index", "utilization.gpu", "power.draw", "clocks.sm") if each.row.text(name)
    )
    fixes = (Fix("see what the rank does: busbw why --live --stacks (it pauses the rank for a moment)", needs="app-owner"), RESTART)
    return Suspect(
        StallClass.RANK_BEHIND,
        "stall-rank-behind",
        "gpu-use",
        Strength.ODD,
        f"rank {rank.rank} on {rank.node}: GPU {index} {does}",
        (rank.rank,),
        (rank.node,),
        (f"GPU {index}",),
        (Evidence(node.artefact, line if node.gpu_line_no else None, said),),
        "the program on that rank has not come to the collective: data, disk, a lock, a longer step",
        fixes,
    )


def ports(job: Job, nodes: Mapping[str, NodeEvidence]) -> Iterator[Suspect]:
    """Ports that lost their link, or received damaged data, between the looks."""
    for node in nodes_of(job, dict(nodes)):
        first, second = node.looks
        before = {(port.name, port.rdma): dict(port.faults) for port in (first.ports if first else ())}
        for port in second.ports if second else ():
            rose = _rose(before.get((port.name, port.rdma)), port)
            flapped = [name for name in rose if name in _FLAPS]
            if second is None or not (flapped or any(name in _CORRUPTS for name in rose)):
                continue
            counted = ", ".join(f"{name} +{rise}" for name, rise in rose.items())
            what = "lost its link" if flapped else "receives damaged data"
            fixes = (
                drain(f"{port.name} {what}"),
                Fix(
                    "check the cable, the transceiver and the far switch port",
                    ("rdma link", f"ethtool -S {port.name.split('/')[0]}"),
                    needs="root",
                ),
                KEEP,
                WITHOUT_NODE,
            )
            yield Suspect(
                StallClass.NETWORK,
                "stall-link-errors",
                "counters",
                Strength.COUNTED if flapped else Strength.ODD,
                f"{node.node} {port.name} {what} between the looks: {counted}",
                tuple(rank.rank for rank in job.on(node.node)),
                (node.node,),
                (port.name,),
                (at(node, second.line_no, port.line_no, f"{port.name}: {counted} since the look before"),),
                "a cable, transceiver or port that fails under load",
                fixes,
            )


def _rose(before: Mapping[str, int] | None, port: Port) -> dict[str, int]:
    return {} if before is None else {name: value - before[name] for name, value in port.faults if value > before.get(name, value)}
