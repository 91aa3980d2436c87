"""What busbw's own host-memory benchmark (payload 1.0) prints when a neighbour of a rank goes away.

Each survivor names the neighbour it lost and then ends itself, so its own neighbours name it in turn: the origin is the one that is named and
names nobody.

>>> text = (
...     "node3: Test network failure rails.c:41 'receiving from node2 on eth0: connection closed by the peer'\\n"
...     "node4: Test network failure rails.c:41 'receiving from node3 on eth0: connection closed by the peer'\\n"
... )
>>> [lost.peer for lost in origins(lost_peers(text))]
['node2']
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LOST = re.compile(r"^(\S+): Test network failure \S+ '(?:receiving from|sending to) (\S+) on (\S+): .+'$")
_SPEAKS = re.compile(r"^# busbw payload \S+ \(.*speaks the nccl-tests (\S+) dialect\)$", re.M)


@dataclass(frozen=True, slots=True)
class LostPeer:
    """One survivor's line."""

    host: str
    peer: str
    interface: str
    line_no: int
    text: str


def speaks(text: str) -> str | None:
    """The version of nccl-tests whose options and output it has; None = it is not this benchmark's output.

    >>> speaks("# busbw payload 1.0 (host memory over MPI, ring algorithms, speaks the nccl-tests 2.19.6 dialect)\\n")
    '2.19.6'
    """
    match = _SPEAKS.search(text)
    return match[1] if match else None


def lost_peers(text: str) -> tuple[LostPeer, ...]:
    """The survivors' lines, in the order printed."""
    matches = ((number, line, _LOST.match(line)) for number, line in enumerate(text.splitlines(), 1))
    return tuple(LostPeer(m[1], m[2], m[3], number, line) for number, line, m in matches if m)


def origins(found: tuple[LostPeer, ...]) -> tuple[LostPeer, ...]:
    """The lines that name a host which names nobody; all of them where they go round in a circle."""
    speakers = {lost.host for lost in found}
    first = tuple(lost for lost in found if lost.peer not in speakers)
    return first or found
