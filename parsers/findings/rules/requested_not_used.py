"""In-network or in-switch reduction that was requested and is not used: SHARP (CollNet) and
NVLink SHARP (NVLS).

Only a job that finished initialisation shows it: until then the lines may still come.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_REQUESTED_SHARP = Watch("requested-sharp", r"NCCL_COLLNET_ENABLE set by environment to [1-9]")
_SHARP = Watch(
    "sharp",
    r"COLLNET/SHARP|Connected Coll[Nn]et|Sharp rank \d+/\d+ initialized|CollNet node threshold",
)
_REQUESTED_NVLS = Watch(
    "requested-nvls",
    r"NCCL_NVLS_ENABLE set by environment to [1-9]|NCCL_ALGO set by environment to .*NVLS",
)
_NVLS = Watch("nvls", r"NVLS comm 0x|Connected NVLS|Connected to NVLS|NVLS Trees")
_READY = Watch("ready", r"- Init COMPLETE|Connected all (?:rings|trees)", enough=0)


def _judge(view: View) -> Iterator[Clue]:
    if not view.has(_READY.name):
        return
    for requested, use, entry in (
        (_REQUESTED_SHARP, _SHARP, "sharp-not-enabled"),
        (_REQUESTED_NVLS, _NVLS, "nvls-not-available"),
    ):
        if view.sightings(use.name):
            continue
        for line in view.sightings(requested.name)[:2]:
            yield line.clue(entry, Weight.WEAK, "nccl-log")


RULE = Rule(
    name="requested-not-used",
    conclusion=(
        "SHARP or NVLS was requested, initialisation completed, and no line shows that it is used."
    ),
    watches=(_REQUESTED_SHARP, _SHARP, _REQUESTED_NVLS, _NVLS, _READY),
    judge=_judge,
    fires=(
        Fires(
            "a:1:2 [0] NCCL INFO NCCL_COLLNET_ENABLE set by environment to 1.\na:1:2 [0] NCCL INFO"
            " comm 0x1 rank 0 nranks 64 - Init COMPLETE\n",
            (("sharp-not-enabled", "weak"),),
        ),
    ),
    silent=(
        "a:1:2 [0] NCCL INFO NCCL_COLLNET_ENABLE set by environment to 1.\n",
        (
            "a:1:2 [0] NCCL INFO NCCL_COLLNET_ENABLE set by environment to 1.\na:1:2 [0] NCCL INFO"
            " CollNet 00/0 : 8 [send] via COLLNET/SHARP/0/GDRDMA\na:1:2 [0] NCCL INFO comm 0x1 rank"
            " 0 nranks 64 - Init COMPLETE\n"
        ),
    ),
)
