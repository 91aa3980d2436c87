"""NCCL's RAS reports in JSON: the answer to STATUS (2.28.7 and later), and the monitor stream's objects
(2.29.2 and later)."""

from __future__ import annotations

from collections import Counter

from busbw.errors import ReadError
from busbw.model import RasEvent, RasFinding, RasRank, RasRankState, RasReport
from busbw.parsers.logs.json_values import (
    first_of,
    flag,
    integer,
    items,
    loaded,
    mapping,
    number,
    text_of,
)
from busbw.units import counted

_READY, _IN_PROGRESS = 0, 7
"""Of ncclResult_t."""
_NO_ERROR = (None, _READY, _IN_PROGRESS)


def report_of_json(text: str) -> RasReport:
    """The answer to STATUS in JSON.

    Raises:
        ReadError: it is not JSON, or not of this kind.
    """
    try:
        value = loaded(text)
    except ValueError as error:
        raise ReadError("not a complete JSON document", seen=str(error)) from error
    report = mapping(value)
    if "communicators" not in report and "communicators_count" not in report:
        raise ReadError("a JSON document, but not of RAS", seen=text.strip()[:200])
    ranks: list[RasRankState] = []
    for communicator in items(report, "communicators"):
        ranks += _states(mapping(communicator))
    is_rccl = "rccl_version" in report or "hip_runtime_version" in report
    ras = mapping(report.get("ras"))
    return RasReport(
        nccl_version=text_of(report, "nccl_version") or text_of(report, "rccl_version"),
        library="RCCL" if is_rccl else "NCCL",
        nodes=None,
        processes=None,
        gpus=None,
        groups=(),
        findings=_json_findings(ranks),
        ranks=tuple(ranks),
        collection_s=number(ras, "collection_time_sec"),
        timestamp=text_of(report, "timestamp"),
        timeouts=integer(ras, "timeouts_count"),
    )


def events_of_json(text: str) -> tuple[tuple[RasEvent, ...], bool]:
    """The events of a monitor stream, and whether the last one is whole; no events = it is not
    one."""
    events: list[RasEvent] = []
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at >= len(text):
            return tuple(events), True
        try:
            value, at = first_of(text, at)
        except ValueError:
            return tuple(events), False
        event = _json_event(mapping(value))
        if event is None:
            return tuple(events), not events
        events.append(event)


def _json_event(event: dict[str, object]) -> RasEvent | None:
    name = text_of(event, "event")
    if name is None:
        return None
    peer = mapping(event.get("peer"))
    return RasEvent(
        text_of(event, "timestamp"),
        text_of(event, "group"),
        name,
        text_of(peer, "host") or text_of(peer, "addr"),
        integer(peer, "pid"),
        ",".join(str(each) for each in items(peer, "cuda_devs")) or None,
        text_of(event, "details") or "",
    )


def _states(communicator: dict[str, object]) -> list[RasRankState]:
    name = (text_of(communicator, "hash") or "").removeprefix("0x")
    states = []
    for key, missing in (("ranks", False), ("missing_ranks", True)):
        for rank in items(communicator, key):
            state = _state(name, mapping(rank), missing=missing)
            if state is not None:
                states.append(state)
    return sorted(states, key=lambda state: state.rank)


def _state(communicator: str, rank: dict[str, object], *, missing: bool) -> RasRankState | None:
    index = integer(rank, "rank")
    if index is None:
        return None
    status = mapping(rank.get("status"))
    counts = mapping(rank.get("collective_counts"))
    launched = [(name, count) for name in counts if (count := integer(counts, name)) is not None]
    return RasRankState(
        communicator=communicator,
        rank=index,
        node=text_of(rank, "host"),
        pid=integer(rank, "pid"),
        cuda_dev=integer(rank, "cuda_dev"),
        nvml_dev=integer(rank, "nvml_dev"),
        missing=missing,
        init_state=integer(status, "init_state"),
        async_error=integer(status, "async_error"),
        finalize_called=flag(status, "finalize_called"),
        destroy_flag=flag(status, "destroy_flag"),
        abort_flag=flag(status, "abort_flag"),
        unresponsive=flag(status, "unresponsive"),
        considered_dead=flag(status, "considered_dead"),
        counts=tuple(sorted(launched)),
    )


def _json_findings(ranks: list[RasRankState]) -> tuple[RasFinding, ...]:
    """The findings that the text form would have for the same state."""
    findings: list[RasFinding] = []
    communicators: dict[str, list[RasRankState]] = {}
    for state in ranks:
        communicators.setdefault(state.communicator, []).append(state)
    for name, members in communicators.items():
        missing = [state for state in members if state.missing]
        if missing:
            kind = "DEAD" if all(state.considered_dead for state in missing) else "INCOMPLETE"
            text = f"{len(missing)} of {len(members)} ranks did not answer"
            odd = tuple(map(_rank, missing))
            findings.append(RasFinding(kind, None, name, None, text, (), odd))
        odd = tuple(rank for rank in map(_rank, members) if rank.error)
        if odd:
            text = f"errors on {counted(len(odd), 'rank')}"
            findings.append(RasFinding("ERROR", None, name, None, text, (), odd))
        findings += _mismatches(name, [state for state in members if not state.missing])
    return tuple(findings)


def _mismatches(name: str, members: list[RasRankState]) -> list[RasFinding]:
    """Ranks whose status, or number of launched operations, is not that of most others."""
    findings = []
    statuses = Counter(map(_status, members)).most_common()
    if len(statuses) > 1:
        findings.append(
            RasFinding(
                "MISMATCH",
                None,
                name,
                "status",
                "Communicator ranks have different status",
                tuple((ranks, f"status {status}", None) for status, ranks in statuses),
                tuple(
                    _rank(state, status=_status(state))
                    for state in members
                    if _status(state) != statuses[0][0]
                ),
            )
        )
    for collective in sorted({name for state in members for name, _ in state.counts}):
        operations = [dict(state.counts).get(collective, 0) for state in members]
        common = Counter(operations).most_common()
        if len(common) == 1:
            continue
        findings.append(
            RasFinding(
                "MISMATCH",
                None,
                name,
                collective,
                f"Communicator ranks have different {collective} operation counts",
                tuple((ranks, f"launched up to operation {last}", last) for last, ranks in common),
                tuple(
                    _rank(state, operation=operation)
                    for state, operation in zip(members, operations, strict=True)
                    if operation != common[0][0]
                ),
            )
        )
    return findings


def _status(each: RasRankState) -> str:
    if each.abort_flag:
        return "ABORT"
    if each.finalize_called or each.destroy_flag:
        return "FINALIZE"
    return "RUNNING" if each.init_state in (None, _READY) else "INIT"


def _rank(
    state: RasRankState, *, operation: int | None = None, status: str | None = None
) -> RasRank:
    gpu = None if state.cuda_dev is None else str(state.cuda_dev)
    if state.nvml_dev not in (None, state.cuda_dev):
        gpu = f"{gpu} (NVML {state.nvml_dev})"
    error = None
    if state.async_error not in _NO_ERROR:
        error = f"async_error {state.async_error}"
    elif state.init_state not in _NO_ERROR:
        error = f"init_state {state.init_state}"
    return RasRank(state.rank, state.node, state.pid, gpu, operation, status, error)
