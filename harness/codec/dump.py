"""Records to JSON text that is the same bytes every time: fields in the record's order, sets and
mappings sorted, floats as `repr`."""

from __future__ import annotations

import base64
import dataclasses
import functools
import math
import re
from collections.abc import Mapping
from enum import Enum
from json.encoder import encode_basestring
from typing import Any

_ESCAPED = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Beside what JSON itself asks for: what no UTF-8 can hold, and what a terminal obeys or reorders
when somebody looks at the document."""


def dump_json(record: object) -> str:
    """Canonical JSON of a record or a tuple of records: 2 spaces, newline at the end, bytes as
    base64. `parse_json` gives the record back.

    Raises:
        ValueError: a number is not finite; the message says where. JSON has no word for it, and
        null would hide it.
        TypeError: a value is of a kind that no record may hold.

    >>> print(dump_json(({"b": (1, 2.5), "a": ()}, "µs", None, b"x")), end="")
    [
      {
        "a": [],
        "b": [
          1,
          2.5
        ]
      },
      "µs",
      null,
      "eA=="
    ]
    """
    text = _text(record, "\n", "")
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


_WORDS = {None: "null", True: "true", False: "false"}


def _text(value: Any, line: str, where: str) -> str:
    """The value as JSON, written straight away: Python's `json` takes three times as long to
    indent. `line` begins a line as deep as the value stands."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where or 'value'} is {value!r}; only finite numbers can be written")
        return float.__repr__(value)
    deeper = line + "  "
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = [
            f'"{name}": {_text(getattr(value, name), deeper, f"{where}.{name}".lstrip("."))}'
            for name in _field_names(type(value))
        ]
        return _joined("{}", members, line)
    if isinstance(value, list | tuple):
        items = [_text(item, deeper, f"{where}[{at}]") for at, item in enumerate(value)]
        return _joined("[]", items, line)
    if isinstance(value, bytes):
        return encode_basestring(base64.b64encode(value).decode("ascii"))
    if isinstance(value, Mapping):
        members = [
            f"{encode_basestring(str(key))}: {_text(value[key], deeper, f'{where}.{key}')}"
            for key in sorted(value)
        ]
        return _joined("{}", members, line)
    if isinstance(value, set | frozenset):
        return _joined("[]", [_text(item, deeper, where) for item in sorted(value)], line)
    raise TypeError(
        f"{where or 'value'} is of type {type(value).__name__}; records hold texts, numbers, bytes,"
        " enums, records and tuples"
    )


@functools.cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _joined(brackets: str, parts: list[str], line: str) -> str:
    if not parts:
        return brackets
    deeper = line + "  "
    return f"{brackets[0]}{deeper}{f',{deeper}'.join(parts)}{line}{brackets[1]}"
