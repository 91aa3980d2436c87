"""A run as an answer to a contract: its criteria from the launches, the questions a buyer asks, the
hardware that was seen."""

from __future__ import annotations

import statistics
from collections import Counter

from busbw.assess import gates
from busbw.assess.appraisal import Appraisal
from busbw.assess.launches import Launch
from busbw.checks import NodeAnswer
from busbw.model import (
    Acceptance,
    CheckResult,
    Comparison,
    CriterionResult,
    HardwareId,
    Limit,
    ProviderAnswer,
    Status,
)
from busbw.parsers import contract as acceptance
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.contract import Around, Launches
from busbw.parsers.tools import ibverbs, nvidia_smi
from busbw.parsers.verdict import Verdict
from busbw.playbook.contract import Contract, Criterion
from busbw.store.plan import RunPlan
from busbw.units import format_bandwidth, format_size

REST = "rest-"
"""Begins the id of a case that was measured once more without the suspects."""


def conclude(
    plan: RunPlan,
    contract: Contract,
    made: tuple[Launch, ...],
    asked: tuple[NodeAnswer, ...],
    checks: tuple[CheckResult, ...],
    outcome: BlameOutcome,
    appraised: Appraisal,
    decided: Verdict,
    comparisons: tuple[Comparison, ...],
) -> Acceptance:
    """The answer to the contract. `comparisons`: all of the run, which may have decided beside
    it."""
    criteria = criteria_of(contract, made, appraised)
    whole = [
        launch
        for launch in made
        if not launch.artefact.groups
        and launch.results
        and not launch.artefact.case.id.startswith(REST)
    ]
    sizes = [row.size_bytes for launch in whole for row in launch.results[-1].rows]
    nodes = max((len(launch.artefact.nodes) for launch in whole), default=0)
    suspects = tuple(blame.component.label for blame in outcome.blames)
    return acceptance.conclude(
        criteria,
        Around(
            contract=contract.title,
            wanted_nodes=contract.nodes,
            measured_nodes=nodes,
            verdict=decided.status,
            leading=_leading(decided, comparisons),
            emulated=plan.cluster.emulated,
            largest_bytes=max(sizes, default=None),
            answers=answers(plan, made, asked, checks, outcome, appraised),
            hardware=tuple(part for answer in asked for part in parts(answer)),
            suspects=suspects,
            without_suspects=without_suspects(contract, made, criteria, appraised),
        ),
    )


def _leading(decided: Verdict, comparisons: tuple[Comparison, ...]) -> str:
    """What decided the run beside the contract, in few words."""
    found = next(
        (
            finding.title
            for finding in decided.findings
            if finding.required and finding.status is decided.status
        ),
        None,
    )
    if found is not None:
        return found
    short = next((each for each in comparisons if each.status is decided.status), None)
    if short is None:
        return "something that is required was not measured"
    share = short.reason if short.ratio is None else f"{short.ratio:.0%} of {short.reference.kind}"
    return f"{short.case_id} at {format_size(short.size_bytes)}: {share}"


def criteria_of(
    contract: Contract, made: tuple[Launch, ...], appraised: Appraisal
) -> tuple[CriterionResult, ...]:
    """Every number of the contract against the launches over all nodes."""
    return tuple(
        _criterion(wanted, made, wanted.case, _limit(appraised, wanted))
        for wanted in contract.criteria
    )


def _criterion(
    wanted: Criterion, made: tuple[Launch, ...], family: str, limit: Limit | None
) -> CriterionResult:
    own = [
        launch
        for launch in made
        if launch.artefact.case.family == family and not launch.artefact.groups
    ]
    collective = own[0].artefact.case.collective.value if own else wanted.case
    measured = [launch for launch in own if launch.results]
    if wanted.time_us is not None:
        values = tuple(
            row.out_of_place.time_us
            for launch in measured
            for row in launch.results[-1].rows
            if row.size_bytes == wanted.size and row.out_of_place is not None
        )
    else:
        values = next(
            (each.values for each in gates.series(made, family) if each.size_bytes == wanted.size),
            (),
        )
    why_not = (
        ""
        if values
        else (
            f"case {wanted.case} did not run"
            if not measured
            else f"{format_size(wanted.size)} is not among its sizes"
        )
    )
    artefacts = tuple(launch.artefact.stdout for launch in measured if launch.artefact.stdout)
    nodes = len(measured[0].artefact.nodes) if measured else 0
    # A launch that failed by itself (wrong data, wrong ranks) has a number that is not the number
    # meant.
    bad = next(
        (launch.outcome.reason for launch in measured if launch.outcome.status is not Status.PASS),
        "",
    )
    if bad:
        values, why_not = (), f"a launch is not to be believed: {bad}"
    return acceptance.criterion(
        wanted, collective, Launches(values, nodes, artefacts, why_not), limit
    )


def _limit(appraised: Appraisal, wanted: Criterion) -> Limit | None:
    outlook = appraised.outlooks.get(wanted.case)
    return (
        outlook.expectation.limit
        if outlook is not None and outlook.expectation is not None
        else None
    )


def without_suspects(
    contract: Contract,
    made: tuple[Launch, ...],
    criteria: tuple[CriterionResult, ...],
    appraised: Appraisal,
) -> str:
    """Whether the failed criteria are met on the nodes that nothing accuses; empty = it was not
    tried."""
    failed = {each.id for each in criteria if each.status is Status.FAIL}
    again = [launch for launch in made if launch.artefact.case.id.startswith(REST)]
    if not failed or not again:
        return ""
    nodes = again[0].artefact.nodes
    told = []
    for wanted in contract.criteria:
        if wanted.id in failed:
            one = Criterion(
                wanted.id,
                wanted.case,
                wanted.size,
                wanted.busbw_gb_s,
                wanted.time_us,
                wanted.quantile,
                trials=1,
            )
            result = _criterion(one, made, f"{REST}{wanted.case}", None)
            told.append((wanted.id, result))
    met = [name for name, result in told if result.status is Status.PASS]
    shown = "; ".join(f"{name}: {_number(result)}" for name, result in told)
    verdict = (
        "the failures clear"
        if len(met) == len(told)
        else "the failures do not clear"
        if not met
        else f"only {', '.join(met)} clear"
    )
    return f"without the suspects, on {len(nodes)} nodes, {verdict} ({shown})"


def _number(result: CriterionResult) -> str:
    if result.measured is None:
        return result.reason
    return (
        format_bandwidth(result.measured) if result.unit == "GB/s" else f"{result.measured:.1f} µs"
    )


def parts(answer: NodeAnswer) -> tuple[HardwareId, ...]:
    """GPUs and RDMA devices of a node, by what cannot be changed by hand."""
    node = answer.node.name
    query, verbs = answer.section("gpu_query"), answer.section("ibv_devices")
    rows = nvidia_smi.parse_query(query.stdout) or () if query is not None else ()
    gpus = [(f"GPU {row.text('index') or '?'}", uuid) for row in rows if (uuid := row.text("uuid"))]
    listed = ibverbs.parse_devices(verbs.stdout, verbs.stderr) if verbs is not None else None
    nics = (
        [
            (device.name, device.node_guid)
            for device in listed.devices
            if set(device.node_guid) != {"0"}
        ]
        if listed is not None
        else []
    )
    return tuple(HardwareId(node, part, serial) for part, serial in (*gpus, *nics))


def answers(
    plan: RunPlan,
    made: tuple[Launch, ...],
    asked: tuple[NodeAnswer, ...],
    checks: tuple[CheckResult, ...],
    outcome: BlameOutcome,
    appraised: Appraisal,
) -> tuple[ProviderAnswer, ...]:
    """The six questions of a buyer to a provider, from this run where it can tell."""
    return (
        _topology(plan, made, outcome),
        _generation(appraised),
        _training(made),
        _results(made),
        _tuning(checks),
        ProviderAnswer(
            "How are incidents on the fabric resolved?",
            "ask for it: who is called, how fast, and what is paid meanwhile",
            measured=False,
        ),
    )


def _topology(plan: RunPlan, made: tuple[Launch, ...], outcome: BlameOutcome) -> ProviderAnswer:
    question = "What is the topology, and how much are the leaves oversubscribed?"
    leaf = {node.name: dict(node.labels).get("leaf") for node in plan.cluster.nodes}
    inside: list[float] = []
    across: list[float] = []
    for sample in (
        sample for launch in made for sample in launch.samples if len(sample.nodes) == 2
    ):
        leaves = {leaf.get(node) for node in sample.nodes}
        if None not in leaves:
            (inside if len(leaves) == 1 else across).append(sample.capacity_gb_s)
    if inside and across:
        near, far = statistics.median(inside), statistics.median(across)
        told = (
            f"pairs on one leaf {format_bandwidth(near)}, across leaves {format_bandwidth(far)}"
            f" ({far / near:.0%}), one pair a leaf at a time"
        )
        return ProviderAnswer(question, told, measured=True)
    # One slow node slows every ring that it is in: what a fabric gives is seen without it.
    rest = gates.series(made, f"{REST}all-reduce")
    whole = rest or gates.series(made, "all-reduce")
    if whole and outcome.reference_gb_s and (rest or not outcome.blames):
        share, count = whole[-1].median_gb_s / outcome.reference_gb_s, len(whole[-1].nodes)
        ring = (
            f"a ring over the {count} nodes without the suspects"
            if rest
            else f"a ring over all {count} nodes"
        )
        told = (
            f"{ring} gives {share:.0%} of a good pair; which nodes share a leaf is not known: label"
            " them"
        )
        return ProviderAnswer(question, told, measured=True)
    return ProviderAnswer(
        question,
        "not measured: ask for leaves, uplinks and ports per leaf; label the nodes with their leaf",
        measured=False,
    )


def _generation(appraised: Appraisal) -> ProviderAnswer:
    question = "Which generation of interconnect, at which rate?"
    kinds = Counter(
        f"{len(node.rails)} x {node.rails[0][1]:g} Gb/s {'/'.join(node.link_layers)}".rstrip()
        for node in appraised.hardware.nodes
        if node.rails
    )
    if not kinds:
        return ProviderAnswer(
            question,
            "the nodes list no RDMA port: ask for generation and rate of every port",
            measured=False,
        )
    told = "; ".join(f"{text} on {count} nodes" for text, count in sorted(kinds.items()))
    return ProviderAnswer(question, f"{told}, as the ports say", measured=True)


def _training(made: tuple[Launch, ...]) -> ProviderAnswer:
    question = "Is it validated for training over several nodes?"
    checked = [
        launch
        for launch in made
        if launch.artefact.case.check > 0
        and not launch.artefact.groups
        and launch.outcome.status is Status.PASS
        and launch.results
    ]
    nodes = max((len(launch.artefact.nodes) for launch in checked), default=0)
    if nodes < 2:
        return ProviderAnswer(
            question,
            "not shown here: no launch with verified data over several nodes",
            measured=False,
        )
    largest = max(row.size_bytes for launch in checked for row in launch.results[-1].rows)
    told = (
        f"collectives over {nodes} nodes with every element verified, up to {format_size(largest)};"
        " a training job of yours is still to run"
    )
    return ProviderAnswer(question, told, measured=True)


def _results(made: tuple[Launch, ...]) -> ProviderAnswer:
    question = "What does NCCL give at the sizes that matter?"
    told = []
    for family in dict.fromkeys(
        launch.artefact.case.family
        for launch in made
        if launch.artefact.case.purpose == "bandwidth"
    ):
        numbers = () if family.startswith(REST) else gates.series(made, family)
        if numbers:
            shown = sorted({len(numbers) // 2, len(numbers) - 1})
            told.append(
                f"{family}: "
                + ", ".join(
                    f"{format_bandwidth(numbers[i].median_gb_s)} at"
                    f" {format_size(numbers[i].size_bytes)}"
                    for i in shown
                )
            )
    if not told:
        return ProviderAnswer(question, "not measured", measured=False)
    return ProviderAnswer(question, "; ".join(told), measured=True)


def _tuning(checks: tuple[CheckResult, ...]) -> ProviderAnswer:
    question = "Who tunes RoCE (PFC, ECN, queues), and how?"
    seen = [
        check
        for check in checks
        if check.check_id.startswith(("roce.", "eth."))
        and check.status in (Status.PASS, Status.FAIL, Status.WARN)
    ]
    bad = sorted({check.check_id for check in seen if check.status is not Status.PASS})
    if not seen:
        return ProviderAnswer(
            question,
            "ask for it: the configuration of hosts and switches, and who changes it",
            measured=False,
        )
    state = (
        f"{', '.join(bad)} differ from what is wanted"
        if bad
        else "the hosts' settings are as wanted"
    )
    return ProviderAnswer(
        question,
        f"{state} (as the hosts say); the switches are the provider's to show",
        measured=True,
    )
