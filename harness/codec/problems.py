"""Problems of a text that people wrote: where each is, what it is, and what was probably meant. All of them are told at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from busbw.errors import BusbwError, UsageError

_SHOWN = 20
"""More problems than this come from one cause (a wrong file): the rest is counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where."""

    path: str
    what: str
    line: int | None = None
    """From 1; None = the file as a whole."""
    column: int | None = None
    """From 1; None = the line as a whole."""

    def __str__(self) -> str:
        """`file:line:column: what`, without the parts that are not known."""
        where = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        return f"{where}: {self.what}"


def refuse(problems: Iterable[Problem], error: type[BusbwError] = UsageError, *, next_step: str = "") -> None:
    """Raise all problems as one error, in the order of the text; do nothing when there are none.

    Raises:
        BusbwError: of class `error`; its first line is the first problem.
    """
    found = sorted(dict.fromkeys(problems), key=lambda problem: (problem.path, problem.line or 0, problem.column or 0))
    if not found:
        return
    lines = [str(problem) for problem in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"… and {len(found) - _SHOWN} more")
    counted = "1 error" if len(found) == 1 else f"{len(found)} errors"
    if not next_step and issubclass(error, UsageError):
        next_step = f"{counted}: correct the text and start again; nothing was contacted"
    raise error("\n".join(lines), next_step=next_step)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """What to say of a name that nobody knows: the likely meaning, or the list of known names.

    >>> unknown("key", "ansible_hosts", ("ansible_host", "ansible_port"))
    "unknown key 'ansible_hosts'; did you mean 'ansible_host'?"
    >>> unknown("profile", "token-ring", ("tcp", "efa"))
    "unknown profile 'token-ring'; known: efa, tcp"
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.65)
    if close:
        return f"unknown {kind} {name!r}; did you mean {close[0]!r}?"
    listed = ", ".join(names[:40]) + (f" and {len(names) - 40} more" if len(names) > 40 else "")
    return f"unknown {kind} {name!r}; known: {listed or 'none'}"
