"""Everything that a run's numbers are held against, together: hardware, limits, proofs, gates,
scatter, and how small a fault would show."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.assess import expectation, gates, proof
from busbw.assess.expectation import Hardware, NodeHardware, Outlook
from busbw.assess.launches import Launch
from busbw.assess.proof import Proof
from busbw.checks import NodeAnswer
from busbw.fabrics.fabric import Wire
from busbw.model import CheckResult, Comparison, Finding, Status, Uncovered
from busbw.model.history import ComparableRun
from busbw.parsers import verdict
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.expect import sensitivity
from busbw.parsers.expect.sensitivity import Watch
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.parsers.stats import findings as statistics_findings
from busbw.parsers.stats.findings import Measured
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir

_RATE_CHECKS = ("cross.rate", "rdma.rate")
_ETHERNET = {Wire.ROCE: True, Wire.TCP: True, Wire.INFINIBAND: False}


@dataclass(frozen=True, slots=True)
class Appraisal:
    """What the numbers come to, before they are added up."""

    hardware: Hardware
    outlooks: Mapping[str, Outlook]
    """By case id."""
    proofs: tuple[Proof, ...]
    comparisons: tuple[Comparison, ...]
    findings: tuple[Finding, ...]
    uncovered: tuple[Uncovered, ...]
    sensitivity: tuple[str, ...]


def appraise(
    run: RunDir,
    plan: RunPlan,
    made: tuple[Launch, ...],
    asked: tuple[NodeAnswer, ...],
    checks: tuple[CheckResult, ...],
    outcome: BlameOutcome,
    accepted: tuple[ComparableRun, ...] = (),
) -> Appraisal:
    """Hold the launches of a run against everything there is. `accepted`: earlier runs that were
    accepted."""
    nodes = max(
        (launch.artefact.nodes for launch in made if not launch.artefact.groups),
        key=len,
        default=(),
    )
    hardware = expectation.hardware_of(asked, nodes)
    outlooks = _outlooks(plan, made, hardware)
    same = tuple(
        past
        for past in accepted
        if (past.regime.profile, past.regime.emulated) == (plan.profile.name, plan.cluster.emulated)
    )
    comparisons = gates.compare(plan.playbook, made, outcome, outlooks, same)
    proven = _proofs(run, plan, made, hardware) if len(nodes) > 1 else ()
    samples = tuple(sample for launch in made for sample in launch.samples)
    watches = (
        *gates.watches(plan.playbook, made, comparisons, outlooks),
        *survey_watch(samples, outcome),
    )
    return Appraisal(
        hardware=hardware,
        outlooks=outlooks,
        proofs=proven,
        comparisons=comparisons,
        findings=(*proof.findings(proven), *_scatter(plan, made, outlooks)),
        uncovered=(*proof.uncovered(proven), *_uncovered(plan, made, outlooks, comparisons)),
        sensitivity=(
            *_faults(plan, nodes, hardware, watches, proven, checks),
            *verdict.sensitivity(samples, outcome),
        ),
    )


def _outlooks(plan: RunPlan, made: tuple[Launch, ...], hardware: Hardware) -> dict[str, Outlook]:
    """Each case that ran over all nodes; an emulated cluster describes no hardware, whatever its
    nodes say they are."""
    if plan.cluster.emulated:
        return {}
    found = {}
    for launch in made:
        artefact = launch.artefact
        if not artefact.groups and artefact.case.family not in found:
            found[artefact.case.family] = expectation.outlook(
                hardware,
                plan.profile.name,
                artefact.case.collective.value,
                len(artefact.nodes),
                artefact.ranks_per_node,
            )
    return found


def _proofs(
    run: RunDir, plan: RunPlan, made: tuple[Launch, ...], hardware: Hardware
) -> tuple[Proof, ...]:
    own = [launch for launch in made if not launch.artefact.groups and launch.results]
    logged = next((launch for launch in own if launch.artefact.case.purpose == "proof"), None)
    loaded = next((launch for launch in own if launch.artefact.case.purpose == "bandwidth"), logged)
    ranks = proof.rank_texts(run, logged) if logged is not None else ()
    said = next(
        (path for path, _ in ranks), (logged.artefact.stdout or "") if logged is not None else ""
    )
    return proof.proofs(
        plan.profile.must_see,
        (
            proof.log_of(run, logged)
            if logged is not None and plan.profile.must_see.networks
            else None
        ),
        len(logged.artefact.nodes) * logged.artefact.ranks_per_node if logged is not None else 0,
        _fitted(plan, hardware, loaded.artefact.nodes if loaded is not None else ()),
        proof.traffic_of(run, loaded) if loaded is not None else (),
        said,
        sum(not log.whole for _, log in ranks),
    )


def _fitted(plan: RunPlan, hardware: Hardware, nodes: tuple[str, ...]) -> tuple[NodeHardware, ...]:
    """The rails each node has: the inventory's word, else the active ports."""
    by_name = {node.node: node for node in hardware.nodes}
    found = []
    for node in plan.cluster.chosen(nodes):
        if node.data_interfaces:
            found.append(
                NodeHardware(
                    node.name, (), tuple((rail, 0.0) for rail in node.data_interfaces), (), None
                )
            )
        elif node.name in by_name:
            found.append(by_name[node.name])
    return tuple(found)


def survey_watch(samples: tuple[GroupSample, ...], outcome: BlameOutcome) -> tuple[Watch, ...]:
    """The survey as something that can fail: how much a pair may lose before it is accused."""
    if not samples or outcome.reference_gb_s is None:
        return ()
    return (
        Watch(
            "pairs of nodes against each other",
            1 - outcome.tolerance,
            statistics.median(sample.spread for sample in samples),
        ),
    )


def _faults(
    plan: RunPlan,
    nodes: tuple[str, ...],
    hardware: Hardware,
    watches: tuple[Watch, ...],
    proven: tuple[Proof, ...],
    checks: tuple[CheckResult, ...],
) -> tuple[str, ...]:
    """Which faults of one node this run would have caught; () where there is no network to
    break."""
    if len(nodes) < 2 or plan.profile.name == "nvlink-only":
        return ()
    rails = {len(node.rails) for node in plan.cluster.chosen(nodes)}
    count = (
        hardware.nics.count if hardware.nics is not None else rails.pop() if len(rails) == 1 else 0
    )
    network = None if hardware.nics is None or plan.cluster.emulated else hardware.nics.line_gb_s
    known = sensitivity.faults(count or None, network)
    if not plan.profile.must_see.gdr:
        known = tuple(fault for fault in known if fault.id != sensitivity.NO_GPUDIRECT)
    if not plan.profile.must_see.networks or "Socket" in plan.profile.must_see.networks:
        known = tuple(fault for fault in known if fault.id != sensitivity.TCP)
    trained = [check for check in checks if check.check_id in _RATE_CHECKS and check.required]
    rates = (
        ((sensitivity.HALF_RATE, "every port trained at the same rate (cross.rate)"),)
        if _all_pass(trained, nodes)
        else ()
    )
    return tuple(
        each.summary()
        for each in sensitivity.sense(known, watches, (*proof.excluded(proven), *rates))
    )


def _all_pass(checks: list[CheckResult], nodes: tuple[str, ...]) -> bool:
    return {check.node for check in checks} >= set(nodes) and all(
        check.status is Status.PASS for check in checks
    )


def _scatter(
    plan: RunPlan, made: tuple[Launch, ...], outlooks: Mapping[str, Outlook]
) -> tuple[Finding, ...]:
    carrier = plan.profile.carrier
    found: list[Finding] = []
    for case in plan.playbook.cases:
        own = [
            launch
            for launch in made
            if launch.artefact.case.family == case.id
            and not launch.artefact.groups
            and launch.results
        ]
        if case.repeats or not own:
            continue
        outlook = outlooks.get(case.id)
        latency = (
            outlook.expectation.latency_us
            if outlook is not None and outlook.expectation is not None
            else ()
        )
        found += statistics_findings.findings(
            Measured(
                case_id=case.id,
                collective=case.collective.value,
                iterations=case.iterations,
                results=tuple(launch.results[-1] for launch in own),
                artefacts=tuple(
                    launch.artefact.json or launch.artefact.stdout or "" for launch in own
                ),
                ethernet=_ETHERNET.get(carrier.wire) if carrier is not None else None,
                model_latency_us=latency[0][1] if latency else None,
            )
        )
    return tuple(found)


def _uncovered(
    plan: RunPlan,
    made: tuple[Launch, ...],
    outlooks: Mapping[str, Outlook],
    comparisons: tuple[Comparison, ...],
) -> tuple[Uncovered, ...]:
    found = []
    for case_id, outlook in outlooks.items():
        if outlook.expectation is not None and outlook.expectation.blind:
            found.append(
                Uncovered(
                    f"the fabric, by {case_id}",
                    outlook.expectation.blind,
                    "busbw run -w four nodes or more",
                )
            )
    reasons = dict.fromkeys(outlook.why_not for outlook in outlooks.values() if outlook.why_not)
    found += [
        Uncovered(
            "the physical limit and published figures", why, "busbw expect with rates given by hand"
        )
        for why in reasons
    ]
    level = {
        comparison.reference.kind
        for comparison in comparisons
        if comparison.reference.busbw_gb_s is not None
    }
    if (
        not level & {"accepted-run", "published", "playbook"}
        and plan.playbook.contract is None
        and made
    ):
        found.append(
            Uncovered(
                "the level all nodes share",
                "no contract, accepted run or published figure was compared with; peers show"
                " differences only",
                "put the contract's number into the playbook: busbw expect --contract-template",
            )
        )
    return tuple(found)
