"""PyTorch's symmetric memory, where the CUDA driver refuses to map a peer's memory. Its rendezvous is
the exchange of handles of memory, not the meeting of ranks at the master address.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_MEETING = Watch("meeting", r"SymmetricMemory\w*(?:\.|::)rendezvous\b|symm_mem\w*\.rendezvous\(")
_ERROR = Watch("error", r"CUDA driver error: (?!system not yet|out of memory|initiali[sz]ation)")


def _judge(view: View) -> Iterator[Clue]:
    meetings = view.sightings(_MEETING.name)
    for error in view.sightings(_ERROR.name):
        if any(call.place <= error.place for call in meetings):
            yield error.clue("p2p-mapping-failed", Weight.STRONG, "torch")
            yield error.clue("rendezvous-failed", Weight.EXCLUDES, "torch")
            return


_CALL = "    return _SymmetricMemory.rendezvous(tensor, group_name)\n"

RULE = Rule(
    name="symmetric-memory",
    conclusion=(
        "A CUDA driver's error in the rendezvous of PyTorch's symmetric memory is one GPU that "
        "cannot map another's memory."
    ),
    watches=(_MEETING, _ERROR),
    judge=_judge,
    fires=(
        Fires(
            _CALL + "RuntimeError: CUDA driver error: invalid device ordinal\n",
            (("p2p-mapping-failed", "strong"), ("rendezvous-failed", "excludes")),
        ),
    ),
    silent=(
        _CALL + "RuntimeError: CUDA driver error: system not yet initialized\n",
        "RuntimeError: CUDA driver error: invalid argument\n",
    ),
)
