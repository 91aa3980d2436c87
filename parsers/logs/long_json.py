"""The texts inside JSON documents of one line that is too long to be searched as a line of a log.

>>> texts_of(b'{"name": "job 1", "rc": 1, "stderr": "first line\\\\nsecond line"}', behind=0)
['job 1', 'first line', 'second line']
"""

from __future__ import annotations

import re

from busbw.parsers.logs.json_values import loaded

_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)(?:"(\s*:)?|$)', re.DOTALL)
"""A text, also one that breaks off, and what makes it a name."""
_BLANK = re.compile(rb"[ \\]")
"""A text without a blank or an escaped line end is a word, and no line of a log."""


def texts_of(document: bytes, behind: int) -> list[str]:
    """The lines of its texts that reach beyond so many bytes, in order; [] = it is no JSON."""
    if document.lstrip()[:1] not in (b"{", b"["):
        return []
    lines: list[str] = []
    for match in _STRING.finditer(document):
        if match.end() > behind and match[2] is None and _BLANK.search(match[1]):
            lines += _unescaped(match[1]).splitlines()
    return lines


def _unescaped(text: bytes) -> str:
    try:
        value = loaded(b'"' + text + b'"')
    except ValueError:  # it breaks off within an escape, or is no JSON in the strict sense
        value = None
    return value if isinstance(value, str) else text.decode("utf-8", "replace")
