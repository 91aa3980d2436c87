"""What `ls /dev/infiniband` lists: the device nodes that user space opens."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NODE = re.compile(r"\b(uverbs\d+|umad\d+|issm\d+|rdma_cm)\b")


@dataclass(frozen=True, slots=True)
class RdmaNodes:
    """The nodes listed, sorted."""

    names: tuple[str, ...]

    @property
    def uverbs(self) -> int:
        """Devices that can be opened."""
        return sum(name.startswith("uverbs") for name in self.names)


def parse(text: str) -> RdmaNodes | None:
    """The nodes; None = the text lists none.

    >>> parse("rdma_cm  uverbs0  uverbs1\\n").uverbs
    2
    """
    names = tuple(sorted(set(_NODE.findall(text))))
    return RdmaNodes(names) if names else None
