"""What NCCL's RAS says of a live job: STATUS as text and as JSON, and the monitor stream. NCCL
2.24.3 to 2.30.7, RCCL 2.28.

Source of the wording: `src/ras/client_support.cc` of those versions. Nodes are IP addresses there,
never host names.

>>> (report,) = read([b'''#0-0 (5c9ac0b1e5a13c77) MISMATCH
...   Communicator ranks have different AllReduce operation counts
...   30 ranks have launched up to operation 6650
...   Rank 21 has launched up to operation 6649 -- GPU 5 managed by process 61003 on node 10.0.0.3
... ''']).records
>>> report.findings[0].groups, report.findings[0].ranks[0].rank, report.findings[0].ranks[0].operation
(((30, 'launched up to operation 6650', 6650),), 21, 6649)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from busbw.errors import ReadError, UnknownLayout
from busbw.model import RasEvent, RasFinding, RasGroup, RasRank, RasRankState, RasReport
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.json_values import (
    first_of,
    flag,
    items,
    loaded,
    mapping,
    number,
    text_of,
    whole,
)
from busbw.text import decoded

# RAS's JSON: the answer to STATUS (2.28.7 and later) and the objects of the monitor stream
# (2.29.2 and later).

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
    ranks = tuple(
        state
        for communicator in items(report, "communicators")
        for state in _states(mapping(communicator))
    )
    ras = mapping(report.get("ras"))
    collection = number(ras, "collection_time_sec")
    return RasReport(
        nccl_version=text_of(report, "nccl_version") or text_of(report, "rccl_version"),
        library="RCCL" if "rccl_version" in report or "hip_runtime_version" in report else "NCCL",
        nodes=None,
        processes=None,
        gpus=None,
        groups=(),
        findings=_json_findings(ranks),
        ranks=ranks,
        collection_s=collection,
        timestamp=text_of(report, "timestamp"),
        timeouts=whole(ras, "timeouts_count"),
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
        found = mapping(value)
        name = text_of(found, "event")
        if name is None:
            return tuple(events), not events
        peer = mapping(found.get("peer"))
        gpus = ",".join(str(each) for each in items(peer, "cuda_devs")) or None
        node = text_of(peer, "host") or text_of(peer, "addr")
        details = text_of(found, "details") or ""
        events.append(
            RasEvent(
                text_of(found, "timestamp"),
                text_of(found, "group"),
                name,
                node,
                whole(peer, "pid"),
                gpus,
                details,
            )
        )


def _states(communicator: dict[str, object]) -> tuple[RasRankState, ...]:
    name = (text_of(communicator, "hash") or "").removeprefix("0x")
    present = [_state(name, mapping(each), missing=False) for each in items(communicator, "ranks")]
    missing = [
        _state(name, mapping(each), missing=True) for each in items(communicator, "missing_ranks")
    ]
    return tuple(
        sorted(
            (each for each in (*present, *missing) if each is not None), key=lambda each: each.rank
        )
    )


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
        counts=tuple(
            sorted((name, count) for name, count in launched.items() if count is not None)
        ),
    )


def _json_findings(ranks: tuple[RasRankState, ...]) -> tuple[RasFinding, ...]:
    """What the text form would have said of the same state."""
    found: list[RasFinding] = []
    for name in dict.fromkeys(each.communicator for each in ranks):
        members = [each for each in ranks if each.communicator == name]
        missing = [each for each in members if each.missing]
        if missing:
            kind = "DEAD" if all(each.considered_dead for each in missing) else "INCOMPLETE"
            text = f"{len(missing)} of {len(members)} ranks did not answer"
            found.append(
                RasFinding(
                    kind, None, name, None, text, (), tuple(_named(each) for each in missing)
                )
            )
        broken = [
            each
            for each in members
            if each.async_error not in (None, _READY, _IN_PROGRESS)
            or each.init_state not in (None, _READY, _IN_PROGRESS)
        ]
        if broken:
            text = f"errors on {len(broken)} ranks"
            found.append(
                RasFinding(
                    "ERROR", None, name, None, text, (), tuple(_named(each) for each in broken)
                )
            )
        found += _mismatches(name, [each for each in members if not each.missing])
    return tuple(found)


def _mismatches(name: str, members: list[RasRankState]) -> list[RasFinding]:
    found = []
    statuses = Counter(_status(each) for each in members)
    if len(statuses) > 1:
        common = statuses.most_common()
        odd = tuple(
            _named(each, status=_status(each)) for each in members if _status(each) != common[0][0]
        )
        groups: tuple[tuple[int, str, int | None], ...] = tuple(
            (count, f"status {status}", None) for status, count in common
        )
        found.append(
            RasFinding(
                "MISMATCH",
                None,
                name,
                "status",
                "Communicator ranks have different status",
                groups,
                odd,
            )
        )
    for collective in sorted({kind for each in members for kind, _ in each.counts}):
        counts = Counter(dict(each.counts).get(collective, 0) for each in members)
        if len(counts) > 1:
            common_counts = counts.most_common()
            outliers = (
                each
                for each in members
                if dict(each.counts).get(collective, 0) != common_counts[0][0]
            )
            odd = tuple(
                _named(each, operation=dict(each.counts).get(collective, 0)) for each in outliers
            )
            groups = tuple(
                (many, f"launched up to operation {operation}", operation)
                for operation, many in common_counts
            )
            text = f"Communicator ranks have different {collective} operation counts"
            found.append(RasFinding("MISMATCH", None, name, collective, text, groups, odd))
    return found


def _status(each: RasRankState) -> str:
    if each.abort_flag:
        return "ABORT"
    if each.finalize_called or each.destroy_flag:
        return "FINALIZE"
    return "RUNNING" if each.init_state in (None, _READY) else "INIT"


def _named(
    each: RasRankState, *, operation: int | None = None, status: str | None = None
) -> RasRank:
    gpu = None if each.cuda_dev is None else str(each.cuda_dev)
    if each.nvml_dev not in (None, each.cuda_dev):
        gpu = f"{gpu} (NVML {each.nvml_dev})"
    error = None
    if each.async_error not in (None, _READY, _IN_PROGRESS):
        error = f"async_error {each.async_error}"
    elif each.init_state not in (None, _READY, _IN_PROGRESS):
        error = f"init_state {each.init_state}"
    return RasRank(each.rank, each.node, each.pid, gpu, operation, status, error)


MOST_BYTES = 64 * 1024 * 1024
"""A report of 100,000 ranks is a tenth of this."""
_VERSION = re.compile(r"^(NCCL|RCCL) version (\S+) compiled with (?:CUDA|ROCm)")
_TOTALS = re.compile(r"^\s+(\d+)\s+(\d+(?:-\d+)?)\s+(\d+(?:-\d+)?)\s+(\d+)\s+(\d+)\s*$")
_GROUP = re.compile(
    r"^\s*(\d+)\s+(\d+)\s+(\d+)\s+([\d-]+)\s+(\d+)\s+(\d+)\s+(NOCOMM|UNKNOWN|INIT|RUNNING|FINALIZE|ABORT)\s+([A-Z,]+)\s*$"
)
_COLLECTION = re.compile(r"^Communicators\.\.\.\s+\((\d+\.\d+)s\)")
_HEADING = re.compile(
    r"^\s*(?:#\d+-\d+ \(([0-9a-f]{8,16})\) )?(INCOMPLETE|DEAD|TIMEOUT|ERROR|MISMATCH)\b"
)
_SUBJECT = re.compile(r"Communicator ranks have different (?:(status)|(\w+) operation counts)")
_MANY = re.compile(
    r"^\s*(\d+) ranks (?:have )?(launched up to operation (\d+)|not launched any operations|status"
    r" (\w+))"
)
_ONE = re.compile(
    r"^\s*Rank (\d+)(?: has (?:launched up to operation (\d+)|(not launched any operations)|status"
    r" (\w+))| reported (.+?))? -- (.*)$"
)
_WHERE = re.compile(
    r"GPU (?P<gpu>[^,]+?(?:\(NVML [^)]*\))?)(?:,| managed by)? process (?P<pid>\d+),?(?: on)? node"
    r" (?P<node>\S+)"
)
_PROCESS = re.compile(r"^\s*Process (\d+) on node (\S+) managing GPUs? (.+?)\s*$")
_MISSING = re.compile(r"^\s*The missing ranks?: ([\d, -]+)")
_EVENT = re.compile(r"^\[(?P<ts>\d{4}-[^\]]+)\] (?P<event>PEER_\w+): (?P<text>.*)$")
_EVENT_PEER = re.compile(r"Process (\d+) on node (\S+)(?: managing GPUs? ([\d,]+))?")
_LOOKS = re.compile(
    rb"NCCL version \S+ compiled with CUDA|Group     Comms     Nodes|\(unreachable via the"
    rb" RAS|launched up to operation \d|PEER_(?:DEAD|NEW)"
)
_NEXT = "query it with: echo verbose status | nc localhost 28028"


def read(chunks: Iterable[bytes]) -> Document:
    """Read a report (text or JSON) or a monitor stream.

    Raises:
        UnknownLayout: nothing of RAS is in it, or it is larger than any report.
    """
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > MOST_BYTES:
            raise UnknownLayout(
                f"larger than {MOST_BYTES} bytes: not a RAS report", next_step=_NEXT
            )
    text = decoded(bytes(data)).replace("\r", "")
    if text.lstrip().startswith("{"):
        return _read_json(text)
    events = tuple(_event(found) for line in text.splitlines() if (found := _EVENT.match(line)))
    if events:
        return Document(
            "nccl-ras",
            events,
            tuple((each.event, each.text) for each in events),
            True,
            *_faults_of(events),
        )
    report, complete = _report(text)
    if report is None:
        first = next((line.strip()[:200] for line in text.splitlines() if line.strip()), "")
        raise UnknownLayout("not a RAS report", seen=first, next_step=_NEXT)
    problems = (
        ()
        if complete
        else (
            (
                "only a part of a report: no table of communicators, or not all that its table"
                " announces"
            ),
        )
    )
    faults = tuple(told(each) for each in report.findings)
    return Document("nccl-ras", (report,), _summary(report), complete, (*faults, *problems), faults)


def told(finding: RasFinding) -> str:
    """A finding in one line."""
    where = f"communicator {finding.communicator}: " if finding.communicator else ""
    ranks = ", ".join(_rank_told(each) for each in finding.ranks[:8]) + (
        " …" if len(finding.ranks) > 8 else ""
    )
    line = f"line {finding.line_no}: " if finding.line_no is not None else ""
    return f"{line}{finding.kind} {where}{finding.text}" + (f" ({ranks})" if ranks else "")


def _rank_told(each: RasRank) -> str:
    name = f"rank {each.rank}" if each.rank is not None else f"process {each.pid}"
    said = [
        f"operation {each.operation}" if each.operation is not None else "",
        each.status or "",
        each.error or "",
    ]
    return " ".join(word for word in (name, f"on {each.node}" if each.node else "", *said) if word)


def _read_json(text: str) -> Document:
    """A document of either kind: the answer to STATUS, or a sequence of events."""
    events, complete = events_of_json(text)
    if events:
        problems, faults = _faults_of(events)
        cut = () if complete else ("the last event is cut off",)
        return Document(
            "nccl-ras",
            events,
            tuple((each.event, each.text) for each in events),
            complete,
            (*problems, *cut),
            faults,
        )
    try:
        report = report_of_json(text)
    except ReadError as error:
        raise UnknownLayout(
            "not a RAS report", seen=error.seen or error.what, next_step=_NEXT
        ) from error
    faults = tuple(told(each) for each in report.findings)
    return Document("nccl-ras", (report,), _summary(report), True, faults, faults)


def _faults_of(events: tuple[RasEvent, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    faults = tuple(
        f"{each.event}: {each.text}"
        for each in events
        if "DEAD" in each.event or "UNRESPONSIVE" in each.event
    )
    return faults, faults


@dataclass(slots=True)
class _Growing:
    """A finding while its lines are read."""

    kind: str
    line_no: int
    communicator: str | None
    subject: str | None = None
    text: str = ""
    groups: list[tuple[int, str, int | None]] = field(default_factory=list)
    ranks: list[RasRank] = field(default_factory=list)
    current: tuple[int | None, str | None] = (None, None)
    """Operation and status of the group line above: its members do not repeat it."""

    def finish(self) -> RasFinding:
        return RasFinding(
            self.kind,
            self.line_no,
            self.communicator,
            self.subject,
            self.text,
            tuple(self.groups),
            tuple(self.ranks),
        )


def _report(text: str) -> tuple[RasReport | None, bool]:
    lines = text.splitlines()
    version = next((found for line in lines if (found := _VERSION.match(line))), None)
    totals = next((found for line in lines if (found := _TOTALS.match(line))), None)
    groups = tuple(_group(found) for line in lines if (found := _GROUP.match(line)))
    collection = next((found for line in lines if (found := _COLLECTION.match(line))), None)
    findings = tuple(_findings(lines))
    nothing = any("No communicator data collected" in line for line in lines)
    if not (groups or findings or nothing or (version and totals)):
        return None, False
    # The table says which kinds of trouble must be explained below it: what is not there was cut
    # off.
    explained = {each.kind for each in findings}
    complete = bool(groups or nothing) and all(
        error in explained for group in groups for error in group.errors
    )
    report = RasReport(
        nccl_version=version[2] if version else None,
        library=version[1] if version else "NCCL",
        nodes=int(totals[1]) if totals else None,
        processes=int(totals[4]) if totals else None,
        gpus=int(totals[5]) if totals else None,
        groups=groups,
        findings=findings,
        ranks=(),
        collection_s=float(collection[1]) if collection else None,
    )
    return report, complete


def _group(found: re.Match[str]) -> RasGroup:
    errors = tuple(word for word in found[8].split(",") if word and word != "OK")
    return RasGroup(
        int(found[2]), int(found[3]), found[4], int(found[5]), int(found[6]), found[7], errors
    )


def _findings(lines: list[str]) -> Iterator[RasFinding]:
    growing: _Growing | None = None
    for line_no, line in enumerate(lines, 1):
        heading = _HEADING.match(line)
        if heading is not None:
            if growing is not None:
                yield growing.finish()
            growing = _Growing(heading[2], line_no, heading[1])
        elif growing is not None and line.strip():
            if line[:1] not in " \t":
                yield growing.finish()
                growing = None
            else:
                # One heading may hold several blocks: status, and one per collective.
                if _SUBJECT.search(line) and growing.text:
                    yield growing.finish()
                    growing = _Growing(growing.kind, line_no, growing.communicator)
                _take(growing, line)
    if growing is not None:
        yield growing.finish()


def _take(growing: _Growing, line: str) -> None:
    """Add one line below a heading to its finding."""
    if subject := _SUBJECT.search(line):
        growing.subject = subject[1] or subject[2]
        growing.text = line.strip()
    elif many := _MANY.match(line):
        operation = int(many[3]) if many[3] else 0 if "not launched" in many[2] else None
        growing.current = (operation, many[4])
        growing.groups.append((int(many[1]), many[2], operation))
    elif one := _ONE.match(line):
        operation = (
            int(one[2])
            if one[2]
            else 0
            if one[3]
            else None
            if one[4] or one[5]
            else growing.current[0]
        )
        status = one[4] or (None if one[2] or one[3] or one[5] else growing.current[1])
        where = _WHERE.search(one[6])
        node, pid, gpu = (
            (where["node"], int(where["pid"]), where["gpu"]) if where else (None, None, None)
        )
        growing.ranks.append(RasRank(int(one[1]), node, pid, gpu, operation, status, one[5]))
    elif process := _PROCESS.match(line):
        growing.ranks.append(RasRank(None, process[2], int(process[1]), process[3]))
    elif missing := _MISSING.match(line):
        growing.ranks += [
            RasRank(int(rank), None, None, None) for rank in re.findall(r"\d+", missing[1])
        ]
    elif not growing.text:
        growing.text = line.strip()


def _event(found: re.Match[str]) -> RasEvent:
    peer = _EVENT_PEER.search(found["text"])
    node, pid, gpus = (peer[2], int(peer[1]), peer[3]) if peer else (None, None, None)
    return RasEvent(found["ts"], None, found["event"], node, pid, gpus, found["text"].strip())


def _summary(report: RasReport) -> tuple[tuple[str, str], ...]:
    rows = [("version", f"{report.library} {report.nccl_version}")] if report.nccl_version else []
    if report.nodes is not None:
        rows.append(
            ("job", f"{report.nodes} nodes, {report.processes} processes, {report.gpus} GPUs")
        )
    for group in report.groups:
        errors = ",".join(group.errors) or "OK"
        rows.append(
            (
                "communicators",
                (
                    f"{group.communicators} of {group.ranks_per_communicator} ranks: {group.status}"
                    f" {errors}"
                ),
            )
        )
    communicators = {each.communicator for each in report.ranks}
    if communicators:
        rows.append(("communicators", f"{len(communicators)} with {len(report.ranks)} ranks"))
    rows += [(each.kind, told(each)) for each in report.findings]
    return tuple(rows)


def _looks_like(head: bytes) -> float:
    if head.lstrip()[:1] == b"{":
        return (
            0.9
            if b'"communicators_count"' in head
            or b'"collective_counts"' in head
            or b'"PEER_' in head
            else 0.0
        )
    return 0.8 if _LOOKS.search(head) else 0.0


FORMAT = Format("nccl-ras", "NCCL RAS report", _looks_like, read)
