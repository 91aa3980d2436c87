"""Open MPI's warning that its openib component could not use a device, and a run that goes on: MPI took
another transport, so the warning is no failure.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_WARNING = Watch(
    "warning",
    r"error initializing an OpenFabrics device|infiniband ports on a device"
    r"|No OpenFabrics connection schemes reported|No preset parameters were found for the device",
)
_WORK = Watch("work", r"NCCL INFO |# nThread \d|# OSU MPI|# Benchmarking \w|Avg bus bandwidth")


def _judge(view: View) -> Iterator[Clue]:
    if not view.has(_WARNING.name):
        return  # every line of NCCL is a line of work: they are not collected for nothing
    warnings, work = view.sightings(_WARNING.name), view.sightings(_WORK.name)
    if work and work[-1].place > warnings[0].place:
        yield warnings[0].clue("openib-noise", Weight.STRONG, "mpirun")
        yield warnings[0].clue("openib-btl-fails", Weight.EXCLUDES, "mpirun")


_TEXT = "WARNING: There was an error initializing an OpenFabrics device.\n"
_ROWS = "# OSU MPI Latency Test v5.6.3\n"

RULE = Rule(
    name="openib-goes-on",
    conclusion=(
        "A warning of Open MPI's openib component is harmless where the run goes on behind it."
    ),
    watches=(_WARNING, _WORK),
    judge=_judge,
    fires=(Fires(_TEXT + _ROWS, (("openib-noise", "strong"), ("openib-btl-fails", "excludes"))),),
    silent=(_TEXT, _ROWS + _TEXT),
)
