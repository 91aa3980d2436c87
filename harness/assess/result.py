"""The result of a run, put together from its plan, its artefacts and its launches.

`derive` is the order of it: read what the run left behind, find the suspects, judge the numbers,
compare with the accepted runs, decide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from busbw.assess import (
    appraisal,
    busy,
    commands,
    diagnosis,
    events,
    evidence,
    fabric,
    layout,
    node_cpus,
    planned,
    shortfalls,
    stages,
    suspects,
    timeline,
)
from busbw.assess import contract as acceptance
from busbw.assess import links as linked
from busbw.assess.appraisal import Appraisal
from busbw.assess.headline import (
    check_headline,
    emulation_note,
    not_covered,
    nothing_specified,
    run_headline,
    sensitivity,
)
from busbw.assess.launches import Launch
from busbw.assess.raw import Raw, read
from busbw.building.recipe import BuildOutcome
from busbw.checks.software import NodeFacts
from busbw.compare import comparable, earlier, result
from busbw.compare.result import Concluded
from busbw.launch.render import render
from busbw.model import (
    Acceptance,
    CaseOutcome,
    CheckResult,
    Comparison,
    Finding,
    RunResult,
    Status,
    Uncovered,
)
from busbw.model.history import ComparableRun, RunDiff
from busbw.parsers import contract, verdict
from busbw.parsers.blame import blame, courses, layer_breakdown, priors
from busbw.parsers.blame import findings as blame_findings
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.findings.explain import with_followers
from busbw.parsers.findings.gpu_words import finding_for, gpus_of
from busbw.parsers.stats import spikes
from busbw.store.concluded import SCHEMA
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.survey import earlier as earlier_surveys
from busbw.survey import held_back, link_baseline, retransmitted
from busbw.survey import layer_breakdown as survey_layers


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
    raw = read(run, damage)
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
        finished=events.finished(run),
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


def _outcomes(raw: Raw) -> tuple[CaseOutcome, ...]:
    return tuple(launch.outcome for launch in raw.launches)


def _decide(
    raw: Raw, judged: _Judged, interleaved: Concluded, diff: RunDiff | None
) -> verdict.Verdict:
    """The verdict of the run and of its comparison with the accepted runs; a contract may still
    overrule it."""
    changes = _change_findings(raw.plan, diff, raw)
    return verdict.decide(
        raw.checks,
        _outcomes(raw),
        judged.comparisons,
        with_followers((*judged.findings, *changes, *interleaved.findings)),
        (*judged.uncovered, *earlier.uncovered(diff, _repeated(raw.plan)), *interleaved.uncovered),
        _not_run(raw),
        measuring=_measures(raw.plan),
    )


def _headline(raw: Raw, judged: _Judged, interleaved: Concluded, decided: verdict.Verdict) -> str:
    plan = raw.plan
    if not _measures(plan):
        return check_headline(raw.checks, _names(plan), plan.profile.name)
    if plan.interleaving is not None and decided.status is not Status.UNKNOWN:
        return interleaved.headline
    return run_headline(decided, raw.launches, judged.outcome, judged.comparisons)


def _accepted(raw: Raw, judged: _Judged, decided: verdict.Verdict) -> Acceptance | None:
    """What the contract comes to; None = there is none."""
    asked = raw.plan.playbook.contract
    if asked is None:
        return None
    return acceptance.conclude(
        raw,
        asked,
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


def _judge(run: RunDir, raw: Raw) -> _Judged:
    """Suspects, numbers, findings with their causes, and what was not covered."""
    plan, checks, samples = raw.plan, raw.checks, raw.samples
    wiring = layout.fabric(run, plan)
    family = plan.profile.family.name if plan.profile.family else ""
    check_findings = verdict.check_findings(checks, family)
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
        *suspects.findings(plan, wiring, outcome, samples, links, counted.pairs),
        *courses.slow_groups(outcome, own),
        *blame_findings.open_suspicions(outcome, own),
        *blame_findings.clean_now(outcome),
        *((layer_breakdown.finding(layers),) if layers is not None else ()),
        *spikes.findings(samples),
        *retransmitted.findings(counted.pairs, outcome, wiring),
        *node_cpus.with_suspects(cpus, suspects.names(outcome)),
        *appraised.findings,
        *check_findings,
        *stages.findings(run, raw),
        *planned.findings(run, plan, raw.launches, raw.answers, raw.participants, appraised),
        *shortfalls.warned(comparisons, by_case),
        *busy.findings(
            raw.launches,
            raw.participants.head if raw.participants else "the head node",
            lab=plan.cluster.emulated,
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


def _parts(raw: Raw, versions: tuple[tuple[str, str], ...]) -> comparable.Parts:
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


def _comparable(raw: Raw) -> tuple[ComparableRun, ...]:
    """The accepted runs of the same hardware, nodes and ranks that did not fail themselves."""
    versions = software_versions(raw.plan, raw.known, raw.build, raw.launches)
    now = comparable.of_parts(_parts(raw, versions))
    return tuple(
        past
        for past in raw.accepted_runs
        if past.verdict != Status.FAIL.value and not comparable.why_not_comparable(now, past)
    )


def _change_findings(plan: RunPlan, diff: RunDiff | None, raw: Raw) -> tuple[Finding, ...]:
    slower = (
        *earlier.findings(diff, busy.cases(raw.launches)),
        *earlier.unreadable_finding(raw.accepted_runs),
    )
    if plan.playbook.repeat is None:
        return slower
    inconclusive = earlier.inconclusive_finding(diff, _repeated(plan), busy.cases(raw.launches))
    return (*slower, *inconclusive)


def _repeated(plan: RunPlan) -> frozenset[str]:
    """The cases that the run was to launch until it is clear whether they changed."""
    if plan.playbook.repeat is None:
        return frozenset()
    return frozenset(case.family for case in plan.playbook.cases if case.required)


def _not_run(raw: Raw) -> tuple[str, ...]:
    """Required cases that the run did not come to."""
    ran = {launch.artefact.case.id for launch in raw.launches}
    cases = raw.plan.playbook.cases
    return tuple(case.id for case in cases if case.required and case.id not in ran)


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
