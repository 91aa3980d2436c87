"""Several ranks' NCCL logs of one node in one text, as busbw fetches them: each behind a line with its name and its whole size."""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD = "# busbw rank log "
_HEAD = re.compile(rf"\n{HEAD}(\S+) (\d+)$".encode(), re.M)


@dataclass(frozen=True, slots=True)
class RankLog:
    """The log of one rank."""

    name: str
    """Of the file on the node: `nccl.HOST.PID.log`."""
    content: bytes
    whole: bool
    """False = the file was longer than what was fetched of it."""


def split(content: bytes) -> tuple[RankLog, ...]:
    """The logs, in the order of their names; () = no rank wrote one.

    >>> split(b"\\n# busbw rank log nccl.gpu-001.41.log 6\\nabc\\n12\\n# busbw rank log nccl.gpu-001.42.log 9\\nabc")[1]
    RankLog(name='nccl.gpu-001.42.log', content=b'abc', whole=False)
    """
    heads = list(_HEAD.finditer(content))
    ends = [*(head.start() for head in heads[1:]), len(content)]
    found = []
    for head, end in zip(heads, ends, strict=False):
        text = content[head.end() + 1 : end]
        found.append(RankLog(head[1].decode("utf-8", "replace"), text, len(text) == int(head[2])))
    return tuple(sorted(found, key=lambda log: log.name))
