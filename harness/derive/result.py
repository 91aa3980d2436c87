"""The result of a run, put together from its plan, its artefacts and its launches."""

from __future__ import annotations

import json

from busbw import artefacts
from busbw.artefacts import Excluded, LeftOut, Participants, ReachArtefact, StageFailure
from busbw.build import BuildOutcome
from busbw.derive import (
    acceptance,
    accused,
    appraisal,
    between,
    builds,
    check_words,
    diagnosis,
    earlier,
    grouping,
    launches,
    layers,
    layout,
    pooled,
    resent,
    story,
    turns,
    wording,
)
from busbw.derive.asked import answers, checked, load_plan
from busbw.inventory.hostlist import fold
from busbw.parsers.judge import acceptance as judge_acceptance
from busbw.parsers.judge import blame, blame_layers, blame_priors, blame_words, ladder, spikes, verdict
from busbw.parsers.judge.past import Parts
from busbw.preflight.software import facts
from busbw.records import Comparison, Confidence, Evidence, Finding, RunResult, Status, Uncovered
from busbw.rundir import RunDir

__all__ = ["answers", "checked", "derive", "load_plan"]

SCHEMA = "busbw.run/1"
STAGES = ("reach", "preflight", "build", "keys", "measure", "survey")


def derive(run: RunDir) -> RunResult:
    """Judge a run from what it left behind, however far it came.

    Raises:
        RunDirError: there is no plan, or an artefact is not readable.
    """
    plan = load_plan(run)
    reach = artefacts.load(run, "reach.json", ReachArtefact)
    asked = answers(run, plan)
    known = {answer.node.name: facts(answer) for answer in asked}
    checks = checked(run, plan, asked)
    build = artefacts.load(run, "build.json", BuildOutcome)
    taking_part, refused = artefacts.load(run, "participants.json", Participants), artefacts.load(run, "left-out.json", LeftOut)
    failures = tuple(f for stage in STAGES if (f := artefacts.load(run, f"failure-{stage}.json", StageFailure)))
    made = launches.load(run, known)
    samples = tuple(sample for launch in made for sample in launch.samples)
    fabric = grouping.fabric(run, plan)
    outcome = blame.solve((*pooled.load(run), *samples), fabric)
    accepted_runs = earlier.load(run)
    appraised = appraisal.appraise(run, plan, made, asked, checks, outcome, accepted_runs)
    outcome = blame_priors.with_priors(outcome, (*appraised.findings, *verdict.check_findings(checks)))
    raw_links = layers.load(run, samples)
    counted = resent.count(run, plan, made)
    comparisons = (
        *appraised.comparisons,
        *blame_layers.compared(raw_links),
        *(comparison for launch in made for comparison in _groups(launch, outcome)),
    )
    findings = (
        *(finding for launch in made for finding in launch.findings),
        *accused.findings(plan, fabric, outcome, samples, raw_links, counted.pairs),
        *layers.finding(plan, samples, raw_links, appraised.hardware),
        *ladder.findings(samples),
        *spikes.findings(samples),
        *resent.findings(counted.pairs, outcome, fabric),
        *appraised.findings,
        *verdict.check_findings(checks),
        *(_failure_finding(run, failure) for failure in failures),
        *(_left_out(taking_part.excluded, "participants.json") if taking_part else ()),
        *(_left_out(refused.nodes, "left-out.json") if refused else ()),
        *builds.findings(build, made, emulated=plan.cluster.emulated),
    )
    findings = between.with_far_ends(run, diagnosis.with_causes(run, plan, made, asked, checks, comparisons, findings))
    unseen = taking_part.unseen if taking_part else ()
    uncovered = (
        *(Uncovered("whether others use the nodes", text) for text in unseen),
        *wording.uncovered(plan, made, checks, outcome, samples),
        *appraised.uncovered,
        *counted.uncovered,
        *layers.uncovered(plan.playbook, comparisons, outcome.blames, findings),
        *accused.climbed(plan, samples),
    )
    cases = tuple(launch.outcome for launch in made)
    versions = wording.versions(plan, known, build, made)
    names = tuple(node.name for node in plan.cluster.nodes)
    parts = Parts(plan.run_id, plan.started, "", plan.profile.name, plan.cluster.emulated, names, checks, cases, versions)
    compared = earlier.compared(accepted_runs, parts)
    findings, uncovered = (*findings, *earlier.findings(compared)), (*uncovered, *earlier.uncovered(compared))
    if plan.playbook.repeat is not None:
        findings = (*findings, *earlier.open_finding(compared, frozenset(case.family for case in plan.playbook.cases if case.required)))
    in_turn = turns.conclude(run, plan, made, compared)
    if in_turn is not None:
        findings, uncovered = (*findings, *in_turn.findings), (*uncovered, *in_turn.uncovered)
    ran = {launch.artefact.case.id for launch in made}
    left_out = tuple(case.id for case in plan.playbook.cases if case.required and case.id not in ran)
    measuring = bool(plan.playbook.cases) or plan.turns is not None
    decided = verdict.decide(checks, cases, comparisons, findings, uncovered, left_out, measuring=measuring)
    contract = plan.playbook.contract
    headline, accepted = wording.headline(decided, made, outcome, comparisons), None
    if in_turn is not None and decided.status is not Status.UNKNOWN:
        headline = in_turn.headline
    if not measuring:
        headline = check_words.headline(checks, names, plan.profile.name)
    if contract is not None:
        accepted = acceptance.conclude(plan, contract, made, asked, checks, outcome, appraised, decided, comparisons)
        headline, decided = judge_acceptance.headline(accepted), verdict.of_contract(decided, accepted)
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
        emulated=wording.emulated(plan.cluster) if plan.cluster.emulated else "",
        nodes=names,
        unreachable=reach.unreachable if reach else (),
        checks=checks,
        cases=cases,
        comparisons=comparisons,
        blame=outcome.blames,
        findings=decided.findings,
        uncovered=decided.uncovered,
        sensitivity=appraised.sensitivity if measuring else check_words.sensitivity(checks),
        versions=versions,
        commands=tuple(wording.command(launch.artefact.invocation) for launch in made),
        acceptance=accepted,
        compared=compared,
        tried=in_turn.tried if in_turn is not None else (),
        soak=in_turn.soak if in_turn is not None else None,
        stalls=story.stories(run, made),
        topology=layout.known(run, plan),
    )


def _groups(launch: launches.Launch, outcome: blame.BlameOutcome) -> tuple[Comparison, ...]:
    """The groups of a round, each against its peers; one group over all nodes has none."""
    groups = tuple(sample.nodes for sample in launch.samples)
    artefact = launch.samples[0].artefact if groups else ""
    return blame_words.compare_groups(launch.artefact.case.id, groups, artefact, outcome) if len(set(groups)) > 1 else ()


def _failure_finding(run: RunDir, failure: StageFailure) -> Finding:
    seen = Evidence(f"raw/failure-{failure.stage}.json", None, failure.seen or failure.what)
    return Finding(
        id=f"{failure.stage}-failed",
        status=Status.FAIL if failure.exit_status == 1 else Status.UNKNOWN,
        title=failure.what,
        where=failure.nodes,
        evidence=(diagnosis.build_line(run, failure.seen) or seen if failure.stage == "build" else seen,),
        would_settle=(failure.next_step,) if failure.next_step else (),
        confidence=Confidence.CERTAIN,
        effect=1.0,
    )


def _left_out(excluded: tuple[Excluded, ...], artefact: str) -> tuple[Finding, ...]:
    """Nodes that were reached and not measured: of them the run says nothing, so that it cannot be well as a whole."""
    groups: dict[str, list[str]] = {}
    for each in excluded:
        groups.setdefault(each.reason, []).append(each.node)
    return tuple(
        Finding(
            id="node-left-out",
            status=Status.UNKNOWN,
            title=f"not measured: {reason}",
            where=tuple(nodes),
            evidence=(Evidence(f"raw/{artefact}", None, reason),),
            would_settle=(f"busbw check -w {fold(nodes)} shows all that is known of them",),
            confidence=Confidence.CERTAIN,
        )
        for reason, nodes in groups.items()
    )


def _finished(run: RunDir) -> str | None:
    """When the last step ended; None = the run was cut off before it ended."""
    lines = (run.read_raw("events.jsonl") or b"").decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("step") == "run" and event.get("state") == "ended":
            at = event.get("at")
            return at if isinstance(at, str) else None
    return None
