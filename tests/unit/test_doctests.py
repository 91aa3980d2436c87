"""Every sample in a docstring gives what stands below it."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"harness": "busbw", "parsers": "busbw.parsers", "reports": "busbw.reports"}


def samples() -> dict[str, int]:
    """Module → lines of its source that begin a sample."""
    found = {}
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            lines = path.read_text(encoding="utf-8").splitlines()
            count = sum(line.lstrip().startswith(">>> ") for line in lines)
            if count and (path.parent / "__init__.py").is_file():
                parts = path.relative_to(ROOT / folder).with_suffix("").parts
                found[".".join((package, *parts)).removesuffix(".__init__")] = count
    return found


SAMPLES = samples()


@pytest.mark.parametrize("module", SAMPLES)
def test_the_samples_in_docstrings_hold(module: str) -> None:
    outcome = doctest.testmod(importlib.import_module(module))
    # One that doctest does not find would hold whatever it says.
    assert (outcome.failed, outcome.attempted) == (0, SAMPLES[module])
