"""Processes of one job that load different NCCL releases."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.findings.table import Weight

_VERSION = Watch(
    "version", r"^.{0,200}?:\d+:\d+ \[-?\d+\] NCCL INFO (?:NCCL|RCCL) version ?:? ?\d+\.\d+"
)
_RELEASE = re.compile(r"version ?:? ?(\d+\.\d+(?:\.\d+)?)")


def _look(view: View) -> Iterator[Clue]:
    first: dict[str, Sighting] = {}
    for line in view.sightings(_VERSION.name):
        found = _RELEASE.search(line.text)
        if found and line.process:
            first.setdefault(found[1], line)
    if len({line.process for line in first.values()}) < 2:
        return
    for line in first.values():
        host = (line.process.rpartition(":")[0],) if line.process and ":" in line.process else ()
        yield Clue(
            "nccl-version-mismatch", Weight.STRONG, "nccl-log", line.evidence(), line.place, host
        )


RULE = Rule(
    name="library-versions",
    says="Processes of one job print different NCCL releases.",
    watches=(_VERSION,),
    look=_look,
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
