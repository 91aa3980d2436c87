"""Was the run the one that was planned? What no launch can show by itself: its case, its nodes and
its groups beside the plan, the settings beside NCCL's log, and what an earlier try left."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from busbw.assess import address_family, detection, events, failover, proof, sharp, traffic_class
from busbw.assess.appraisal import Appraisal
from busbw.assess.launches import Launch
from busbw.checks import NodeAnswer
from busbw.fabrics import nccl_settings
from busbw.fabrics.nccl_settings import names_devices
from busbw.fabrics.profiles import carrier_by_fabric
from busbw.inventory.hostlist import fold
from busbw.model import Confidence, Evidence, Finding, NcclLog, ProcessFacts, Status
from busbw.parsers.findings.catalogue import filled
from busbw.store import artefacts
from busbw.store.artefacts import CaseArtefact, Participants, SetupArtefact
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir

_OFF = ("", "0")


def findings(
    run: RunDir,
    plan: RunPlan,
    launches: tuple[Launch, ...],
    answers: tuple[NodeAnswer, ...],
    participants: Participants | None,
    appraisal: Appraisal,
) -> tuple[Finding, ...]:
    """Everything that differs from the plan, in the order of the plan."""
    return (
        *_nothing_required(plan),
        *_not_run(plan, launches),
        *_survey_not_run(run, plan, launches),
        *_other_cases(plan, launches),
        *_other_nodes(plan, launches, participants),
        *_idle_gpus(plan, launches, appraisal),
        *_incomplete_rounds(launches),
        *_other_versions(plan, launches),
        *_retried(run, launches),
        *_other_fabric(plan, answers),
        *_settings_without_effect(run, launches),
        *setup_scripts(run),
        *_traffic_class(run, plan, launches, answers),
        *_address_family(plan, launches, answers),
        *unread_settings(plan, launches),
        *failover.findings(run, _settings(launches), launches),
    )


def _finding(
    name: str,
    status: Status,
    title: str,
    artefact: str,
    where: Iterable[str] = (),
    confidence: Confidence = Confidence.CERTAIN,
) -> Finding:
    return filled(
        Finding(
            id=name,
            status=status,
            title=title,
            where=tuple(where),
            evidence=(Evidence(artefact, None, title),),
            confidence=confidence,
        )
    )


def _record(launch: Launch) -> str:
    return f"raw/cases/{launch.artefact.case.id}/outcome.json"


def _nothing_required(plan: RunPlan) -> Iterator[Finding]:
    cases = plan.playbook.cases
    if cases and not any(case.required for case in cases):
        title = "no case of the playbook is required: nothing can fail"
        yield _finding("nothing-required", Status.UNKNOWN, title, "raw/plan.json")


def _not_run(plan: RunPlan, launches: tuple[Launch, ...]) -> Iterator[Finding]:
    """Required cases that the run did not come to, though it came to others."""
    ran = {launch.artefact.case.id for launch in launches}
    for case in plan.playbook.cases if launches else ():
        if case.required and case.id not in ran:
            title = f"{case.id} is required and did not run: the run ended before it"
            yield _finding("case-not-run", Status.UNKNOWN, title, "raw/plan.json")


def _survey_not_run(run: RunDir, plan: RunPlan, launches: tuple[Launch, ...]) -> Iterator[Finding]:
    """A run that was stopped in or before the survey which it was to make whatever its cases give:
    what would have been their reference is not known, nor who is slow."""
    if plan.playbook.survey.when != "always" or not launches or any(_not_run(plan, launches)):
        return
    if len(launches[0].artefact.nodes) > 1 and events.finished(run) is None:
        title = "the run was stopped before its survey ended"
        if not events.is_logged(run):
            title = "nothing shows that the survey ended: the run's log is missing"
        yield _finding("case-not-run", Status.UNKNOWN, title, "raw/events.jsonl")


def _other_cases(plan: RunPlan, launches: tuple[Launch, ...]) -> Iterator[Finding]:
    """Launches whose record describes another case than the plan does."""
    cases = {case.id: case for case in plan.playbook.cases}
    for launch in launches:
        case = launch.artefact.case
        if case.id in cases and cases[case.id] != case:
            title = f"{case.id} was launched with other settings than the plan has"
            yield _finding("case-not-as-planned", Status.UNKNOWN, title, _record(launch))


def _other_nodes(
    plan: RunPlan, launches: tuple[Launch, ...], participants: Participants | None
) -> Iterator[Finding]:
    """Cases of the playbook that did not run on every node that takes part."""
    if participants is None:
        return
    cases = {case.id for case in plan.playbook.cases}
    for launch in launches:
        artefact = launch.artefact
        missing = set(participants.nodes) - set(artefact.nodes)
        if artefact.case.id in cases and missing and not artefact.groups:
            count = f"{len(artefact.nodes)} of {len(participants.nodes)} nodes"
            title = f"{artefact.case.id} ran on {count}: without {fold(sorted(missing))}"
            yield _finding(
                "case-not-as-planned", Status.UNKNOWN, title, _record(launch), sorted(missing)
            )


def _idle_gpus(
    plan: RunPlan, launches: tuple[Launch, ...], appraisal: Appraisal
) -> Iterator[Finding]:
    """Fewer ranks on a node than it has GPUs, though nobody asked for it."""
    fitted = appraisal.hardware.gpus_per_node
    if fitted is None or plan.cluster.emulated:
        return
    if any(node.slots or node.gpus for node in plan.cluster.nodes):
        return
    for launch in launches:
        case, ranks = launch.artefact.case, launch.artefact.ranks_per_node
        if case.ranks_per_node is None and ranks < fitted and not launch.artefact.groups:
            title = f"{case.id} used {ranks} of {fitted} GPUs of every node"
            yield _finding("gpus-not-used", Status.UNKNOWN, title, _record(launch))
            return


def _incomplete_rounds(launches: tuple[Launch, ...]) -> Iterator[Finding]:
    """Survey rounds that ended well and did not show every group that they were made of."""
    for launch in launches:
        artefact = launch.artefact
        if not artefact.groups or not artefact.case.per_iteration:
            continue
        if launch.outcome.status is not Status.PASS or launch.stall is not None:
            continue
        rails = artefact.ranks_per_node if artefact.case.by_rail else 1
        expected = len(artefact.groups) * rails
        if len(launch.samples) < expected:
            title = (
                f"{artefact.case.id} shows {len(launch.samples)} of {expected} groups on the nodes"
                " that were planned"
            )
            yield _finding(
                "survey-incomplete", Status.UNKNOWN, title, artefact.json or _record(launch)
            )


def _other_versions(plan: RunPlan, launches: tuple[Launch, ...]) -> Iterator[Finding]:
    """Launches that ran with another NCCL or nccl-tests than the first one. What stands in for NCCL
    in a lab says the version of its header."""
    if plan.cluster.emulated:
        return
    for name, field in (("NCCL", "nccl_version"), ("nccl-tests", "tests_version")):
        versions: dict[str, Launch] = {}
        for launch in launches:
            for result in launch.results:
                version = str(getattr(result, field) or "").partition("+")[0]
                if version:
                    versions.setdefault(version, launch)
        if len(versions) > 1:
            used = ", ".join(
                f"{version} in {launch.artefact.case.id}" for version, launch in versions.items()
            )
            last = next(reversed(versions.values()))
            artefact = last.artefact.stdout or _record(last)
            title = f"launches ran with more than one {name}: {used}"
            yield _finding("versions-differ", Status.UNKNOWN, title, artefact)


def _retried(run: RunDir, launches: tuple[Launch, ...]) -> Iterator[Finding]:
    """Launches that passed after an earlier try of the same case had failed."""
    if not (run.raw / "earlier").is_dir():
        return
    passed = {
        launch.artefact.case.id for launch in launches if launch.outcome.status is Status.PASS
    }
    for name in run.raw_names("earlier"):
        parts = name.split("/")
        if parts[-1] != "outcome.json" or len(parts) != 5 or parts[3] not in passed:
            continue
        kept = artefacts.load(run, name, CaseArtefact)
        if kept is None or (kept.state == "ended" and kept.exit_status == 0):
            continue
        how = kept.state if kept.exit_status is None else f"exit status {kept.exit_status}"
        title = f"{kept.case.id} passed after an earlier try of it had failed ({how})"
        yield _finding("passed-on-retry", Status.WARN, title, f"raw/{name}")


def _other_fabric(plan: RunPlan, answers: tuple[NodeAnswer, ...]) -> Iterator[Finding]:
    """The profile was given, and the nodes show hardware of another kind."""
    carriers = carrier_by_fabric()
    given = carriers.get(plan.profile.name)
    if plan.cluster.emulated or given is None or not answers:
        return
    guess = detection.guess(answers)
    shown = [carriers[name].wire for name in guess.candidates if name in carriers]
    if len(guess.candidates) == 1 and shown and shown[0] is not given.wire:
        title = (
            f"the profile {plan.profile.name} was measured, and the nodes show"
            f" {guess.candidates[0]} ({'; '.join(guess.facts)})"
        )
        yield _finding(
            "profile-not-detected", Status.WARN, title, "raw/plan.json", (), Confidence.LIKELY
        )


def setup_scripts(run: RunDir) -> Iterator[Finding]:
    """A setup script that is not the same everywhere, or does not set the same."""
    kept = artefacts.load(run, "setup.json", SetupArtefact)
    if kept is None:
        return
    answered = [node for node in kept.nodes if not node.problem]
    absent = [node.node for node in answered if node.sha256 is None]
    path = kept.script.path
    if absent and (not kept.script.optional or len(absent) < len(answered)):
        title = f"the setup script {path} is not on {fold(absent)}"
        yield _finding("setup-script-missing", Status.FAIL, title, "raw/setup.json", absent)
    effects: dict[tuple[object, ...], list[str]] = {}
    for node in answered:
        if node.sha256 is not None:
            shared = tuple(pair for pair in node.variables if not names_devices(pair[0]))
            effects.setdefault((node.sha256, shared), []).append(node.node)
    if len(effects) > 1:
        groups = sorted(effects.values(), key=len, reverse=True)
        others = [node for group in groups[1:] for node in group]
        title = f"the setup script {path} is another, or sets other values, on {fold(others)}"
        yield _finding("setup-script-differs", Status.WARN, title, "raw/setup.json", others)


def _traffic_class(
    run: RunDir, plan: RunPlan, launches: tuple[Launch, ...], answers: tuple[NodeAnswer, ...]
) -> Iterator[Finding]:
    """The class that was measured is not the one for which the adapters have flow control."""
    if plan.cluster.emulated or not launches:
        return
    setup = artefacts.load(run, "setup.json", SetupArtefact)
    for each in traffic_class.mismatches(plan.profile, _settings(launches), setup, answers):
        yield _finding("tc-not-lossless", Status.WARN, each.text, "raw/preflight.json", each.nodes)


def _address_family(
    plan: RunPlan, launches: tuple[Launch, ...], answers: tuple[NodeAnswer, ...]
) -> Iterator[Finding]:
    """The rails have IPv6 addresses only, and NCCL looks for an IPv4 address."""
    if plan.cluster.emulated or not launches:
        return
    nodes = address_family.unasked(plan.profile, _settings(launches), answers)
    if nodes:
        title = (
            f"the RoCE ports of {fold(nodes)} have IPv6 addresses only, and NCCL_IB_ADDR_FAMILY is"
            " not AF_INET6"
        )
        yield _finding("roce-ipv6-only", Status.WARN, title, "raw/preflight.json", nodes)


def unread_settings(plan: RunPlan, launches: tuple[Launch, ...]) -> Iterator[Finding]:
    """Variables of the launches that NCCL took for something else, or did not read."""
    if plan.cluster.emulated:
        return
    releases = {
        release
        for launch in launches
        for result in launch.results
        if (release := (result.nccl_version or "").partition("+")[0])
    }
    for remark in nccl_settings.remarks(_settings(launches), releases):
        yield _finding("nccl-setting-unread", Status.WARN, remark.text, "raw/plan.json")


def _settings(launches: tuple[Launch, ...]) -> dict[str, str]:
    """The variables of the launches over all nodes."""
    return {
        variable.name: variable.value
        for launch in launches
        if not launch.artefact.groups
        for variable in launch.artefact.invocation.env
    }


def _settings_without_effect(run: RunDir, launches: tuple[Launch, ...]) -> Iterator[Finding]:
    """What the environment asks of NCCL, and what NCCL logged in the proof launch."""
    logged = next(
        (
            launch
            for launch in launches
            if launch.artefact.case.purpose == "proof" and launch.results
        ),
        None,
    )
    if logged is None:
        return
    log = proof.log_of(run, logged)
    if log is None:
        return
    settings = _settings(launches)
    artefact = logged.artefact.stdout or _record(logged)
    yield from _collnet(settings, log, artefact)
    yield from _nvls(settings, log.processes, artefact)


def _collnet(settings: dict[str, str], log: NcclLog, artefact: str) -> Iterator[Finding]:
    wanted = settings.get("NCCL_COLLNET_ENABLE", "") not in _OFF
    wanted = wanted or "collnet" in settings.get("NCCL_ALGO", "").lower()
    if not wanted or sharp.used(log):
        return
    reason, lines = sharp.why_unused(log)
    title = f"SHARP requested, not used: {reason}"
    where = sorted({process.host for process in log.processes if process.host})
    finding = _finding("sharp-not-used", Status.FAIL, title, artefact, where)
    shown = tuple(Evidence(artefact, None, line) for line in lines)
    cause = f"No channel goes over CollNet: {reason}."
    yield dataclasses.replace(finding, cause=cause, evidence=shown or finding.evidence)


def _nvls(
    settings: dict[str, str], processes: tuple[ProcessFacts, ...], artefact: str
) -> Iterator[Finding]:
    off = sorted({process.host or "" for process in processes if process.nvls is False})
    on = any(process.nvls for process in processes)
    if off and settings.get("NCCL_NVLS_ENABLE") == "1":
        title = f"NVLS is requested (NCCL_NVLS_ENABLE), and it is not available on {fold(off)}"
        yield _finding("nvls-not-used", Status.FAIL, title, artefact, off)
    elif off and on:
        title = f"NVLS is available on other nodes, and not on {fold(off)}"
        yield _finding("nvls-not-used", Status.WARN, title, artefact, off)
