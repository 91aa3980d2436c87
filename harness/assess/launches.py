"""What one launch left in `raw/cases/`, read and judged by itself."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from busbw.checks.software import NodeFacts
from busbw.errors import ReadError
from busbw.launch.mpirun import NOISE
from busbw.model import (
    BenchmarkResult,
    BenchmarkRow,
    CaseOutcome,
    Evidence,
    Finding,
    LauncherFailure,
    LauncherLog,
    Status,
    WarningRole,
)
from busbw.parsers.logs import open_mpi
from busbw.parsers.nccl_tests import groups, proof, results_json, table
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.parsers.stall import judge
from busbw.parsers.stall.iteration import place
from busbw.parsers.stall.job import LaunchPlan
from busbw.parsers.stall.verdict import StallVerdict
from busbw.store import artefacts
from busbw.store.artefacts import CaseArtefact
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.text import decoded
from busbw.triage import own_launch
from busbw.units import format_size


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch with what was read from it."""

    artefact: CaseArtefact
    results: tuple[BenchmarkResult, ...]
    outcome: CaseOutcome
    findings: tuple[Finding, ...]
    samples: tuple[GroupSample, ...]
    """What each group of a survey round achieved; () for a case over all nodes."""
    stall: StallVerdict | None = None
    """None = it made progress until its end."""


def load(
    run: RunDir, known: Mapping[str, NodeFacts], on_head: frozenset[str] = frozenset()
) -> tuple[Launch, ...]:
    """All launches of a run, in the order they were made. `on_head`: nodes whose CPUs are the
    head's (`on_head_of`)."""
    names = (
        [name for name in run.raw_names("cases") if name.endswith("/outcome.json")]
        if (run.raw / "cases").is_dir()
        else []
    )
    kept = [artefact for name in names if (artefact := artefacts.load(run, name, CaseArtefact))]
    kept.sort(key=lambda artefact: artefact.order)
    return tuple(read(run, artefact, known, on_head) for artefact in kept)


def on_head_of(plan: RunPlan, head: str) -> frozenset[str]:
    """The nodes of which the load of `head` tells: itself and, where nodes are emulated, all."""
    if plan.cluster.emulated:
        return frozenset(node.name for node in plan.cluster.nodes)
    return frozenset((head,))


def over_all_nodes(launches: Iterable[Launch], family: str | None = None) -> tuple[Launch, ...]:
    """Launches of one communicator that gave a result; `family`: of this case and its repeats
    alone."""
    chosen = []
    for launch in launches:
        artefact = launch.artefact
        if not artefact.groups and launch.results and family in (None, artefact.case.family):
            chosen.append(launch)
    return tuple(chosen)


def read(
    run: RunDir,
    artefact: CaseArtefact,
    known: Mapping[str, NodeFacts],
    on_head: frozenset[str] = frozenset(),
) -> Launch:
    """One launch that was kept."""
    results, problem = _results(run, artefact)
    verdict = _verdict(run, artefact, known, results, problem)
    status, reason, findings = verdict.status, verdict.reason, verdict.findings
    stall = _stall(run, artefact, known, results)
    if stall is not None:
        failed = any(finding.status is Status.FAIL for finding in stall.findings)
        status, reason = Status.FAIL if failed else Status.UNKNOWN, stall.headline
        # A stall explains why output is missing: the missing output is not a second cause.
        findings = stall.findings
    outcome = CaseOutcome(
        case=artefact.case,
        status=status,
        reason=reason,
        results=results,
        exit_status=artefact.exit_status,
        seconds=artefact.seconds,
        artefacts=tuple(path for path in (artefact.stdout, artefact.stderr, artefact.json) if path),
        nodes=artefact.nodes,
    )
    samples: tuple[GroupSample, ...] = ()
    if artefact.groups and results and not any(f.status is Status.FAIL for f in verdict.findings):
        samples = _samples(artefact, results[-1], known, on_head)
    return Launch(artefact, results, outcome, findings, samples, stall)


def _verdict(
    run: RunDir,
    artefact: CaseArtefact,
    known: Mapping[str, NodeFacts],
    results: tuple[BenchmarkResult, ...],
    problem: str,
) -> proof.CaseVerdict:
    """Whether the launch measured what was planned. `problem`: why there are no results, or only a
    part of them; empty = none."""
    lost: tuple[proof.LostPeer, ...] = ()
    failures: tuple[tuple[str, LauncherFailure], ...] = ()
    if artefact.exit_status != 0:
        lost = proof.origins(proof.lost_peers(decoded(run.kept(artefact.stdout))))
        failures = _failures(run, artefact)
    hosts, cause = proof.culprits(lost, tuple(failure for _, failure in failures))
    name_of = _names(known)
    return proof.judge(
        proof.LaunchOutput(
            case=artefact.case,
            state=artefact.state,
            exit_status=artefact.exit_status,
            results=results,
            planned_ranks=len(artefact.nodes) * artefact.ranks_per_node,
            planned_hosts=_planned_hosts(artefact, known),
            artefact=artefact.stdout or f"raw/cases/{artefact.case.id}/outcome.json",
            errors=(
                *(Evidence(artefact.stdout or "", item.line_no, item.text) for item in lost),
                *_errors(run, artefact, problem, failures),
            ),
            suspects=tuple(name_of.get(host.partition(".")[0], host) for host in hosts),
            cause=cause,
            seconds=artefact.seconds if artefact.state == "ended" else None,
        )
    )


def _planned_hosts(artefact: CaseArtefact, known: Mapping[str, NodeFacts]) -> tuple[str, ...]:
    """Host names of the planned nodes, cut at the first dot; () = they prove nothing: emulated nodes
    without a host name of their own all report the machine's."""
    hosts = tuple(
        facts.host_name.partition(".")[0]
        for node in artefact.nodes
        if (facts := known.get(node)) and facts.host_name
    )
    return hosts if len(set(hosts)) == len(artefact.nodes) else ()


def _samples(
    artefact: CaseArtefact,
    result: BenchmarkResult,
    known: Mapping[str, NodeFacts],
    on_head: frozenset[str],
) -> tuple[GroupSample, ...]:
    """The groups as planned nodes; a group that ran on other hosts than planned is left out, never
    believed."""
    name_of = _names(known)
    planned = {frozenset(group) for group in artefact.groups}
    busy = on_head if artefact.load is not None and artefact.load.busy else frozenset()
    samples = []
    for sample in groups.group_samples(result, artefact.json or artefact.stdout or ""):
        nodes = tuple(name_of.get(host, host) for host in sample.nodes)
        if frozenset(nodes) in planned:
            samples.append(
                dataclasses.replace(
                    sample,
                    nodes=nodes,
                    launch=artefact.case.id,
                    role=artefact.case.role,
                    concurrent_with=artefact.concurrent_with,
                    medium=artefact.case.medium or sample.medium,
                    busy=not busy.isdisjoint(nodes),
                )
            )
    return tuple(samples)


def _names(known: Mapping[str, NodeFacts]) -> dict[str, str]:
    """Host name as ranks report it, cut at the first dot → the inventory's name."""
    return {(facts.host_name or node).partition(".")[0]: node for node, facts in known.items()}


def _results(run: RunDir, artefact: CaseArtefact) -> tuple[tuple[BenchmarkResult, ...], str]:
    """The tables on standard output, with the per-process times of the JSON beside them; and why
    there is none."""
    text = decoded(run.kept(artefact.stdout))
    problem = ""
    if artefact.groups and not artefact.case.per_iteration:
        return _merged_groups(artefact, text)
    tables: tuple[BenchmarkResult, ...] = ()
    try:
        tables = table.parse(text) if text.strip() else ()
    except ReadError as error:
        problem = error.seen or error.what
    recorded = decoded(run.kept(artefact.json))
    if recorded.strip() and tables:
        try:
            detail = results_json.parse(recorded)
            # The table is of the first group alone; the JSON counts the wrong elements of all.
            whole = dataclasses.replace(
                tables[-1],
                rows=_precise(tables[-1].rows, detail.rows),
                process_times=detail.process_times,
                out_of_bounds=tables[-1].out_of_bounds or detail.out_of_bounds,
                faults=(*tables[-1].faults, *detail.faults),
            )
            tables = (*tables[:-1], whole)
        except ReadError as error:
            problem = error.seen or error.what
    return tables, problem


def _merged_groups(artefact: CaseArtefact, text: str) -> tuple[tuple[BenchmarkResult, ...], str]:
    """A round whose groups were launches of their own."""
    try:
        merged = groups.merge(text, artefact.case, len(artefact.groups))
    except ReadError as error:
        return (), error.seen or error.what
    return ((merged,), "") if merged else ((), "not every group printed a table")


def _precise(
    printed: tuple[BenchmarkRow, ...], recorded: tuple[BenchmarkRow, ...]
) -> tuple[BenchmarkRow, ...]:
    """The table's rows with the JSON's digits: the table prints two after the point, which is
    coarse below 1 GB/s.

    Only where both have the same rows; the line numbers stay the table's.
    """
    same = [
        (a.size_bytes, a.count, a.type) == (b.size_bytes, b.count, b.type)
        for a, b in zip(printed, recorded, strict=False)
    ]
    if len(printed) != len(recorded) or not all(same):
        return printed
    return tuple(
        dataclasses.replace(
            a, out_of_place=b.out_of_place or a.out_of_place, in_place=b.in_place or a.in_place
        )
        for a, b in zip(printed, recorded, strict=True)
    )


def _stall(
    run: RunDir,
    artefact: CaseArtefact,
    known: Mapping[str, NodeFacts],
    results: tuple[BenchmarkResult, ...],
) -> StallVerdict | None:
    """The verdict on a launch that was ended because it made no progress; None = it was not."""
    if not artefact.samples and not artefact.unreachable:
        return None
    linked = {node: facts.linked for node, facts in known.items()}
    variables = {variable.name: variable.value for variable in artefact.invocation.env}
    plan = LaunchPlan(artefact.ranks_of, linked, mark=variables.get("BUSBW_JOB"))
    record = f"raw/cases/{artefact.case.id}/outcome.json"
    evidence = own_launch.evidence(run, artefact.samples, plan, artefact.unreachable, record)
    position = _position(artefact, results, judge.launched(evidence))
    plan = dataclasses.replace(plan, position=position)
    return judge.judge(dataclasses.replace(evidence, plan=plan))


def _failures(run: RunDir, artefact: CaseArtefact) -> tuple[tuple[str, LauncherFailure], ...]:
    """What the launcher says went wrong, causes before secondary errors; each with the file it stands
    in."""
    failures = []
    for path in (artefact.stderr, artefact.stdout):
        try:
            logs = open_mpi.read([decoded(run.kept(path)).encode()]).records
        except ReadError:
            continue
        failures += [
            (path or "", failure)
            for log in logs
            if isinstance(log, LauncherLog)
            for failure in log.failures
        ]
    return tuple(
        sorted(
            (item for item in failures if item[1].role is not WarningRole.NOTE),
            key=lambda item: item[1].role is WarningRole.SECONDARY,
        )
    )


def _errors(
    run: RunDir,
    artefact: CaseArtefact,
    problem: str,
    failures: tuple[tuple[str, LauncherFailure], ...],
) -> tuple[Evidence, ...]:
    """What explains a failed launch, in the words of whoever failed: known messages first, then
    plain lines without the known noise."""
    evidence = [Evidence(path, failure.line_no, failure.text) for path, failure in failures[:4]]
    if artefact.problem:
        evidence.insert(
            0, Evidence(f"raw/cases/{artefact.case.id}/outcome.json", None, artefact.problem)
        )
    if problem:
        evidence.append(Evidence(artefact.stdout or "", None, problem))
    for path in (artefact.stderr, artefact.stdout) if not failures else ():
        lines = [
            (number, line.strip())
            for number, line in enumerate(decoded(run.kept(path)).splitlines(), 1)
        ]
        lines = [
            (n, line)
            for n, line in lines
            if line.strip("-") and not any(noise.search(line) for noise in NOISE)
        ]
        # On standard output the benchmark's own comments and rows tell nothing about a failure.
        lines = [
            (n, line)
            for n, line in lines
            if path != artefact.stdout or not re.match(r"#|\d+ ", line)
        ]
        evidence += [Evidence(path or "", number, line) for number, line in lines[:4]]
    return tuple(evidence)


def _position(
    artefact: CaseArtefact,
    results: tuple[BenchmarkResult, ...],
    launched: tuple[int, int] | None,
) -> str:
    """How far the benchmark was. It prints a size once all its iterations are through: which of
    them hangs, only NCCL's own counts say."""
    case = artefact.case
    done, sizes = len(results[-1].rows) if results else 0, case.sizes.planned()
    parts = [case.id]
    operation = ""
    if launched is not None:
        version = results[-1].tests_version if results else None
        operation = place(case, done, launched, version)
    if operation:
        parts.append(operation)
    elif done < len(sizes):
        parts.append(f"at {format_size(sizes[done])}")
    return ", ".join([*parts, f"after {done} of {len(sizes)} sizes"])
