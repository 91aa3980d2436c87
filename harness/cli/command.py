"""What a command of the command line is: a name, a line of help, its options, and what it does."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CliCommand:
    """One command. Its module defines `COMMAND` and imports nothing heavy at the top: `busbw
    --help` imports every one of them."""

    name: str
    help: str
    register: Callable[[argparse.ArgumentParser], None]
    """Adds the command's options to its parser."""
    run: Callable[[argparse.Namespace], int]
    """Does it and returns the exit status; raises `BusbwError` for what the user must be told."""
