"""Is a launch's output the measurement that was planned? A number is believed only after it is
proven to be the number meant."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from busbw.model import (
    BenchmarkCase,
    BenchmarkResult,
    BenchmarkRow,
    Confidence,
    Evidence,
    Finding,
    LauncherFailure,
    Measurement,
    Status,
    WarningRole,
)
from busbw.parsers.findings.catalogue import filled
from busbw.text import whole_number
from busbw.units import format_size

_LOST = re.compile(
    r"^(\S+): Test network failure \S+ '(?:receiving from|sending to) (\S+) on (\S+): .+'$"
)
_DIALECT = re.compile(r"^# busbw payload \S+ \(.*speaks the nccl-tests (\S+) dialect\)$", re.M)
_ENDINGS = (2, 15)
"""SIGINT and SIGTERM: how a job is ended."""
_ITERATIONS = ("iters", "iterations")
"""What the table and the JSON call the timed iterations."""
_CLOCK_SLACK = 1.1
_SIDES = 5.0
"""In place and out of place may differ by this factor; on healthy machines they differ by 10 %."""
_LARGE_BYTES = 16 << 20
"""From this size on the time is that of the bytes, not of the start."""


@dataclass(frozen=True, slots=True)
class LostPeer:
    """One survivor's line."""

    host: str
    peer: str
    interface: str
    line_no: int
    text: str


def dialect_of(text: str) -> str | None:
    """The version of nccl-tests whose options and output busbw's host-memory benchmark has; None =
    the text is not this benchmark's output.

    >>> dialect_of("# busbw payload 1.0 (host memory over MPI, ring algorithms, speaks the nccl-tests 2.19.6 dialect)\\n")
    '2.19.6'
    """
    match = _DIALECT.search(text)
    return match[1] if match else None


def lost_peers(text: str) -> tuple[LostPeer, ...]:
    """The lines with which ranks of busbw's host-memory benchmark (payload 1.0) name a neighbour
    that went away, in the order printed."""
    lost = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := _LOST.match(line):
            lost.append(LostPeer(match[1], match[2], match[3], number, line))
    return tuple(lost)


def origins(lost: tuple[LostPeer, ...]) -> tuple[LostPeer, ...]:
    """The lines that name a host which names nobody; all of them where they form a circle.

    Each survivor names the neighbour it lost and ends, so its own neighbours name it in turn.

    >>> text = (
    ...     "node3: Test network failure rails.c:41 'receiving from node2 on eth0: connection closed by the peer'\\n"
    ...     "node4: Test network failure rails.c:41 'receiving from node3 on eth0: connection closed by the peer'\\n"
    ... )
    >>> [line.peer for line in origins(lost_peers(text))]
    ['node2']
    """
    speakers = {line.host for line in lost}
    return tuple(line for line in lost if line.peer not in speakers) or lost


@dataclass(frozen=True, slots=True)
class LaunchOutput:
    """What a launch left behind."""

    case: BenchmarkCase
    state: str
    """As `CaseArtefact.state`."""
    exit_status: int | None
    results: tuple[BenchmarkResult, ...]
    planned_ranks: int
    planned_hosts: tuple[str, ...]
    """Host names as the ranks report them, cut at the first dot; () = not known."""
    artefact: str
    """Path of the standard output."""
    errors: tuple[Evidence, ...]
    """What the launcher or the binary printed about a failure, strongest first."""
    suspects: tuple[str, ...] = ()
    """Nodes that the launcher names as the cause."""
    cause: str = ""
    """What its message means, in words."""
    seconds: float | None = None
    """How long the launch took, by the head node's clock; None = not known."""


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """What the launch by itself is worth, before any comparison."""

    status: Status
    reason: str
    findings: tuple[Finding, ...]


def culprits(
    lost: tuple[LostPeer, ...], failures: tuple[LauncherFailure, ...]
) -> tuple[tuple[str, ...], str]:
    """The hosts to name for a launch that died, and the cause in words.

    lost: the lines of survivors that name the origin; failures: what the launcher printed, causes
    first. A rank that a signal ended is the origin, whatever survivors report: on a host with
    several ranks the others lose neighbours too. A rank that ended by itself is mostly a survivor
    that the launcher noticed first; then the hosts that the survivors lost count.
    """
    killed = [
        failure
        for failure in failures
        if failure.kind == "signal" and failure.node and failure.code not in _ENDINGS
    ]
    if killed:
        return _each(failure.node for failure in killed), killed[0].cause
    if lost:
        cause = (
            f"{lost[0].peer} went away: its rank died, or its link; the ranks that ended after it"
            " only lost their neighbour"
        )
        return _each(line.peer for line in lost), cause
    causes = _each(failure.node for failure in failures if failure.role is WarningRole.CAUSE)
    return causes, failures[0].cause if failures else ""


def _each(hosts: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host for host in hosts if host))


def judge(launch: LaunchOutput) -> CaseVerdict:
    """Wrong data and a wrong shape are FAIL; no data, half the data or the wrong ranks are never a
    PASS."""
    findings = tuple(_findings(launch))
    if findings:
        worst = max(findings, key=lambda f: (f.status is Status.FAIL, f.status is Status.UNKNOWN))
        return CaseVerdict(worst.status, worst.title, findings)
    measured = [value for result in launch.results for _, value in _measurements(result)]
    verified = any(value.wrong is not None for value in measured)
    checked = ", data verified" if verified else ""
    return CaseVerdict(Status.PASS, f"complete, on the ranks that were planned{checked}", ())


def _measurements(result: BenchmarkResult) -> list[tuple[BenchmarkRow, Measurement]]:
    """Each row with each of its placements."""
    pairs = []
    for row in result.rows:
        for value in (row.out_of_place, row.in_place):
            if value is not None:
                pairs.append((row, value))
    return pairs


def _findings(launch: LaunchOutput) -> list[Finding]:
    if not any(result.rows for result in launch.results):
        return [_nothing_measured(launch)]
    if len(launch.results) > 1 and all(result.nranks == 1 for result in launch.results):
        return [_without_mpi(launch)]
    result = launch.results[-1]
    findings = _wrong_ranks(launch, result) + _wrong_data(launch, result)
    findings += _incomplete(launch, result)
    if findings:
        return findings
    findings = _other_measurement(launch, result)
    if findings:
        return findings
    case_id = launch.case.id
    if launch.exit_status not in (0, None):
        text = f"exit status {launch.exit_status}"
        return [_unknown(launch, "launch-failed", f"{case_id} ended with {text}", text)]
    if launch.state != "ended":
        title = f"{case_id} did not end by itself: {launch.state}"
        return [_unknown(launch, "launch-not-ended", title, launch.state, with_errors=False)]
    return []


def _wrong_ranks(launch: LaunchOutput, result: BenchmarkResult) -> list[Finding]:
    """Ranks or hosts that are not the planned ones."""
    findings = []
    case_id = launch.case.id
    # With NCCL_TESTS_SPLIT `nranks` is the group's; the device table lists the ranks of all groups.
    ranks = len(result.ranks) or result.nranks
    if ranks is not None and ranks != launch.planned_ranks:
        text = f"{ranks} ranks in the device table, {launch.planned_ranks} planned"
        title = f"{case_id} ran with {text}"
        findings.append(_finding(launch, "ranks-not-as-planned", Status.FAIL, title, text))
    hosts = sorted({line.host for line in result.ranks})
    if launch.planned_hosts and hosts and set(hosts) != set(launch.planned_hosts):
        planned = ", ".join(sorted(launch.planned_hosts))
        text = f"ranks on {', '.join(hosts)}; planned {planned}"
        title = f"{case_id} ran elsewhere: {text}"
        findings.append(_finding(launch, "hosts-not-as-planned", Status.FAIL, title, text))
    elif hosts and not findings:
        findings += _uneven_ranks(launch, result)
    return findings


def _uneven_ranks(launch: LaunchOutput, result: BenchmarkResult) -> list[Finding]:
    """All hosts and ranks are there, and a host has more of them than another, or a GPU has two."""
    findings = []
    on_host = Counter(line.host for line in result.ranks)
    if launch.planned_hosts and len(set(on_host.values())) > 1:
        text = ", ".join(f"{count} on {host}" for host, count in sorted(on_host.items()))
        title = f"{launch.case.id} ran with an uneven number of ranks: {text}"
        findings.append(_finding(launch, "ranks-not-as-planned", Status.FAIL, title, text))
    on_gpu = Counter((line.host, line.bus_id) for line in result.ranks if line.bus_id)
    for (host, bus_id), count in on_gpu.items():
        if count > 1 and launch.planned_hosts:
            text = f"{count} ranks share the GPU {bus_id} of {host}"
            title = f"{launch.case.id}: {text}"
            findings.append(_finding(launch, "ranks-not-as-planned", Status.FAIL, title, text))
    return findings


def _other_measurement(launch: LaunchOutput, result: BenchmarkResult) -> list[Finding]:
    """Complete output that is not of what was planned, or that does not agree with itself."""
    case = launch.case
    if result.collective is not None and result.collective != case.collective.value:
        text = f"{result.collective} was measured, {case.collective.value} is planned"
        title = f"{case.id} ran another collective: {text}"
        return [_finding(launch, "another-collective", Status.FAIL, title, text)]
    faults = tuple(dict.fromkeys(fault for each in launch.results for fault in each.faults))
    if faults:
        title = f"{case.id}: the numbers of its output do not agree: {faults[0]}"
        return [_finding(launch, "numbers-disagree", Status.FAIL, title, faults[0])]
    text = _not_as_measured(launch, result)
    if text:
        return [_unknown(launch, "not-as-measured", f"{case.id}: {text}", text)]
    return []


def _not_as_measured(launch: LaunchOutput, result: BenchmarkResult) -> str:
    """Why the numbers do not mean what the plan takes them for; empty = they do."""
    case = launch.case
    values = [value for _, value in _measurements(result)]
    if case.check > 0 and all(value.wrong is None and value.error is None for value in values):
        return "the data was not verified, and the plan asks for it"
    if any(value.cputime for value in values) and not case.options.cpu_time:
        return "the table shows CPU time (-C 1), which is not the time of the collective"
    wanted = case.options.datatype
    other = next((row.type for row in result.rows if wanted and row.type != wanted), None)
    if other is not None:
        return f"{other} was measured, {wanted} is planned: the binary does not know it"
    operation = case.options.operation
    other = next((row.redop for row in result.rows if operation and row.redop != operation), None)
    if other is not None:
        return f"{other} was measured, {operation} is planned: the binary does not know it"
    iterations = next((text for name, text in result.config if name in _ITERATIONS), "")
    if whole_number(iterations) not in (None, case.iterations):
        count = f"{iterations} iteration{'' if iterations == '1' else 's'}"
        return f"{count} of each size, {case.iterations} planned"
    timed_s = math.fsum(value.time_us for value in values) * case.iterations / 1e6
    if launch.seconds is not None and timed_s > launch.seconds * _CLOCK_SLACK + 1:
        return (
            f"its iterations add up to {timed_s:.0f} s in a launch of {launch.seconds:.0f} s: a"
            " clock is wrong"
        )
    return _one_side_slow(result)


def _one_side_slow(result: BenchmarkResult) -> str:
    """In place and out of place move the same bytes; empty = they take about the same time, or no
    size is large enough for one late launch of a kernel not to show."""
    both = [
        row
        for row in result.rows
        if row.out_of_place and row.in_place and row.size_bytes >= _LARGE_BYTES
    ]
    outside_us = math.fsum(row.out_of_place.time_us for row in both if row.out_of_place)
    inside_us = math.fsum(row.in_place.time_us for row in both if row.in_place)
    if not outside_us or not inside_us:
        return ""
    for name, ratio in (
        ("in place", inside_us / outside_us),
        ("out of place", outside_us / inside_us),
    ):
        if ratio > _SIDES:
            return f"{name} it takes {ratio:.0f} times as long as the other way"
    return ""


def _incomplete(launch: LaunchOutput, result: BenchmarkResult) -> list[Finding]:
    """Sizes, or another part of the output, that are missing."""
    missing = _missing_sizes(launch, result)
    if missing:
        planned = len(launch.case.sizes.planned())
        first = format_size(missing[0])
        text = f"{len(missing)} of {planned} sizes are missing, from {first} on"
        title = f"{launch.case.id} did not finish: {text}"
        return [_unknown(launch, "sizes-missing", title, text)]
    if not result.complete:
        text = "; ".join(result.problems) or "the output has no footer"
        title = f"{launch.case.id} is incomplete: {text}"
        return [_unknown(launch, "output-incomplete", title, text)]
    return []


def _missing_sizes(launch: LaunchOutput, result: BenchmarkResult) -> tuple[int, ...]:
    """Planned sizes without a row. A printed size may be a little smaller: counts are trimmed to
    multiples of 16 bytes per rank."""
    slack = 16 * max(launch.planned_ranks, 1)
    printed = {row.size_bytes for row in result.rows if row.out_of_place is not None}
    missing = []
    for size in launch.case.sizes.planned():
        if not any(size - slack < size_bytes <= size for size_bytes in printed):
            missing.append(size)
    return tuple(missing)


def _nothing_measured(launch: LaunchOutput) -> Finding:
    end = launch.state
    if launch.exit_status is not None:
        end = f"exit status {launch.exit_status}"
    no_row = Evidence(launch.artefact, None, f"no data row in the output; {end}")
    return Finding(
        "nothing-measured",
        Status.UNKNOWN,
        f"{launch.case.id} measured nothing ({end})" + _suspects(launch),
        launch.suspects,
        launch.errors or (no_row,),
        cause=launch.cause or (launch.errors[0].text if launch.errors else ""),
        confidence=Confidence.POSSIBLE,
        required=launch.case.required,
        effect=1.0,
    )


def _without_mpi(launch: LaunchOutput) -> Finding:
    text = (
        f"{len(launch.results)} device tables of one rank each instead of one of"
        f" {launch.planned_ranks}"
    )
    first_rows = [result.rows[0] for result in launch.results[:2] if result.rows]
    finding = Finding(
        "binary-without-mpi",
        Status.FAIL,
        f"{launch.case.id}: {text}",
        (),
        tuple(Evidence(launch.artefact, row.line_no, text) for row in first_rows),
        confidence=Confidence.CERTAIN,
        required=launch.case.required,
        effect=1.0,
    )
    return filled(finding)


def _wrong_data(launch: LaunchOutput, result: BenchmarkResult) -> list[Finding]:
    evidence: list[Evidence] = []
    for row, value in _measurements(result):
        if (value.wrong or 0) > 0 and len(evidence) < 5:
            text = f"{value.wrong} wrong elements at {format_size(row.size_bytes)}"
            evidence.append(Evidence(launch.artefact, row.line_no, text))
    if result.out_of_bounds:
        text = f"Out of bounds values : {result.out_of_bounds} FAILED"
        evidence.append(Evidence(launch.artefact, None, text))
    if not evidence:
        return []
    finding = Finding(
        "wrong-data",
        Status.FAIL,
        f"{launch.case.id}: the collective returned wrong data",
        (),
        tuple(evidence),
        confidence=Confidence.CERTAIN,
        required=launch.case.required,
        effect=1.0,
    )
    return [filled(finding)]


def _unknown(
    launch: LaunchOutput, finding_id: str, title: str, text: str, *, with_errors: bool = True
) -> Finding:
    """A launch whose numbers cannot be used; its own error lines are the first evidence."""
    errors = launch.errors if with_errors else ()
    return _finding(launch, finding_id, Status.UNKNOWN, title, text, errors)


def _finding(
    launch: LaunchOutput,
    finding_id: str,
    status: Status,
    title: str,
    text: str,
    errors: tuple[Evidence, ...] = (),
) -> Finding:
    return Finding(
        finding_id,
        status,
        title + _suspects(launch),
        launch.suspects,
        (*errors, Evidence(launch.artefact, None, text)),
        cause=launch.cause,
        confidence=Confidence.CERTAIN,
        required=launch.case.required,
    )


def _suspects(launch: LaunchOutput) -> str:
    return f": {', '.join(launch.suspects)}" if launch.suspects else ""
