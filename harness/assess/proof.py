"""Was it the fabric that was measured? What the profile demands to see, against NCCL's own lines of
the proof launch and the bytes of each port.

A proof that failed is FAIL. One that could not be made excludes nothing, and is named in what the
verdict does not cover.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from busbw.assess import counters
from busbw.assess.expectation import NodeHardware
from busbw.assess.launches import Launch
from busbw.errors import ReadError
from busbw.fabrics.profile import MustSee
from busbw.inventory import fold
from busbw.model import Confidence, Evidence, Finding, NcclLog, ProcessFacts, Status, Uncovered
from busbw.model.counters import RailBytes
from busbw.parsers.expect import sensitivity
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.logs import nccl_debug, rank_logs
from busbw.parsers.logs.rank_logs import RankLog
from busbw.store.run_directory import RunDir
from busbw.units import counted

IDLE_RAIL = 0.5
"""A rail that sent less than this share of its node's median rail is not used as the others are:
NCCL gives every rail the same."""
MOVED_BYTES = 1 << 20
"""Less than this on the median rail is start-up traffic and proves nothing."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One thing that had to be seen."""

    id: str
    """`transport`, `plugin`, `gpudirect` or `rails`."""
    excludes: str
    """Id of the fault that it excludes where it holds."""
    status: Status
    """PASS, FAIL, or UNKNOWN = it could not be made."""
    text: str
    where: tuple[str, ...] = ()
    artefact: str = ""


def proofs(
    must_see: MustSee,
    log: NcclLog | None,
    ranks: int,
    fitted: tuple[NodeHardware, ...],
    traffic: tuple[RailBytes, ...],
    artefact: str,
    truncated: int = 0,
    largest_bytes: int = 0,
) -> tuple[Proof, ...]:
    """Every proof that the profile demands. `log`: of the proof launch on several nodes, None = it
    has no line of NCCL; `truncated`: ranks of whose logs only the start was kept; `largest_bytes`:
    the largest size of the launch around which the ports were read."""
    results: list[Proof] = []
    if must_see.networks:
        results += _from_log(must_see, log, ranks, artefact, truncated)
    rails = {
        node.node: tuple(name for name, _ in node.rails) for node in fitted if len(node.rails) > 1
    }
    if rails:
        by_bytes = _rails_by_bytes(rails, traffic)
        still = _standing_still(rails, traffic) if largest_bytes >= MOVED_BYTES else None
        if still is not None:
            results.append(still)
        elif by_bytes.status is Status.UNKNOWN and log is not None:
            results.append(_rails_by_log(fitted, log, by_bytes, artefact))
        else:
            results.append(by_bytes)
    return tuple(results)


def _from_log(
    must_see: MustSee, log: NcclLog | None, ranks: int, artefact: str, truncated: int
) -> list[Proof]:
    needed = [("transport", sensitivity.TCP)]
    if must_see.plugin is not None:
        needed.append(("plugin", sensitivity.TCP))
    if must_see.gdr:
        needed.append(("gpudirect", sensitivity.NO_GPUDIRECT))
    speaking = [process for process in log.processes if process.networks] if log is not None else []
    if not speaking:
        why = (
            "the proof launch printed no line of NCCL on its network (NCCL_DEBUG=INFO, subsystems"
            " INIT and NET)"
        )
        return [
            Proof(name, fault, Status.UNKNOWN, why, artefact=artefact) for name, fault in needed
        ]
    silent = ranks - len(speaking)
    doubt = ""
    if silent > 0:
        doubt = f"{counted(silent, 'rank')} said nothing"
    elif truncated:
        doubt = f"of {counted(truncated, 'rank')} only the start of the log was kept"
    makers = {
        "transport": lambda: _transport(must_see, speaking, doubt, artefact),
        "plugin": lambda: _plugin(must_see.plugin or "", speaking, doubt, artefact),
        "gpudirect": lambda: _gpudirect(speaking, doubt, artefact),
    }
    return [makers[name]() for name, _ in needed]


def _transport(must_see: MustSee, speaking: list[ProcessFacts], doubt: str, artefact: str) -> Proof:
    wrong = [
        p
        for p in speaking
        if not any(fnmatchcase(name, glob) for name in p.networks for glob in must_see.networks)
    ]
    used = ", ".join(sorted({name for process in speaking for name in process.networks}))
    expected = " or ".join(must_see.networks)
    if wrong:
        networks = ", ".join(sorted({name for process in wrong for name in process.networks}))
        text = f"{len(wrong)} of {len(speaking)} ranks use the network {networks}, not {expected}"
        return Proof("transport", sensitivity.TCP, Status.FAIL, text, _hosts(wrong), artefact)
    return _unless_in_doubt(
        "transport", sensitivity.TCP, f"every rank says that it uses {used}", doubt, artefact
    )


def _plugin(name: str, speaking: list[ProcessFacts], doubt: str, artefact: str) -> Proof:
    without = [
        p
        for p in speaking
        if not any(name in (plugin.text + plugin.name) for plugin in p.plugins if plugin.loaded)
    ]
    if without and len(without) == len(speaking):
        return Proof(
            "plugin",
            sensitivity.TCP,
            Status.UNKNOWN,
            f"no rank names the plugin {name}",
            artefact=artefact,
        )
    if without:
        text = f"{len(without)} of {len(speaking)} ranks did not load the plugin {name}"
        return Proof("plugin", sensitivity.TCP, Status.FAIL, text, _hosts(without), artefact)
    return _unless_in_doubt("plugin", sensitivity.TCP, f"every rank loaded {name}", doubt, artefact)


def _gpudirect(speaking: list[ProcessFacts], doubt: str, artefact: str) -> Proof:
    # Channels between nodes end in /GDRDMA where GPUDirect RDMA carries them; a rank that has none
    # is carried by its peers (PXN).
    over = [
        (process, connection)
        for process in speaking
        for connection in process.connections
        if connection.transport == "NET"
    ]
    if not over:
        return Proof(
            "gpudirect",
            sensitivity.NO_GPUDIRECT,
            Status.UNKNOWN,
            "no channel over the network was logged (subsystem GRAPH)",
            artefact=artefact,
        )
    without = [process for process, connection in over if connection.gdr is False]
    if without:
        text = (
            f"{len(set(map(id, without)))} ranks send over the network through host memory: their"
            " channels do not end in /GDRDMA"
        )
        return Proof(
            "gpudirect", sensitivity.NO_GPUDIRECT, Status.FAIL, text, _hosts(without), artefact
        )
    return _unless_in_doubt(
        "gpudirect",
        sensitivity.NO_GPUDIRECT,
        f"all {len(over)} kinds of channel between nodes end in /GDRDMA",
        doubt,
        artefact,
    )


def _unless_in_doubt(name: str, fault: str, text: str, doubt: str, artefact: str) -> Proof:
    """A proof holds only where every rank spoke, to its end."""
    if doubt:
        return Proof(name, fault, Status.UNKNOWN, f"{text}, but {doubt}", artefact=artefact)
    return Proof(name, fault, Status.PASS, text, artefact=artefact)


def _hosts(processes: list[ProcessFacts]) -> tuple[str, ...]:
    return tuple(sorted({process.host for process in processes if process.host}))


def _standing_still(
    rails: Mapping[str, tuple[str, ...]], traffic: tuple[RailBytes, ...]
) -> Proof | None:
    """All ports of all nodes were counted and none moved: the data went elsewhere, or the ports do
    not count. None = some did, or not all are known."""
    sent = {(each.node, each.device): each.sent_bytes for each in traffic}
    moved = [sent.get((node, name)) for node, names in rails.items() for name in names]
    if any(value is None or value >= MOVED_BYTES for value in moved):
        return None
    text = (
        "no port counted the bytes of the benchmark: they went another way, or ports do not count"
    )
    return Proof("rails", sensitivity.MISSING_RAIL, Status.WARN, text, tuple(sorted(rails)))


def _rails_by_bytes(rails: Mapping[str, tuple[str, ...]], traffic: tuple[RailBytes, ...]) -> Proof:
    """Every fitted rail of every node sent what its neighbours sent."""
    sent = {(each.node, each.device): each.sent_bytes for each in traffic}
    idle, unknown = [], []
    for node, names in rails.items():
        moved = [sent.get((node, name)) for name in names]
        known = [value for value in moved if value is not None]
        if len(known) < len(names) or statistics.median(known) < MOVED_BYTES:
            unknown.append(node)
            continue
        idle += [
            f"{node} {name}"
            for name, value in zip(names, known, strict=True)
            if value < IDLE_RAIL * statistics.median(known)
        ]
    if idle:
        text = (
            f"{len(idle)} rails carried less than {IDLE_RAIL:.0%} of what the others of their node"
            f" did: {', '.join(idle[:8])}"
        )
        return Proof("rails", sensitivity.MISSING_RAIL, Status.FAIL, text, tuple(idle))
    if unknown:
        return Proof(
            "rails",
            sensitivity.MISSING_RAIL,
            Status.UNKNOWN,
            f"the bytes of the rails of {fold(unknown)} are not known",
            (),
        )
    count = ", ".join(sorted({str(len(names)) for names in rails.values()}))
    return Proof(
        "rails",
        sensitivity.MISSING_RAIL,
        Status.PASS,
        f"all {count} rails of every node carried their share of the bytes",
    )


def _rails_by_log(
    fitted: tuple[NodeHardware, ...], log: NcclLog, otherwise: Proof, artefact: str
) -> Proof:
    """NCCL lists, on every rank, all the devices that are fitted."""
    rails = {
        node.node.partition(".")[0]: {name for name, _ in node.rails}
        for node in fitted
        if len(node.rails) > 1
    }
    listing = [process for process in log.processes if process.hcas and process.host in rails]
    if {process.host for process in listing} != set(rails):
        return otherwise
    short = {
        p.host or "": sorted(rails[p.host or ""] - {hca.device for hca in p.hcas}) for p in listing
    }
    lost = {host: names for host, names in short.items() if names}
    if lost:
        text = "; ".join(
            f"NCCL does not use {', '.join(names)} of {host}"
            for host, names in sorted(lost.items())
        )
        return Proof(
            "rails", sensitivity.MISSING_RAIL, Status.FAIL, text, tuple(sorted(lost)), artefact
        )
    return Proof(
        "rails",
        sensitivity.MISSING_RAIL,
        Status.PASS,
        "NCCL lists every fitted rail on every rank",
        artefact=artefact,
    )


_FROM_LOG = ("transport", "plugin", "gpudirect")


def findings(proofs: tuple[Proof, ...], *, logged: bool) -> tuple[Finding, ...]:
    """Failed proofs, and those that NCCL's log had to give and did not. `logged`: a launch was to
    log what it uses."""
    reported = []
    for proof in proofs:
        is_open = proof.status is Status.UNKNOWN and logged and proof.id in _FROM_LOG
        if proof.status in (Status.FAIL, Status.WARN) or is_open:
            reported.append(_finding(proof))
    return tuple(reported)


def _finding(proof: Proof) -> Finding:
    return filled(
        Finding(
            id=f"{proof.id}-not-proven",
            status=proof.status,
            title=proof.text,
            where=proof.where,
            evidence=(Evidence(proof.artefact or "raw/cases", None, proof.text),),
            confidence=Confidence.CERTAIN,
            effect=1.0 if proof.id in ("transport", "plugin") else 0.5,
        )
    )


def uncovered(proofs: tuple[Proof, ...]) -> tuple[Uncovered, ...]:
    """Proofs that could not be made."""
    return tuple(
        Uncovered(f"proof of {proof.id}", proof.text)
        for proof in proofs
        if proof.status is Status.UNKNOWN
    )


def excluded(proofs: tuple[Proof, ...]) -> tuple[tuple[str, str], ...]:
    """(fault id, what was proven) of the proofs that hold."""
    return tuple((proof.excludes, proof.text) for proof in proofs if proof.status is Status.PASS)


def log_of(run: RunDir, launch: Launch) -> NcclLog | None:
    """What NCCL said in a launch: every rank's own log, and the launch's output; None = nothing."""
    ranks = rank_texts(run, launch)
    texts = [run.kept(path) for path in (launch.artefact.stdout, launch.artefact.stderr)]
    try:
        records = nccl_debug.read(
            [*(log.content + b"\n" for _, log in ranks), *(text + b"\n" for text in texts if text)]
        ).records
    except ReadError:
        return None
    return next((record for record in records if isinstance(record, NcclLog)), None)


def rank_texts(run: RunDir, launch: Launch) -> tuple[tuple[str, RankLog], ...]:
    """(artefact, log) of every rank that wrote one."""
    folder = f"cases/{launch.artefact.case.id}/nccl"
    names = run.raw_names(folder) if (run.raw / folder).is_dir() else ()
    return tuple(
        (f"raw/{name}", log)
        for name in names
        for log in rank_logs.split_rank_logs(run.read_raw(name) or b"")
    )


def traffic_of(run: RunDir, launch: Launch) -> tuple[RailBytes, ...]:
    """What each port of each node moved during a launch; a node without both snapshots is
    missing."""
    taken = counters.load(run, launch.artefact.case.id)
    return tuple(rail for node in taken.nodes for rail in node.rails) if taken else ()
