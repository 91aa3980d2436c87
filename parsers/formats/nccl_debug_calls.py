"""Every line of an NCCL debug log taken apart: how much each process wrote, and which collective each enqueued last (subsystem COLL).

`nccl_debug` looks for lines that say something; this reads all of them, in constant memory. Where a job hangs, the process whose last call is
behind its peers' has not called what they wait for; equal last calls say that the stall is on the devices or in the network.

>>> log = b"n:1:2 [0] NCCL INFO AllReduce: opCount 1f sendbuff 0x1 recvbuff 0x2 count 64 datatype 7 op 0 root 0 comm 0xab [nranks=2] stream 0x3"
>>> (process,) = read_activity([log])
>>> process.communicators[0].last.name, process.communicators[0].last.op_count
('AllReduce', 31)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from busbw.parsers.formats.scan import process_of
from busbw.parsers.formats.scan_blocks import blocks
from busbw.records import CollectiveCall, CommCalls, ProcessActivity

_WORD = re.compile(rb"^(\S*).*", re.MULTILINE)
"""The first word of each line, by one `findall` per block: a loop that splits each line is a third slower."""
_SPLIT = b": opCount "
_ALIKE_BYTES = 128
"""More than the end of a call's line from its communicator on, and the next line up to the name of the call."""
_CALL = re.compile(r"(\w+): opCount ([0-9a-f]+) .*?count (\d+) datatype (\d+) op (\d+) root (-?\d+) comm (0x[0-9a-f]+)")
_MOST_PROCESSES = 200_000

_Last = tuple[int, bytes]
"""(line number, the line from the name on) of a call."""


def read_activity(chunks: Iterable[bytes]) -> tuple[ProcessActivity, ...]:
    """What each process wrote, by name. Lines that name no process are left out."""
    lines: Counter[bytes] = Counter()
    last: dict[tuple[bytes, bytes], _Last] = {}
    line_no = 0
    for block in blocks(chunks):
        words = _WORD.findall(block.text)
        lines.update(words)
        if len(lines) > _MOST_PROCESSES:
            lines = Counter(dict(lines.most_common(_MOST_PROCESSES // 2)))
        _take_calls(block.text, line_no, last)
        line_no += len(words)
    return _activities(lines, last)


def _take_calls(text: bytes, line_no: int, last: dict[tuple[bytes, bytes], _Last]) -> None:
    """Book the last call of each (first word, communicator) in a block; the text is cut at what is in every call's line.

    Processes write in bursts: where three pieces in a row end alike (in communicator and stream, and the beginning of the next line), the
    middle one is not the last call of anything.
    """
    pieces = text.split(_SPLIT)
    ends = [piece[-_ALIKE_BYTES:] for piece in pieces]
    offset = counted = 0
    for at in range(1, len(pieces)):
        offset += len(pieces[at - 1]) + len(_SPLIT)
        if at + 1 < len(pieces) and ends[at - 1] == ends[at] == ends[at + 1]:
            continue
        head = pieces[at - 1][pieces[at - 1].rfind(b"\n") + 1 :]
        call = pieces[at].partition(b"\n")[0]
        fields = call.rsplit(b" ", 4)  # … comm POINTER [nranks=N] stream POINTER
        line_no += text.count(b"\n", counted, offset)
        counted = offset
        if len(fields) == 5:
            last[head.partition(b" ")[0], fields[1]] = (line_no + 1, head + _SPLIT + call)


def _activities(lines: Counter[bytes], last: dict[tuple[bytes, bytes], _Last]) -> tuple[ProcessActivity, ...]:
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
            tuple(CommCalls(pointer, call) for pointer, call in sorted(calls.get(process, {}).items())),
        )
        for process, count in sorted(totals.items())
    )
