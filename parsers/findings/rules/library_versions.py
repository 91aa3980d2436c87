"""Processes of one job that load different NCCL releases."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_VERSION = Watch(
    "version", r"^.{0,200}?:\d+:\d+ \[-?\d+\] NCCL INFO (?:NCCL|RCCL) version ?:? ?\d+\.\d+"
)
_RELEASE = re.compile(r"version ?:? ?(\d+\.\d+(?:\.\d+)?)")


def _judge(view: View) -> Iterator[Clue]:
    by_release: dict[str, Sighting] = {}
    for line in view.sightings(_VERSION.name):
        release = _RELEASE.search(line.text)
        if release and line.process:
            by_release.setdefault(release[1], line)
    if len({line.process for line in by_release.values()}) < 2:
        return
    for line in by_release.values():
        yield line.clue("nccl-version-mismatch", Weight.STRONG, "nccl-log", line.hosts)


RULE = Rule(
    name="library-versions",
    conclusion="Processes of one job print different NCCL releases.",
    watches=(_VERSION,),
    judge=_judge,
    fires=(
        Fires(
            "a:1:2 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\nb:1:2 [0] NCCL INFO NCCL version"
            " 2.29.7+cuda12.9\n",
            (("nccl-version-mismatch", "strong"),),
        ),
    ),
    silent=(
        (
            "a:1:2 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\nb:1:2 [0] NCCL INFO NCCL version"
            " 2.27.3+cuda12.9\n"
        ),
    ),
)
