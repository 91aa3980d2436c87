"""NCCL variables that differ between the processes of one job although they must agree, or that
reach only some of the hosts.

NCCL prints a variable once per process when it first reads it. A process that prints no variable at
all proves nothing: its level may hide them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

AGREE = (
    "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_PROTO", "NCCL_ALGO", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE",
    "NCCL_COLLNET_ENABLE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_MNNVL_ENABLE", "NCCL_CROSS_NIC", "NCCL_PXN_DISABLE", "NCCL_P2P_DISABLE",
)  # fmt: skip
"""Variables whose value decides how two ranks talk: they must be equal."""
_WATCHES = tuple(Watch(name, rf"\b{name} set (?:by environment )?to ") for name in AGREE)
_ANY = Watch("any", r"\bNCCL_[A-Z0-9_]+ set (?:by environment )?to ")
_VALUE = re.compile(r" set (?:by environment )?to (.*?)\.?\s*$")


def _judge(view: View) -> Iterator[Clue]:
    reporting = {line.host for line in view.sightings(_ANY.name)} - {None}
    for name in AGREE:
        lines = [line for line in view.sightings(name) if line.host is not None]
        by_value: dict[str | None, Sighting] = {}
        for line in lines:
            match = _VALUE.search(line.text)
            by_value.setdefault(match and match[1], line)
        if len(by_value.keys() - {None}) > 1:
            yield from _clues("env-differs-between-ranks", Weight.STRONG, by_value.values())
        elif lines and len(reporting) > 1 and {line.host for line in lines} != reporting:
            yield from _clues("env-differs-between-ranks", Weight.WEAK, lines[:2])
            yield from _clues("env-not-forwarded", Weight.WEAK, lines[:2])


def _clues(entry: str, weight: Weight, lines: Iterable[Sighting]) -> Iterator[Clue]:
    for line in lines:
        yield line.clue(entry, weight, "nccl-log", line.hosts)


RULE = Rule(
    name="env-between-ranks",
    conclusion=(
        "A variable that must be the same on all ranks has two values, or only some hosts print it."
    ),
    watches=(*_WATCHES, _ANY),
    judge=_judge,
    fires=(
        Fires(
            "a:1:2 [0] NCCL INFO NCCL_PROTO set by environment to Simple\nb:1:2 [0] NCCL INFO"
            " NCCL_PROTO set by environment to LL128\n",
            (("env-differs-between-ranks", "strong"),),
        ),
        Fires(
            "a:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\nb:1:2 [0] NCCL INFO"
            " NCCL_DEBUG_SUBSYS set by environment to INIT\n",
            (("env-not-forwarded", "weak"), ("env-differs-between-ranks", "weak")),
        ),
    ),
    silent=(
        (
            "a:1:2 [0] NCCL INFO NCCL_PROTO set by environment to Simple\nb:1:2 [0] NCCL INFO"
            " NCCL_PROTO set by environment to Simple\n"
        ),
        "a:1:2 [0] NCCL INFO NCCL_PROTO set by environment to Simple\n",
    ),
)
