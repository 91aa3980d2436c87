"""Versions of libraries, drivers and tools: read from what prints them, compared, written."""

from __future__ import annotations

import re

Version = tuple[int, ...]
"""() = not known; it is smaller than every other."""

_RELEASE = re.compile(r"(?<!\d)(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?!\d)")


def release(text: str | None) -> Version:
    """The three numbers of the first release that a text names, 0 for one that is missing.

    >>> release("2.17.1+cuda12.4"), release("2.28+cuda12.4"), release("v5.12-rc1"), release(None)
    ((2, 17, 1), (2, 28, 0), (5, 12, 0), ())
    """
    match = _RELEASE.search(text or "")
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else ()


def numbers(text: str) -> Version:
    """All numbers of a version, as firmware, drivers and OFED have any count of them.

    >>> numbers("28.39.1002"), numbers("24.10-0.7.0.0")
    ((28, 39, 1002), (24, 10, 0, 7, 0, 0))
    """
    return tuple(map(int, re.findall(r"[0-9]+", text)))


def dotted(version: Version) -> str:
    """As people write it.

    >>> dotted((2, 28, 3))
    '2.28.3'
    """
    return ".".join(map(str, version))


def of_nccl_code(code: int) -> str:
    """NCCL's version code (`NCCL_VERSION_CODE`; four digits until 2.8) as people write it.

    >>> of_nccl_code(23007), of_nccl_code(2804)
    ('2.30.7', '2.8.4')
    """
    base = 10000 if code >= 10000 else 1000
    return dotted((code // base, code // 100 % (base // 100), code % 100))
