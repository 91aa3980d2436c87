"""The one boundary around what concerns a single node: whatever goes wrong inside is a value of
that node, and the others go on.

Ctrl-C and the end of the program pass. What serves all nodes (the run directory, the plan, the
fan-out) is not run inside: its errors end the operation, and a defect is reported as one.
"""

from __future__ import annotations

import functools
import logging
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from busbw.errors import BusbwError
from busbw.model import Answer, CommandResult

NEXT_STEP = "this is a defect of busbw: please report it, with this line"

_LOG = logging.getLogger("busbw.commands")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Fault:
    """What was raised in place of a value."""

    text: str
    """The error, and where it arose: `ValueError: no number (gpu.py:120)`."""


def attempt(do: Callable[[], _T]) -> _T | Fault:
    """What `do` gives for one node, or what it raised."""
    try:
        return do()
    except BusbwError as error:
        return Fault(f"{error.what}: {error.seen}" if error.seen else error.what)
    except Exception as error:  # noqa: BLE001  # nobody vouches for what a node sends, or for a transport
        return Fault(f"{type(error).__name__}: {error}{_place(error)}")


def read_each(answers: Iterable[Answer], read: Callable[[str, str], _T]) -> dict[str, _T]:
    """What `read` (node, its standard output) makes of every answer that ended well. An answer that
    cannot be read is none."""
    records = {}
    for answer in answers:
        if not isinstance(answer, CommandResult) or not answer.ok:
            continue
        record = attempt(functools.partial(read, answer.node, answer.out()))
        if isinstance(record, Fault):
            _LOG.warning("%s: its answer cannot be read: %s", answer.node, record.text)
        else:
            records[answer.node] = record
    return records


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
