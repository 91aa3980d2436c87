"""Reading single values out of JSON of unknown truthfulness: of the wanted type, or None; never an
exception."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator


def loaded(text: str | bytes) -> object:
    """The document.

    Raises:
        ValueError: it is none, or nests deeper than can be read.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def first_of(text: str, at: int = 0) -> tuple[object, int]:
    """The document that begins at `at`, and where it ends.

    Raises:
        ValueError: as `loaded`.
    """
    try:
        return json.JSONDecoder().raw_decode(text, at)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def mapping(value: object) -> dict[str, object]:
    """The value as an object; {} when it is none."""
    return value if isinstance(value, dict) else {}


def items(value: dict[str, object], key: str) -> list[object]:
    """The array under the key; [] when there is none."""
    found = value.get(key)
    return list(found) if isinstance(found, list | tuple) else []


def text_of(value: dict[str, object], key: str) -> str | None:
    """The string under the key (a number is written out); None when there is none."""
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return None
    return str(found)


def whole(value: dict[str, object], key: str) -> int | None:
    """The integer under the key, also when it is written as a string or a whole float; None when
    there is none.

    >>> whole({"a": "57", "b": 5.0, "c": True, "d": "x"}, "a"), whole({"b": 5.0}, "b"), whole({"c": True}, "c"), whole({}, "d")
    (57, 5, None, None)
    """
    found = value.get(key)
    if isinstance(found, str) and found.removeprefix("-").isdecimal() and len(found) < 40:
        return int(found)
    if isinstance(found, bool):
        return None
    if isinstance(found, float):
        return int(found) if math.isfinite(found) and found == int(found) else None
    return found if isinstance(found, int) else None


def number(value: dict[str, object], key: str) -> float | None:
    """The finite number under the key; None when there is none."""
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        return float(found) if math.isfinite(found) else None
    except OverflowError:
        return None


def flag(value: dict[str, object], key: str) -> bool | None:
    """The truth value under the key, also as 0/1 or "true"/"false"; None when there is none."""
    found = value.get(key)
    if isinstance(found, bool):
        return found
    if isinstance(found, str) and found.lower() in ("true", "false"):
        return found.lower() == "true"
    return bool(found) if isinstance(found, int) else None


# Log lines that a collector wrapped in JSON, one object per line: docker's json-file, Fluent Bit,
# Vector, journalctl -o json, Kubernetes loggers.
#
# >>> lines = [b'{"log":"gpu1:41:42 [0] NCCL INFO Using network
# IB\\n","stream":"stdout","time":"2026-07-10T09:00:00Z"}\n{"log":"x\\n"}\n']
# >>> b"".join(unwrapped(lines))
# b'gpu1:41:42 [0] NCCL INFO Using network IB\nx\n'

_KEYS = ("log", "message", "msg", "MESSAGE", "line", "text")
"""Where the line stands; the first of these that is text."""
_LONGEST = 1 << 20
"""Of a line without an end so much is waited for."""


def unwrapped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks as they are, or the lines inside where the first line is such an object. A line
    that is none is given as it stands.

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
