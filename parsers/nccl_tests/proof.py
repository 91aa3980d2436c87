"""Is a launch's output the measurement that was planned? A number is believed only after it is
proven to be the number meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from busbw.model import (
    BenchmarkCase,
    BenchmarkResult,
    Confidence,
    Evidence,
    Finding,
    Fix,
    LauncherFailure,
    Status,
    WarningRole,
)
from busbw.units import format_size

# What busbw's own host-memory benchmark (payload 1.0) prints when a neighbour of a rank goes
# away.
#
# Each survivor names the neighbour it lost and then ends itself, so its own neighbours name it in
# turn: the origin is the one that is named and
# names nobody.
#
# >>> text = (
# ...     "node3: Test network failure rails.c:41 'receiving from node2 on eth0: connection closed
# by the peer'\n"
# ...     "node4: Test network failure rails.c:41 'receiving from node3 on eth0: connection closed
# by the peer'\n"
# ... )
# >>> [lost.peer for lost in origins(lost_peers(text))]
# ['node2']

_LOST = re.compile(
    r"^(\S+): Test network failure \S+ '(?:receiving from|sending to) (\S+) on (\S+): .+'$"
)
_SPEAKS = re.compile(r"^# busbw payload \S+ \(.*speaks the nccl-tests (\S+) dialect\)$", re.M)


@dataclass(frozen=True, slots=True)
class LostPeer:
    """One survivor's line."""

    host: str
    peer: str
    interface: str
    line_no: int
    text: str


def speaks(text: str) -> str | None:
    """The version of nccl-tests whose options and output it has; None = it is not this benchmark's
    output.

    >>> speaks("# busbw payload 1.0 (host memory over MPI, ring algorithms, speaks the nccl-tests 2.19.6 dialect)\\n")
    '2.19.6'
    """
    match = _SPEAKS.search(text)
    return match[1] if match else None


def lost_peers(text: str) -> tuple[LostPeer, ...]:
    """The survivors' lines, in the order printed."""
    matches = (
        (number, line, _LOST.match(line)) for number, line in enumerate(text.splitlines(), 1)
    )
    return tuple(LostPeer(m[1], m[2], m[3], number, line) for number, line, m in matches if m)


def origins(found: tuple[LostPeer, ...]) -> tuple[LostPeer, ...]:
    """The lines that name a host which names nobody; all of them where they go round in a
    circle."""
    speakers = {lost.host for lost in found}
    first = tuple(lost for lost in found if lost.peer not in speakers)
    return first or found


_ENDINGS = (2, 15)
EMULATED_DEVICE = "host memory"
"""In the device name of the payload; a device table with it speaks for no GPU."""


@dataclass(frozen=True, slots=True)
class Seen:
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
    said: tuple[Evidence, ...]
    """What the launcher or the binary printed about a failure, most telling first."""
    named: tuple[str, ...] = ()
    """Nodes that the launcher names as the cause."""
    cause: str = ""
    """What its message means, in words."""


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
    first. A rank that a signal ended is the origin, whatever survivors say: on a host with several
    ranks the others lose neighbours too. (SIGTERM and SIGINT are how a job is ended, and tell
    nothing.) A rank that ended by itself is mostly a survivor that the launcher saw first; then
    those count whom the survivors lost.
    """
    killed = [
        failure
        for failure in failures
        if failure.kind == "signal" and failure.node and failure.code not in _ENDINGS
    ]
    if killed:
        return _each(failure.node for failure in killed), killed[0].cause
    if lost:
        told = (
            f"{lost[0].peer} went away: its rank died, or its link; the ranks that ended after it"
            " only lost their neighbour"
        )
        return _each(item.peer for item in lost), told
    named = _each(failure.node for failure in failures if failure.role is WarningRole.CAUSE)
    return named, failures[0].cause if failures else ""


def _each(hosts: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host for host in hosts if host))


def judge(seen: Seen) -> CaseVerdict:
    """Wrong data and a wrong shape are FAIL; no data, half the data or the wrong ranks are never a
    PASS."""
    findings = tuple(_findings(seen))
    if not findings:
        verified = any(
            m.wrong is not None
            for r in seen.results
            for row in r.rows
            for m in (row.out_of_place, row.in_place)
            if m
        )
        return CaseVerdict(
            Status.PASS,
            "complete, on the ranks that were planned" + (", data verified" if verified else ""),
            (),
        )
    top = max(findings, key=lambda f: (f.status is Status.FAIL, f.status is Status.UNKNOWN))
    return CaseVerdict(top.status, top.title, findings)


def _findings(seen: Seen) -> list[Finding]:
    rows = [row for result in seen.results for row in result.rows]
    if not seen.results or not rows:
        return [_nothing_measured(seen)]
    found = []
    if len(seen.results) > 1 and all(result.nranks == 1 for result in seen.results):
        return [_without_mpi(seen)]
    result = seen.results[-1]
    # With NCCL_TESTS_SPLIT `nranks` is the group's; the device table lists the ranks of all groups.
    ranks = len(result.ranks) or result.nranks
    if ranks is not None and ranks != seen.planned_ranks:
        text = f"{ranks} ranks in the device table, {seen.planned_ranks} planned"
        found.append(
            _finding(
                seen, "ranks-not-as-planned", Status.FAIL, f"{seen.case.id} ran with {text}", text
            )
        )
    hosts = tuple(sorted({line.host for line in result.ranks}))
    if seen.planned_hosts and hosts and set(hosts) != set(seen.planned_hosts):
        text = f"ranks on {', '.join(hosts)}; planned {', '.join(sorted(seen.planned_hosts))}"
        found.append(
            _finding(
                seen,
                "hosts-not-as-planned",
                Status.FAIL,
                f"{seen.case.id} ran elsewhere: {text}",
                text,
            )
        )
    found += _wrong_data(seen, result)
    missing = _missing_sizes(seen, result)
    if missing:
        text = (
            f"{len(missing)} of {len(seen.case.sizes.planned())} sizes are missing, from"
            f" {format_size(missing[0])} on"
        )
        found.append(
            _finding(
                seen,
                "sizes-missing",
                Status.UNKNOWN,
                f"{seen.case.id} did not finish: {text}",
                text,
                fallback=seen.said,
            )
        )
    elif not result.complete:
        text = "; ".join(result.problems) or "the output has no footer"
        found.append(
            _finding(
                seen,
                "output-incomplete",
                Status.UNKNOWN,
                f"{seen.case.id} is incomplete: {text}",
                text,
                fallback=seen.said,
            )
        )
    if seen.exit_status not in (0, None) and not found:
        text = f"exit status {seen.exit_status}"
        found.append(
            _finding(
                seen,
                "launch-failed",
                Status.UNKNOWN,
                f"{seen.case.id} ended with {text}",
                text,
                fallback=seen.said,
            )
        )
    if seen.state != "ended" and not found:
        found.append(
            _finding(
                seen,
                "launch-not-ended",
                Status.UNKNOWN,
                f"{seen.case.id} did not end by itself: {seen.state}",
                seen.state,
            )
        )
    return found


def _nothing_measured(seen: Seen) -> Finding:
    how = f"exit status {seen.exit_status}" if seen.exit_status is not None else seen.state
    evidence = seen.said or (Evidence(seen.artefact, None, f"no data row in the output; {how}"),)
    title = f"{seen.case.id} measured nothing ({how})" + _named(seen)
    return Finding(
        "nothing-measured",
        Status.UNKNOWN,
        title,
        seen.named,
        evidence,
        cause=seen.cause or (seen.said[0].text if seen.said else ""),
        confidence=Confidence.POSSIBLE,
        required=seen.case.required,
        effect=1.0,
    )


def _without_mpi(seen: Seen) -> Finding:
    text = (
        f"{len(seen.results)} device tables of one rank each instead of one of {seen.planned_ranks}"
    )
    evidence = tuple(
        Evidence(seen.artefact, r.rows[0].line_no, text) for r in seen.results[:2] if r.rows
    )
    return Finding(
        "binary-without-mpi",
        Status.FAIL,
        f"{seen.case.id}: {text}",
        (),
        evidence,
        cause="the binary was built without MPI=1: every process measured itself alone",
        fixes=(Fix("build with MPI", ("make MPI=1 MPI_HOME=…",)),),
        verify=("the device table lists all ranks once",),
        confidence=Confidence.CERTAIN,
        required=seen.case.required,
        effect=1.0,
    )


def _wrong_data(seen: Seen, result: BenchmarkResult) -> list[Finding]:
    bad = [
        (row, m)
        for row in result.rows
        for m in (row.out_of_place, row.in_place)
        if m is not None and (m.wrong or 0) > 0
    ]
    if not bad and not result.out_of_bounds:
        return []
    evidence = [
        Evidence(
            seen.artefact, row.line_no, f"{m.wrong} wrong elements at {format_size(row.size_bytes)}"
        )
        for row, m in bad[:5]
    ]
    if result.out_of_bounds:
        evidence.append(
            Evidence(seen.artefact, None, f"Out of bounds values : {result.out_of_bounds} FAILED")
        )
    return [
        Finding(
            "wrong-data",
            Status.FAIL,
            f"{seen.case.id}: the collective returned wrong data",
            (),
            tuple(evidence),
            cause=(
                "a GPU, a link or a library corrupts data; no bandwidth of this run can be trusted"
            ),
            fixes=(
                Fix("find the node: run halves of the nodes with -c 1 until one is left"),
                Fix("take that node out and test its GPUs"),
            ),
            verify=("the same case with -c 1 shows 0 in every #wrong column",),
            confidence=Confidence.CERTAIN,
            required=seen.case.required,
            effect=1.0,
        )
    ]


def _missing_sizes(seen: Seen, result: BenchmarkResult) -> tuple[int, ...]:
    """Planned sizes without a row. A printed size may be a little smaller: counts are trimmed to
    multiples of 16 bytes per rank."""
    slack = 16 * max(seen.planned_ranks, 1)
    printed = {row.size_bytes for row in result.rows if row.out_of_place is not None}
    return tuple(
        size
        for size in seen.case.sizes.planned()
        if not any(size - slack < p <= size for p in printed)
    )


def _finding(
    seen: Seen,
    finding_id: str,
    status: Status,
    title: str,
    text: str,
    fallback: tuple[Evidence, ...] = (),
) -> Finding:
    evidence = (*fallback, Evidence(seen.artefact, None, text))
    return Finding(
        finding_id,
        status,
        title + _named(seen),
        seen.named,
        evidence,
        cause=seen.cause,
        confidence=Confidence.CERTAIN,
        required=seen.case.required,
    )


def _named(seen: Seen) -> str:
    return f": {', '.join(seen.named)}" if seen.named else ""
