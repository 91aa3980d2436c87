"""Single values out of foreign JSON: of the expected type, or None; never an exception."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from busbw.text import whole_number

if TYPE_CHECKING:
    from busbw.parsers.logs.json_records import Records


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


class Value(NamedTuple):
    """An object or array in a text."""

    tree: object
    """None = it has no end, or is no JSON after all."""
    begin: int
    end: int
    """Behind it; of one without an end, where it stops being JSON."""


class _Text(str):
    """A text of whose errors nobody asks the line: json counts them for each error, which takes
    minutes for 200 kB of `{`."""

    __slots__ = ()

    def count(self, *_: object) -> int:
        """None."""
        return 0

    def rfind(self, *_: object) -> int:
        """Nowhere."""
        return -1


_OPENING = re.compile(r"[\[{]")


def values(text: str, at: int = 0) -> Iterator[Value]:
    """Every object and array from `at` on that stands in no other, with other text between them.

    >>> [value.tree for value in values('[2026-11-20] start {"a": 1}\\n[2] {"b": ')]
    [None, {'a': 1}, [2], None]
    """
    decoder, unlocated = json.JSONDecoder(), _Text(text)
    while opening := _OPENING.search(text, at):
        begin = opening.start()
        tree: object = None
        try:
            tree, at = decoder.raw_decode(unlocated, begin)
        except json.JSONDecodeError as error:
            at = max(error.pos, begin + 1)
        except (RecursionError, ValueError):
            # Too deep, or a number too long: the rest of this line is given up.
            line_end = text.find("\n", begin)
            at = len(text) if line_end < 0 else line_end
        yield Value(tree, begin, at)


def objects(text: str) -> Iterator[dict[str, object]]:
    """Every whole object of a text, one by one also where an array lists them."""
    for value in values(text):
        members = value.tree if isinstance(value.tree, list) else [value.tree]
        for member in members:
            if isinstance(member, dict):
                yield member


def mapping(value: object) -> dict[str, object]:
    """The value as an object; {} when it is none."""
    return value if isinstance(value, dict) else {}


def items(value: dict[str, object], key: str) -> list[object]:
    """The array under the key; [] when there is none."""
    item = value.get(key)
    return list(item) if isinstance(item, list | tuple) else []


def text_of(value: dict[str, object], key: str) -> str | None:
    """The string under the key (a number is written out); None when there is none."""
    item = value.get(key)
    if isinstance(item, bool) or not isinstance(item, str | int | float):
        return None
    return str(item)


def integer(value: dict[str, object], key: str) -> int | None:
    """The integer under the key, also when it is written as a string or a whole float; None when
    there is none.

    >>> integer({"a": "57"}, "a"), integer({"b": 5.0}, "b"), integer({"c": True}, "c"), integer({}, "d")
    (57, 5, None, None)
    """
    item = value.get(key)
    if isinstance(item, str) and (number := whole_number(item.removeprefix("-"))) is not None:
        return -number if item.startswith("-") else number
    if isinstance(item, bool):
        return None
    if isinstance(item, float):
        return int(item) if math.isfinite(item) and item == int(item) else None
    return item if isinstance(item, int) else None


def number(value: dict[str, object], key: str) -> float | None:
    """The finite number under the key; None when there is none."""
    item = value.get(key)
    if isinstance(item, bool) or not isinstance(item, int | float):
        return None
    try:
        return float(item) if math.isfinite(item) else None
    except OverflowError:
        return None


def flag(value: dict[str, object], key: str) -> bool | None:
    """The truth value under the key, also as 0/1 or "true"/"false"; None when there is none."""
    item = value.get(key)
    if isinstance(item, bool):
        return item
    if isinstance(item, str) and item.lower() in ("true", "false"):
        return item.lower() == "true"
    return bool(item) if isinstance(item, int) else None


# Log lines that a collector wrapped in JSON.

TextOf = Callable[[dict[str, object], str], str]
"""Of a record and the line in it, what stands in its place."""

_KEYS = (
    "log",
    "message",
    "msg",
    "MESSAGE",
    "line",
    "text",
    "textPayload",
    "@message",
    "_raw",
    "body",
    "stringValue",
)
"""Where the line stands; the first of these that is text."""
_PAYLOADS = ("jsonPayload", "_source", "result", "body")
"""Objects in which it stands, in records of Google Cloud Logging, Elasticsearch, Splunk,
OpenTelemetry."""
_STACKS = ("exc_info", "exc_text", "stack_trace", "stacktrace", "traceback", "stack")
_REASONS = ("error", "err", "reason", "cause", "exception", "stderr", *_STACKS)
"""Fields beside the line in which programs that log in JSON say why."""
_REASON_KEYS = frozenset(_REASONS)
_INNER = (*_REASONS, "message", "msg")
"""The same, in an object inside the record: an event that the program handles."""
_DEEPEST = 4
"""Objects inside objects that are looked at."""
_NO_OBJECT = re.compile(rb"[ \t\r\n]*[^ \t\r\n{\x00\x80-\xff]")
"""JSON that is UTF-8 without a mark and is no object. Asking this takes a tenth of the time of an
attempt to read it."""
_LONGEST = 1 << 20
"""Bytes of a first line without an end that are awaited."""


def unwrapped(chunks: Iterable[bytes], line_of: TextOf | None = None) -> Iterator[bytes]:
    """The chunks, without the JSON object that a collector put around each line: docker's json-file,
    Fluent Bit, Vector, journalctl -o json, Kubernetes loggers.

    Only where the first line is such an object; a line that is none stays as it is. line_of: what to
    give in place of an object's text. docker cuts
    lines at 16 KiB: a piece without its line end is joined to the next.

    >>> wrapped = [b'{"log":"gpu1:41:42 [0] NCCL INFO Using network IB\\\\n","stream":"stdout"}\\n{"log":"x\\\\n"}\\n']
    >>> b"".join(unwrapped(wrapped))
    b'gpu1:41:42 [0] NCCL INFO Using network IB\\nx\\n'
    """
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
            yield b"".join(_unwrapped(whole + newline, line_of))
    text = _text_of(rest, line_of) if wrapped else None
    yield rest if text is None else text


def _unwrapped(lines: bytes, line_of: TextOf | None) -> Iterator[bytes]:
    """The lines in pieces, the text of each object in its place."""
    done = 0
    for start, end, text in _plain_records().of(lines) if line_of is None else ():
        between = lines[done:start]
        if b"{" in between:
            yield from _decoded(between, None)
        else:
            yield between
        yield text
        done = end
    yield from _decoded(lines[done:], line_of)


@functools.cache
def _plain_records() -> Records:
    """Those whose text is all that is taken of them."""
    from busbw.parsers.logs.json_records import Records  # 30 ms that most texts do not need

    return Records(_KEYS[1:], (_KEYS[0], *_REASONS))


def _decoded(lines: bytes, line_of: TextOf | None) -> Iterator[bytes]:
    """As `_unwrapped`, of any objects. Most lines of a log with some JSON in it have no brace, and are
    not cut out: that would take twice as long."""
    done = 0
    brace = lines.find(b"{")
    while brace >= 0:
        start = lines.rfind(b"\n", done, brace) + 1 or done
        start = lines.rfind(b"\r", start, brace) + 1 or start
        end = lines.find(b"\n", brace) + 1 or len(lines)
        bare_return = lines.find(b"\r", brace, end - 2) + 1
        end = bare_return or end
        text = _text_of(lines[start:end], line_of)
        if text is not None:
            yield lines[done:start]
            yield text
            done = end
        brace = lines.find(b"{", end)
    yield lines[done:]


def _text_of(line: bytes, line_of: TextOf | None = None) -> bytes | None:
    """The text inside, with its line end; None = the line is no such object."""
    if _NO_OBJECT.match(line) is not None:
        return None
    try:
        record = _record(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    text = message_of(record)
    if text is None:
        return None
    if line_of is not None:
        text = line_of(record, text)
    partial = "log" in record and "stream" in record
    return (text if partial or text.endswith("\n") else text + "\n").encode("utf-8", "replace")


_DECODER = json.JSONDecoder()


def _record(line: bytes) -> object:
    """As `loaded`, of a line of UTF-8 in two thirds of the time."""
    try:
        text = line.decode().strip(" \t\r\n")
        record, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return loaded(line)
    return record if end == len(text) else loaded(line)


def message_of(record: dict[str, object]) -> str | None:
    """The line inside a collector's record, with what its other fields say of an error; None =
    there is none.

    >>> message_of({"msg": "no start", "error": "no device"})
    'no start: no device'
    """
    value = _line_in(record)
    for key in _PAYLOADS if value is None else ():
        value = _line_in(mapping(record.get(key)))
        if value is not None:
            break
    if value is None:
        return None
    if _REASON_KEYS.isdisjoint(record) and dict not in map(type, record.values()):
        return value  # most say nothing more, and finding that out takes a quarter of the time
    line = " ".join(value.split())
    reasons = [text for text in _reasons(record, _REASONS) if text not in line]
    return ": ".join((value.rstrip("\n"), *reasons)) if reasons else value


def _line_in(values: dict[str, object]) -> str | None:
    for key in _KEYS:
        value = values.get(key)
        if isinstance(value, str):
            return value
    return None


def _reasons(
    record: dict[str, object], keys: tuple[str, ...], depth: int = _DEEPEST
) -> Iterator[str]:
    """What the fields of these names say, each in one line, and those of objects inside."""
    for key, value in record.items():
        if isinstance(value, str) and value and key in keys:
            yield " ".join(_raised(value).split())
        elif depth and isinstance(value, dict):
            yield from _reasons(mapping(value), _INNER, depth - 1)


def _raised(text: str) -> str:
    """Of a traceback what was raised, which stands last in Python; any other text as it is."""
    if not text.lstrip().startswith("Traceback (most recent call last)"):
        return text
    ends = [line for line in text.splitlines() if line[:1].strip()]
    return ends[-1] if len(ends) > 1 else text
