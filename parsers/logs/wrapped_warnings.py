"""NCCL's warnings that run on in further lines, each as one line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.logs import tags

WARN = b" NCCL WARN "
_CONTINUATION_LINES = 3
_CONTINUATION_BYTES = 2048
_NOT_CONTINUATION = re.compile(
    rb"^\s*(?:#|-?\d|$)|^\W*[\w.-]+:\d+:\d+ | NCCL [A-Z]+ |^-{8}|^\S+: |^ ?\.\. |^Traceback|^ "
    rb" |^\S*\w@\w\S*[ :].*[$#%>] |^Script done on "
)
_CUT = re.compile(
    rb"(?:failed with(?: error)?(?:"
    rb" \d+)?|[,:;(=-]|\b(?:with|to|for|on|and|of|the|in|from|is|error))\s*$"
)
_SECOND = re.compile(rb"[a-z(]|This is usually caused|Disable NVLS|Do not force-enable")


def wrapped_warnings(text: bytes) -> Iterator[tuple[int, bytes, int]]:
    """(index of the first line, the warning as one line, how many lines it consists of) of each
    warning that runs on in further lines."""
    at = counted = 0
    start = text.find(WARN)
    while start >= 0:
        at += text.count(b"\n", counted, start)
        counted = start
        end = text.find(b"\n", start)
        if end < 0:
            return
        following = text[end + 1 : end + 1 + _CONTINUATION_BYTES].split(b"\n")
        parts = [text[text.rfind(b"\n", 0, start) + 1 : end]]
        form = tags.form_of_bytes(parts[0])
        for line in following[:_CONTINUATION_LINES]:
            untagged = tags.untagged_bytes(line, form)
            if not _continues(parts[-1], untagged):
                break
            parts.append(untagged)
        if len(parts) > 1:
            yield at, b" ".join(parts), len(parts)
        start = text.find(WARN, end)


def _continues(before: bytes, line: bytes) -> bool:
    """The line goes on where the one before was cut, or is the second of those warnings that
    consist of several."""
    if _NOT_CONTINUATION.search(line) is not None:
        return False
    return _CUT.search(before) is not None or _SECOND.match(line) is not None
