"""Plain values to records: checked strictly by pydantic (unknown keys refused, all errors at once),
each error told where it stands.

Written against pydantic 2.14. It is imported on first use: importing it takes 107 ms, and `busbw
--help` may take 100.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from busbw.codec.yaml_tree import Opaque, Path, Problem, Tree, read_tree, refuse, unknown
from busbw.errors import BusbwError, UsageError

# What pydantic found wrong, told for the text it came from: position, plain words, the likely
# meaning of an unknown key or value.

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "dataclass_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "none_required": "nothing",
}


@dataclass(frozen=True, slots=True)
class Explained:
    """The problems, and the plain numbers that a field wants as text."""

    problems: tuple[Problem, ...]
    as_text: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class _Fault:
    """One error of pydantic at its place in the value."""

    where: Path
    """The value it is about; for a key that is missing or unknown, what holds the key."""
    type: str
    key: str | None
    given: Any
    detail: str


def explain(errors: Sequence[Any], tree: Tree, kind: Any) -> Explained:
    """Problems of `tree` as a record of `kind`, from pydantic's `ValidationError.errors()` on a
    list of one."""
    faults = [_fault(error, tree.value) for error in errors]
    texts = tuple(
        dict.fromkeys(
            fault.where
            for fault in faults
            if fault.type == "string_type" and fault.where in tree.texts
        )
    )
    inner = [fault for fault in faults if not _outranked(fault, faults)]
    problems = []
    for fault in inner:
        what = _message(fault, inner, kind)
        where = (*fault.where, fault.key) if fault.key is not None else fault.where
        if not tree.positions:
            what = f"{_dotted(fault.where)}: {what}" if fault.where else what
        problems.append(tree.problem(where, what, key=fault.type == "unexpected_keyword_argument"))
    return Explained(tuple(dict.fromkeys(problems)), texts)


def kind_name(value: object) -> str:
    """What a plain value is, for people."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "…" + shown[0]


def _fault(error: Any, value: Any) -> _Fault:
    """Locate an error: steps of pydantic's location that are not in the value (names of union
    members) are passed over."""
    steps = list(error["loc"])[1:]
    kind = str(error["type"])
    key = None
    if kind in ("missing", "unexpected_keyword_argument") and steps and isinstance(steps[-1], str):
        key = str(steps.pop())
    where: list[str | int] = []
    for step in steps:
        if (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
        ):
            where.append(step)
            value = value[step]
    context = error.get("ctx") or {}
    detail = str(context.get("error", "")) or str(context.get("expected", "")) or str(error["msg"])
    return _Fault(tuple(where), kind, key, value, detail)


def _outranked(fault: _Fault, faults: Iterable[_Fault]) -> bool:
    """«Not a text» about a mapping means little where another member of a union went into the
    mapping and found a wrong key."""
    if fault.type not in _EXPECTED:
        return False
    depth = len(fault.where)
    others = (
        other for other in faults if other is not fault and other.where[:depth] == fault.where
    )
    return any(len(other.where) > depth or other.type not in _EXPECTED for other in others)


def _message(fault: _Fault, faults: Sequence[_Fault], kind: Any) -> str:
    if fault.type == "unexpected_keyword_argument" and fault.key is not None:
        return unknown("key", fault.key, _field_names(kind, fault.where))
    if fault.type == "missing":
        return f"missing key {fault.key!r}" if fault.key is not None else "the list is too short"
    if fault.type in ("enum", "literal_error"):
        choices = re.findall(r"'([^']*)'", fault.detail)
        if isinstance(fault.given, str):
            return unknown("value", fault.given, choices)
        return f"expected one of {', '.join(choices)}, found {kind_name(fault.given)}"
    if fault.type in _EXPECTED:
        expected = dict.fromkeys(
            _EXPECTED[other.type]
            for other in faults
            if other.where == fault.where and other.type in _EXPECTED
        )
        return f"expected {' or '.join(expected)}, found {kind_name(fault.given)}"
    return fault.detail


def _field_names(kind: Any, where: Path) -> tuple[str, ...]:
    """Names of the fields that a record has at that place."""
    kinds = _members(kind)
    for step in where:
        kinds = [inner for outer in kinds for inner in _member_types(outer, step)]
    return tuple(
        dict.fromkeys(
            field.name
            for each in kinds
            if dataclasses.is_dataclass(each)
            for field in dataclasses.fields(each)
        )
    )


def _member_types(kind: Any, step: str | int) -> list[Any]:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = typing.get_type_hints(kind, include_extras=True)
        return _members(hints[str(step)]) if step in hints else []
    arguments = [argument for argument in typing.get_args(kind) if argument is not Ellipsis]
    if not arguments:
        return []
    if isinstance(step, int) and typing.get_origin(kind) is tuple:
        return _members(arguments[min(step, len(arguments) - 1)])
    return _members(arguments[-1])


def _members(kind: Any) -> list[Any]:
    """A type without `Annotated`, and the members of a union."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _members(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return [member for argument in typing.get_args(kind) for member in _members(argument)]
    return [kind]


def _dotted(where: Path) -> str:
    """A place in a JSON document, as `cases[3].status`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where).lstrip(
        "."
    )


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Written:
    """Marks a field that people write as text with a unit: `Annotated[int, Written(parse_size)]`
    takes `512M`.

    `parse` raises ValueError with a message for people. A plain number is handed to it as its
    text."""

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
    """A record together with where its parts stood, for checks that only the reader of the record
    can make."""

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


def read_yaml(
    text: str, path: str, kind: type[T], *, error: type[BusbwError] = UsageError
) -> Document[T]:
    """As `load_yaml`, with the positions of the parts for the caller's own checks.

    Raises:
        BusbwError: as `load_yaml`.
    """
    tree = read_tree(text, path, error=error)
    return Document(from_tree(tree, kind, error=error), tree)


def from_tree(tree: Tree, kind: type[T], *, error: type[BusbwError] = UsageError) -> T:
    """A record of `kind` from a document that was read already.

    A field that wants text takes the text of a plain number as it was written (`nccl: 2.20` stays
    `2.20`).

    Raises:
        BusbwError: of class `error`; every problem at once.
    """
    from pydantic import ValidationError

    value = tree.value
    unread = tuple(
        tree.problem(where, f"a value tagged {tag}, which is not read here")
        for where, tag in _unread(value)
    )
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
            value = functools.reduce(
                lambda changed, where: _replaced(changed, where, tree.texts[where]),
                found.as_text,
                value,
            )
    raise AssertionError("an invalid value always has a problem")


def parse_json(
    data: bytes, kind: type[T], path: str = "JSON", *, error: type[BusbwError] = UsageError
) -> T:
    """A record of `kind` from JSON as `dump_json` writes it. `path` names the file in messages.

    Raises:
        BusbwError: of class `error`; it is not JSON (cut short, for one), or not such a record:
        every problem at once.
    """
    from pydantic import ValidationError

    try:
        # In a list of one: pydantic takes the strictness of a standard dataclass from what holds
        # it.
        record: T = _validate(kind, b"[" + data + b"]")
        return record
    except ValidationError as caught:
        errors = caught.errors(include_url=False)
    try:
        tree = Tree(path, json.loads(data), {}, {}, {})
    except json.JSONDecodeError as caught:
        refuse(
            [Problem(path, f"not JSON, or cut short: {caught.msg}", caught.lineno, caught.colno)],
            error,
        )
    except (ValueError, RecursionError) as caught:
        refuse([Problem(path, f"not JSON: {caught}")], error)
    refuse(explain(errors, tree, kind).problems, error)
    raise AssertionError("an invalid value always has a problem")


def json_schema(kind: Any) -> str:
    """The JSON Schema (2020-12) of a record, as text that is the same every time."""
    listed = _adapter(kind).json_schema()
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": listed.get("$defs", {}),
        **listed["prefixItems"][0],
    }
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
    """`value` with the part at `where` replaced; what is not on the way is shared, nothing is
    changed in place."""
    if not where:
        return text
    step, rest = where[0], where[1:]
    if isinstance(value, list):
        return [
            _replaced(item, rest, text) if index == step else item
            for index, item in enumerate(value)
        ]
    return {
        key: _replaced(item, rest, text) if key == step else item for key, item in value.items()
    }
