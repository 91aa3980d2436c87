"""P_Key tables of InfiniBand ports as sysfs gives them: `/sys/class/infiniband/DEV/ports/N/pkeys/I`, one 16-bit key per file."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"pkeys/(\d+)\b[^0\n]*(0x[0-9a-fA-F]{4})\b")


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One key of a table."""

    index: int
    key: int
    """16 bits."""

    @property
    def full_member(self) -> bool:
        """Bit 15: limited members reach full members only, never each other."""
        return bool(self.key & 0x8000)


def parse(text: str) -> tuple[PartitionKey, ...]:
    """The keys that are set; () = none in the text. A key 0x0000 is an empty slot.

    >>> parse("pkeys/0 0x7fff\\npkeys/1 0x0000\\n")
    (PartitionKey(index=0, key=32767),)
    """
    keys = (PartitionKey(int(index), int(key, 16)) for index, key in _LINE.findall(text))
    return tuple(key for key in keys if key.key)
