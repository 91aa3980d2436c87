"""Every number of the blame model stands in one table, with its reason and its source."""

from __future__ import annotations

import ast
import re
from pathlib import Path

BLAME = Path(__file__).parents[2] / "parsers/blame"
MODEL = ("accounts", "chance", "columns", "explain", "levels", "proof", "uplinks")
SOURCES = re.compile(r"Source:\s(goal|arithmetic|tables|ablation|test|lab|assumption)")


def numbers(tree: ast.Module) -> dict[str, str]:
    """Constants of a module that are numbers, or tables of numbers; with what stands below them."""
    found = {}
    for node, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        parts = [n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant)]
        if any(isinstance(part, int | float) for part in parts) and node.targets[0].id.isupper():
            text = ""
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                text = str(below.value.value)
            found[node.targets[0].id] = text
    return found


def test_every_number_has_a_reason_and_a_source() -> None:
    table = numbers(ast.parse((BLAME / "constants.py").read_text()))
    assert len(table) > 40
    assert [name for name, text in table.items() if not SOURCES.search(text)] == []


def test_no_module_of_the_model_has_numbers_of_its_own() -> None:
    own = {name: numbers(ast.parse((BLAME / f"{name}.py").read_text())) for name in MODEL}
    for names in own.values():
        names.pop("KINDS", None)
    assert {name: names for name, names in own.items() if names} == {}


def test_every_number_is_used() -> None:
    table = numbers(ast.parse((BLAME / "constants.py").read_text()))
    folders = (BLAME, BLAME.parents[1] / "harness/survey")
    text = " ".join(p.read_text() for f in folders for p in f.glob("*.py"))
    assert [name for name in table if len(re.findall(rf"\b{name}\b", text)) < 3] == []
