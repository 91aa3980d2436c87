"""The result of a run, put together from its plan, its artefacts and its launches."""

from __future__ import annotations

import json
from collections.abc import Mapping

from busbw.assess import (
    appraisal,
    builds,
    diagnosis,
    launches,
    timeline,
)
from busbw.assess import contract as acceptance
from busbw.assess import fabric as between
from busbw.assess import fabric as grouping
from busbw.assess import fabric as layout
from busbw.assess.checks import answers, checked, load_plan
from busbw.assess.launches import Launch
from busbw.building.recipe import BuildOutcome
from busbw.checks.software import NodeFacts, facts
from busbw.compare import earlier, result
from busbw.compare.comparable import Parts
from busbw.inventory.hostlist import fold
from busbw.launch.render import render
from busbw.model import (
    BenchmarkRow,
    CheckResult,
    Cluster,
    Comparison,
    Confidence,
    Evidence,
    Finding,
    Invocation,
    RunResult,
    Status,
    Uncovered,
)
from busbw.parsers import contract as judge_acceptance
from busbw.parsers import verdict
from busbw.parsers.blame import blame, layer_breakdown, loss
from busbw.parsers.blame import findings as blame_words
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.confirm import confirmation
from busbw.parsers.blame.layer_breakdown import RailLink
from busbw.parsers.blame.loss import Carried
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.parsers.stats import spikes
from busbw.parsers.verdict import Verdict
from busbw.store import artefacts
from busbw.store.artefacts import Excluded, LeftOut, Participants, ReachArtefact, StageFailure
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.survey import earlier as earlier_surveys
from busbw.survey import layer_breakdown as survey_layers
from busbw.survey import link_baseline, retransmitted
from busbw.survey.confirm import confirming
from busbw.units import format_bandwidth, format_size

# The accusations of a run as findings: each with its confirmation, or with why there is none, and
# with its link baseline where that was measured.
#
# And what a survey was asked for beside them and did not come to.


def suspect_findings(
    plan: RunPlan,
    fabric: Fabric,
    outcome: BlameOutcome,
    samples: tuple[GroupSample, ...],
    links: tuple[RailLink, ...],
    carried: tuple[Carried, ...],
) -> tuple[Finding, ...]:
    """One for each part that is accused. `samples` and `carried`: of this run's own launches."""
    if not outcome.blames:
        return ()
    measured = {node for sample in samples for node in sample.nodes}
    nodes = tuple(node.name for node in plan.cluster.nodes if node.name in measured)
    cannot = dict(confirming(nodes, fabric, outcome).cannot)
    return tuple(
        blame_words.blame_finding(
            blame,
            confirmation(blame, part, samples, fabric, cannot.get(part, "")),
            layer_breakdown.evidence(links, blame.component),
            loss.beside(carried, part, outcome.flagged, fabric),
        )
        for blame, part in zip(outcome.blames, outcome.flagged, strict=True)
    )


# The one sentence of a run that only checks: which nodes are not as they should be.


def check_headline(checks: tuple[CheckResult, ...], nodes: tuple[str, ...], profile: str) -> str:
    """By the worst of what is required; advisory results are not part of it.

    >>> check_headline((CheckResult("gpu.count", "n2", Status.FAIL, "7", "8", "nvidia-smi -L"),), ("n1", "n2"), "tcp")
    '1 of 2 nodes not as required: n2; profile tcp'
    """
    count = f"{len(nodes):,} {'node' if len(nodes) == 1 else 'nodes'}"
    required = [check for check in checks if check.required and check.status is not Status.SKIPPED]
    if not required:
        return f"nothing was checked on {count}, profile {profile}"
    for status, words in (
        (Status.FAIL, "not as required"),
        (Status.UNKNOWN, "could not be checked"),
    ):
        bad = {check.node for check in required if check.status is status}
        if bad:
            return f"{len(bad):,} of {count} {words}: {fold(bad)}; profile {profile}"
    return f"{count} as required by profile {profile}"


def sensitivity(checks: tuple[CheckResult, ...]) -> tuple[str, ...]:
    """What the checks would have caught and what they could not see.

    >>> sensitivity((CheckResult("gpu.count", "n1", Status.PASS, "8", "8", "nvidia-smi -L"),))[0]
    'would have caught: another answer than expected to 1 check of gpu, on each of 1 node, at that moment'
    """
    passed = {check.check_id for check in checks if check.status is Status.PASS}
    open_ = sorted({check.check_id for check in checks if check.status is Status.UNKNOWN})
    nodes = len({check.node for check in checks if check.status is Status.PASS})
    families = ", ".join(sorted({name.partition(".")[0] for name in passed}))
    lines = []
    if passed:
        counted = f"{len(passed)} check{'s' if len(passed) > 1 else ''} of {families}"
        lines.append(
            f"would have caught: another answer than expected to {counted}, on each of {nodes:,}"
            f" node{'s' if nodes > 1 else ''}, at that moment"
        )
    if open_:
        shown = ", ".join(open_[:6]) + (f" and {len(open_) - 6} more" if len(open_) > 6 else "")
        lines.append(f"could not see: what was not checked on some or all nodes ({shown})")
    return (
        *lines,
        (
            "could not see: whether data moves, how fast, and what comes and goes: nothing was"
            " measured (busbw run)"
        ),
    )


# The words around a result: its headline, what was not covered, which versions were seen, the
# exact commands.

EMULATED = "Emulated: host memory over MPI in an embedded lab; no number here says anything about real hardware."


def emulation_note(cluster: Cluster) -> str:
    """What every report of an emulated cluster says, with the hardware that its nodes only show."""
    return EMULATED + (
        f" Invented is what the nodes show: {cluster.invented}." if cluster.invented else ""
    )


def run_headline(
    decided: Verdict,
    made: tuple[Launch, ...],
    outcome: BlameOutcome,
    comparisons: tuple[Comparison, ...],
) -> str:
    """One sentence: what is wrong first; without anything wrong, the number and what it was
    compared with."""
    best = best_row(made)
    number = ""
    if best is not None:
        launch, row = best
        busbw = format_bandwidth(row.out_of_place.busbw_gb_s if row.out_of_place else None)
        size, count = format_size(row.size_bytes), len(launch.artefact.nodes)
        number = f"{launch.artefact.case.collective} {busbw} at {size} on {count} nodes"
    leading = [f for f in decided.findings if f.required and f.status is decided.status]
    if decided.status is not Status.PASS and leading:
        return f"{leading[0].title}" + (f"; {number}" if number else "")
    found = ""
    if decided.status is Status.UNKNOWN:
        # What is likely at least is told first, though a verdict needs more.
        likely = (
            f
            for f in decided.findings
            if f.required and f.status is Status.WARN and f.confidence is not Confidence.POSSIBLE
        )
        found = next((f"{f.title}; " for f in likely), "")
    short = next((c for c in comparisons if c.status is decided.status), None)
    if decided.status in (Status.FAIL, Status.UNKNOWN) and short is not None:
        expected = format_bandwidth(short.reference.busbw_gb_s)
        what = (
            f"{short.case_id} at {format_size(short.size_bytes)}:"
            f" {format_bandwidth(short.measured_gb_s)}"
        )
        return f"{found}{what}, compared with {expected} ({short.reference.source}): {short.reason}"
    if decided.status is Status.UNKNOWN:
        return f"{found}not enough was measured to tell{'; ' + number if number else ''}"
    unsettled = f"; not settled: {_suspected(outcome)}" if outcome.open else ""
    passed = (
        f"; {' + '.join(short.nodes)} in {short.case_id}: {short.reason}"
        if decided.status is Status.WARN and short is not None
        else ""
    )
    return f"{number or 'nothing measured'}{_compared(outcome)}{unsettled}{passed}"


def _compared(outcome: BlameOutcome) -> str:
    """How many nodes the groups speak for. One that was loaded too little, or is suspected, is not
    cleared."""
    cleared, seen = (
        len(outcome.cleared),
        len({node for level in outcome.levels for node in level.sample.nodes}),
    )
    if not cleared:
        return ""
    if cleared < seen:
        return f"; {cleared} of {seen} nodes cleared by comparison with each other"
    return f"; {cleared} nodes compared with each other, none slow"


def _suspected(outcome: BlameOutcome) -> str:
    return ", ".join(dict.fromkeys(doubt.account.part.label for doubt in outcome.open))


def best_row(made: tuple[Launch, ...]) -> tuple[Launch, BenchmarkRow] | None:
    """The row a headline speaks of: the largest size of the first bandwidth case over all nodes."""
    for purpose in ("bandwidth", "correctness", "proof", "latency"):
        for launch in made:
            if (
                launch.artefact.case.purpose == purpose
                and not launch.artefact.groups
                and launch.results
            ):
                rows = [row for row in launch.results[-1].rows if row.out_of_place is not None]
                if rows:
                    return launch, max(rows, key=lambda row: row.size_bytes)
    return None


def not_covered(
    plan: RunPlan,
    made: tuple[Launch, ...],
    checks: tuple[CheckResult, ...],
    outcome: BlameOutcome,
    samples: tuple[GroupSample, ...],
) -> tuple[Uncovered, ...]:
    """Everything that was planned and not done, or done without an answer."""
    found = []
    ran = {launch.artefact.case.id for launch in made}
    for case in plan.playbook.cases:
        if case.id not in ran:
            found.append(
                Uncovered(
                    f"case {case.id}",
                    "the run ended before it",
                    "busbw run --resume " + plan.run_id,
                )
            )
    advisory: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        if check.status is Status.UNKNOWN and not check.required:
            advisory.setdefault((check.check_id, check.reason or check.found), []).append(
                check.node
            )
    found += [
        Uncovered(check_id, f"{reason} ({len(nodes)} nodes)")
        for (check_id, reason), nodes in advisory.items()
    ]
    if outcome.open:
        why = "slower than its peers in too few launches to accuse or to clear it"
        found.append(
            Uncovered(f"suspected: {_suspected(outcome)}", why, "busbw run --survey --budget 20m")
        )
    if outcome.inseparable and samples:
        found.append(
            Uncovered(
                "which node or path is slow",
                outcome.inseparable,
                "measure more nodes, or rails one by one",
            )
        )
    if not any(launch.artefact.groups for launch in made) and plan.playbook.survey.when != "never":
        found.append(
            Uncovered("groups of nodes against each other", "no survey round was measured")
        )
    return tuple(found)


def software_versions(
    plan: RunPlan,
    known: Mapping[str, NodeFacts],
    build: BuildOutcome | None,
    made: tuple[Launch, ...],
) -> tuple[tuple[str, str], ...]:
    """What a ticket must name."""
    found = [("busbw", plan.tool_version)]
    mpi = sorted({f"{f.mpi.implementation} {f.mpi.version}" for f in known.values() if f.mpi})
    if mpi:
        found.append(("MPI", ", ".join(mpi)))
    results = [result for launch in made for result in launch.results]
    for name, values in (
        ("NCCL", {r.nccl_version for r in results if r.nccl_version}),
        ("nccl-tests", {r.tests_version for r in results if r.tests_version}),
        ("device", {line.device_name for r in results for line in r.ranks}),
    ):
        if values:
            found.append((name, ", ".join(sorted(values))))
    if build:
        found.append(("build", build.told))
    return tuple(found)


def command_line(invocation: Invocation) -> str:
    """The paste-able command line of a launch."""
    return render(invocation)


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
    taking_part, refused = (
        artefacts.load(run, "participants.json", Participants),
        artefacts.load(run, "left-out.json", LeftOut),
    )
    failures = tuple(
        f for stage in STAGES if (f := artefacts.load(run, f"failure-{stage}.json", StageFailure))
    )
    made = launches.load(run, known)
    samples = tuple(sample for launch in made for sample in launch.samples)
    fabric = grouping.fabric(run, plan)
    outcome = blame.solve((*earlier_surveys.load(run), *samples), fabric)
    accepted_runs = earlier.load(run)
    appraised = appraisal.appraise(run, plan, made, asked, checks, outcome, accepted_runs)
    outcome = blame.with_priors(outcome, (*appraised.findings, *verdict.check_findings(checks)))
    links = link_baseline.load(run, samples)
    layers = survey_layers.of_run(plan, samples, links, appraised.hardware)
    counted = retransmitted.count(run, plan, made)
    comparisons = (
        *appraised.comparisons,
        *layer_breakdown.compared(links),
        *(comparison for launch in made for comparison in _groups(launch, outcome)),
    )
    findings = (
        *(finding for launch in made for finding in launch.findings),
        *suspect_findings(plan, fabric, outcome, samples, links, counted.pairs),
        *((layer_breakdown.finding(layers),) if layers is not None else ()),
        *spikes.findings(samples),
        *retransmitted.findings(counted.pairs, outcome, fabric),
        *appraised.findings,
        *verdict.check_findings(checks),
        *(_failure_finding(run, failure) for failure in failures),
        *(_left_out(taking_part.excluded, "participants.json") if taking_part else ()),
        *(_left_out(refused.nodes, "left-out.json") if refused else ()),
        *builds.findings(build, made, emulated=plan.cluster.emulated),
    )
    findings = between.with_far_ends(
        run, diagnosis.with_causes(run, plan, made, asked, checks, comparisons, findings)
    )
    unseen = taking_part.unseen if taking_part else ()
    uncovered = (
        *(Uncovered("whether others use the nodes", text) for text in unseen),
        *not_covered(plan, made, checks, outcome, samples),
        *appraised.uncovered,
        *counted.uncovered,
        *survey_layers.uncovered(plan.playbook, comparisons, outcome.blames, layers),
    )
    cases = tuple(launch.outcome for launch in made)
    versions = software_versions(plan, known, build, made)
    names = tuple(node.name for node in plan.cluster.nodes)
    parts = Parts(
        plan.run_id,
        plan.started,
        "",
        plan.profile.name,
        plan.cluster.emulated,
        names,
        checks,
        cases,
        versions,
    )
    compared = earlier.compared(accepted_runs, parts)
    findings, uncovered = (
        (*findings, *earlier.findings(compared)),
        (
            *uncovered,
            *earlier.uncovered(compared),
        ),
    )
    if plan.playbook.repeat is not None:
        findings = (
            *findings,
            *earlier.inconclusive_finding(
                compared, frozenset(case.family for case in plan.playbook.cases if case.required)
            ),
        )
    interleaved = result.conclude(run, plan, made, compared)
    if interleaved is not None:
        findings, uncovered = (
            (*findings, *interleaved.findings),
            (*uncovered, *interleaved.uncovered),
        )
    ran = {launch.artefact.case.id for launch in made}
    excluded = tuple(
        case.id for case in plan.playbook.cases if case.required and case.id not in ran
    )
    measuring = bool(plan.playbook.cases) or plan.interleaving is not None
    decided = verdict.decide(
        checks, cases, comparisons, findings, uncovered, excluded, measuring=measuring
    )
    contract = plan.playbook.contract
    headline, accepted = run_headline(decided, made, outcome, comparisons), None
    if interleaved is not None and decided.status is not Status.UNKNOWN:
        headline = interleaved.headline
    if not measuring:
        headline = check_headline(checks, names, plan.profile.name)
    if contract is not None:
        accepted = acceptance.conclude(
            plan, contract, made, asked, checks, outcome, appraised, decided, comparisons
        )
        headline, decided = (
            judge_acceptance.headline(accepted),
            verdict.of_contract(decided, accepted),
        )
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
        nodes=names,
        unreachable=reach.unreachable if reach else (),
        checks=checks,
        cases=cases,
        comparisons=comparisons,
        blame=outcome.blames,
        findings=decided.findings,
        uncovered=decided.uncovered,
        sensitivity=appraised.sensitivity if measuring else sensitivity(checks),
        versions=versions,
        commands=tuple(command_line(launch.artefact.invocation) for launch in made),
        acceptance=accepted,
        compared=compared,
        sweep=interleaved.sweep if interleaved is not None else (),
        soak=interleaved.soak if interleaved is not None else None,
        stalls=timeline.stories(run, made),
        topology=layout.known(run, plan),
    )


def _groups(launch: launches.Launch, outcome: blame.BlameOutcome) -> tuple[Comparison, ...]:
    """The groups of a round, each against its peers; one group over all nodes has none."""
    groups = tuple(sample.nodes for sample in launch.samples)
    artefact = launch.samples[0].artefact if groups else ""
    return (
        blame_words.compare_groups(launch.artefact.case.id, groups, artefact, outcome)
        if len(set(groups)) > 1
        else ()
    )


def _failure_finding(run: RunDir, failure: StageFailure) -> Finding:
    seen = Evidence(f"raw/failure-{failure.stage}.json", None, failure.seen or failure.what)
    return Finding(
        id=f"{failure.stage}-failed",
        status=Status.FAIL if failure.exit_status == 1 else Status.UNKNOWN,
        title=failure.what,
        where=failure.nodes,
        evidence=(
            diagnosis.build_line(run, failure.seen) or seen if failure.stage == "build" else seen,
        ),
        would_settle=(failure.next_step,) if failure.next_step else (),
        confidence=Confidence.CERTAIN,
        effect=1.0,
    )


def _left_out(excluded: tuple[Excluded, ...], artefact: str) -> tuple[Finding, ...]:
    """Nodes that were reached and not measured: of them the run says nothing, so that it cannot be
    well as a whole."""
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
