"""NCCL's RAS reports of a live job: STATUS as text and as JSON, and the monitor stream. NCCL 2.24.3
to 2.30.7, RCCL 2.28.

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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from busbw.errors import ReadError, UnknownLayout
from busbw.model import RasEvent, RasFinding, RasGroup, RasRank, RasReport
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.nccl_ras_json import events_of_json, report_of_json
from busbw.text import decoded
from busbw.units import counted

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
_LOOKS = (
    (b"NCCL version ", re.compile(rb"NCCL version \S+ compiled with CUDA")),
    (b"Comms", re.compile(rb"Group     Comms     Nodes")),
    (b"RAS", re.compile(rb"\(unreachable via the RAS")),
    (b"operation", re.compile(rb"launched up to operation \d")),
    (b"PEER_", re.compile(rb"PEER_(?:DEAD|NEW)")),
)
"""A word, and an expression whose every match has it: most texts have none of the words, and finding
that out takes a tenth of the time."""
_JSON_MARKS = (b'"communicators_count"', b'"collective_counts"', b'"PEER_')
_LISTED = 8
_PARTIAL = "only a part of a report: no table of communicators, or not all that its table announces"
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
    events = tuple(map(_event, filter(None, map(_EVENT.match, text.splitlines()))))
    if events:
        return _document_of_events(events, ())
    report, complete = _report(text)
    if report is None:
        first = next((line.strip()[:200] for line in text.splitlines() if line.strip()), "")
        raise UnknownLayout("not a RAS report", seen=first, next_step=_NEXT)
    return _document(report, () if complete else (_PARTIAL,))


def _document(report: RasReport, problems: tuple[str, ...]) -> Document:
    passing = tuple(one_line_of(each) for each in report.findings if _is_teardown(each))
    faults = tuple(one_line_of(each) for each in report.findings if not _is_teardown(each))
    return Document(
        "nccl-ras",
        (report,),
        _summary(report),
        not problems,
        (*faults, *passing, *problems),
        faults,
    )


def _is_teardown(finding: RasFinding) -> bool:
    """The ranks of a communicator differ in their status because some have begun to destroy it. In
    one report that is a transition; a second report tells whether it lasts (NCCL user guide,
    troubleshooting, RAS)."""
    statuses = (status for _, status, _ in finding.groups)
    return finding.subject == "status" and any("FINALIZE" in status for status in statuses)


def _document_of_events(events: tuple[RasEvent, ...], problems: tuple[str, ...]) -> Document:
    faults = []
    for event in events:
        if "DEAD" in event.event or "UNRESPONSIVE" in event.event:
            faults.append(f"{event.event}: {event.text}")
    return Document(
        "nccl-ras",
        events,
        tuple((event.event, event.text) for event in events),
        not problems,
        (*faults, *problems),
        tuple(faults),
    )


def one_line_of(finding: RasFinding) -> str:
    """A finding in one line."""
    line = f"line {finding.line_no}: " if finding.line_no is not None else ""
    where = f"communicator {finding.communicator}: " if finding.communicator else ""
    ranks = ", ".join(map(_rank_text, finding.ranks[:_LISTED]))
    if len(finding.ranks) > _LISTED:
        ranks += " …"
    return f"{line}{finding.kind} {where}{finding.text}" + (f" ({ranks})" if ranks else "")


def _rank_text(rank: RasRank) -> str:
    words = [f"process {rank.pid}" if rank.rank is None else f"rank {rank.rank}"]
    if rank.node:
        words.append(f"on {rank.node}")
    if rank.operation is not None:
        words.append(f"operation {rank.operation}")
    return " ".join(filter(None, (*words, rank.status, rank.error)))


def _read_json(text: str) -> Document:
    """A document of either kind: the answer to STATUS, or a sequence of events."""
    events, complete = events_of_json(text)
    if events:
        return _document_of_events(events, () if complete else ("the last event is truncated",))
    try:
        report = report_of_json(text)
    except ReadError as error:
        raise UnknownLayout(
            "not a RAS report", seen=error.seen or error.what, next_step=_NEXT
        ) from error
    return _document(report, ())


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
    """The report of a text and whether it is complete; None = the text has none."""
    lines = text.splitlines()
    version = _first(_VERSION, lines)
    totals = _first(_TOTALS, lines)
    collection = _first(_COLLECTION, lines)
    groups = tuple(map(_group, filter(None, map(_GROUP.match, lines))))
    findings = tuple(_findings(lines))
    nothing = any("No communicator data collected" in line for line in lines)
    if not (groups or findings or nothing or (version and totals)):
        return None, False
    # The table lists the kinds of error that are explained below it: a kind without an explanation
    # was cut off.
    announced = {error for group in groups for error in group.errors}
    explained = {finding.kind for finding in findings}
    complete = bool(groups or nothing) and announced <= explained
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


def _first(expression: re.Pattern[str], lines: list[str]) -> re.Match[str] | None:
    return next(filter(None, map(expression.match, lines)), None)


def _group(match: re.Match[str]) -> RasGroup:
    errors = tuple(word for word in match[8].split(",") if word and word != "OK")
    return RasGroup(
        communicators=int(match[2]),
        nodes=int(match[3]),
        ranks_per_node=match[4],
        ranks_per_communicator=int(match[5]),
        ranks_in_group=int(match[6]),
        status=match[7],
        errors=errors,
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
        operation = int(many[3]) if many[3] else None
        if "not launched" in many[2]:
            operation = 0
        growing.current = (operation, many[4])
        growing.groups.append((int(many[1]), many[2], operation))
    elif one := _ONE.match(line):
        growing.ranks.append(_one_rank(one, growing.current))
    elif process := _PROCESS.match(line):
        growing.ranks.append(RasRank(None, process[2], int(process[1]), process[3]))
    elif missing := _MISSING.match(line):
        growing.ranks += [
            RasRank(int(rank), None, None, None) for rank in re.findall(r"\d+", missing[1])
        ]
    elif not growing.text:
        growing.text = line.strip()


def _one_rank(match: re.Match[str], group: tuple[int | None, str | None]) -> RasRank:
    """A rank's line; what it does not say is as the group line above it has it."""
    _, last, none_launched, status, error, place = match.groups()
    operation: int | None = None
    if last:
        operation = int(last)
    elif none_launched:
        operation = 0
    elif not status and not error:
        operation, status = group
    where = _WHERE.search(place)
    if where is None:
        return RasRank(int(match[1]), None, None, None, operation, status, error)
    pid = int(where["pid"])
    return RasRank(int(match[1]), where["node"], pid, where["gpu"], operation, status, error)


def _event(match: re.Match[str]) -> RasEvent:
    text = match["text"]
    peer = _EVENT_PEER.search(text)
    node, pid, gpus = (peer[2], int(peer[1]), peer[3]) if peer else (None, None, None)
    return RasEvent(match["ts"], None, match["event"], node, pid, gpus, text.strip())


def _summary(report: RasReport) -> tuple[tuple[str, str], ...]:
    rows = []
    if report.nccl_version:
        rows.append(("version", f"{report.library} {report.nccl_version}"))
    if report.nodes is not None:
        job = f"{report.nodes} nodes, {report.processes} processes, {report.gpus} GPUs"
        rows.append(("job", job))
    for group in report.groups:
        errors = ",".join(group.errors) or "OK"
        ranks = f"{group.communicators} of {group.ranks_per_communicator} ranks"
        rows.append(("communicators", f"{ranks}: {group.status} {errors}"))
    communicators = {each.communicator for each in report.ranks}
    if communicators:
        rows.append(
            ("communicators", f"{len(communicators)} with {counted(len(report.ranks), 'rank')}")
        )
    rows += [(each.kind, one_line_of(each)) for each in report.findings]
    return tuple(rows)


def _looks_like(head: bytes) -> float:
    if head.lstrip()[:1] == b"{":
        return 0.9 if any(mark in head for mark in _JSON_MARKS) else 0.0
    is_report = any(word in head and looks.search(head) for word, looks in _LOOKS)
    return 0.8 if is_report else 0.0


FORMAT = Format("nccl-ras", "NCCL RAS report", _looks_like, read)
