"""PyTorch's messages about a collective that hangs or fails: watchdog, heartbeat, barriers, stores,
mismatches.

Wordings of `ProcessGroupNCCL.cpp`, `ProcessGroupGloo.cpp`, `ProcessGroupWrapper.cpp` and `TCPStore`
of PyTorch 1.13 to 2.13, and of its analyser of flight recorder dumps.

>>> (log,) = read([b"[rank3]:[E710 09:00:00.426415540 ProcessGroupNCCL.cpp:629] [PG ID 0 PG GUID 0(default_pg) Rank 3] Watchdog caught "
...     b"collective operation timeout: WorkNCCL(SeqNum=57, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) "
...     b"ran for 600038 milliseconds before timing out.\\n"]).records
>>> log.events[0].rank, log.events[0].group, log.events[0].sequence, log.events[0].operation, log.events[0].elapsed_ms
(3, '0(default_pg)', 57, 'ALLREDUCE', 600038)
"""

from __future__ import annotations

import re

from busbw.errors import UnknownLayout
from busbw.model import WatchdogEvent, WatchdogLog
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.scan import Line, LineFormat, Pattern, Scan

_KINDS: tuple[tuple[str, str, int, bool], ...] = (
    # kind, expression for its first line, lines that may belong to it, whether it is a fault (or
    # only what follows from one)
    ("collective-timeout", r"Watchdog caught collective operation timeout", 2, True),
    ("failure-detected", r"failure detected by watchdog at work sequence id", 1, True),
    (
        "work-failed",
        r"(?:Timeout at NCCL work|detected by watchdog at work): ?\d+, last enqueued",
        1,
        True,
    ),
    ("heartbeat", r"watchdog got stuck for \d+ seconds|Heartbeat monitor timed out", 0, True),
    (
        "dump-signal",
        (
            r"Received a dump signal|First PG on this rank to signal dumping|Observed flight"
            r" recorder dump signal"
        ),
        0,
        False,
    ),
    ("dump", r"preparing to dump debug info", 0, False),
    (
        "process-ended",
        r"we are taking the entire process down|Terminating the process after attempting to dump",
        0,
        False,
    ),
    ("no-recorder", r"Stack trace of the failed collective not found", 0, False),
    ("nccl-error", r"NCCL error in: .*NCCL version|NCCL error: ", 8, True),
    ("mismatch", r"Detected mismatch between collectives on ranks", 3, True),
    ("monitored-barrier", r"failed to pass monitoredBarrier", 0, True),
    ("barrier-broken", r"successfully reached monitoredBarrier, but received errors", 0, False),
    ("gloo-timeout", r"Timed out waiting \d+ms for (?:recv|send) operation", 0, True),
    (
        "gloo-closed",
        r"gloo.*Connection closed by peer|Connection closed by peer \[.*remote worker crashing",
        0,
        False,
    ),
    (
        "store-timeout",
        r"client socket has timed out after|clients joined|wait timeout after \d+ms",
        0,
        True,
    ),
    (
        "store-closed",
        (
            r"TCPStore.*(?:recvValue failed|Broken pipe|Connection reset)|Did the remote server"
            r" shutdown or crash"
        ),
        0,
        False,
    ),
    ("analyser-missing", r"Not all ranks joining collective, sequence number", 3, True),
    ("analyser-culprit", r"Culprit rank \d+; Error type", 0, True),
    (
        "analyser-mismatch",
        (
            r"Input/output mismatch in the collective sequence number|Collective sequence number:"
            r" \d+ has errors"
        ),
        0,
        True,
    ),
)
PATTERNS: tuple[Pattern, ...] = tuple(
    Pattern(f"watchdog.{kind}", expression, keep=256, after=after)
    for kind, expression, after, _ in _KINDS
)
"""For the scanner; ids begin with `watchdog.`."""
_FAULTS = frozenset(kind for kind, _, _, fault in _KINDS if fault)
_GLOBAL_RANK = re.compile(r"\[(?:rank|default)(\d+)\]")
_GROUP = re.compile(
    r"\[PG (?:ID (?P<id>\d+) PG GUID (?P<guid>[^\]]*?)|(?P<name>[^\]]*?)) Rank (?P<rank>\d+)\]"
)
_PLAIN_RANK = re.compile(r"\[Rank (\d+)\]")
_NUMBERS = {
    "sequence": re.compile(
        r"SeqNum=(\d+)|work sequence id: (\d+)|Timeout at NCCL work: (\d+)|at work:"
        r" (\d+)|SequenceNumber=(\d+)|sequence number: (\d+)"
    ),
    "elements_in": re.compile(r"NumelIn=(\d+)"),
    "elements_out": re.compile(r"NumelOut=(\d+)"),
    "timeout_ms": re.compile(
        r"Timeout\(ms\)=(\d+)|monitoredBarrier in (\d+) ms|Timed out waiting (\d+)ms|timed out"
        r" after (\d+)ms"
    ),
    "elapsed_ms": re.compile(r"ran for (\d+) milliseconds"),
    "last_enqueued": re.compile(r"last enqueued (?:NCCL )?work: (-?\d+)", re.IGNORECASE),
    "last_completed": re.compile(r"last completed (?:NCCL )?work: (-?\d+)", re.IGNORECASE),
}
_OPERATION = re.compile(r"OpType=(\w+)|Rank \d+:\s+(\w+), TensorShape")
_OTHER_RANK = re.compile(
    r"Rank \d+ is running.*?Rank (\d+) is running|Rank \d+:\s+\w+, Tensor.*?Rank (\d+):\s|Rank"
    r" (\d+) failed to pass"
    r"|Ranks (\d+)[\d, ]* failed to pass|errors while waiting for send/recv from rank (\d+)"
    r"|from\s+rank (\d+) and|Culprit rank (\d+)|missing ranks: \{(\d+)"
)
_OWN_RANK = re.compile(
    r"(?:on ranks\. |^)Rank (\d+)(?: is running collective|: )|^Rank (\d+) successfully"
)
_DETAIL = re.compile(
    r"but (Rank \d+ is running collective: .*?TensorShape=\[[^\]]*\])|NCCL version (\S+)|stuck for"
    r" (\d+ seconds)|Error type: (\w+)"
    r"|(\d+/\d+ clients joined)|missing ranks: (\{[^}]*\})|Ranks ([\d, ]+) failed to pass"
)


def document_of(scan: Scan) -> Document:
    """The messages in a text.

    Raises:
        UnknownLayout: there is none.
    """
    log = log_of(scan)
    if not log.events:
        raise UnknownLayout(
            "no message of PyTorch's watchdog in it",
            seen=scan.first_line,
            next_step="give the standard error of all ranks",
        )
    lines = [(event.kind, _one_line(event)) for event in log.events]
    faults = tuple(line for kind, line in lines if kind in _FAULTS)
    if log.behind:
        ranks = ", ".join(map(str, log.behind))
        lines.append(("behind", f"ranks {ranks} had enqueued less than the others"))
    problems = (*faults, *scan.problems)
    quoted = frozenset(event.line_no for event in log.events if event.kind in _FAULTS)
    return Document("watchdog", (log,), tuple(lines), not scan.problems, problems, faults, quoted)


def log_of(scan: Scan) -> WatchdogLog:
    """The events in a scan for `PATTERNS` (hits of other patterns are ignored)."""
    events = []
    for hit in scan.hits:
        if hit.pattern.startswith("watchdog."):
            events += [_event(hit.pattern.removeprefix("watchdog."), line) for line in hit.examples]
    events.sort(key=lambda event: (event.line_no, event.kind))
    timed_out = {event.rank for event in events if event.kind == "collective-timeout"}
    ranks = sorted(rank for rank in timed_out if rank is not None)
    return WatchdogLog(tuple(events), tuple(ranks), _behind(events))


def _event(kind: str, line: Line) -> WatchdogEvent:
    text = " ".join(" ".join((line.text, *_continuation(line))).split())
    group = _GROUP.search(text)
    group_rank = int(group["rank"]) if group else None
    numbers = {name: _first_int(expression, text) for name, expression in _NUMBERS.items()}
    enqueued, completed = numbers["last_enqueued"], numbers["last_completed"]
    if completed is not None and (completed < 0 or (enqueued is not None and completed > enqueued)):
        # PyTorch 2.3 prints an uninitialised number when nothing has completed.
        completed = None
    return WatchdogEvent(
        kind=kind,
        line_no=line.line_no,
        text=text[:1000],
        rank=_rank(line.text, text, group_rank),
        group=(group["guid"] or group["name"] or group["id"]) if group else None,
        group_rank=group_rank,
        sequence=numbers["sequence"],
        operation=_first_text(_OPERATION, text),
        elements_in=numbers["elements_in"],
        elements_out=numbers["elements_out"],
        timeout_ms=numbers["timeout_ms"],
        elapsed_ms=numbers["elapsed_ms"],
        last_enqueued=enqueued,
        last_completed=completed,
        other_rank=_first_int(_OTHER_RANK, text),
        detail=_first_text(_DETAIL, text),
    )


def _rank(line: str, message: str, group_rank: int | None) -> int | None:
    """The rank that wrote a message: of its tag, else of its words, else the one in its group."""
    if tag := _GLOBAL_RANK.search(line):
        return int(tag[1])
    if match := _PLAIN_RANK.search(message) or _OWN_RANK.search(_untagged(message)):
        return int(next(filter(None, match.groups())))
    return group_rank


def _continuation(line: Line) -> tuple[str, ...]:
    """The lines below that belong to it: up to the first with a tag or another prefix of its
    own."""
    lines = []
    for following in line.after:
        if not following.strip() or re.match(r"\[|\S+:\d+:\d+ |\w+ \d+ \d+:\d+", following):
            break
        lines.append(following)
    return tuple(lines)


def _untagged(text: str) -> str:
    return re.sub(r"^(?:\[[^\]]*\]:? ?)+(?:RuntimeError: )?|^RuntimeError: ", "", text)


def _first_text(expression: re.Pattern[str], text: str) -> str | None:
    match = expression.search(text)
    if match is None:
        return None
    return next((group.strip() for group in match.groups() if group), None)


def _first_int(expression: re.Pattern[str], text: str) -> int | None:
    digits = _first_text(expression, text)
    return int(digits) if digits is not None else None


def _behind(events: list[WatchdogEvent]) -> tuple[int, ...]:
    """Ranks whose highest enqueued work is below that of others in the same group. A group seen by
    one rank alone shows nothing."""
    reached: dict[str | None, dict[int, int]] = {}
    for event in events:
        if event.rank is not None and event.last_enqueued is not None:
            ranks = reached.setdefault(event.group, {})
            ranks[event.rank] = max(ranks.get(event.rank, -1), event.last_enqueued)
    behind: set[int] = set()
    for ranks in reached.values():
        most = max(ranks.values())
        behind.update(rank for rank, number in ranks.items() if number < most)
    return tuple(sorted(behind))


def _one_line(event: WatchdogEvent) -> str:
    rank = f" rank {event.rank}" if event.rank is not None else ""
    facts = []
    if event.operation:
        facts.append(event.operation)
    if event.sequence is not None:
        facts.append(f"sequence {event.sequence}")
    if event.elements_in is not None:
        facts.append(f"{event.elements_in} elements")
    if event.last_enqueued is not None:
        facts.append(f"last enqueued {event.last_enqueued}, completed {event.last_completed}")
    if event.other_rank is not None:
        facts.append(f"rank {event.other_rank} named")
    rest = f" ({', '.join(facts)})" if facts else f": {event.text[:160]}"
    return f"line {event.line_no}{rank}: {event.kind}{rest}"


LINES = LineFormat("watchdog", PATTERNS, document_of)
read = LINES.read
_MARKS = (b"ProcessGroupNCCL", b"Watchdog caught", b"monitoredBarrier", b"WorkNCCL(")


def _looks_like(head: bytes) -> float:
    return 0.7 if any(mark in head for mark in _MARKS) else 0.0


FORMAT = Format("watchdog", "PyTorch watchdog messages", _looks_like, read, embedded=True)
