"""When a completion with retry exceeded came: at the first transfer it is reachability or
configuration, after a while of work a link or a peer.

Work is seen in training steps with a loss, in batches and answers of a server of models, in rows of a benchmark, in finished communicators, in
the clock between initialisation and the warning, or in UCX's number of the failed request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View, stamp
from busbw.parsers.findings.named_places import places
from busbw.parsers.findings.rules import Fires, Rule, Watch

START_S = 60.0
"""Up to this long after initialisation a failure counts as one of the first transfer."""

_RETRY = Watch(
    "retry",
    r"completion.*(?:status=(?:IBV_WC_RETRY_EXC_ERR\()?12|error 12)\b|Transport retry count"
    r" exceeded on|transport retry counter exceeded",
)
_REQUEST = Watch("request", r"ib_mlx5_log\.c:\d+ .*QP 0x[\da-f]+ wqe\[\d+\]: ")
_NUMBER = re.compile(r" wqe\[(\d+)\]")
_QUEUE = 256
"""Requests that a send queue of UCX holds (UCX_RC_TX_QUEUE_LEN, UCX 1.8 to 1.20). They complete in
order, so a failed request of a higher number means that others of its queue were answered."""
_INIT = (
    Watch("complete", r"- ?Init COMPLETE"),
    Watch("devices", r"NET/IB ?: Using +\[0\]"),
)
_ENOUGH_WORK = 3
"""Lines of work before a failure that show that it came during the run."""
_WORK = Watch(
    "work",
    r"\b(?:step|iter(?:ation)?s?|epoch|global_step)\b["
    r" :=#/]*\d{2,}.*\b(?:loss|lr|tok|samples|time|s/it|it/s)|\d+%\|.*(?:s/it|it/s)"
    r"|^\W*\d{4,}\s+\d+\s+(?:u?int\d+|half|float|double|bfloat16)\s+\w*\s*-?\d+\s+[\d.]+"
    r"|\b(?:Decode|Prefill) batch\b|throughput: [1-9][\d.]* tok|\bHTTP/1\.\d\"? 200\b"
    r"|^ *\d+ {5,}(?:\d+ {5,})?\d+\.\d\d(?: |$)",
    enough=_ENOUGH_WORK - 1,
)
_SECONDS = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")


def _judge(view: View) -> Iterator[Clue]:
    retries = view.sightings(_RETRY.name)
    if not retries:
        return
    is_late = _worked(view, retries[0]) or _long_after_init(view, retries[0])
    if not (is_late or _queue_was_answered(view)):
        return
    for line in retries[:5]:
        where = places(line.text)
        yield line.clue("retry-exceeded-midrun", Weight.STRONG, "nccl-log", where)
        yield line.clue("retry-exceeded-at-start", Weight.EXCLUDES, "nccl-log", where)


def _worked(view: View, first: Sighting) -> bool:
    """Some lines of work before it, in the same text."""
    lines = 0
    for line in view.each(_WORK.name):
        if line.place >= first.place:
            break
        if line.place.text == first.place.text:
            lines += line.line_count
    return lines >= _ENOUGH_WORK


def _queue_was_answered(view: View) -> bool:
    """A request failed behind more than a queue holds."""
    numbers = [_NUMBER.search(line.text) for line in view.sightings(_REQUEST.name)]
    return any(int(number[1]) > _QUEUE for number in numbers if number)


def _long_after_init(view: View, first: Sighting) -> bool:
    """More than a minute passed by the clock since the last initialisation."""
    failure = _clock(first)
    if failure is None:
        return False
    lines = (line for each in _INIT for line in view.each(each.name))
    starts = ((line.place, start) for line in lines if (start := _clock(line)) is not None)
    last = max(starts, default=None)
    return last is not None and (failure - last[1]).total_seconds() > START_S


def _clock(line: Sighting) -> datetime | None:
    match = _SECONDS.match(stamp(line.text) or "")
    if match is None:
        return None
    try:
        return datetime(*map(int, match.groups()))  # type: ignore[arg-type]  # six numbers, no zone
    except ValueError:
        return None


_WARN = (
    "gpu1:4711:4720 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<47001> with status=12"
    " opcode=0 len=0 vendor err 129 (Recv)\n"
)

_UCX = (
    "[gpu1:4711:0:4711] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15"
    " vend 0x81 hw_synd 0/0)\n[gpu1:4711:0:4711] ib_mlx5_log.c:177  DCI QP 0xd16 wqe[{}]: SEND s-e"
    " [rqpn 0x17de rlid 9] [inl len 61]\n"
)
_OSU = (
    "# OSU MPI Latency Test\n# Size          Latency (us)\n"
    "1                       1.52\n2                       1.53\n4                       1.55\n"
)

RULE = Rule(
    name="completion-timing",
    conclusion=(
        "If retries are exceeded after training steps, benchmark rows, a minute of work or a queue"
        " of answered requests, the fault came during the run."
    ),
    watches=(_RETRY, *_INIT, _WORK, _REQUEST),
    judge=_judge,
    fires=(
        Fires(
            "step 9598 | loss 0.91 | 3.8 s/it\nstep 9599 | loss 0.91 | 3.8 s/it\nstep 9600 | loss"
            " 0.91 | 3.8 s/it\n" + _WARN,
            (("retry-exceeded-midrun", "strong"), ("retry-exceeded-at-start", "excludes")),
        ),
        Fires(
            "[2026-07-10 09:00:00] gpu1:4711:4720 [0] NCCL INFO comm 0x1 rank 0 nranks 16 cudaDev 0"
            " busId 18000 - Init COMPLETE\n[2026-07-10 11:30:00] " + _WARN,
            (("retry-exceeded-midrun", "strong"),),
        ),
        Fires(
            3 * "[2026-08-15 11:46:23 TP0] Decode batch, #running-req: 53, #token: 7630\n"
            + "E0815 11:46:24.9 worker_pool.cpp:824] failed for slice: transport retry counter exceeded\n",
            (("retry-exceeded-midrun", "strong"),),
        ),
        Fires(_UCX.format(6168), (("retry-exceeded-midrun", "strong"),)),
        Fires(_OSU + _UCX.format(0), (("retry-exceeded-midrun", "strong"),)),
    ),
    silent=(
        _WARN,
        _UCX.format(0),
        _UCX.format(17),
        "[2026-07-10 09:00:00] gpu1:4711:4720 [0] NCCL INFO comm 0x1 rank 0 nranks 16 cudaDev 0"
        " busId 18000 - Init COMPLETE\n[2026-07-10 09:00:15] " + _WARN,
    ),
)
