"""Everything that a run's numbers are compared with, together: hardware, limits, proofs, gates,
scatter, and how small a fault would show."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.assess import expectation, gates, proof, ungated
from busbw.assess.expectation import Hardware, NodeHardware, Outlook
from busbw.assess.launches import Launch, over_all_nodes
from busbw.assess.proof import Proof
from busbw.checks import NodeAnswer
from busbw.fabrics.profile import Wire
from busbw.model import CheckResult, Comparison, Confidence, Evidence, Finding, Status, Uncovered
from busbw.model.history import ComparableRun
from busbw.parsers import verdict
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.expect import sensitivity
from busbw.parsers.expect.sensitivity import Watch
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.parsers.stats import findings as statistics_findings
from busbw.parsers.stats.findings import Measured
from busbw.playbook import Playbook
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.units import format_bandwidth, format_size

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
    launches: tuple[Launch, ...],
    answers: tuple[NodeAnswer, ...],
    checks: tuple[CheckResult, ...],
    outcome: BlameOutcome,
    accepted: tuple[ComparableRun, ...] = (),
) -> Appraisal:
    """Compare the launches of a run with everything there is. `accepted`: earlier runs that were
    accepted and may be compared with this one."""
    nodes = max(
        (launch.artefact.nodes for launch in launches if not launch.artefact.groups),
        key=len,
        default=(),
    )
    hardware = expectation.hardware_of(answers, nodes)
    demanded = expectation.as_demanded(hardware, plan.requirements)
    outlooks = _outlooks(plan, launches, demanded)
    comparisons = compare(
        plan.playbook, launches, outcome, outlooks, accepted, emulated=plan.cluster.emulated
    )
    proven = _proofs(run, plan, launches, hardware) if len(nodes) > 1 else ()
    samples = tuple(sample for launch in launches for sample in launch.samples)
    watches = (
        *gates.watches(plan.playbook, launches, comparisons, outlooks),
        *survey_watch(samples, outcome),
    )
    return Appraisal(
        hardware=hardware,
        outlooks=outlooks,
        proofs=proven,
        comparisons=comparisons,
        findings=(
            *proof.findings(proven, logged=_logs(plan)),
            *compared_with_nothing(launches, comparisons),
            *_slow_launches(plan, launches, comparisons),
            *_scatter(plan, launches, outlooks),
        ),
        uncovered=(*proof.uncovered(proven), *_uncovered(plan, launches, outlooks, comparisons)),
        sensitivity=(
            *_faults(plan, nodes, hardware, watches, proven, checks),
            *verdict.sensitivity(samples, outcome),
        ),
    )


def compare(
    book: Playbook,
    launches: tuple[Launch, ...],
    outcome: BlameOutcome,
    outlooks: Mapping[str, Outlook] | None = None,
    accepted: tuple[ComparableRun, ...] = (),
    *,
    emulated: bool = False,
) -> tuple[Comparison, ...]:
    """Every gate, then every bandwidth case against physics and published figures, then what no
    gate judges. `outlooks`: by case id; `accepted`: earlier runs of this profile that were
    accepted."""
    expected = outlooks or {}
    least = ungated.EMULATED_SHARE if emulated else ungated.PAIRS_SHARE
    comparisons = (
        *gates.compare(book, launches, outcome, expected, accepted),
        *ungated.levels(book, launches, expected),
        *ungated.against_pairs(book, launches, outcome, accepted, least),
    )
    return (*comparisons, *ungated.compared_with_nothing(book, launches, comparisons))


def _outlooks(
    plan: RunPlan, launches: tuple[Launch, ...], hardware: Hardware
) -> dict[str, Outlook]:
    """Each case that ran over all nodes; an emulated cluster describes no hardware, whatever its
    nodes say they are."""
    if plan.cluster.emulated:
        return {}
    outlooks = {}
    for launch in launches:
        artefact = launch.artefact
        if not artefact.groups and artefact.case.family not in outlooks:
            outlooks[artefact.case.family] = expectation.outlook(
                hardware,
                plan.profile.name,
                artefact.case.collective.value,
                len(artefact.nodes),
                artefact.ranks_per_node,
            )
    return outlooks


def _proofs(
    run: RunDir, plan: RunPlan, launches: tuple[Launch, ...], hardware: Hardware
) -> tuple[Proof, ...]:
    own = over_all_nodes(launches)
    logged = next((launch for launch in own if launch.artefact.case.purpose == "proof"), None)
    loaded = next((launch for launch in own if launch.artefact.case.purpose == "bandwidth"), logged)
    ranks = proof.rank_texts(run, logged) if logged is not None else ()
    artefact = next(
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
        artefact,
        sum(not log.whole for _, log in ranks),
        loaded.artefact.case.sizes.maximum_bytes if loaded is not None else 0,
    )


def _logs(plan: RunPlan) -> bool:
    """The playbook has a launch that logs what NCCL uses."""
    return any(case.purpose == "proof" for case in plan.playbook.cases)


def compared_with_nothing(
    launches: tuple[Launch, ...], comparisons: tuple[Comparison, ...]
) -> tuple[Finding, ...]:
    """Required numbers for which there is no reference at all, as one finding. A launch that broke
    says itself why it has no number to compare."""
    broken = {
        launch.artefact.case.id
        for launch in launches
        if launch.findings and launch.outcome.status is not Status.PASS
    }
    open_ = [
        each
        for each in comparisons
        if each.status is Status.UNKNOWN
        and each.reference.busbw_gb_s is None
        and each.case_id not in broken
    ]
    cases = tuple(dict.fromkeys(each.case_id for each in open_))
    if not cases:
        return ()
    title = f"{', '.join(cases)}: compared with nothing ({open_[0].reference.source})"
    evidence = tuple(Evidence(f"raw/cases/{case}/outcome.json", None, title) for case in cases)
    finding = Finding(
        id="not-compared",
        status=Status.UNKNOWN,
        title=title,
        where=(),
        evidence=evidence,
        confidence=Confidence.CERTAIN,
    )
    return (filled(finding),)


def _slow_launches(
    plan: RunPlan, launches: tuple[Launch, ...], comparisons: tuple[Comparison, ...]
) -> tuple[Finding, ...]:
    """Why a number warns, and which numbers pass by the median though a launch of theirs alone
    would not; one finding a case, of its largest size."""
    warned = {each.case_id: each for each in comparisons if each.status is Status.WARN}
    passed = [each for each in comparisons if each.status is Status.PASS]
    once = {each.case_id: each for each in passed if 0 < each.launches_below < each.launches}
    required = {case.id for case in plan.playbook.cases if case.required}
    found = [
        _slow_launch("below-published", each, launches, required=each.case_id in required)
        for each in warned.values()
    ]
    for each in once.values():
        found.append(_slow_launch("slow-launch-once", each, launches, required=False))
    return tuple(found)


def _slow_launch(
    name: str, number: Comparison, launches: tuple[Launch, ...], *, required: bool
) -> Finding:
    title = (
        f"{number.case_id} at {format_size(number.size_bytes)}:"
        f" {format_bandwidth(number.measured_gb_s)} against"
        f" {format_bandwidth(number.reference.busbw_gb_s)}: {number.reason}"
    )
    if not required and number.status is Status.PASS:
        title += f"; {number.launches_below} of {number.launches} launches alone fell short"
    evidence = [
        Evidence(f"raw/cases/{launch.artefact.case.id}/outcome.json", None, title)
        for launch in launches
        if launch.artefact.case.family == number.case_id
    ]
    finding = Finding(
        id=name,
        status=Status.WARN,
        title=title,
        where=(),
        evidence=tuple(evidence),
        confidence=Confidence.POSSIBLE,
        required=required,
    )
    return filled(finding)


def _fitted(plan: RunPlan, hardware: Hardware, nodes: tuple[str, ...]) -> tuple[NodeHardware, ...]:
    """The rails each node has: the inventory's word, else the active ports."""
    by_name = {node.node: node for node in hardware.nodes}
    fitted = []
    for node in plan.cluster.chosen(nodes):
        if node.data_interfaces:
            fitted.append(
                NodeHardware(
                    node.name, (), tuple((rail, 0.0) for rail in node.data_interfaces), (), None
                )
            )
        elif node.name in by_name:
            fitted.append(by_name[node.name])
    return tuple(fitted)


def survey_watch(samples: tuple[GroupSample, ...], outcome: BlameOutcome) -> tuple[Watch, ...]:
    """The survey as something that can fail: how much a pair may lose before it is flagged."""
    if not samples or outcome.reference_gb_s is None:
        return ()
    return (
        Watch(
            "pairs of nodes against each other",
            1 - outcome.visible_loss,
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
    """Which faults of one node this run detects; () where there is no network to
    break."""
    carrier = plan.profile.carrier
    if len(nodes) < 2 or (carrier is not None and not carrier.spans_nodes):
        return ()
    rails = {len(node.rails) for node in plan.cluster.chosen(nodes)}
    count = rails.pop() if len(rails) == 1 else None
    network: float | None = None
    if hardware.nics is not None:
        count = hardware.nics.count
        if not plan.cluster.emulated:
            network = hardware.nics.line_gb_s
    must_see = plan.profile.must_see
    impossible: set[str] = set()
    if not must_see.gdr:
        impossible.add(sensitivity.NO_GPUDIRECT)
    if not must_see.networks or "Socket" in must_see.networks:
        impossible.add(sensitivity.TCP)
    known = sensitivity.faults(count or None, network)
    known = tuple(fault for fault in known if fault.id not in impossible)
    excluded = list(proof.excluded(proven))
    trained = [check for check in checks if check.check_id in _RATE_CHECKS and check.required]
    if _all_pass(trained, nodes):
        text = "every port trained at the same rate (cross.rate)"
        excluded.append((sensitivity.HALF_RATE, text))
    senses = sensitivity.sense(known, watches, tuple(excluded))
    return tuple(each.summary() for each in senses)


def _all_pass(checks: list[CheckResult], nodes: tuple[str, ...]) -> bool:
    return {check.node for check in checks} >= set(nodes) and all(
        check.status is Status.PASS for check in checks
    )


def _scatter(
    plan: RunPlan, launches: tuple[Launch, ...], outlooks: Mapping[str, Outlook]
) -> tuple[Finding, ...]:
    carrier = plan.profile.carrier
    findings: list[Finding] = []
    for case in plan.playbook.cases:
        own = over_all_nodes(launches, case.id)
        if case.repeats or not own:
            continue
        outlook = outlooks.get(case.id)
        latency = (
            outlook.expectation.latency_us
            if outlook is not None and outlook.expectation is not None
            else ()
        )
        findings += statistics_findings.findings(
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
    return tuple(findings)


def _uncovered(
    plan: RunPlan,
    launches: tuple[Launch, ...],
    outlooks: Mapping[str, Outlook],
    comparisons: tuple[Comparison, ...],
) -> tuple[Uncovered, ...]:
    uncovered = []
    for case_id, outlook in outlooks.items():
        if outlook.expectation is not None and outlook.expectation.blind:
            uncovered.append(
                Uncovered(
                    f"the fabric, by {case_id}",
                    outlook.expectation.blind,
                    "busbw run -w four nodes or more",
                )
            )
    reasons = dict.fromkeys(outlook.why_not for outlook in outlooks.values() if outlook.why_not)
    uncovered += [
        Uncovered(
            "the physical limit and published figures", why, "busbw expect with rates given by hand"
        )
        for why in reasons
    ]
    kinds = {
        comparison.reference.kind
        for comparison in comparisons
        if comparison.reference.busbw_gb_s is not None
    }
    if (
        not kinds & {"accepted-run", "published", "playbook"}
        and plan.playbook.contract is None
        and launches
    ):
        uncovered.append(
            Uncovered(
                "absolute bandwidth",
                "no contract, accepted run or published figure to compare with; peers show only"
                " differences between nodes",
                "busbw expect --contract-template",
            )
        )
    return tuple(uncovered)
