"""What the playbook's gates say of each measured size: a number against its reference, or that there is none."""

from __future__ import annotations

from busbw.derive.launches import Launch
from busbw.parsers.judge.blame import BlameOutcome
from busbw.playbook import Gate, Playbook
from busbw.records import BenchmarkRow, Comparison, Reference, Status
from busbw.units import format_bandwidth


def compare(book: Playbook, made: tuple[Launch, ...], outcome: BlameOutcome) -> tuple[Comparison, ...]:
    """One comparison per gate and size from the gate's first size on; a gate whose case has no such size is UNKNOWN, never dropped."""
    found: list[Comparison] = []
    for gate in book.gates:
        launch = next((launch for launch in made if launch.artefact.case.id == gate.case and not launch.artefact.groups), None)
        rows = _rows(launch, gate)
        reference = _reference(gate, launch, outcome)
        if launch is None:
            # A case that never ran is told as left out; there is no number here to compare.
            continue
        if not rows:
            reason = "no size that the gate judges was measured"
            found.append(Comparison(gate.case, gate.sizes_from_bytes, None, reference, None, Status.UNKNOWN, reason))
            continue
        found += [_judge(gate, row, reference, launch) for row in rows]
    return tuple(found)


def _rows(launch: Launch | None, gate: Gate) -> tuple[BenchmarkRow, ...]:
    if launch is None or not launch.results:
        return ()
    return tuple(row for row in launch.results[-1].rows if row.size_bytes >= gate.sizes_from_bytes and row.out_of_place is not None)


def _reference(gate: Gate, launch: Launch | None, outcome: BlameOutcome) -> Reference:
    if gate.minimum_busbw_gb_s is not None:
        return Reference(
            gate.reference, gate.minimum_busbw_gb_s, f"at least {format_bandwidth(gate.minimum_busbw_gb_s)}, given by the playbook"
        )
    if gate.reference == "peers":
        source = "a good pair of nodes in this run (ring all_reduce, median of the better half)"
        return Reference("peers", outcome.reference_gb_s, source)
    return Reference(gate.reference, None, f"no {gate.reference} reference is known for this run")


def _judge(gate: Gate, row: BenchmarkRow, reference: Reference, launch: Launch) -> Comparison:
    measured = row.out_of_place.busbw_gb_s if row.out_of_place else None
    nodes = launch.artefact.nodes
    if measured is None or reference.busbw_gb_s is None:
        return Comparison(gate.case, row.size_bytes, measured, reference, None, Status.UNKNOWN, "nothing to compare with", nodes=nodes)
    least = 1.0 if gate.minimum_ratio is None else gate.minimum_ratio
    ratio = measured / reference.busbw_gb_s
    status = Status.PASS if ratio >= least else Status.FAIL
    return Comparison(
        gate.case, row.size_bytes, measured, reference, ratio, status, f"{ratio:.0%}; at least {least:.0%} is wanted", nodes=nodes
    )
