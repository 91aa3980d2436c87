"""RAS's JSON: the answer to STATUS (2.28.7 and later) and the objects of the monitor stream (2.29.2 and later)."""

from __future__ import annotations

from collections import Counter

from busbw.errors import ReadError
from busbw.parsers.formats.json_values import first_of, flag, items, loaded, mapping, number, text_of, whole
from busbw.records import RasEvent, RasFinding, RasRank, RasRankState, RasReport

_READY, _IN_PROGRESS = 0, 7


def report_of_json(text: str) -> RasReport:
    """The answer to STATUS in JSON.

    Raises:
        ReadError: it is not JSON, or not of this kind.
    """
    try:
        value = loaded(text)
    except ValueError as error:
        raise ReadError("not a whole JSON document", seen=str(error)) from error
    report = mapping(value)
    if "communicators" not in report and "communicators_count" not in report:
        raise ReadError("a JSON document, but not of RAS", seen=text.strip()[:200])
    ranks = tuple(state for communicator in items(report, "communicators") for state in _states(mapping(communicator)))
    ras = mapping(report.get("ras"))
    collection = number(ras, "collection_time_sec")
    return RasReport(
        nccl_version=text_of(report, "nccl_version") or text_of(report, "rccl_version"),
        library="RCCL" if "rccl_version" in report or "hip_runtime_version" in report else "NCCL",
        nodes=None,
        processes=None,
        gpus=None,
        groups=(),
        findings=_findings(ranks),
        ranks=ranks,
        collection_s=collection,
        timestamp=text_of(report, "timestamp"),
        timeouts=whole(ras, "timeouts_count"),
    )


def events_of_json(text: str) -> tuple[tuple[RasEvent, ...], bool]:
    """The events of a monitor stream, and whether the last one is whole; no events = it is not one."""
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
        found = mapping(value)
        name = text_of(found, "event")
        if name is None:
            return tuple(events), not events
        peer = mapping(found.get("peer"))
        gpus = ",".join(str(each) for each in items(peer, "cuda_devs")) or None
        node = text_of(peer, "host") or text_of(peer, "addr")
        details = text_of(found, "details") or ""
        events.append(RasEvent(text_of(found, "timestamp"), text_of(found, "group"), name, node, whole(peer, "pid"), gpus, details))


def _states(communicator: dict[str, object]) -> tuple[RasRankState, ...]:
    name = (text_of(communicator, "hash") or "").removeprefix("0x")
    present = [_state(name, mapping(each), missing=False) for each in items(communicator, "ranks")]
    missing = [_state(name, mapping(each), missing=True) for each in items(communicator, "missing_ranks")]
    return tuple(sorted((each for each in (*present, *missing) if each is not None), key=lambda each: each.rank))


def _state(communicator: str, rank: dict[str, object], *, missing: bool) -> RasRankState | None:
    index = whole(rank, "rank")
    if index is None:
        return None
    status = mapping(rank.get("status"))
    counts = mapping(rank.get("collective_counts"))
    launched = {name: whole(counts, name) for name in counts}
    return RasRankState(
        communicator=communicator,
        rank=index,
        node=text_of(rank, "host"),
        pid=whole(rank, "pid"),
        cuda_dev=whole(rank, "cuda_dev"),
        nvml_dev=whole(rank, "nvml_dev"),
        missing=missing,
        init_state=whole(status, "init_state"),
        async_error=whole(status, "async_error"),
        finalize_called=flag(status, "finalize_called"),
        destroy_flag=flag(status, "destroy_flag"),
        abort_flag=flag(status, "abort_flag"),
        unresponsive=flag(status, "unresponsive"),
        considered_dead=flag(status, "considered_dead"),
        counts=tuple(sorted((name, count) for name, count in launched.items() if count is not None)),
    )


def _findings(ranks: tuple[RasRankState, ...]) -> tuple[RasFinding, ...]:
    """What the text form would have said of the same state."""
    found: list[RasFinding] = []
    for name in dict.fromkeys(each.communicator for each in ranks):
        members = [each for each in ranks if each.communicator == name]
        missing = [each for each in members if each.missing]
        if missing:
            kind = "DEAD" if all(each.considered_dead for each in missing) else "INCOMPLETE"
            text = f"{len(missing)} of {len(members)} ranks did not answer"
            found.append(RasFinding(kind, None, name, None, text, (), tuple(_named(each) for each in missing)))
        broken = [
            each
            for each in members
            if each.async_error not in (None, _READY, _IN_PROGRESS) or each.init_state not in (None, _READY, _IN_PROGRESS)
        ]
        if broken:
            text = f"errors on {len(broken)} ranks"
            found.append(RasFinding("ERROR", None, name, None, text, (), tuple(_named(each) for each in broken)))
        found += _mismatches(name, [each for each in members if not each.missing])
    return tuple(found)


def _mismatches(name: str, members: list[RasRankState]) -> list[RasFinding]:
    found = []
    statuses = Counter(_status(each) for each in members)
    if len(statuses) > 1:
        common = statuses.most_common()
        odd = tuple(_named(each, status=_status(each)) for each in members if _status(each) != common[0][0])
        groups: tuple[tuple[int, str, int | None], ...] = tuple((count, f"status {status}", None) for status, count in common)
        found.append(RasFinding("MISMATCH", None, name, "status", "Communicator ranks have different status", groups, odd))
    for collective in sorted({kind for each in members for kind, _ in each.counts}):
        counts = Counter(dict(each.counts).get(collective, 0) for each in members)
        if len(counts) > 1:
            common_counts = counts.most_common()
            outliers = (each for each in members if dict(each.counts).get(collective, 0) != common_counts[0][0])
            odd = tuple(_named(each, operation=dict(each.counts).get(collective, 0)) for each in outliers)
            groups = tuple((many, f"launched up to operation {operation}", operation) for operation, many in common_counts)
            text = f"Communicator ranks have different {collective} operation counts"
            found.append(RasFinding("MISMATCH", None, name, collective, text, groups, odd))
    return found


def _status(each: RasRankState) -> str:
    if each.abort_flag:
        return "ABORT"
    if each.finalize_called or each.destroy_flag:
        return "FINALIZE"
    return "RUNNING" if each.init_state in (None, _READY) else "INIT"


def _named(each: RasRankState, *, operation: int | None = None, status: str | None = None) -> RasRank:
    gpu = None if each.cuda_dev is None else str(each.cuda_dev)
    if each.nvml_dev not in (None, each.cuda_dev):
        gpu = f"{gpu} (NVML {each.nvml_dev})"
    error = None
    if each.async_error not in (None, _READY, _IN_PROGRESS):
        error = f"async_error {each.async_error}"
    elif each.init_state not in (None, _READY, _IN_PROGRESS):
        error = f"init_state {each.init_state}"
    return RasRank(each.rank, each.node, each.pid, gpu, operation, status, error)
