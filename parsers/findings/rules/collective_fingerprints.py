"""What PyTorch's collective fingerprints (TORCH_DISTRIBUTED_DEBUG=DETAIL) differ in: the place in
the sequence, the operation, or the size.

Another place in the sequence, or another operation, is a program that took different branches;
equal in both and another shape is one call with other sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_MISMATCH = Watch("mismatch", r"Detected mismatch between collectives on ranks")
_RANK = Watch(
    "rank",
    r"\bRank \d+(?: is running collective)?:? .*(?:SequenceNumber ?=|TensorShape ?=|OpType ?=)",
)
_PRINT = re.compile(
    r"\bRank (\d+)(?: is running (?:inconsistent )?collective)?:\s+(.*?)(?=(?:\.|,"
    r" but|\.Collectives).{0,12}\bRank \d|$)",
    re.IGNORECASE,
)
_SEQUENCE = re.compile(r"SequenceNumber ?= ?(\d+)")
_OPERATION = re.compile(r"OpType ?= ?(\w+)|^(_?[A-Z][A-Z_]+)\b")
_SHAPE = re.compile(r"TensorShape ?= ?\[([\d, ]*)\]")


def _judge(view: View) -> Iterator[Clue]:
    if not view.sightings(_MISMATCH.name):
        return
    lines = (*view.sightings(_MISMATCH.name), *view.sightings(_RANK.name))
    prints: dict[str, str] = {}
    for line in lines:
        prints |= {match[1]: match[2] for match in _PRINT.finditer(line.text)}
    where = tuple(f"rank {rank}" for rank in sorted(prints, key=int))
    for entry, weight in _verdicts(tuple(prints.values())):
        for line in lines[:4]:
            yield line.clue(entry, weight, "watchdog", where)


def _verdicts(prints: tuple[str, ...]) -> tuple[tuple[str, Weight], ...]:
    if len(_distinct(_SEQUENCE, prints)) > 1 or len(_distinct(_OPERATION, prints)) > 1:
        return (("collective-desync", Weight.STRONG),)
    if len(_distinct(_SHAPE, prints)) > 1:
        return (("size-mismatch", Weight.CERTAIN), ("collective-desync", Weight.WEAK))
    return (("collective-desync", Weight.STRONG),)


def _distinct(pattern: re.Pattern[str], prints: tuple[str, ...]) -> set[str]:
    values = set()
    for text in prints:
        match = pattern.search(text)
        if match:
            values.add(next(group for group in match.groups() if group is not None))
    return values


RULE = Rule(
    name="collective-fingerprints",
    conclusion=(
        "If fingerprints differ in sequence number or operation, the program is "
        "desynchronised. If they differ in shape only, sizes do not match."
    ),
    watches=(_MISMATCH, _RANK),
    judge=_judge,
    fires=(
        Fires(
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running"
            " collective: CollectiveFingerPrint(SequenceNumber=57, OpType=ALLREDUCE,"
            " TensorShape=[1024], TensorDtypes=Float), but Rank 0 is running collective:"
            " CollectiveFingerPrint(SequenceNumber=57, OpType=ALLREDUCE, TensorShape=[2048],"
            " TensorDtypes=Float).\n",
            (("size-mismatch", "certain"), ("collective-desync", "weak")),
        ),
        Fires(
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running"
            " collective: CollectiveFingerPrint(SequenceNumber=57, OpType=ALLREDUCE,"
            " TensorShape=[1024]), but Rank 0 is running collective:"
            " CollectiveFingerPrint(SequenceNumber=58, OpType=ALLREDUCE, TensorShape=[2048]).\n",
            (("collective-desync", "strong"),),
        ),
        Fires(
            "Detected mismatch between collectives on ranks.\nRank 2: _ALLGATHER_BASE,"
            " TensorShape=[64]\nRank 0: ALLREDUCE, TensorShape=[64]\n",
            (("collective-desync", "strong"),),
        ),
    ),
    silent=(
        (
            "Rank 3 is running collective: CollectiveFingerPrint(SequenceNumber=57,"
            " OpType=ALLREDUCE)\n"
        ),
    ),
)
