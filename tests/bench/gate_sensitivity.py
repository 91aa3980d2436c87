"""What share of faults a run of day-one would catch, by simulation over every fabric profile.

`python tests/bench/gate_sensitivity.py [RUNS] [PROFILE…]`. A run is composed (NCCL's lines, bytes
of the rails, tables, pairs of nodes) with noise and one fault on one node, and judged by the code
that judges real runs: proofs, gates, blame, verdict. Nothing is measured. The second table is of
runs whose proofs could not be made: there the verdict has to say itself what it cannot see.
"""

from __future__ import annotations

import dataclasses
import functools
import random
import sys
from dataclasses import dataclass

from busbw import playbook
from busbw.assess import appraisal, expectation, gates, proof
from busbw.assess.expectation import Hardware, NodeHardware, Outlook
from busbw.assess.launches import Launch
from busbw.fabrics import profiles
from busbw.model import (
    BenchmarkCase,
    BenchmarkResult,
    BenchmarkRow,
    CaseOutcome,
    Invocation,
    Measurement,
    NcclLog,
    Status,
)
from busbw.model.counters import RailBytes
from busbw.parsers import verdict
from busbw.parsers.blame import blame
from busbw.parsers.expect import hardware, sensitivity
from busbw.parsers.expect.hardware import Nics
from busbw.parsers.logs import nccl_debug
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.store.artefacts import CaseArtefact
from busbw.survey.schedule import pair_rounds

NODES = tuple(f"gpu-{number:03d}" for number in range(8))
RUN_NOISE = ITERATION_NOISE = 0.02
"""Coefficients of variation of one launch, and of one iteration in it."""
NODE_NOISE = 0.01
"""How unlike healthy nodes are."""
TUNED = 0.93
"""Share of the model that a tuned fabric reaches, the middle of the published ring runs."""


@dataclass(frozen=True)
class Fabric:
    """A cluster of 8 nodes as each profile is used."""

    gpu: str
    nics: Nics
    layer: str
    network: str
    """As NCCL names it."""
    rdma: bool
    """NCCL lists the devices, and the ports tell their bytes."""


def _nics(count: int, rate: float) -> Nics:
    return Nics(count, f"{rate:g}", rate)


FABRICS = {
    "infiniband": Fabric("H100", _nics(8, 400), "InfiniBand", "IB", True),
    "azure-ib": Fabric("H200", _nics(8, 400), "InfiniBand", "IB", True),
    "rocev2": Fabric("H100", _nics(8, 400), "Ethernet", "IB", True),
    "spectrum-x": Fabric("B200", _nics(8, 400), "Ethernet", "IB", True),
    "gcp-gib": Fabric("H200", _nics(8, 400), "Ethernet", "gIB", True),
    "efa": Fabric("H200", _nics(16, 200), "Unspecified", "AWS Libfabric", True),
    "gcp-tcpxo": Fabric("H100", _nics(8, 200), "Ethernet", "FasTrak", False),
    "gcp-tcpx": Fabric("H100", _nics(4, 200), "Ethernet", "GPUDirectTCPX_v7", False),
    "tcp": Fabric("A100", _nics(8, 25), "Ethernet", "Socket", False),
}
HEALTHY = "none"


def fault_names(name: str) -> tuple[str, ...]:
    """The faults that a fabric can have, and none."""
    return (
        HEALTHY,
        *(
            fault.id
            for fault in sensitivity.faults(FABRICS[name].nics.count, FABRICS[name].nics.line_gb_s)
            if _can(name, fault.id)
        ),
    )


def _can(name: str, fault: str) -> bool:
    must_see = profiles.load(name).must_see
    return not (name == "tcp" and fault == sensitivity.TCP) and not (
        fault == sensitivity.NO_GPUDIRECT and not must_see.gdr
    )


def log_text(name: str, fault: str, bad: str) -> str:
    """The proof launch's lines: two ranks a node are enough to tell."""
    fabric = FABRICS[name]
    lines = []
    ranks = [(node, local) for node in NODES for local in range(2)]
    for rank, (node, local) in enumerate(ranks):
        broken = node == bad
        head = f"{node}:{100 + rank}:{100 + rank} [{local}] NCCL INFO "
        network = "Socket" if broken and fault == sensitivity.TCP else fabric.network
        count = fabric.nics.count - (broken and fault == sensitivity.MISSING_RAIL)
        if fabric.rdma:
            listed = " ".join(
                f"[{i}]mlx5_{i}:1/{'IB' if fabric.layer == 'InfiniBand' else 'RoCE'}"
                for i in range(count)
            )
            lines.append(f"{head}NET/IB : Using {listed} [RO]; OOB eth0:10.0.0.1<0>")
        if name == "efa":
            lines.append(f"{head}NET/OFI Initializing aws-ofi-nccl 1.16.2")
        lines.append(f"{head}Using network {network}")
        direct = profiles.load(name).must_see.gdr and not (
            broken and fault in (sensitivity.NO_GPUDIRECT, sensitivity.TCP)
        )
        lines.append(
            f"{head}Channel 00/0 : {rank}[{local}] -> {(rank + 2) % len(ranks)}[{local}] [send] via"
            f" NET/{network}/0{'/GDRDMA' if direct else ''}"
        )
        lines.append(
            f"{head}ncclCommInitRankConfig comm 0x55 rank {rank} nRanks {len(ranks)} cudaDev"
            f" {local} commId 0xab - Init COMPLETE"
        )
    return "\n".join(lines) + "\n"


@functools.cache
def log_of(name: str, fault: str, bad: str) -> NcclLog:
    """The same lines, read."""
    return nccl_debug.read([log_text(name, fault, bad).encode()]).records[0]  # type: ignore[return-value]  # the format gives NcclLog


@functools.cache
def cluster(name: str) -> Hardware:
    """What the nodes say they are."""
    fabric = FABRICS[name]
    rails = tuple(
        (f"mlx5_{i}" if fabric.rdma else f"eth{i + 1}", fabric.nics.rate_gbit_s)
        for i in range(fabric.nics.count)
    )
    nodes = tuple(
        NodeHardware(node, (f"NVIDIA {fabric.gpu}",) * 8, rails, (fabric.layer,), None)
        for node in NODES
    )
    return Hardware(nodes, hardware.find_gpu(fabric.gpu), 8, fabric.nics, None, ())


@functools.cache
def outlook(name: str) -> Outlook:
    """The limit and the published rows of all_reduce."""
    return expectation.outlook(cluster(name), name, "all_reduce", len(NODES), 8)


def traffic(name: str, fault: str, bad: str) -> tuple[RailBytes, ...]:
    """What the ports of every node sent; a lost rail sent nothing."""
    rails = cluster(name).nodes[0].rails
    lost = rails[-1][0] if fault == sensitivity.MISSING_RAIL else ""
    sent = 40 << 30
    return tuple(
        RailBytes(node, rail, 0 if (node, rail) == (bad, lost) else sent, sent)
        for node in NODES
        for rail, _ in rails
    )


def capacities(name: str, fault: str, bad: str, rng: random.Random) -> dict[str, float]:
    """GB/s of a ring through each node: its network with the fault, as payload, tuned."""
    fabric = FABRICS[name]
    left = next(
        (
            f.network_left or 0.0
            for f in sensitivity.faults(fabric.nics.count, fabric.nics.line_gb_s)
            if f.id == fault
        ),
        1.0,
    )
    found = outlook(name).expectation
    model = (
        next(
            (e.estimate.value_gb_s for e in found.expected if e.name == "ring"),
            fabric.nics.line_gb_s,
        )
        if found
        else fabric.nics.line_gb_s
    )
    if name == "gcp-tcpx":
        # This fabric's published runs give half of the model.
        model *= 0.5
    return {
        node: model * TUNED * (left if node == bad else 1.0) * rng.gauss(1, NODE_NOISE)
        for node in NODES
    }


def pair_samples(capacity: dict[str, float], rng: random.Random) -> tuple[GroupSample, ...]:
    """Every pair once, as the slower of its two nodes gives it."""
    found = []
    for number in pair_rounds(NODES):
        for group in number.groups:
            rate = min(capacity[node] for node in group) * rng.gauss(1, RUN_NOISE / 2)
            values = tuple(rate * min(1.05, rng.gauss(1, ITERATION_NOISE)) for _ in range(20))
            sample = GroupSample(
                tuple(group), 1 << 30, values, f"raw/cases/survey-{number.id}/result.json"
            )
            fields = {"launch": f"survey-{number.id}", "ranks_per_node": 8}
            found.append(
                dataclasses.replace(
                    sample, **{k: v for k, v in fields.items() if hasattr(sample, k)}
                )
            )  # type: ignore[arg-type]  # by name
    return tuple(found)


def launch(case: BenchmarkCase, busbw: float) -> Launch:
    """One launch of a case over all nodes at its largest size."""
    size = case.sizes.maximum_bytes
    row = BenchmarkRow(
        size, size // 4, "float", "sum", None, Measurement(1.0, busbw, busbw, 0), None
    )
    table = BenchmarkResult(
        case.collective.value, 64, 8, (row,), (), busbw, 0, "2.30.7", "2.19.6", True, ()
    )
    invocation = Invocation(case.id, (), (), NODES, 60.0, 64)
    artefact = CaseArtefact(
        case, invocation, NODES, 8, "ended", 0, 1.0, f"raw/cases/{case.id}/stdout.txt", None, None
    )
    return Launch(
        artefact,
        (table,),
        CaseOutcome(case, Status.PASS, "complete", (table,), 0, 1.0, (), NODES),
        (),
        (),
    )


@functools.cache
def book() -> playbook.Playbook:
    """The playbook of every run."""
    return playbook.load("day-one")


@dataclass(frozen=True)
class Judged:
    """What a run came to, and which faults it says that it would have caught."""

    failed: bool
    says: frozenset[str]


def judged(name: str, fault: str, rng: random.Random, *, proven: bool) -> Judged:
    """One run from its fault to its verdict."""
    bad = rng.choice(NODES)
    capacity = capacities(name, fault, bad, rng)
    samples = pair_samples(capacity, rng)
    outcome = blame.solve(samples)
    case = next(case for case in book().cases if case.id == "all-reduce")
    made = (
        dataclasses.replace(
            launch(case, min(capacity.values()) * rng.gauss(1, RUN_NOISE)), samples=samples
        ),
    )
    outlooks = {"all-reduce": outlook(name)}
    proofs = proof.proofs(
        profiles.load(name).must_see,
        log_of(name, fault, bad) if proven else None,
        2 * len(NODES),
        cluster(name).nodes,
        traffic(name, fault, bad) if proven else (),
        "raw/cases/proof/stdout.txt",
    )
    comparisons = appraisal.compare(book(), made, outcome, outlooks)
    decided = verdict.decide(
        (),
        tuple(each.outcome for each in made),
        comparisons,
        proof.findings(proofs, logged=False),
        (),
    )
    watches = (
        *gates.watches(book(), made, comparisons, outlooks),
        *appraisal.survey_watch(samples, outcome),
    )
    nics = FABRICS[name].nics
    senses = sensitivity.sense(
        sensitivity.faults(nics.count, nics.line_gb_s), watches, proof.excluded(proofs)
    )
    return Judged(
        bool(outcome.blames) or decided.status is Status.FAIL,
        frozenset(each.fault.id for each in senses if each.caught),
    )


def share_failed(name: str, fault: str, runs: int, *, proven: bool = True, seed: int = 1) -> float:
    """Share of runs that end as FAIL."""
    rng = random.Random(f"{seed} {name} {fault}")
    return sum(judged(name, fault, rng, proven=proven).failed for _ in range(runs)) / runs


def share_saying(name: str, fault: str, runs: int, *, proven: bool = True, seed: int = 2) -> float:
    """Share of healthy runs that say they would have caught the fault."""
    rng = random.Random(f"{seed} {name}")
    return sum(fault in judged(name, HEALTHY, rng, proven=proven).says for _ in range(runs)) / runs


COLUMNS = (
    HEALTHY,
    sensitivity.MISSING_RAIL,
    sensitivity.HALF_RATE,
    sensitivity.NO_GPUDIRECT,
    sensitivity.TCP,
    sensitivity.UPLINK,
)
TITLES = (
    "false alarm",
    "1 rail lost",
    "half-rate port",
    "GPUDirect off",
    "TCP fallback",
    "uplink -5%",
)


def row(name: str, runs: int, *, proven: bool) -> tuple[str, int]:
    """One line of a table, and how many of the first four faults are caught in fewer than 99 of 100
    runs while the verdict says they would be."""
    told, wrong = f"{name:<12}{FABRICS[name].nics.count:>6}", 0
    for fault in COLUMNS:
        if fault not in fault_names(name):
            told += f"{'not there':>16}"
            continue
        share = share_failed(name, fault, runs, proven=proven)
        if fault == HEALTHY:
            told += f"{share:>16.1%}"
            continue
        says = share_saying(name, fault, max(5, runs // 10), proven=proven) > 0.5
        told += f"{share:>12.1%} {'yes' if says else 'no':>3}"
        wrong += share < 0.99 and says and fault != sensitivity.UPLINK
    return told, wrong


def main(arguments: list[str]) -> int:
    """Print both tables; 1 = a verdict claims to see what it does not."""
    runs = int(arguments[0]) if arguments else 200
    names = arguments[1:] or list(FABRICS)
    print(
        f"{runs} runs each, 8 nodes, noise {RUN_NOISE:.0%} a launch, {NODE_NOISE:.0%} between"
        " nodes. Share of runs that FAIL, and whether a healthy"
    )
    print("run says that it would have caught it.")
    wrong = 0
    for proven, title in (
        (True, "all proofs made"),
        (False, "no proof made: no line of NCCL, no byte counters"),
    ):
        print(f"\n{title}\n{'profile':<12}{'rails':>6}" + "".join(f"{each:>16}" for each in TITLES))
        for name in names:
            told, missed = row(name, runs, proven=proven)
            print(told, flush=True)
            wrong += missed
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
