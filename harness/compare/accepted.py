"""Accepted runs: which runs somebody made the expectation of their regime, found by looking at the
run directories.

The decision is kept in the run's own directory (`accepted.json`), so that it travels with the
evidence and no index can disagree with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from busbw.codec import dump_json, parse_json
from busbw.errors import RunDirError
from busbw.model.history import Decision
from busbw.store.run_directory import RunDir

_FILE = "accepted.json"


def read(run: RunDir) -> tuple[Decision, ...]:
    """All that was ever decided of a run, in order; () = nothing was.

    Raises:
        RunDirError: the file is not such a record.
    """
    try:
        content = run.read_derived(_FILE)
    except FileNotFoundError:
        return ()
    return parse_json(content, tuple[Decision, ...], f"{run.path}/{_FILE}", error=RunDirError)


def decide(run: RunDir, decision: Decision) -> None:
    """Add a decision to those of a run.

    Raises:
        RunDirError: the disk refused it.
    """
    run.write_derived(_FILE, dump_json((*read(run), decision)))


def standing(run: RunDir) -> Decision | None:
    """The decision that holds; None = the run was never accepted, or was revoked."""
    decisions = read(run)
    return decisions[-1] if decisions and not decisions[-1].revoked else None


def runs(root: Path) -> tuple[RunDir, ...]:
    """All run directories below a folder, oldest first; what is not one is passed over."""
    if not root.is_dir():
        return ()
    return tuple(
        RunDir(path)
        for path in sorted(root.iterdir())
        if not path.is_symlink() and (path / "raw" / "plan.json").is_file()
    )


@dataclass(frozen=True, slots=True)
class Accepted:
    """A run that is accepted, or of which that cannot be decided."""

    run: RunDir
    decision: Decision | None
    problem: str
    """Why the decision cannot be read; empty = it can."""


def accepted_runs(root: Path) -> tuple[Accepted, ...]:
    """The runs below a folder that are accepted, oldest first. One broken record hides no other
    run, and is not passed over."""
    found = []
    for run in runs(root):
        try:
            decision = standing(run)
        except RunDirError as error:
            found.append(Accepted(run, None, error.what.splitlines()[0]))
            continue
        if decision is not None:
            found.append(Accepted(run, decision, ""))
    return tuple(found)
