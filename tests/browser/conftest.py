"""The browser of these tests."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DEVTOOLS = runpy.run_path(str(Path(__file__).parent / "devtools.py"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for a file of tests."""
    if DEVTOOLS["executable"]() is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    started = DEVTOOLS["Browser"]()
    yield started
    started.close()
