"""Every id that busbw prints can be asked about: `busbw why ID` explains it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.checks.frame import families
from busbw.cli import main
from busbw.parsers.findings import catalogue

ROOT = Path(__file__).parents[2]
KNOWN = catalogue.load().by_id
SUBJECTS = "|".join(sorted({known.partition(".")[0] for known in KNOWN if "." in known}))
ID = re.compile(rf"[a-z0-9]+(?:-[a-z0-9]+)+|(?:{SUBJECTS})(?:\.[a-z_]+){{1,2}}")
SHOWN = re.compile(
    rf"""(?: {{2,}}\[|"id": ")({ID.pattern})(?:, (?:certain|likely|possible))?(?:\]|",)"""
)
"""How the terminal, transcripts and run.json show the id of a finding."""
RECORDS = {
    "Finding": ("id", 0),
    "Suspect": ("id", 0),
    "CheckResult": ("check_id", 0),
    "replace": ("id", 9),
}
"""Record, or the function that changes one → (name, position) of its id."""


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for folder in ("harness", "parsers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    named = next((each.value for each in call.keywords if each.arg == name), None)
    if named is not None:
        return named
    return call.args[position] if len(call.args) > position else None


def _is_finding(changed: ast.expr) -> bool:
    return isinstance(changed, ast.Name) and changed.id == "finding"


class Module:
    """The ids that one module gives to its findings, as patterns."""

    def __init__(self, tree: ast.Module) -> None:
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self.functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        self.assigned = self._assigned(tree)
        self.ids = set(self._found())

    @staticmethod
    def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
        values: dict[str, ast.expr] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    names = target.elts if isinstance(target, ast.Tuple) else [target]
                    for name in names:
                        if isinstance(name, ast.Name):
                            values[name.id] = node.value
        return values

    def _found(self) -> Iterator[str]:
        for call in self.calls:
            record = call.func.id if isinstance(call.func, ast.Name) else ""
            if record == "replace" and not _is_finding(call.args[0]):
                continue
            if record in RECORDS:
                given = argument(call, *RECORDS[record])
                if given is not None:
                    yield from self._patterns(given, call)

    def _patterns(self, given: ast.expr, call: ast.Call) -> Iterator[str]:
        if isinstance(given, ast.JoinedStr):
            parts = (
                re.escape(part.value) if isinstance(part, ast.Constant) else "[a-z-]+"
                for part in given.values
            )
            yield "".join(map(str, parts))
        elif isinstance(given, ast.Name):
            yield from self._of_name(given.id, call)
        else:
            yield from self._constants(given)

    def _of_name(self, name: str, call: ast.Call) -> Iterator[str]:
        if name in self.assigned:
            yield from self._constants(self.assigned[name])
        for function in self.functions:
            names = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]
            if name not in names or call not in ast.walk(function):
                continue
            for other in self.calls:
                if isinstance(other.func, ast.Name) and other.func.id == function.name:
                    given = argument(other, name, names.index(name))
                    if given is not None and other is not call:
                        yield from self._patterns(given, other)

    def _constants(self, expression: ast.expr) -> Iterator[str]:
        for node in ast.walk(expression):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and ID.fullmatch(node.value)
            ):
                yield re.escape(node.value)
            if isinstance(node, ast.Name) and node.id in self.assigned:
                value = self.assigned[node.id]
                if (
                    isinstance(value, ast.Dict | ast.Tuple | ast.Constant)
                    and value is not expression
                ):
                    yield from self._constants(value)


def test_every_id_that_a_judge_gives_to_a_finding_is_explained() -> None:
    found = {(path, pattern) for path, tree in sources() for pattern in Module(tree).ids}
    assert len(found) > 60, "the walk no longer sees the judges"
    unknown = [
        f"{path.relative_to(ROOT)}: {pattern}"
        for path, pattern in sorted(found)
        if not any(re.fullmatch(pattern, known) for known in KNOWN)
    ]
    assert unknown == []


def test_every_entry_of_a_judge_is_given_by_one() -> None:
    patterns = {pattern for _, tree in sources() for pattern in Module(tree).ids}
    own = {known for known, entry in KNOWN.items() if entry.role is catalogue.Role.FINDING}
    given = {known for known in own if any(re.fullmatch(pattern, known) for pattern in patterns)}
    assert sorted(own - given) == []


def test_every_check_is_explained() -> None:
    ids = {check_id for family in families() for check_id in family.ids} | {"ssh.connect"}
    assert sorted(ids - set(KNOWN)) == []


def test_every_id_in_goldens_and_transcripts_is_explained() -> None:
    files = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    files += [
        path
        for path in (ROOT / "tests").rglob("*")
        if path.suffix in (".py", ".md", ".txt", ".json")
    ]
    shown = {
        (path, found)
        for path in files
        for found in SHOWN.findall(path.read_text(encoding="utf-8", errors="replace"))
    }
    assert {"slow-node", "slow-rail", "duplicate-gpu"} <= {found for _, found in shown}
    unknown = [
        f"{path.relative_to(ROOT)}: {found}" for path, found in sorted(shown) if found not in KNOWN
    ]
    assert unknown == []


@pytest.mark.parametrize(
    "finding_id", ["slow-rail", "layer-breakdown", "stall-rank-stopped", "rdma.devices"]
)
def test_why_explains_an_id_that_busbw_printed(
    capsys: pytest.CaptureFixture[str], finding_id: str
) -> None:
    assert main(["why", finding_id]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{finding_id}  {KNOWN[finding_id].title}\n  cause     ")
    assert "\n  fix       1  " in out
