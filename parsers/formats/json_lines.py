"""Log lines that a collector wrapped in JSON, one object per line: docker's json-file, Fluent Bit, Vector, journalctl -o json, Kubernetes loggers.

>>> lines = [b'{"log":"gpu1:41:42 [0] NCCL INFO Using network IB\\\\n","stream":"stdout","time":"2026-07-10T09:00:00Z"}\\n{"log":"x\\\\n"}\\n']
>>> b"".join(unwrapped(lines))
b'gpu1:41:42 [0] NCCL INFO Using network IB\\nx\\n'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from busbw.parsers.formats.json_values import loaded

_KEYS = ("log", "message", "msg", "MESSAGE", "line", "text")
"""Where the line stands; the first of these that is text."""
_LONGEST = 1 << 20
"""Of a line without an end so much is waited for."""


def unwrapped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks as they are, or the lines inside where the first line is such an object. A line that is none is given as it stands.

    docker cuts lines at 16 KiB: a piece without its line end is joined to the next."""
    rest, wrapped = b"", None
    for chunk in chunks:
        rest += chunk
        if wrapped is None:
            start = rest.lstrip()
            if start and not start.startswith(b"{"):
                wrapped = False
            elif b"\n" in start or len(rest) > _LONGEST:
                wrapped = _text_of(start.partition(b"\n")[0]) is not None
        if wrapped is False:
            yield rest
            rest = b""
        elif wrapped:
            whole, newline, rest = rest.rpartition(b"\n")
            yield b"".join(_line(line) for line in (whole + newline).splitlines(keepends=True))
    yield _line(rest) if wrapped else rest


def _line(line: bytes) -> bytes:
    text = _text_of(line)
    return line if text is None else text


def _text_of(line: bytes) -> bytes | None:
    """The text inside, with its line end; None = the line is no such object."""
    try:
        found = loaded(line)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    text = next((value for key in _KEYS if isinstance(value := found.get(key), str)), None)
    if text is None:
        return None
    partial = "log" in found and "stream" in found
    return (text if partial or text.endswith("\n") else text + "\n").encode("utf-8", "replace")
