"""What was measured while others used the CPUs of the head node: the launches, and by how much."""

from __future__ import annotations

from busbw.assess.launches import Launch
from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings.catalogue import filled

_QUOTED = 12
"""Launches that the finding quotes."""


def cases(launches: tuple[Launch, ...]) -> frozenset[str]:
    """The cases of which at least half of the launches ran while others used the CPUs; of a repeated
    case the first one's id. Their medians may come from that."""
    loads: dict[str, list[bool]] = {}
    for launch in launches:
        load = launch.artefact.load
        loads.setdefault(launch.artefact.case.family, []).append(load is not None and load.busy)
    return frozenset(case for case, busy in loads.items() if 2 * sum(busy) >= len(busy))


def findings(launches: tuple[Launch, ...], head: str, *, lab: bool) -> tuple[Finding, ...]:
    """One for all launches of a run; () = the CPUs were free, or nobody knows. `lab`: the nodes share
    the CPUs of the machine that busbw runs on, and only there a process list shows who uses them."""
    loads = {}
    for launch in launches:
        if launch.artefact.load is not None:
            loads[launch.artefact.case.id] = launch.artefact.load
    busy = {case_id: load for case_id, load in loads.items() if load.busy}
    if not busy:
        return ()
    most = max(load.tasks_per_cpu for load in busy.values())
    evidence = []
    for case_id, load in list(busy.items())[:_QUOTED]:
        text = f"{load.tasks_per_cpu:.1f} tasks for each of {load.cpus} CPUs, load {load.load_1m:g}"
        evidence.append(Evidence(f"raw/cases/{case_id}/outcome.json", None, text))
    finding = Finding(
        id="measured-while-busy",
        status=Status.WARN,
        title=(
            f"{len(busy)} of {len(loads)} launches ran while others used the CPUs of"
            f" {'the machine that all nodes share' if lab else head}:"
            f" up to {most:.1f} tasks for each CPU"
        ),
        where=() if lab else (head,),
        evidence=tuple(evidence),
        confidence=Confidence.CERTAIN,
        required=False,
    )
    return (filled(finding),)
