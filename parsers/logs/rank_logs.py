"""The NCCL logs of one node's ranks, as busbw fetches them in one text."""

from __future__ import annotations

import re
from dataclasses import dataclass

RANK_LOG_HEAD = "# busbw rank log "
_RANK_LOG = re.compile(rf"\n{RANK_LOG_HEAD}(\S+) (\d+)$".encode(), re.M)


@dataclass(frozen=True, slots=True)
class RankLog:
    """The log of one rank."""

    name: str
    """Of the file on the node: `nccl.HOST.PID.log`."""
    content: bytes
    whole: bool
    """False = the file was longer than what was fetched of it."""


def split_rank_logs(content: bytes) -> tuple[RankLog, ...]:
    """The logs of one node's ranks, as busbw fetches them in one text: each behind a line with its
    name and its whole size. In the order of their names; () = no rank wrote one.

    >>> split_rank_logs(b"\\n# busbw rank log nccl.gpu-001.41.log 6\\nabc\\n12\\n# busbw rank log nccl.gpu-001.42.log 9\\nabc")[1]
    RankLog(name='nccl.gpu-001.42.log', content=b'abc', whole=False)
    """
    heads = list(_RANK_LOG.finditer(content))
    ends = [*(head.start() for head in heads[1:]), len(content)]
    logs = []
    for head, end in zip(heads, ends, strict=False):
        text = content[head.end() + 1 : end]
        logs.append(RankLog(head[1].decode("utf-8", "replace"), text, len(text) == int(head[2])))
    return tuple(sorted(logs, key=lambda log: log.name))
