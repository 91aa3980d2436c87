"""What `ofed_info -s` prints (MLNX_OFED 4.9 to 24.10, DOCA-OFED 2 and 3): one line, the package's
name and mostly a colon."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw import versions
from busbw.parsers.tools import Tool, one

_LINE = re.compile(
    r"^[ \t]*((?:MLNX_OFED_LINUX|MLNX_OFED|OFED-internal|DOCA-OFED|doca-ofed)[-_]?([0-9][^\s:]*)?)\s*:?["
    r" \t\r]*$",
    re.M,
)
_KERNEL = re.compile(r"^(?:ii\s+)?mlnx-ofed-kernel(?:-dkms|-modules)?\s+(\S+)", re.M)


@dataclass(frozen=True, slots=True)
class OfedRelease:
    """The vendor package installed."""

    name: str
    version: str | None
    kernel_package: str | None = None
    """Version of the kernel part, where `dpkg -l` stands beside; None = not shown."""


def parse_release(stdout: str) -> OfedRelease | None:
    """The release named; None = no such line in the text.

    >>> parse_release("MLNX_OFED_LINUX-23.10-1.1.9.0:\\n")
    OfedRelease(name='MLNX_OFED_LINUX-23.10-1.1.9.0', version='23.10-1.1.9.0', kernel_package=None)
    """
    match = _LINE.search(stdout)
    return OfedRelease(match[1], match[2], _kernel_package(stdout)) if match else None


def _kernel_package(text: str) -> str | None:
    match = _KERNEL.search(text)
    return match[1] if match else None


def same_release(userspace: str, kernel: str) -> bool:
    """Whether both are of one release: the kernel's version holds the user space's numbers.

    >>> same_release("24.10-0.7.0.0", "24.10.OFED.24.10.0.7.0.1"), same_release("24.10-0.7.0.0", "23.10.OFED.23.10.1.1.9.1")
    (True, False)
    """
    # The last number counts rebuilds of one of the two only.
    numbers = versions.dotted(versions.numbers(userspace)[:-1])
    return bool(numbers) and numbers in versions.dotted(versions.numbers(kernel))


TOOL = Tool(
    name="ofed_info -s",
    marks=("OFED", "doca-ofed"),
    parse=one(parse_release),
    lines=lambda release: (release.name,),
)
