"""What all tests need of the process they run in."""

from __future__ import annotations

import importlib.util
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest


def pytest_configure() -> None:
    """Ctrl-C works here and in what tests start, also where a shell started the tests in the
    background with SIGINT ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A test run that is told to end takes its labs down as with Ctrl-C: by default it would end at
    # once and leave them running.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="module")
def transcripts() -> ModuleType:
    """tests/transcripts.py, which runs the commands of the documents."""
    path = Path(__file__).with_name("transcripts.py")
    spec = importlib.util.spec_from_file_location("transcripts", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["transcripts"] = module
    spec.loader.exec_module(module)
    return module
