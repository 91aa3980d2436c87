"""The rules of docs/architecture.md, held by reading the sources: packaging lists, floors, purity,
imports, the start budget."""

from __future__ import annotations

import ast
import functools
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {
    "harness": "busbw",
    "parsers": "busbw.parsers",
    "reports": "busbw.reports",
    "playbooks": "busbw.playbooks",
} | {"inventories": "busbw.inventories"}
HEAVY = {
    "pandas",
    "numpy",
    "paramiko",
    "fabric",
    "jinja2",
    "pydantic",
    "yaml",
    "rich",
    "junitparser",
    "prometheus_client",
}
IMPURE = {
    "os",
    "subprocess",
    "socket",
    "paramiko",
    "fabric",
    "rich",
    "pathlib",
    "logging",
    "tempfile",
    "shutil",
    "threading",
}
IMPURE_CALLS = {"open", "print", "input", "eval", "exec", "__import__"}
ONLY_IN = {
    "pandas": ("busbw.compare", "busbw.parsers", "busbw.reports"),
    "numpy": ("busbw.compare", "busbw.parsers", "busbw.reports"),
    "rich": ("busbw.cli.console",),
    "paramiko": ("busbw.transport.ssh", "busbw.transport."),
    "fabric": ("busbw.transport.ssh", "busbw.transport."),
    "yaml": ("busbw.codec",),
    "pydantic": ("busbw.codec",),
    "pydantic_core": ("busbw.codec",),
}
FLOORS = (
    ("busbw.cli", 7),
    ("busbw.act", 6),
    ("busbw.run", 6),
    ("busbw.lab", 6),
    ("busbw.triage.collect", 6),
    ("busbw.survey.measure", 6),
    ("busbw.survey.measure_links", 6),
    ("busbw.survey.separate_launches", 6),
    ("busbw.survey.without_suspects", 6),
    ("busbw.compare.frames", 6),
    ("busbw.compare.measure", 6),
    ("busbw.compare.plan", 6),
    ("busbw.compare.repeat", 6),
    ("busbw.reports", 5),
    ("busbw.transport", 4),
    ("busbw.store", 4),
    ("busbw.intake", 4),
    ("busbw.archives", 4),
    ("busbw.decompression", 4),
    ("busbw.building.download", 4),
    ("busbw.building.sources", 4),
    ("busbw.survey", 4),
    ("busbw.compare", 4),
    ("busbw.assess", 4),
    ("busbw.triage", 4),
    ("busbw.checks", 3),
    ("busbw.building", 3),
    ("busbw.parsers.blame", 3),
    ("busbw.parsers.contract", 3),
    ("busbw.parsers.cost", 3),
    ("busbw.parsers.articles", 3),
    ("busbw.parsers.expect", 3),
    ("busbw.parsers.findings", 3),
    ("busbw.parsers.stall", 3),
    ("busbw.parsers.stats", 3),
    ("busbw.parsers.verdict", 3),
    ("busbw.parsers.fabric.checks", 3),
    ("busbw.parsers.fabric.cabling", 3),
    ("busbw.parsers.nccl_tests.proof", 3),
    ("busbw.parsers.nccl_tests.groups", 3),
    ("busbw.parsers", 2),
    ("busbw.inventory", 2),
    ("busbw.playbook", 2),
    ("busbw.fabrics", 2),
    ("busbw.launch", 2),
    ("busbw.codec", 1),
    ("busbw.plugins", 1),
    ("busbw.shell", 1),
    ("busbw.model", 0),
    ("busbw.credentials", 0),
    ("busbw.faults", 0),
    ("busbw.files", 0),
    ("busbw.late_import", 0),
    ("busbw.table_cache", 0),
    ("busbw.errors", 0),
    ("busbw.text", 0),
    ("busbw.units", 0),
    ("busbw.versions", 0),
)
UPWARD = {
    # A lab is one way of naming a cluster: the reader looks into the lab's state file, whose layout
    # the lab alone knows.
    ("busbw.inventory.lab", "busbw.lab"),
    ("busbw.inventory.select", "busbw.inventory.lab"),
}


def modules() -> dict[str, Path]:
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not (path.parent / "__init__.py").is_file():
                continue  # a program for nodes: data
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts))
            found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    tree = parsed(path)
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def floor(name: str) -> int | None:
    for prefix, number in FLOORS:
        if name == prefix or name.startswith(prefix + "."):
            return number
    return None


def test_every_package_of_the_tree_is_listed_in_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(project["tool"]["setuptools"]["packages"])
    present = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    assert listed == present


def test_every_data_file_of_a_package_is_matched_by_a_packaging_glob() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    globs = project["tool"]["setuptools"]["package-data"]
    covered = set()
    for package, patterns in globs.items():
        base = MODULES[package].parent
        covered |= {path for pattern in patterns for path in base.glob(pattern)}
    present = {
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc" and "__pycache__" not in path.parts
    }
    assert sorted(present - covered - set(MODULES.values())) == []


OPENS = {
    "busbw.files": "the one reader of a folder that somebody else may have filled",
    "busbw.table_cache": "its own files in the user's cache, mode 0700",
    "busbw.store.own_builds": "locks, empty files in the user's own state folder, mode 0700",
    "busbw.store.run_directory": "its lock and its lists, to append, by `files.regular`",
    "busbw.store.whole_files": "writes, by new names",
    "busbw.intake": "a file that the user named may be a link or a pipe",
    "busbw.shell": "scripts of the package",
    "busbw.parsers.expect.figures": "tables of the package",
    "busbw.parsers.findings.catalogue": "findings of the package",
    "busbw.parsers.logs.failure_lines": "patterns of the package",
    "busbw.parsers.findings.things.table": "things of the package",
    "busbw.parsers.vocabulary.messages": "tables of the package",
    "busbw.fabrics.profiles": "tables of the package",
    "busbw.playbook": "playbooks of the package",
    "busbw.run.controller": "the boot of this machine and its processes, from /proc",
    "busbw.run.binaries": "the payload of the package",
    "busbw.cli": "/dev/null",
    "busbw.cli.check": "/proc/self/stat",
    "busbw.cli.outputs": "$GITHUB_STEP_SUMMARY, to append",
    "busbw.transport.ssh_login": "the user's keys",
    "busbw.transport.openssh": "messages of its own ssh, in a folder of its own",
    "busbw.transport.known_hosts": "known_hosts",
}
"""Who opens files, and which: a run directory is in none of their hands but the first two."""


def opens_a_file(call: ast.Call) -> bool:
    """`open(…)`, `os.open(…)`, `path.read_text()`, `path.open("rb")`."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id == "open"
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr in ("read_text", "read_bytes"):
        return True
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    first = call.args[0] if call.args else None
    mode = isinstance(first, ast.Constant) and str(first.value) in ("r", "rb", "a", "ab", "w", "wb")
    return function.attr == "open" and (owner in ("os", "io", "codecs", "path", "file") or mode)


def test_files_of_a_run_directory_are_opened_by_the_one_reader_only() -> None:
    opening = set()
    for name, path in MODULES.items():
        calls = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call))
        if not name.startswith("busbw.lab.") and any(opens_a_file(call) for call in calls):
            opening.add(name)
    assert sorted(opening) == sorted(OPENS)


@pytest.mark.parametrize("line", ["open(p)", "os.open(p, 0)", "p.read_text()", "p.open('rb')"])
def test_a_direct_open_would_be_seen(line: str) -> None:
    (statement,) = ast.parse(line).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert opens_a_file(statement.value)


CATCHES_ALL = ("busbw.faults", "busbw.transport.fanout", "busbw.cli")
"""What concerns one node; threads, which hand it on; the last floor of a command."""


def test_everything_is_caught_at_the_boundary_of_a_node_only() -> None:
    wrong = []
    for name, path in MODULES.items():
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.ExceptHandler) or name in CATCHES_ALL:
                continue
            names = {each.id for each in ast.walk(node.type or node) if isinstance(each, ast.Name)}
            ends = any(isinstance(each, ast.Raise) and each.exc is None for each in node.body)
            if (node.type is None or names & {"Exception", "BaseException"}) and not ends:
                wrong.append(f"{name}:{node.lineno}")
    assert wrong == []


def test_every_module_stands_on_a_floor() -> None:
    assert [
        name
        for name in MODULES
        if floor(name) is None and name not in ("busbw", "busbw.__main__", *FOLDERS.values())
    ] == []


def test_imports_go_down_the_floors_or_sideways() -> None:
    wrong = []
    for name, path in MODULES.items():
        own = floor(name)
        for target in imports(path):
            other = floor(target) if known(target) else None
            allowed = any(name.startswith(a) and target.startswith(b) for a, b in UPWARD)
            if own is not None and other is not None and other > own and not allowed:
                wrong.append(f"{name} (floor {own}) imports {target} (floor {other})")
    assert wrong == []


def known(target: str) -> bool:
    """It is a module of ours, or a name in one."""
    return target.startswith("busbw.") and (
        target in MODULES or target.rpartition(".")[0] in MODULES
    )


def test_parsers_and_reports_do_no_io() -> None:
    wrong = []
    for name, path in MODULES.items():
        if not name.startswith(("busbw.parsers", "busbw.reports")):
            continue
        roots = {target.partition(".")[0] for target in imports(path)}
        called = {
            node.func.id
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        wrong += [(name, root) for root in roots & IMPURE]
        wrong += [(name, call) for call in called & IMPURE_CALLS]
    assert wrong == []


def test_each_library_is_imported_only_where_it_belongs() -> None:
    wrong = []
    for name, path in MODULES.items():
        roots = {target.partition(".")[0] for target in imports(path)}
        for library, places in ONLY_IN.items():
            if library in roots and not name.startswith(places):
                wrong.append(f"{library} is imported by {name}; it belongs in {places[0]}")
    assert wrong == []


def test_pandas_and_numpy_are_imported_inside_functions_only() -> None:
    wrong = []
    for name, path in MODULES.items():
        top = {target.partition(".")[0] for target in imports(path, top_level_only=True)}
        wrong += [(name, library) for library in {"pandas", "numpy"} & top]
    assert wrong == []


def test_no_folder_is_imported_by_its_bare_name() -> None:
    paths = [path for folder in (*FOLDERS, "tests") for path in (ROOT / folder).rglob("*.py")]
    wrong = [
        (path.relative_to(ROOT).as_posix(), root)
        for path in paths
        for root in {target.partition(".")[0] for target in imports(path)} & set(FOLDERS)
    ]
    assert wrong == []


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, busbw.cli; busbw.cli.build_parser(options=False).format_help();"
        f"print(sorted({HEAVY!r} & {{m.partition('.')[0] for m in sys.modules}}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


def test_every_module_says_what_it_knows() -> None:
    assert [name for name, path in MODULES.items() if not ast.get_docstring(parsed(path))] == []


def test_at_most_one_line_in_a_hundred_is_longer_than_100_columns() -> None:
    lines = [line for path in MODULES.values() for line in path.read_text("utf-8").splitlines()]
    assert sum(len(line) > 100 for line in lines) <= len(lines) / 100


def test_what_a_user_runs_imports_every_dependency_and_declares_every_library() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {"pyyaml": "yaml", "ClusterShell": "ClusterShell"}
    declared = {re.split(r"[<>=]", item)[0] for item in project["dependencies"]}
    modules_of = {names.get(name, name.replace("-", "_")) for name in declared}
    imported = {
        target.partition(".")[0] for path in MODULES.values() for target in imports(path)
    } - set(sys.stdlib_module_names)
    assert modules_of - imported == set(), "declared and never imported"
    assert imported & (HEAVY | {"ClusterShell"}) - modules_of == set(), "imported, not declared"


def test_no_module_imports_itself_through_others_and_every_declared_library_is_used() -> None:
    bench = runpy.run_path(str(ROOT / "tests" / "bench" / "source_metrics.py"))
    metrics = bench["measure"](ROOT)
    assert (metrics.cycles, metrics.unused_dependencies) == ((), ())


NAMELESS = {
    *("told", "tell", "tells", "said", "say", "asked", "found", "made", "apart", "beside"),
    *("accused", "mood", "held", "wanted", "stumbles", "partaking", "carriers", "spoken"),
}
"""Participles and adverbs that say nothing of a value: docs/glossary.md has the field's word."""


def names_in(path: Path) -> set[str]:
    """Parameters, functions, classes and fields that a module defines, without underscores."""
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name.strip("_").lower())
        if isinstance(node, ast.arg):
            names.add(node.arg.strip("_"))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id.strip("_"))
    return names


def test_no_parameter_function_or_field_has_a_name_that_says_nothing() -> None:
    wrong = {name: names_in(path) & NAMELESS for name, path in MODULES.items()}
    assert {name: names for name, names in wrong.items() if names} == {}
