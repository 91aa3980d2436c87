"""The result of a run, put together from its plan, its artefacts and its launches.

`derive` is the order of it: read what the run left behind, find the suspects, judge the numbers,
compare with the accepted runs, decide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from busbw.assess import (
    appraisal,
    builds,
    busy,
    commands,
    diagnosis,
    evidence,
    fabric,
    launches,
    layout,
    node_cpus,
    planned,
    shortfalls,
    timeline,
)
from busbw.assess import contract as acceptance
from busbw.assess import links as linked
from busbw.assess.appraisal import Appraisal
from busbw.assess.checks import answers, checked, load_plan, require_known
from busbw.assess.headline import (
    check_headline,
    emulation_note,
    not_covered,
    nothing_specified,
    run_headline,
    sensitivity,
)
from busbw.assess.launches import Launch
from busbw.building import sources
from busbw.building.recipe import BuildOutcome
from busbw.checks import NodeAnswer
from busbw.checks.software import NodeFacts, facts
from busbw.compare import comparable, earlier, result
from busbw.compare.result import Concluded
from busbw.inventory.hostlist import fold
from busbw.launch.render import render
from busbw.model import (
    Acceptance,
    CaseOutcome,
    CheckResult,
    Comparison,
    Confidence,
    Evidence,
    Finding,
    RunResult,
    Status,
    Uncovered,
)
from busbw.model.history import ComparableRun, RunDiff
from busbw.parsers import contract, verdict
from busbw.parsers.blame import blame, courses, layer_breakdown, loss, narrow, priors
from busbw.parsers.blame import findings as blame_findings
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.confirm import confirmation
from busbw.parsers.blame.layer_breakdown import RailLink
from busbw.parsers.blame.loss import PairTraffic
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.findings.explain import with_followers
from busbw.parsers.findings.gpu_words import finding_for, gpus_of
from busbw.parsers.logs.json_values import loaded, mapping
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.parsers.stats import spikes
from busbw.store import artefacts
from busbw.store.artefacts import (
    Excluded,
    ExcludedNodes,
    Participants,
    PreflightArtefact,
    ReachArtefact,
    StageFailure,
)
from busbw.store.plan import RunPlan
from busbw.store.run_directory import Damage, RunDir
from busbw.survey import earlier as earlier_surveys
from busbw.survey import held_back, link_baseline, retransmitted
from busbw.survey import layer_breakdown as survey_layers
from busbw.survey.confirm import confirming

SCHEMA = "busbw.run/1"
STAGES = ("reach", "build", "measure")


@dataclass(frozen=True, slots=True)
class _Raw:
    """What a run left behind, as far as it came."""

    plan: RunPlan
    damage: tuple[Damage, ...]
    reach: ReachArtefact | None
    preflight: PreflightArtefact | None
    answers: tuple[NodeAnswer, ...]
    known: dict[str, NodeFacts]
    checks: tuple[CheckResult, ...]
    build: BuildOutcome | None
    participants: Participants | None
    excluded: ExcludedNodes | None
    failures: tuple[StageFailure, ...]
    launches: tuple[Launch, ...]
    samples: tuple[GroupSample, ...]
    accepted_runs: tuple[ComparableRun, ...]


@dataclass(frozen=True, slots=True)
class _Judged:
    """The run itself, before it is compared with other runs."""

    outcome: BlameOutcome
    appraised: Appraisal
    comparisons: tuple[Comparison, ...]
    findings: tuple[Finding, ...]
    uncovered: tuple[Uncovered, ...]


def derive(run: RunDir) -> RunResult:
    """Judge a run from what it left behind, however far it came.

    Raises:
        RunDirError: there is no plan, an artefact is not readable, or the run changed meanwhile.
    """
    run, damage = run.sound()
    raw = _read(run, damage)
    plan, checks = raw.plan, raw.checks
    judged = _judge(run, raw)
    versions = software_versions(plan, raw.known, raw.build, raw.launches)
    diff = earlier.compared(raw.accepted_runs, _parts(raw, versions))
    interleaved = result.conclude(run, plan, raw.launches, diff) or Concluded("")
    decided = _decide(raw, judged, interleaved, diff)
    headline = _headline(raw, judged, interleaved, decided)
    accepted = _accepted(raw, judged, decided)
    if accepted is not None:
        headline = contract.headline(accepted)
        decided = verdict.of_contract(decided, accepted, busy.cases(raw.launches))
    return RunResult(
        schema=SCHEMA,
        run_id=plan.run_id,
        tool_version=plan.tool_version,
        playbook=plan.playbook.name,
        profile=plan.profile.name,
        started=plan.started,
        finished=_finished(run),
        verdict=decided.status,
        headline=headline,
        exit_status=decided.exit_status,
        emulated=emulation_note(plan.cluster) if plan.cluster.emulated else "",
        nodes=_names(plan),
        unreachable=raw.reach.unreachable if raw.reach else (),
        checks=checks,
        cases=_outcomes(raw),
        comparisons=judged.comparisons,
        blame=judged.outcome.blames,
        findings=commands.completed(_in_words_of_gpus(decided.findings, checks), plan),
        uncovered=commands.settling(decided.uncovered, plan),
        sensitivity=judged.appraised.sensitivity if _measures(plan) else sensitivity(checks),
        versions=versions,
        commands=(
            *(render(launch.artefact.invocation) for launch in raw.launches),
            *link_baseline.commands(run),
        ),
        acceptance=accepted,
        compared=diff,
        sweep=interleaved.sweep,
        soak=interleaved.soak,
        stalls=timeline.stories(run, raw.launches),
        links=linked.table(run, plan),
        topology=layout.known(run, plan),
    )


def _measures(plan: RunPlan) -> bool:
    """Whether the run is to measure anything, and not only to check."""
    return bool(plan.playbook.cases) or plan.interleaving is not None


def _names(plan: RunPlan) -> tuple[str, ...]:
    return tuple(node.name for node in plan.cluster.nodes)


def _outcomes(raw: _Raw) -> tuple[CaseOutcome, ...]:
    return tuple(launch.outcome for launch in raw.launches)


def _decide(
    raw: _Raw, judged: _Judged, interleaved: Concluded, diff: RunDiff | None
) -> verdict.Verdict:
    """The verdict of the run and of its comparison with the accepted runs; a contract may still
    overrule it."""
    changes = _change_findings(raw.plan, diff, raw)
    return verdict.decide(
        raw.checks,
        _outcomes(raw),
        judged.comparisons,
        with_followers((*judged.findings, *changes, *interleaved.findings)),
        (*judged.uncovered, *earlier.uncovered(diff), *interleaved.uncovered),
        _not_run(raw),
        measuring=_measures(raw.plan),
    )


def _headline(raw: _Raw, judged: _Judged, interleaved: Concluded, decided: verdict.Verdict) -> str:
    plan = raw.plan
    if not _measures(plan):
        return check_headline(raw.checks, _names(plan), plan.profile.name)
    if plan.interleaving is not None and decided.status is not Status.UNKNOWN:
        return interleaved.headline
    return run_headline(decided, raw.launches, judged.outcome, judged.comparisons)


def _accepted(raw: _Raw, judged: _Judged, decided: verdict.Verdict) -> Acceptance | None:
    """What the contract comes to; None = there is none."""
    plan = raw.plan
    if plan.playbook.contract is None:
        return None
    return acceptance.conclude(
        plan,
        plan.playbook.contract,
        raw.launches,
        raw.answers,
        raw.checks,
        judged.outcome,
        judged.appraised,
        decided,
        judged.comparisons,
    )


def _in_words_of_gpus(
    findings: tuple[Finding, ...], checks: tuple[CheckResult, ...]
) -> tuple[Finding, ...]:
    gpus = gpus_of(checks)
    return tuple(finding_for(finding, gpus) for finding in findings)


def _read(run: RunDir, damage: tuple[Damage, ...]) -> _Raw:
    plan = load_plan(run)
    node_answers = answers(run, plan)
    known = {answer.node.name: facts(answer) for answer in node_answers}
    failures = [artefacts.load(run, f"failure-{stage}.json", StageFailure) for stage in STAGES]
    participants = artefacts.load(run, "participants.json", Participants)
    head = participants.head if participants is not None else ""
    own_launches = launches.load(run, known, launches.on_head_of(plan, head))
    for launch in own_launches:
        name = f"cases/{launch.artefact.case.id}/outcome.json"
        require_known(run, plan, name, launch.artefact.nodes)
    if participants is not None:
        require_known(run, plan, "participants.json", participants.nodes)
    return _Raw(
        plan=plan,
        damage=damage,
        reach=artefacts.load(run, "reach.json", ReachArtefact),
        preflight=artefacts.load(run, "preflight.json", PreflightArtefact),
        answers=node_answers,
        known=known,
        checks=checked(run, plan, node_answers),
        build=artefacts.load(run, "build.json", BuildOutcome),
        participants=participants,
        excluded=artefacts.load(run, "excluded-nodes.json", ExcludedNodes),
        failures=tuple(failure for failure in failures if failure is not None),
        launches=own_launches,
        samples=tuple(sample for launch in own_launches for sample in launch.samples),
        accepted_runs=earlier.load(run),
    )


def _judge(run: RunDir, raw: _Raw) -> _Judged:
    """Suspects, numbers, findings with their causes, and what was not covered."""
    plan, checks, samples = raw.plan, raw.checks, raw.samples
    wiring = layout.fabric(run, plan)
    check_findings = verdict.check_findings(checks)
    outcome = blame.solve((*earlier_surveys.load(run), *samples), wiring)
    outcome = held_back.separated(run, plan, raw.launches, outcome, wiring)
    appraised = appraisal.appraise(
        run, plan, raw.launches, raw.answers, checks, outcome, _comparable(raw)
    )
    cpus = node_cpus.findings(run, raw.launches, emulated=plan.cluster.emulated)
    outcome = priors.with_priors(outcome, (*appraised.findings, *check_findings, *cpus))
    links = link_baseline.load(run, samples)
    layers = survey_layers.of_run(plan, samples, links, appraised.hardware)
    counted = retransmitted.count(run, plan, raw.launches)
    comparisons = (
        *appraised.comparisons,
        *layer_breakdown.compared(links),
        *(comparison for launch in raw.launches for comparison in _groups(launch, outcome)),
    )
    by_case = {launch.artefact.case.id: launch for launch in raw.launches}
    own = {sample.artefact for sample in samples}
    findings: tuple[Finding, ...] = (
        *(finding for launch in raw.launches for finding in launch.findings),
        *_suspect_findings(plan, wiring, outcome, samples, links, counted.pairs),
        *courses.slow_groups(outcome, own),
        *blame_findings.open_suspicions(outcome, own),
        *blame_findings.clean_now(outcome),
        *((layer_breakdown.finding(layers),) if layers is not None else ()),
        *spikes.findings(samples),
        *retransmitted.findings(counted.pairs, outcome, wiring),
        *node_cpus.with_suspects(cpus, _suspected(outcome)),
        *appraised.findings,
        *check_findings,
        *_stage_findings(run, raw),
        *planned.findings(run, plan, raw.launches, raw.answers, raw.participants, appraised),
        *shortfalls.warned(comparisons, by_case),
        *busy.findings(
            raw.launches, raw.participants.head if raw.participants else "the head node"
        ),
        *evidence.findings(raw.damage, raw.launches, raw.reach, raw.preflight, raw.participants),
    )
    findings += tuple(shortfalls.missed(comparisons, by_case, findings, busy.cases(raw.launches)))
    caused = diagnosis.with_causes(
        run, plan, raw.launches, raw.answers, checks, comparisons, findings
    )
    unseen = raw.participants.unseen if raw.participants else ()
    uncovered = (
        *nothing_specified(plan),
        *(Uncovered("whether others use the nodes", text) for text in unseen),
        *not_covered(plan, raw.launches, checks, outcome),
        *appraised.uncovered,
        *counted.uncovered,
        *survey_layers.uncovered(plan.playbook, comparisons, outcome.blames, layers),
    )
    return _Judged(outcome, appraised, comparisons, fabric.with_far_ends(run, caused), uncovered)


def _suspected(outcome: BlameOutcome) -> frozenset[str]:
    """What is flagged or suspected, by its names."""
    doubtful = (each.account.part for each in outcome.open)
    return frozenset(name for part in (*outcome.flagged, *doubtful) for name in part.names)


def _parts(raw: _Raw, versions: tuple[tuple[str, str], ...]) -> comparable.Parts:
    """What of the run is compared with the accepted runs that were on record when it started."""
    plan = raw.plan
    return comparable.Parts(
        plan.run_id,
        plan.started,
        "",
        plan.profile.name,
        plan.cluster.emulated,
        _names(plan),
        raw.checks,
        _outcomes(raw),
        versions,
    )


def _comparable(raw: _Raw) -> tuple[ComparableRun, ...]:
    """The accepted runs of the same hardware, nodes and ranks that did not fail themselves."""
    versions = software_versions(raw.plan, raw.known, raw.build, raw.launches)
    now = comparable.of_parts(_parts(raw, versions))
    return tuple(
        past
        for past in raw.accepted_runs
        if past.verdict != Status.FAIL.value and not comparable.why_not_comparable(now, past)
    )


def _change_findings(plan: RunPlan, diff: RunDiff | None, raw: _Raw) -> tuple[Finding, ...]:
    slower = (
        *earlier.findings(diff, busy.cases(raw.launches)),
        *earlier.unreadable_finding(raw.accepted_runs),
    )
    if plan.playbook.repeat is None:
        return slower
    required = frozenset(case.family for case in plan.playbook.cases if case.required)
    return (*slower, *earlier.inconclusive_finding(diff, required))


def _not_run(raw: _Raw) -> tuple[str, ...]:
    """Required cases that the run did not come to."""
    ran = {launch.artefact.case.id for launch in raw.launches}
    cases = raw.plan.playbook.cases
    return tuple(case.id for case in cases if case.required and case.id not in ran)


def _suspect_findings(
    plan: RunPlan,
    wiring: Fabric,
    outcome: BlameOutcome,
    samples: tuple[GroupSample, ...],
    links: tuple[RailLink, ...],
    carried: tuple[PairTraffic, ...],
) -> tuple[Finding, ...]:
    """One per suspect, with its confirmation or why there is none, and with its link baseline.

    `samples` and `carried`: of this run's own launches.
    """
    if not outcome.blames:
        return ()
    surveyed = {node for sample in samples for node in sample.nodes}
    nodes = tuple(node.name for node in plan.cluster.nodes if node.name in surveyed)
    interfaces = {node.name: node.data_interfaces for node in plan.cluster.nodes}
    family = plan.profile.family.name if plan.profile.family else ""
    measured = narrow.Measurements(samples, links, interfaces, family)
    cannot = dict(confirming(nodes, wiring, outcome).cannot)
    return tuple(
        narrow.narrowed(
            blame_findings.blame_finding(
                suspect,
                confirmation(suspect, part, samples, wiring, cannot.get(part, "")),
                layer_breakdown.evidence(links, suspect.component),
                loss.evidence(carried, part, outcome.flagged, wiring),
            ),
            suspect,
            measured,
        )
        for suspect, part in zip(outcome.blames, outcome.flagged, strict=True)
    )


def _groups(launch: Launch, outcome: BlameOutcome) -> tuple[Comparison, ...]:
    """The groups of a round, each against its peers; one group over all nodes has none."""
    groups = tuple(sample.nodes for sample in launch.samples)
    if len(set(groups)) < 2:
        return ()
    case_id, artefact = launch.artefact.case.id, launch.samples[0].artefact
    medium = launch.artefact.case.medium
    return tuple(
        replace(each, medium=each.medium or medium)
        for each in courses.compare_groups(case_id, groups, artefact, outcome)
    )


def software_versions(
    plan: RunPlan,
    known: dict[str, NodeFacts],
    build: BuildOutcome | None,
    own_launches: tuple[Launch, ...],
) -> tuple[tuple[str, str], ...]:
    """What a ticket must name."""
    mpis = [each.mpi for each in known.values() if each.mpi]
    tables = [table for launch in own_launches for table in launch.results]
    versions = [("busbw", plan.tool_version)]
    for name, values in (
        ("MPI", {f"{mpi.implementation} {mpi.version}" for mpi in mpis}),
        ("NCCL", {table.nccl_version for table in tables}),
        ("nccl-tests", {table.tests_version for table in tables}),
        ("device", {rank.device_name for table in tables for rank in table.ranks}),
    ):
        text = ", ".join(sorted(filter(None, values)))
        if text:
            versions.append((name, text))
    if build:
        versions.append(("build", build.summary))
    return tuple(versions)


def _stage_findings(run: RunDir, raw: _Raw) -> tuple[Finding, ...]:
    participants = raw.participants.excluded if raw.participants else ()
    excluded = raw.excluded.nodes if raw.excluded else ()
    return (
        *(_failure_finding(run, failure, raw) for failure in raw.failures),
        *_excluded_findings(participants, "participants.json"),
        *_excluded_findings(excluded, "excluded-nodes.json"),
        *builds.findings(raw.build, raw.launches, emulated=raw.plan.cluster.emulated),
    )


def _failure_finding(run: RunDir, failure: StageFailure, raw: _Raw) -> Finding:
    where = failure.nodes
    if failure.stage == "reach" and raw.reach is not None:
        where = tuple(missing.node for missing in raw.reach.unreachable)
    seen = Evidence(f"raw/failure-{failure.stage}.json", None, failure.seen or failure.what)
    if failure.stage == "build":
        seen = diagnosis.build_line(run, failure.seen) or seen
    finding = Finding(
        id=f"{failure.stage}-failed",
        status=Status.FAIL if failure.exit_status == 1 else Status.UNKNOWN,
        title=failure.what,
        where=where,
        evidence=(seen,),
        would_settle=(failure.next_step,) if failure.next_step else (),
        confidence=Confidence.CERTAIN,
        effect=1.0,
    )
    if failure.stage == "build" and sources.are_binaries(run):
        # Ready binaries were to be used: no compiler ran.
        finding = replace(finding, id="nccl-tests-not-there")
    # Commands that take one node.
    return filled(finding, NODE=where[0] if where else raw.plan.cluster.nodes[0].name)


def _excluded_findings(excluded: tuple[Excluded, ...], artefact: str) -> tuple[Finding, ...]:
    """Nodes that were reached and not measured: the run says nothing about them, so it cannot pass."""
    groups: dict[str, list[str]] = {}
    for each in excluded:
        groups.setdefault(each.reason, []).append(each.node)
    findings = []
    for reason, nodes in groups.items():
        finding = Finding(
            id="node-excluded",
            status=Status.UNKNOWN,
            title=f"not measured: {reason}",
            where=tuple(nodes),
            evidence=(Evidence(f"raw/{artefact}", None, reason),),
            confidence=Confidence.CERTAIN,
        )
        findings.append(filled(finding, NODE=fold(nodes)))
    return tuple(findings)


def _finished(run: RunDir) -> str | None:
    """When the last step ended; None = the run was cut off before it ended."""
    lines = (run.read_raw("events.jsonl") or b"").decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        try:
            event = mapping(loaded(line))
        except ValueError:
            continue
        if event.get("kind") == "end":
            at = event.get("at")
            return at if isinstance(at, str) else None
    return None
