"""What `ofed_info -s` prints (MLNX_OFED 4.9 to 24.10, DOCA-OFED 2 and 3): one line, the package's name and a colon."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"^\s*((?:MLNX_OFED_LINUX|MLNX_OFED|OFED-internal|DOCA-OFED|doca-ofed)[-_]?([0-9][^\s:]*)?)\s*:?\s*$", re.M)


@dataclass(frozen=True, slots=True)
class OfedRelease:
    """The vendor package installed."""

    name: str
    version: str | None


def parse_release(stdout: str) -> OfedRelease | None:
    """The release named; None = no such line in the text.

    >>> parse_release("MLNX_OFED_LINUX-23.10-1.1.9.0:\\n")
    OfedRelease(name='MLNX_OFED_LINUX-23.10-1.1.9.0', version='23.10-1.1.9.0')
    """
    match = _LINE.search(stdout)
    return OfedRelease(match[1], match[2]) if match else None
