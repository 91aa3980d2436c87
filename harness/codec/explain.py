"""What pydantic found wrong, told for the text it came from: position, plain words, the likely meaning of an unknown key or value."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from busbw.codec.problems import Problem, unknown
from busbw.codec.yaml_tree import Path, Tree

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
    """Problems of `tree` as a record of `kind`, from pydantic's `ValidationError.errors()` on a list of one."""
    faults = [_fault(error, tree.value) for error in errors]
    texts = tuple(dict.fromkeys(fault.where for fault in faults if fault.type == "string_type" and fault.where in tree.texts))
    inner = [fault for fault in faults if not _outranked(fault, faults)]
    problems = []
    for fault in inner:
        what = _words(fault, inner, kind)
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
    """Locate an error: steps of pydantic's location that are not in the value (names of union members) are passed over."""
    steps = list(error["loc"])[1:]
    kind = str(error["type"])
    key = None
    if kind in ("missing", "unexpected_keyword_argument") and steps and isinstance(steps[-1], str):
        key = str(steps.pop())
    where: list[str | int] = []
    for step in steps:
        if (isinstance(value, dict) and step in value) or (isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)):
            where.append(step)
            value = value[step]
    context = error.get("ctx") or {}
    detail = str(context.get("error", "")) or str(context.get("expected", "")) or str(error["msg"])
    return _Fault(tuple(where), kind, key, value, detail)


def _outranked(fault: _Fault, faults: Iterable[_Fault]) -> bool:
    """«Not a text» about a mapping means little where another member of a union went into the mapping and found a wrong key."""
    if fault.type not in _EXPECTED:
        return False
    depth = len(fault.where)
    others = (other for other in faults if other is not fault and other.where[:depth] == fault.where)
    return any(len(other.where) > depth or other.type not in _EXPECTED for other in others)


def _words(fault: _Fault, faults: Sequence[_Fault], kind: Any) -> str:
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
        wanted = dict.fromkeys(_EXPECTED[other.type] for other in faults if other.where == fault.where and other.type in _EXPECTED)
        return f"expected {' or '.join(wanted)}, found {kind_name(fault.given)}"
    return fault.detail


def _field_names(kind: Any, where: Path) -> tuple[str, ...]:
    """Names of the fields that a record has at that place."""
    kinds = _members(kind)
    for step in where:
        kinds = [inner for outer in kinds for inner in _inside(outer, step)]
    return tuple(dict.fromkeys(field.name for each in kinds if dataclasses.is_dataclass(each) for field in dataclasses.fields(each)))


def _inside(kind: Any, step: str | int) -> list[Any]:
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
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where).lstrip(".")
