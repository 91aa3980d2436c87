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
_WORK = Watch(
    "work", r"NCCL INFO |# nThread \d|# OSU MPI|# Benchmarking \w|Avg bus bandwidth", enough=0
)
_LATER = (
    Watch("bootstrap", r"Bootstrap ?: Using |NET ?: Using interface "),
    Watch("header", r"^# nThread \d|^# Collective test starting"),
    Watch("complete", r"- ?Init COMPLETE"),
    Watch("end", r"Avg bus bandwidth|Out of bounds values"),
)
"""Work of which every line is looked for, since others ask for it: a text has thousands of the rest."""


def _judge(view: View) -> Iterator[Clue]:
    if not view.has(_WARNING.name):
        return
    warnings = view.sightings(_WARNING.name)
    work = [line.place for each in (_WORK, *_LATER) for line in view.sightings(each.name)]
    if work and max(work) > warnings[0].place:
        yield warnings[0].clue("openib-noise", Weight.STRONG, "mpirun")
        yield warnings[0].clue("openib-btl-fails", Weight.EXCLUDES, "mpirun")


_TEXT = "WARNING: There was an error initializing an OpenFabrics device.\n"
_ROWS = "# OSU MPI Latency Test v5.6.3\n"
_INFO = "gpu1:41:42 [0] NCCL INFO cudaDriverVersion 12080\n"
_COMPLETE = (
    "gpu1:41:42 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\n"
)
_HARMLESS = (("openib-noise", "strong"), ("openib-btl-fails", "excludes"))

RULE = Rule(
    name="openib-goes-on",
    conclusion=(
        "A warning of Open MPI's openib component is harmless where the run goes on behind it."
    ),
    watches=(_WARNING, _WORK, *_LATER),
    judge=_judge,
    fires=(
        Fires(_TEXT + _ROWS, _HARMLESS),
        Fires(8 * _INFO + _TEXT + _INFO + _COMPLETE, _HARMLESS),
    ),
    silent=(_TEXT, _ROWS + _TEXT),
)
