"""Terminal escape sequences (ECMA-48: colours, titles) taken out of logs.

>>> without_escapes("\\x1b[32mok\\x1b[0m")
'ok'
>>> without_escapes_bytes(b"\\x1b]0;title\\x07a\\n\\x1b[1;31mb\\x1b[m")
b'a\\nb'
"""

from __future__ import annotations

import re

_ESCAPE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\n\x07\x1b]*(?:\x07|\x1b\\)|[@-_])"
_IN_TEXT = re.compile(_ESCAPE)
_IN_BYTES = re.compile(_ESCAPE.encode())


def without_escapes(text: str) -> str:
    """The text without escape sequences."""
    return _IN_TEXT.sub("", text)


def without_escapes_bytes(text: bytes) -> bytes:
    """As `without_escapes`, of many lines at once."""
    return _IN_BYTES.sub(b"", text)
