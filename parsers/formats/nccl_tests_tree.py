"""JSON text as a tree of plain values, also when it was cut off or holds numbers that JSON has not.

>>> load('{"a":[{"b":1},{"b":inf},{"b"')
Loaded(value={'a': [{'b': 1}, {'b': None}]}, whole=False)
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

Tree = dict[str, "Tree"] | list["Tree"] | str | int | float | bool | None
"""What JSON can hold."""

_NOT_NUMBERS = re.compile(r"([:\[,]\s*)-?(?:inf|nan|Infinity|NaN)(?=\s*[,\]}])")
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]')
_CLOSING = {"{": "}", "[": "]"}
_DEEPEST = 64


class Loaded(NamedTuple):
    """The tree, and whether the text had all of it."""

    value: Tree
    whole: bool


def load(text: str) -> Loaded | None:
    """The first JSON value of a text; None = there is none, not even the beginning of one. nan and inf become null.

    A text that ends early is closed behind its last finished element.
    """
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0:
        return None
    text = text[start:]
    numbers_only = _NOT_NUMBERS.sub(r"\1null", text)
    for candidate, whole in ((text, True), (numbers_only, True), (_closed(numbers_only), False)):
        try:
            if candidate is not None:
                return Loaded(json.JSONDecoder().raw_decode(candidate)[0], whole)
        except (ValueError, RecursionError):
            continue
    return None


def _closed(text: str) -> str | None:
    """The text up to its last finished element, with what is open closed; None = nothing is finished, or nests too deep."""
    open_ones: list[str] = []
    best: tuple[int, str] | None = None
    for match in _MARK.finditer(text):
        mark = match[0]
        if mark in _CLOSING:
            open_ones.append(mark)
            if len(open_ones) > _DEEPEST:
                return None
        elif mark in ("}", "]"):
            if not open_ones or _CLOSING[open_ones.pop()] != mark:
                break
            best = match.end(), "".join(_CLOSING[one] for one in reversed(open_ones))
        elif mark == "," and open_ones:
            best = match.start(), "".join(_CLOSING[one] for one in reversed(open_ones))
    return None if best is None else text[: best[0]] + best[1]


def get(tree: Tree, *names: str) -> Tree:
    """The value at a path of keys; None = not there."""
    for name in names:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(name)
    return tree


def items(tree: Tree) -> list[Tree]:
    """The elements of a list; [] = it is none."""
    return tree if isinstance(tree, list) else []


def text_of(tree: Tree) -> str | None:
    """A string; None = it is none."""
    return tree if isinstance(tree, str) else None


def number(tree: Tree) -> float | None:
    """A number, also where it was written as a string (`"    -1"`, `"0"`); None = it is none."""
    if isinstance(tree, str):
        try:
            tree = float(tree)
        except ValueError:
            return None
    if isinstance(tree, bool) or not isinstance(tree, int | float) or tree != tree or abs(tree) == float("inf"):
        return None
    return float(tree) if isinstance(tree, float) else tree


def whole_number(tree: Tree) -> int | None:
    """An integer, also written `8.000000`; None = it is none."""
    value = number(tree)
    return int(value) if value is not None and value == int(value) else None


def flag(tree: Tree) -> bool | None:
    """true or false, as nccl-tests writes them too: as strings; None = neither (`unchecked`)."""
    return tree if isinstance(tree, bool) else {"true": True, "false": False}.get(tree) if isinstance(tree, str) else None
