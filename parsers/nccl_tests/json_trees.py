"""Values of a JSON document by their path and kind, as lenient as what writes them.

>>> get({"config": {"ngpus": "8"}}, "config", "ngpus"), whole_number("    -1"), flag("true")
('8', -1, True)
"""

from __future__ import annotations

import json
import math

Tree = dict[str, "Tree"] | list["Tree"] | str | int | float | bool | None
"""What JSON can hold."""


def quoted(tree: Tree) -> str:
    """The beginning of a value, to be quoted."""
    return json.dumps(tree)[:80]


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
    """A finite number, also where it was written as a string (`"    -1"`, `"0"`); None = it is
    none."""
    if isinstance(tree, bool) or not isinstance(tree, str | int | float):
        return None
    try:
        value = float(tree) if isinstance(tree, str) else tree
    except ValueError:
        return None
    # an integer of any length is finite, but too large a one for math.isfinite
    return value if isinstance(value, int) or math.isfinite(value) else None


def whole_number(tree: Tree) -> int | None:
    """An integer, also written `8.000000`; None = it is none."""
    value = number(tree)
    return int(value) if value is not None and value == int(value) else None


def flag(tree: Tree) -> bool | None:
    """true or false, as nccl-tests writes them too: as strings; None = neither (`unchecked`)."""
    if tree in ("true", "false"):
        return tree == "true"
    return tree if isinstance(tree, bool) else None
