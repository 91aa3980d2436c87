"""A run as an answer to a contract: its criteria from the launches, the questions a buyer asks, the
hardware that was seen."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter

from busbw.assess.appraisal import Appraisal
from busbw.assess.launches import Launch, over_all_nodes
from busbw.assess.raw import Raw
from busbw.assess.series import series
from busbw.checks import NodeAnswer, read_answer
from busbw.model import (
    Acceptance,
    CheckResult,
    Comparison,
    CriterionResult,
    HardwareId,
    LaunchRole,
    Limit,
    ProviderAnswer,
    Status,
)
from busbw.parsers import contract as acceptance
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.contract import Launches, RunFacts
from busbw.parsers.tools import gpus, ibverbs
from busbw.parsers.verdict import Verdict
from busbw.playbook.contract import Contract, Criterion
from busbw.store.plan import RunPlan
from busbw.units import counted, format_bandwidth, format_share, format_size

REST = "rest-"
"""Begins the id of a case that was measured once more without the suspects."""


def conclude(
    raw: Raw,
    contract: Contract,
    outcome: BlameOutcome,
    appraisal: Appraisal,
    run_verdict: Verdict,
    comparisons: tuple[Comparison, ...],
) -> Acceptance:
    """The answer to the contract. `comparisons`: all of the run, which may have decided beside
    it."""
    launches = raw.launches
    criteria = criteria_of(contract, launches, appraisal)
    whole = []
    for launch in over_all_nodes(launches):
        if launch.artefact.case.role is LaunchRole.PLAYBOOK:
            whole.append(launch)
    sizes = [row.size_bytes for launch in whole for row in launch.results[-1].rows]
    nodes = max((len(launch.artefact.nodes) for launch in whole), default=0)
    suspects = tuple(blame.component.label for blame in outcome.blames)
    return acceptance.conclude(
        criteria,
        RunFacts(
            contract=contract.title,
            contract_nodes=contract.nodes,
            measured_nodes=nodes,
            verdict=run_verdict.status,
            run_problem=_run_problem(run_verdict, comparisons),
            emulated=raw.plan.cluster.emulated,
            largest_bytes=max(sizes, default=None),
            answers=answers(raw.plan, launches, raw.answers, raw.checks, outcome, appraisal),
            hardware=tuple(part for answer in raw.answers for part in read_answer(parts, answer)),
            suspects=suspects,
            without_suspects=without_suspects(contract, launches, criteria, appraisal),
        ),
    )


def _run_problem(run_verdict: Verdict, comparisons: tuple[Comparison, ...]) -> str:
    """What decided the run beside the contract, in few words."""
    found = next(
        (
            finding.title
            for finding in run_verdict.findings
            if finding.required and finding.status is run_verdict.status
        ),
        None,
    )
    if found is not None:
        return found
    short = next((each for each in comparisons if each.status is run_verdict.status), None)
    if short is None:
        return "something that is required was not measured"
    share = (
        short.reason
        if short.ratio is None
        else f"{format_share(short.ratio)} of {short.reference.kind}"
    )
    return f"{short.case_id} at {format_size(short.size_bytes)}: {share}"


def criteria_of(
    contract: Contract, launches: tuple[Launch, ...], appraisal: Appraisal
) -> tuple[CriterionResult, ...]:
    """Every number of the contract against the launches over all nodes."""
    return tuple(
        _criterion(term, launches, term.case, _limit(appraisal, term)) for term in contract.criteria
    )


def _criterion(
    term: Criterion, launches: tuple[Launch, ...], family: str, limit: Limit | None
) -> CriterionResult:
    measured = over_all_nodes(launches, family)
    collective = _collective(launches, family) or term.case
    values = (
        _times_us(term, measured) if term.time_us is not None else _busbw(term, family, launches)
    )
    why_not = ""
    if not measured:
        why_not = f"case {term.case} did not run"
    elif not values:
        why_not = f"{format_size(term.size)} is not among its sizes"
    artefacts = tuple(launch.artefact.stdout for launch in measured if launch.artefact.stdout)
    nodes = len(measured[0].artefact.nodes) if measured else 0
    for launch in measured:
        # Wrong data, wrong ranks: its number is not the number meant.
        if launch.outcome.status is not Status.PASS:
            values, why_not = (), f"a launch is not to be believed: {launch.outcome.reason}"
            break
    return acceptance.criterion(
        term, collective, Launches(values, nodes, artefacts, why_not), limit
    )


def _collective(launches: tuple[Launch, ...], family: str) -> str:
    """What a case measures; empty = it was never launched."""
    for launch in launches:
        case = launch.artefact.case
        if case.family == family and not launch.artefact.groups:
            return case.collective.value
    return ""


def _times_us(term: Criterion, measured: tuple[Launch, ...]) -> tuple[float, ...]:
    """Out of place, one per launch."""
    times = []
    for launch in measured:
        for row in launch.results[-1].rows:
            if row.size_bytes == term.size and row.out_of_place is not None:
                times.append(row.out_of_place.time_us)
    return tuple(times)


def _busbw(term: Criterion, family: str, launches: tuple[Launch, ...]) -> tuple[float, ...]:
    """GB/s, one per launch."""
    for each in series(launches, family):
        if each.size_bytes == term.size:
            return each.values
    return ()


def _limit(appraisal: Appraisal, term: Criterion) -> Limit | None:
    outlook = appraisal.outlooks.get(term.case)
    return None if outlook is None else outlook.limit


def without_suspects(
    contract: Contract,
    launches: tuple[Launch, ...],
    criteria: tuple[CriterionResult, ...],
    appraisal: Appraisal,
) -> str:
    """Whether the failed criteria are met without the flagged nodes; empty = it was not
    tried."""
    failed = {each.id for each in criteria if each.status is Status.FAIL}
    repeated = [
        launch for launch in launches if launch.artefact.case.role is LaunchRole.WITHOUT_SUSPECTS
    ]
    if not failed or not repeated:
        return ""
    nodes = repeated[0].artefact.nodes
    results = []
    for term in contract.criteria:
        if term.id in failed:
            once = dataclasses.replace(term, trials=1)
            result = _criterion(once, launches, f"{REST}{term.case}", None)
            results.append((term.id, result))
    met = [name for name, result in results if result.status is Status.PASS]
    shown = "; ".join(f"{name}: {_number(result)}" for name, result in results)
    if len(met) == len(results):
        effect = "the failures clear"
    elif met:
        effect = f"only {', '.join(met)} clear"
    else:
        effect = "the failures do not clear"
    return f"without the suspects, on {len(nodes)} nodes, {effect} ({shown})"


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
    serials = []
    for row in gpus.rows(query.stdout) or () if query is not None else ():
        uuid = row.text("uuid")
        if uuid:
            serials.append(HardwareId(node, f"GPU {row.text('index') or '?'}", uuid))
    listed = ibverbs.parse_devices(verbs.stdout, verbs.stderr) if verbs is not None else None
    for device in listed.devices if listed is not None else ():
        if set(device.node_guid) != {"0"}:
            serials.append(HardwareId(node, device.name, device.node_guid))
    return tuple(serials)


def answers(
    plan: RunPlan,
    launches: tuple[Launch, ...],
    node_answers: tuple[NodeAnswer, ...],
    checks: tuple[CheckResult, ...],
    outcome: BlameOutcome,
    appraisal: Appraisal,
) -> tuple[ProviderAnswer, ...]:
    """The six questions of a buyer to a provider, from this run where it can tell."""
    return (
        _topology(plan, launches, outcome),
        _generation(appraisal),
        _training(launches),
        _results(launches),
        _tuning(checks),
        ProviderAnswer(
            "How are incidents on the fabric resolved?",
            "ask for it: who is called, how fast, and what is paid meanwhile",
            measured=False,
        ),
    )


def _topology(plan: RunPlan, launches: tuple[Launch, ...], outcome: BlameOutcome) -> ProviderAnswer:
    question = "What is the topology, and how much are the leaves oversubscribed?"
    leaf = {node.name: dict(node.labels).get("leaf") for node in plan.cluster.nodes}
    inside: list[float] = []
    across: list[float] = []
    for launch in launches:
        for sample in launch.samples:
            leaves = {leaf.get(node) for node in sample.nodes}
            if len(sample.nodes) == 2 and None not in leaves:
                side = inside if len(leaves) == 1 else across
                side.append(sample.capacity_gb_s)
    if inside and across:
        near, far = statistics.median(inside), statistics.median(across)
        text = (
            f"pairs on one leaf {format_bandwidth(near)}, across leaves {format_bandwidth(far)}"
            f" ({far / near:.0%}), one pair a leaf at a time"
        )
        return ProviderAnswer(question, text, measured=True)
    # One slow node slows every ring that it is in: what a fabric gives is seen without it.
    rest = series(launches, f"{REST}all-reduce")
    whole = rest or series(launches, "all-reduce")
    if whole and outcome.reference_gb_s and (rest or not outcome.blames):
        share, count = whole[-1].median_gb_s / outcome.reference_gb_s, len(whole[-1].nodes)
        ring = f"a ring over all {count} nodes"
        if rest:
            ring = f"a ring over the {count} nodes without the suspects"
        text = (
            f"{ring} gives {share:.0%} of a good pair; which nodes share a leaf is not known: label"
            " them"
        )
        return ProviderAnswer(question, text, measured=True)
    return ProviderAnswer(
        question,
        "not measured: ask for leaves, uplinks and ports per leaf; label the nodes with their leaf",
        measured=False,
    )


def _generation(appraisal: Appraisal) -> ProviderAnswer:
    question = "Which generation of interconnect, at which rate?"
    kinds = Counter(
        f"{len(node.rails)} x {node.rails[0][1]:g} Gb/s {'/'.join(node.link_layers)}".rstrip()
        for node in appraisal.hardware.nodes
        if node.rails
    )
    if not kinds:
        return ProviderAnswer(
            question,
            "the nodes list no RDMA port: ask for generation and rate of every port",
            measured=False,
        )
    text = "; ".join(f"{text} on {counted(count, 'node')}" for text, count in sorted(kinds.items()))
    return ProviderAnswer(question, f"{text}, as the ports say", measured=True)


def _training(launches: tuple[Launch, ...]) -> ProviderAnswer:
    question = "Is it validated for training over several nodes?"
    checked = []
    for launch in over_all_nodes(launches):
        if launch.artefact.case.check > 0 and launch.outcome.status is Status.PASS:
            checked.append(launch)
    nodes = max((len(launch.artefact.nodes) for launch in checked), default=0)
    if nodes < 2:
        return ProviderAnswer(
            question,
            "not shown here: no launch with verified data over several nodes",
            measured=False,
        )
    largest = max(row.size_bytes for launch in checked for row in launch.results[-1].rows)
    text = (
        f"collectives over {counted(nodes, 'node')} with every element verified, up to {format_size(largest)};"
        " a training job of yours is still to run"
    )
    return ProviderAnswer(question, text, measured=True)


def _results(launches: tuple[Launch, ...]) -> ProviderAnswer:
    question = "What does NCCL give at the sizes that matter?"
    lines = []
    for family in dict.fromkeys(
        launch.artefact.case.family
        for launch in launches
        if launch.artefact.case.purpose == "bandwidth"
        and launch.artefact.case.role is LaunchRole.PLAYBOOK
    ):
        numbers = series(launches, family)
        if numbers:
            shown = []
            for i in sorted({len(numbers) // 2, len(numbers) - 1}):
                busbw = format_bandwidth(numbers[i].median_gb_s)
                shown.append(f"{busbw} at {format_size(numbers[i].size_bytes)}")
            lines.append(f"{family}: {', '.join(shown)}")
    if not lines:
        return ProviderAnswer(question, "not measured", measured=False)
    return ProviderAnswer(question, "; ".join(lines), measured=True)


def _tuning(checks: tuple[CheckResult, ...]) -> ProviderAnswer:
    question = "Who tunes RoCE (PFC, ECN, queues), and how?"
    judged = (Status.PASS, Status.FAIL, Status.WARN)
    own = [check for check in checks if check.check_id.startswith(("roce.", "eth."))]
    seen = [check for check in own if check.status in judged]
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
