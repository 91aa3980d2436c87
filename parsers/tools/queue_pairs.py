"""RDMA queue pairs with their state and owner: `rdma resource show qp` (iproute2 5.10 to 6.9).

>>> line = "link mlx5_0/1 lqpn 2034 rqpn 5441 type RC state RTS rq-psn 10 sq-psn 3 path-mig-state MIGRATED pdn 12 pid 4711 comm python3"
>>> parse(line)[0]
QueuePair(port='mlx5_0/1', local=2034, remote=5441, type='RC', state='RTS', pid=4711, line_no=1)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.text import whole_number

_LINE = re.compile(r"^link (\S+/\d+) lqpn (\d+)((?: [\w-]+ \S+)*)")


@dataclass(frozen=True, slots=True)
class QueuePair:
    """One end of a connection."""

    port: str
    """`mlx5_0/1`, as in the ports of a look."""
    local: int
    remote: int | None
    """The number at the other end; None = not connected, or not reported."""
    type: str
    state: str
    """RTS = in order; ERR = broken: its owner gave up on the other end, or was told to."""
    pid: int | None
    """None = the kernel's own."""
    line_no: int


def parse(text: str) -> tuple[QueuePair, ...]:
    """The queue pairs, in order; () = none is listed."""
    queue_pairs = []
    for line_no, line in enumerate(text.splitlines(), 1):
        if (m := _LINE.match(line.strip())) is None:
            continue
        cells = m[3].split()
        fields = dict(zip(cells[::2], cells[1::2], strict=False))
        remote, pid = fields.get("rqpn", ""), fields.get("pid", "")
        queue_pairs.append(
            QueuePair(
                m[1],
                int(m[2]),
                whole_number(remote),
                fields.get("type", ""),
                fields.get("state", ""),
                whole_number(pid),
                line_no,
            )
        )
    return tuple(queue_pairs)
