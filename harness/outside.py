"""Text that comes from outside: nodes' answers, files that somebody gives."""

from __future__ import annotations

import re

_ENDLESS = re.compile(rb"\d{101,}")
"""No tool prints a number that long, and Python refuses to read one of 4,300 digits by an error of its own."""


def decoded(data: bytes | None) -> str:
    """The bytes as text: what is not UTF-8 as U+FFFD, digits without end as an ellipsis. None = there is nothing, and so is the text.

    What is kept on the disk stays as it came.

    >>> decoded(b"rate " + b"9" * 5000 + b" Gb/s"), decoded(None)
    ('rate … Gb/s', '')
    """
    return _ENDLESS.sub("…".encode(), data or b"").decode("utf-8", "replace")
