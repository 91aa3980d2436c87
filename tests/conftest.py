"""What all tests need of the process they run in."""

from __future__ import annotations

import signal
from types import ModuleType

import pytest
from scripts import loaded


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
    return loaded("tests/transcripts.py")
