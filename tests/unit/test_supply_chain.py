"""What is installed is pinned, hashed and licensed, and the locks belong to pyproject.toml."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LICENCES = SimpleNamespace(**runpy.run_path(str(ROOT / "tests" / "licences.py")))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = {
    "requirements.lock": PROJECT["dependencies"],
    "requirements-dev.lock": [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]],
}


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_a_version_and_hashes_and_names_no_index(name: str) -> None:
    text = (ROOT / name).read_text()
    entries = re.split(r"^(?=\S)", text, flags=re.M)[1:]
    assert len(entries) > 25
    for entry in entries:
        assert re.match(r"[\w.-]+==\S+ .*\\\n", entry), entry
        assert re.search(r"^    --hash=sha256:[0-9a-f]{64}", entry, re.M), entry
    assert "://" not in text


@pytest.mark.parametrize("name", LOCKS)
def test_every_declared_dependency_is_pinned_within_its_bounds(name: str) -> None:
    pinned = {
        canonicalize_name(package): version
        for package, version in LICENCES.pinned(ROOT / name).items()
    }
    for declared in map(Requirement, LOCKS[name]):
        assert declared.specifier.contains(pinned[canonicalize_name(declared.name)]), declared


def test_the_runtime_lock_is_a_part_of_the_other() -> None:
    runtime, whole = (set(LICENCES.pinned(ROOT / name).items()) for name in LOCKS)
    assert runtime < whole


def test_the_page_of_licences_is_that_of_the_installed_packages() -> None:
    assert (ROOT / "docs" / "licences.md").read_text() == LICENCES.page(), (
        "python tests/licences.py > docs/licences.md"
    )
