"""Why a benchmark of ours makes no progress: the culprit, not the victims, from two looks at every
node.

The order of the rules is the order of proof: a dead or stopped process and a link without carrier
are facts about one node; a rank that merely waits is a victim of somebody else and is never named.
"""

from __future__ import annotations

from collections.abc import Mapping

from busbw.model import BenchmarkCase, Confidence, Evidence, Finding, Fix, Status, Unreachable
from busbw.parsers.tools.samples import Looks
from busbw.units import format_size

# Which operation of nccl-tests a number of launched operations is: the iteration in which a
# benchmark hangs, by what NCCL's RAS counted.
#
# The order is that of `src/common.cu`: warm-up, then for every size out-of-place and in-place,
# each one untimed operation, the timed iterations,
# one operation per data check. The warm-up is of every doubling between the smallest and the
# largest size; before August 2025 it was of these two
# alone, and those versions do not print their number.

_PLACES = ("out-of-place", "in-place")


def place(case: BenchmarkCase, done: int, launched: tuple[int, int], version: str | None) -> str:
    """Where in the benchmark the job hangs, in words: `in iteration 7 of 20 at 64 MiB in-place`;
    empty = the counts do not fit the case.

    Args:
        done: sizes that were printed, over all cycles.
        launched: operations that the rank that is furthest behind has launched, and the one that is
        furthest ahead.
        version: of nccl-tests, as it printed it; None = it printed none.

    >>> from busbw.model import Collective, Sizes
    >>> case = BenchmarkCase("a", Collective.ALL_REDUCE, Sizes(1024, 4096, 2), iterations=20, warmup=1, check=1)
    >>> place(case, 1, (3 + 44 + 7, 3 + 44 + 20), "2.19.6")
    'in iteration 7 of 20 at 2 KiB out-of-place'
    """
    behind, ahead = launched
    doublings = (case.sizes.maximum_bytes // case.sizes.minimum_bytes).bit_length()
    warmup = case.warmup * (doublings if version is not None else 2)
    first = warmup + done * _of_size(case)
    if not done and (behind < warmup or 0 < warmup == behind == ahead):
        return f"in warm-up operation {min(behind + 1, ahead)} of {warmup}"
    if not first <= behind <= first + _of_size(case):
        return ""
    return (
        _standing(case, warmup, first, behind) if behind == ahead else _named(case, warmup, behind)
    )


def _of_size(case: BenchmarkCase) -> int:
    return 2 * (1 + case.iterations + case.check)


def _named(case: BenchmarkCase, warmup: int, index: int) -> str:
    """What the operation with this number, from 0 on, is."""
    sizes = case.sizes.planned()
    number, inside = divmod(index - warmup, _of_size(case))
    which, step = divmod(inside, _of_size(case) // 2)
    at = f"at {format_size(sizes[number % len(sizes)])} {_PLACES[which]}"
    if step == 0:
        return f"in the untimed operation {at}"
    if step <= case.iterations:
        return f"in iteration {step} of {case.iterations} {at}"
    return f"in data check {step - case.iterations} of {case.check} {at}"


def _standing(case: BenchmarkCase, warmup: int, first: int, launched: int) -> str:
    """All ranks launched the same and wait for its end: the last one where each is waited for, else
    any since the last wait."""
    if launched == first:
        return ""
    named = _named(case, warmup, launched - 1)
    step = int(named.split()[2]) if named.startswith("in iteration") and not case.blocking else 1
    return (
        named
        if step == 1
        else named.replace(f"in iteration {step} of", f"in one of the first {step} iterations of")
    )


MOVING_BYTES = 65536
"""Bytes on a node's interfaces between two looks above which traffic is called moving: ssh and ARP
alone stay far below."""


def judge(
    samples: Mapping[str, Looks],
    artefacts: Mapping[str, str],
    planned_ranks: Mapping[str, tuple[int, ...]],
    linked_before: Mapping[str, tuple[str, ...]],
    unreachable: tuple[Unreachable, ...],
    where: str,
) -> tuple[Finding, ...]:
    """The findings about a job that stopped making progress, best first; at least one.

    Args:
        looks: node → both looks.
        artefacts: node → path of the looks inside the run directory.
        planned_ranks: node → the ranks that were started there.
        linked_before: node → interfaces that had a link before the job started; others are not
        judged.
        unreachable: nodes that did not answer when they were asked.
        where: how far the job was, in words: `all-reduce, after 3 of 12 sizes`.
    """
    findings: list[Finding] = []
    for missing in unreachable:
        evidence = Evidence("raw/reach.json", None, missing.reason)
        findings.append(
            _finding(
                "stall-node-unreachable",
                f"{missing.node} stopped answering during {where}",
                missing.node,
                evidence,
            )
        )
    for node, look in samples.items():
        findings += _node(
            node,
            look,
            artefacts[node],
            planned_ranks.get(node, ()),
            linked_before.get(node, ()),
            where,
        )
    if findings:
        return tuple(findings)
    moved = {node: moved_bytes(look) for node, look in samples.items()}
    if any(value > MOVING_BYTES for value in moved.values()):
        text = ", ".join(f"{node} {value} bytes" for node, value in moved.items())
        evidence = Evidence("raw", None, f"sent and received between two looks: {text}")
        return (
            Finding(
                "slow-but-moving",
                Status.UNKNOWN,
                f"{where}: no new result, but data still moves",
                (),
                (evidence,),
                cause="the operation is slower than the time allowed for it",
                would_settle=("run again with a larger --timeout, or with smaller sizes",),
            ),
        )
    return (
        Finding(
            "stall-unexplained",
            Status.FAIL,
            f"{where}: no progress, and no node shows why",
            (),
            tuple(
                Evidence(artefacts[node], None, f"{node}: all ranks alive, links up, no traffic")
                for node in samples
            ),
            cause=(
                "the ranks wait for each other; none is stopped or dead, and no interface lost its"
                " link"
            ),
            would_settle=(
                "busbw why --live on the next occurrence",
                "run again with NCCL_DEBUG=INFO",
            ),
        ),
    )


def _node(
    node: str,
    look: Looks,
    artefact: str,
    planned: tuple[int, ...],
    linked: tuple[str, ...],
    where: str,
) -> list[Finding]:
    found = []
    seen = {state.rank for state in (*look.ranks[0], *look.ranks[1])}
    gone = tuple(rank for rank in planned if rank not in seen)
    if gone and look.complete:
        ranks = ", ".join(map(str, gone))
        evidence = Evidence(
            artefact,
            None,
            f"ranks found on {node}: {', '.join(map(str, sorted(seen))) or 'none'}; planned:"
            f" {ranks} too",
        )
        found.append(
            _finding("stall-rank-gone", _waited_for(gone, node, "gone", where), node, evidence)
        )
    stopped = tuple(state for state in look.ranks[-1] if state.state == "T")
    if stopped:
        texts = (
            f"rank {s.rank} pid {s.pid} state T (stopped) in both looks, wait channel"
            f" {s.wait_channel}"
            for s in stopped
        )
        lines = tuple(
            Evidence(artefact, state.line_no, text)
            for state, text in zip(stopped, texts, strict=True)
        )
        title = _waited_for(tuple(state.rank for state in stopped), node, "stopped", where)
        found.append(_finding("stall-rank-stopped", title, node, *lines))
    dead = tuple(state for state in look.ranks[-1] if state.state == "Z")
    if dead:
        lines = tuple(
            Evidence(artefact, state.line_no, f"rank {state.rank} pid {state.pid} state Z (zombie)")
            for state in dead
        )
        title = _waited_for(tuple(state.rank for state in dead), node, "dead", where)
        found.append(_finding("stall-rank-gone", title, node, *lines))
    for interface in look.interfaces[-1]:
        if interface.name in linked and not interface.has_link:
            carrier = "no" if interface.carrier is False else "not told"
            text = (
                f"{interface.name} operstate {interface.operstate}, carrier {carrier}; it had a"
                " link before the run"
            )
            evidence = Evidence(artefact, interface.line_no, text)
            title = f"{node} has no link on {interface.name}; the collective waits for it ({where})"
            found.append(_finding("stall-link-down", title, f"{node} {interface.name}", evidence))
    return found


def _waited_for(ranks: tuple[int, ...], node: str, state: str, where: str) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} on {node} is {state}; the others wait for it ({where})"
    return (
        f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]} on {node} are {state}; the others"
        f" wait for them ({where})"
    )


_CAUSES = {
    "stall-node-unreachable": "the node or its management network is down",
    "stall-rank-gone": "the process died and the launcher did not end the job",
    "stall-rank-stopped": "the process was stopped by a signal (SIGSTOP, a debugger, a freezer)",
    "stall-link-down": (
        "the cable, the port or the far switch port is down; peers see silence, not an error"
    ),
}
_FIXES = {
    "stall-node-unreachable": Fix("look at the node's console or BMC", needs="datacenter-hands"),
    "stall-rank-gone": Fix(
        "look for the reason on the node", ("dmesg -T | tail -50",), needs="root"
    ),
    "stall-rank-stopped": Fix(
        "find who stopped it; end the job or continue the process",
        needs="app-owner",
        disruptive=True,
    ),
    "stall-link-down": Fix(
        "check the cable, the transceiver and the far switch port",
        ("ip -s link", "ethtool INTERFACE"),
        needs="root",
    ),
}


def _finding(finding_id: str, title: str, where: str, *evidence: Evidence) -> Finding:
    return Finding(
        finding_id,
        Status.FAIL,
        title,
        (where,),
        evidence,
        cause=_CAUSES[finding_id],
        fixes=(_FIXES[finding_id],),
        verify=("run the same case again",),
        confidence=Confidence.CERTAIN if finding_id == "stall-rank-stopped" else Confidence.LIKELY,
        effect=1.0,
    )


def moved_bytes(look: Looks) -> int:
    """Bytes that the job moved between the two looks; where only interfaces are told, on all of
    them, those without counters left out."""
    if look.moved_bytes is not None:
        return look.moved_bytes
    before = {i.name: i for i in look.interfaces[0]}
    total = 0
    for after in look.interfaces[1]:
        first = before.get(after.name)
        if first is None or None in (
            first.rx_bytes,
            first.tx_bytes,
            after.rx_bytes,
            after.tx_bytes,
        ):
            continue
        total += (
            (after.rx_bytes or 0)
            - (first.rx_bytes or 0)
            + (after.tx_bytes or 0)
            - (first.tx_bytes or 0)
        )
    return total
