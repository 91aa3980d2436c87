"""Every line of an NCCL debug log taken apart: how much each process wrote, and which collective
each enqueued last (subsystem COLL).

`nccl_debug` looks for lines that say something; this reads all of them, in constant memory. Where a
job hangs, the process whose last call is behind its peers' has not called what they wait for; equal
last calls say that the stall is on the devices or in the network.

>>> log = b"n:1:2 [0] NCCL INFO AllReduce: opCount 1f sendbuff 0x1 recvbuff 0x2 count 64 datatype 7 op 0 root 0 comm 0xab [nranks=2] stream 0x3"
>>> (process,) = read_activity([log])
>>> process.communicators[0].last.name, process.communicators[0].last.op_count
('AllReduce', 31)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from busbw.model import CollectiveCall, CommCalls, ProcessActivity
from busbw.parsers.logs.scan import process_of
from busbw.parsers.logs.scan_sieve import blocks

_RUN = re.compile(rb"^(\S*)(?: .*(?:\n\1 .*)*)?", re.MULTILINE)
"""Lines with the same first word, one behind the other: processes write in bursts, and a run is
found three times faster than its lines."""
_OPENING = b": opCount "
_CALL = re.compile(
    r"(\w+): opCount ([0-9a-f]+) .*?count (\d+) datatype (\d+) op (\d+) root (-?\d+) comm"
    r" (0x[0-9a-f]+)"
)
_MOST_PROCESSES = 200_000

_Last = tuple[int, bytes]
"""(line number, the line from the name on) of a call."""


def read_activity(chunks: Iterable[bytes]) -> tuple[ProcessActivity, ...]:
    """What each process wrote, by name. Lines that name no process are left out."""
    lines: Counter[bytes] = Counter()
    last: dict[tuple[bytes, bytes], _Last] = {}
    line_no = 1
    for block in blocks(chunks):
        text = block.text
        for run in _RUN.finditer(text):
            word, start, end = run[1], run.start(), run.end()
            if text.find(_OPENING, start, end) >= 0:
                _take_calls(word, text[start:end], line_no, last)
            count = text.count(b"\n", start, end) + 1
            lines[word] += count
            line_no += count
        if len(lines) > _MOST_PROCESSES:
            lines = Counter(dict(lines.most_common(_MOST_PROCESSES // 2)))
    return _activities(lines, last)


def _take_calls(
    word: bytes, run: bytes, line_no: int, last: dict[tuple[bytes, bytes], _Last]
) -> None:
    """Book the last call of each communicator in a run whose first line has that number: mostly one
    call, of one communicator."""
    left, end = run.count(_OPENING), len(run)
    done: set[bytes] = set()
    while left > 0 and (opening := run.rfind(_OPENING, 0, end)) >= 0:
        end = run.rfind(b"\n", 0, opening) + 1
        line = run[end:].partition(b"\n")[0]
        fields = line.rsplit(b" ", 4)  # … comm POINTER [nranks=N] stream POINTER
        if len(fields) != 5:
            left -= 1
        elif fields[1] not in done:
            done.add(fields[1])
            left -= 1 + run.count(b" %s [nranks=" % fields[1], 0, end)
            last[word, fields[1]] = (line_no + run.count(b"\n", 0, end), line)


def _activities(
    lines: Counter[bytes], last: dict[tuple[bytes, bytes], _Last]
) -> tuple[ProcessActivity, ...]:
    """First words become processes: one has a first word per thread."""
    named = {word: process_of(word + b" ") for word in lines}
    totals: Counter[bytes] = Counter()
    calls: dict[bytes, dict[str, CollectiveCall]] = {}
    for word, count in lines.items():
        if process := named[word]:
            totals[process] += count
    for (word, _), (line_no, text) in last.items():
        process, call = named.get(word), _CALL.search(text.decode("utf-8", "replace"))
        if process is not None and call is not None:
            count, datatype, redop, root = (int(each) for each in call.groups()[2:6])
            told = CollectiveCall(line_no, call[1], int(call[2], 16), count, datatype, redop, root)
            before = calls.setdefault(process, {}).get(call[7])
            calls[process][call[7]] = told if before is None or before.line_no < line_no else before
    return tuple(
        ProcessActivity(
            process.decode("utf-8", "replace"),
            count,
            tuple(
                CommCalls(pointer, call) for pointer, call in sorted(calls.get(process, {}).items())
            ),
        )
        for process, count in sorted(totals.items())
    )
