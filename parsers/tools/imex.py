"""What `nvidia-imex-ctl -N` prints (IMEX 560 to 580): the nodes of the domain with their state, and
the state of the whole."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DOMAIN = re.compile(r"^Domain State:\s*(\S+)", re.M)
_NODE = re.compile(r"^Node #(\d+)[ \t]++(?:\*[ \t]*+)?(\S++).*?-[ \t]*+([A-Z_]+)\b", re.M)


@dataclass(frozen=True, slots=True)
class ImexDomain:
    """The domain as one of its nodes sees it."""

    state: str
    """`UP`, `DEGRADED`, `DOWN`, `NONE_CONFIGURED`…"""
    nodes: tuple[tuple[int, str], ...]
    """(number, state)."""
    members: tuple[str, ...] = ()
    """Addresses of the nodes that are READY, sorted: the same on all nodes of one domain."""


def parse(text: str) -> ImexDomain | None:
    """The domain; None = the text names no state of one.

    >>> parse("Nodes:\\nNode #0   * 10.0.0.1 *   - READY        - Version: 570.86.15\\nDomain State: UP\\n")
    ImexDomain(state='UP', nodes=((0, 'READY'),), members=('10.0.0.1',))
    """
    state = _DOMAIN.search(text)
    if state is None:
        return None
    listed = _NODE.findall(text)
    return ImexDomain(
        state=state[1],
        nodes=tuple((int(number), node_state) for number, _, node_state in listed),
        members=tuple(
            sorted(address for _, address, node_state in listed if node_state == "READY")
        ),
    )
