"""How readable the source is, in numbers: `python tests/bench/source_metrics.py [ROOT]`.

Size and grain of the modules, import cycles, declared libraries that nothing imports. docs/measured.md
has the figures before and after each restructuring. Names of parameters that say nothing are held
by tests/test_architecture.py.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = {
    "harness": "busbw",
    "parsers": "busbw.parsers",
    "reports": "busbw.reports",
    "playbooks": "busbw.playbooks",
    "inventories": "busbw.inventories",
}
COLUMNS = 100
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
IMPORT_NAMES = {"pyyaml": "yaml", "prometheus-client": "prometheus_client"}
"""Distributions whose import name is another."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """One tree's numbers."""

    modules: int
    lines: int
    size_bytes: int
    median_module_lines: float
    long_lines_percent: float
    ternaries_per_1000: float
    comprehensions_per_1000: float
    cycles: tuple[tuple[str, ...], ...]
    """Groups of modules that import each other, imports inside functions included."""
    unused_dependencies: tuple[str, ...]
    """Declared in pyproject.toml and imported by no module."""


def measure(root: Path) -> Metrics:
    """All numbers of the checkout at `root`."""
    texts = {name: path.read_text(encoding="utf-8") for name, path in module_paths(root).items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    lines = [line for text in texts.values() for line in text.splitlines()]
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    imports = {name: set(imported(tree)) for name, tree in trees.items()}
    return Metrics(
        modules=len(texts),
        lines=len(lines),
        size_bytes=sum(len(text.encode()) for text in texts.values()),
        median_module_lines=statistics.median(len(text.splitlines()) for text in texts.values()),
        long_lines_percent=100 * sum(len(line) > COLUMNS for line in lines) / len(lines),
        ternaries_per_1000=1000 * sum(isinstance(n, ast.IfExp) for n in nodes) / len(lines),
        comprehensions_per_1000=1000
        * sum(isinstance(n, COMPREHENSIONS) for n in nodes)
        / len(lines),
        cycles=cycles({name: targets & set(texts) - {name} for name, targets in imports.items()}),
        unused_dependencies=unused_dependencies(root, imports),
    )


def module_paths(root: Path) -> dict[str, Path]:
    """{import name: file} of everything that is installed."""
    found = {}
    for folder, package in PACKAGES.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root / folder).with_suffix("").parts
            found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    """Every name that the module imports, at any place but for type checkers alone."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        pending += ast.iter_child_nodes(node)


def cycles(imports: Mapping[str, set[str]]) -> tuple[tuple[str, ...], ...]:
    """Strongly connected groups of more than one module. A package's `__init__` is a module; that
    `import a.b` runs `a` first is no cycle."""
    reach = {name: _reachable(imports, name) for name in imports}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach[other]))
        for name in imports
        if name in reach[name]
    }
    return tuple(sorted(groups))


def _reachable(imports: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    pending = [start]
    while pending:
        for target in _direct(imports, pending.pop()) - reached:
            reached.add(target)
            pending.append(target)
    return reached


def _direct(imports: Mapping[str, set[str]], name: str) -> set[str]:
    """What a module imports, less packages it names only to reach their modules."""
    targets = imports[name]
    return {t for t in targets if not any(other.startswith(f"{t}.") for other in targets)}


def unused_dependencies(root: Path, imports: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Declared libraries whose import name no module imports."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[<>=~! \[;]", line)[0] for line in project["dependencies"]]
    roots = {target.partition(".")[0].lower() for targets in imports.values() for target in targets}
    return tuple(
        name
        for name in names
        if IMPORT_NAMES.get(name, name.replace("-", "_")).lower() not in roots
    )


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    metrics = measure(root)
    print(f"modules                         {metrics.modules}")
    print(f"lines                           {metrics.lines}")
    print(f"bytes                           {metrics.size_bytes / 1e6:.2f} MB")
    print(f"median module                   {metrics.median_module_lines:.0f} lines")
    print(f"over {COLUMNS} columns                {metrics.long_lines_percent:.2f} %")
    print(f"ternaries per 1,000 lines       {metrics.ternaries_per_1000:.1f}")
    print(f"comprehensions per 1,000 lines  {metrics.comprehensions_per_1000:.1f}")
    print(f"import cycles                   {len(metrics.cycles)}")
    for group in metrics.cycles:
        print(f"  {' '.join(group)}")
    print(f"declared, never imported        {', '.join(metrics.unused_dependencies) or 'none'}")


if __name__ == "__main__":
    main()
