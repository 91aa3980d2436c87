"""Plain values to records: checked strictly by pydantic (unknown keys refused, all errors at once), each error told where it stands.

Written against pydantic 2.14. It is imported on first use: importing it takes 107 ms, and `busbw --help` may take 100.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from busbw.codec.explain import explain, kind_name
from busbw.codec.problems import Problem, refuse
from busbw.codec.yaml_tree import Opaque, Path, Tree, read_tree
from busbw.errors import BusbwError, UsageError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Written:
    """Marks a field that people write as text with a unit: `Annotated[int, Written(parse_size)]` takes `512M`.

    `parse` raises ValueError with a message for people. A plain number is handed to it as its text."""

    parse: Callable[[str], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """How pydantic reads the field: text through `parse`, then as declared."""
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(self, source: Any, handler: Any) -> dict[str, Any]:
        """What the field looks like in a text."""
        return {"type": ["string", "number"]}

    def _read(self, value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"expected text or a number, found {kind_name(value)}")
        return self.parse(value if isinstance(value, str) else repr(value))


@dataclass(frozen=True, slots=True)
class Document(Generic[T]):
    """A record together with where its parts stood, for checks that only the reader of the record can make."""

    value: T
    tree: Tree

    def problem(self, where: Path, what: str, *, key: bool = False) -> Problem:
        """A problem at that part of the record; `key` = at the key, not at its value."""
        return self.tree.problem(where, what, key=key)


def load_yaml(text: str, path: str, kind: type[T], *, error: type[BusbwError] = UsageError) -> T:
    """A record of `kind` from YAML text. `path` names the file in messages.

    Raises:
        BusbwError: of class `error`; every problem at once, each as `file:line:column: what`.
    """
    return read_yaml(text, path, kind, error=error).value


def read_yaml(text: str, path: str, kind: type[T], *, error: type[BusbwError] = UsageError) -> Document[T]:
    """As `load_yaml`, with the positions of the parts for the caller's own checks.

    Raises:
        BusbwError: as `load_yaml`.
    """
    tree = read_tree(text, path, error=error)
    return Document(from_tree(tree, kind, error=error), tree)


def from_tree(tree: Tree, kind: type[T], *, error: type[BusbwError] = UsageError) -> T:
    """A record of `kind` from a document that was read already.

    A field that wants text takes the text of a plain number as it was written (`nccl: 2.20` stays `2.20`).

    Raises:
        BusbwError: of class `error`; every problem at once.
    """
    from pydantic import ValidationError

    value = tree.value
    unread = tuple(tree.problem(where, f"a value tagged {tag}, which is not read here") for where, tag in _unread(value))
    if unread:
        refuse(unread, error)
    for last in (False, True):
        try:
            record: T = _validate(kind, json.dumps([value]).encode())
            return record
        except ValidationError as caught:
            found = explain(caught.errors(include_url=False), tree, kind)
            if last or not found.as_text:
                refuse(found.problems, error)
            value = functools.reduce(lambda changed, where: _replaced(changed, where, tree.texts[where]), found.as_text, value)
    raise AssertionError("an invalid value always has a problem")


def parse_json(data: bytes, kind: type[T], path: str = "JSON", *, error: type[BusbwError] = UsageError) -> T:
    """A record of `kind` from JSON as `dump_json` writes it. `path` names the file in messages.

    Raises:
        BusbwError: of class `error`; it is not JSON (cut short, for one), or not such a record: every problem at once.
    """
    from pydantic import ValidationError

    try:
        # In a list of one: pydantic takes the strictness of a standard dataclass from what holds it.
        record: T = _validate(kind, b"[" + data + b"]")
        return record
    except ValidationError as caught:
        errors = caught.errors(include_url=False)
    try:
        tree = Tree(path, json.loads(data), {}, {}, {})
    except json.JSONDecodeError as caught:
        refuse([Problem(path, f"not JSON, or cut short: {caught.msg}", caught.lineno, caught.colno)], error)
    except (ValueError, RecursionError) as caught:
        refuse([Problem(path, f"not JSON: {caught}")], error)
    refuse(explain(errors, tree, kind).problems, error)
    raise AssertionError("an invalid value always has a problem")


def json_schema(kind: Any) -> str:
    """The JSON Schema (2020-12) of a record, as text that is the same every time."""
    whole = _adapter(kind).json_schema()
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": whole.get("$defs", {}), **whole["prefixItems"][0]}
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _unread(value: Any, where: Path = ()) -> Iterator[tuple[Path, str]]:
    """Where the values with a foreign tag are, and their tags."""
    if isinstance(value, Opaque):
        yield where, value.tag
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _unread(inner, (*where, key))


def _validate(kind: Any, data: bytes) -> Any:
    return _adapter(kind).validate_json(data)[0]


@functools.cache
def _adapter(kind: Any) -> Any:
    from pydantic import ConfigDict, TypeAdapter

    config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, val_json_bytes="base64")
    return TypeAdapter(tuple[kind], config=config)


def _replaced(value: Any, where: Path, text: str) -> Any:
    """`value` with the part at `where` replaced; what is not on the way is shared, nothing is changed in place."""
    if not where:
        return text
    step, rest = where[0], where[1:]
    if isinstance(value, list):
        return [_replaced(item, rest, text) if index == step else item for index, item in enumerate(value)]
    return {key: _replaced(item, rest, text) if key == step else item for key, item in value.items()}
