"""What was in trouble and is well again, as the same writer says further down: a Lustre target that is
connected again, a file server that answers, a node that responds, a pod that was scheduled or started.

Where nothing else failed, that trouble is over.
"""

from __future__ import annotations

import re

from busbw.parsers.findings.evidence import EvidenceSet, Place, lines_of
from busbw.parsers.logs.scan import Pattern

_TARGET = r"(?P<object>\w+-(?:OST|MDT)[0-9a-f]{4})"
_NODE = r"(?P<object>(?=[\w-]*\d)[\w.\[\],-]+)"
_POD = r"pod/(?P<object>[\w.-]+)"
_LINK = r"(?P<object>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d \w+): (?:NIC )?Link (?:is )?"
_BOOT = r"^\[ *\d{1,3}\.\d+\] \S+ "
"""The kernel within a quarter of an hour of its start."""
_PAIRS = (
    (rf"{_BOOT}{_LINK}down\b", rf"{_BOOT}{_LINK}up\b"),
    (rf"\bLustre: .*?{_TARGET}", rf"\bLustre: {_TARGET}\S*: Connection restored to"),
    (r"\bnfs: server (?P<object>\S+) not resp", r"\bnfs: server (?P<object>\S+) OK\b"),
    (
        rf"error: Nodes? {_NODE} not responding$|\bnode:{_NODE.replace('object', 'agent')} RPC:",
        rf"\bNode {_NODE} now responding",
    ),
    (rf"\bFailedScheduling\s+{_POD}\s", rf"\b(?:Scheduled|Pulled|Started)\s+{_POD}\s"),
    (
        r"^\s*Warning\s+FailedMount\s.*?\b(?P<object>kubelet)\b",
        r"^\s*Normal\s+Started\s+\S+\s+(?P<object>kubelet)\b",
    ),
    (
        r"client socket has failed to connect to (?P<object>\S+:\d+)",
        r"client socket has connected to (?P<object>\S+:\d+)",
    ),
    (rf"\b(?:Failed|BackOff|Unhealthy)\s+{_POD}\s", rf"\bStarted\s+{_POD}\s"),
)
"""What a writer says of an object in trouble, and of the same object when it is well again."""
_KEEP = 256


def patterns() -> tuple[Pattern, ...]:
    """What to search texts for."""
    return tuple(Pattern(well, well, keep=_KEEP) for _, well in _PAIRS)


class Recoveries:
    """The objects of which the texts say that they are well again."""

    __slots__ = ("_last",)

    def __init__(self, evidence: EvidenceSet) -> None:
        self._last: dict[tuple[int, int, str], int] = {}
        """Text, pair and object → the last line that says so."""
        for number, (_, well) in enumerate(_PAIRS):
            for line in lines_of(evidence, well):
                name = _object(re.search(well, line.text, re.IGNORECASE))
                self._last[line.place.text, number, name] = line.place.line_no

    def is_over(self, text: str, place: Place) -> bool:
        """The line tells of trouble that is over further down."""
        if not self._last:
            return False
        for number, (trouble, _) in enumerate(_PAIRS):
            match = re.search(trouble, text, re.IGNORECASE)
            if match is not None:
                return self._last.get((place.text, number, _object(match)), 0) > place.line_no
        return False


def _object(match: re.Match[str] | None) -> str:
    return next((name for name in match.groups() if name), "") if match is not None else ""
