"""Records to JSON text that is the same bytes every time: fields in the record's order, sets and
mappings sorted, floats as `repr`."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import re
from collections.abc import Mapping
from enum import Enum
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
    """
    text = json.dumps(_plain(record, ""), indent=2, ensure_ascii=False, allow_nan=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where or 'value'} is {value!r}; only finite numbers can be written")
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name), f"{where}.{field.name}".lstrip("."))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key], f"{where}.{key}") for key in sorted(value)}
    if isinstance(value, set | frozenset):
        return [_plain(item, where) for item in sorted(value)]
    raise TypeError(
        f"{where or 'value'} is of type {type(value).__name__}; records hold texts, numbers, bytes,"
        " enums, records and tuples"
    )
