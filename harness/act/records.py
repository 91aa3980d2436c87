"""What was done to a node, in the run directory that decided it: `raw/actions/NODE.json`, and
`raw/released/NODE.json` once it is undone."""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass
from pathlib import Path

from busbw.codec import dump_json, parse_json
from busbw.errors import RunDirError
from busbw.store import artefacts, own_plans
from busbw.store.run_directory import RunDir

_ACTIONS, _RELEASED = "actions", "released"


@dataclass(frozen=True, slots=True)
class Action:
    """A node was taken out of service. Written before it is done: what is undone must be known
    whatever happens."""

    node: str
    place: str
    """Its name where it was taken out."""
    action: str
    """`drain`, `cordon` or a command."""
    reason: str
    ids: tuple[str, ...]
    measured: bool
    who: str
    """Account and machine."""
    at: str
    commands: tuple[str, ...]
    undo: tuple[str, ...]
    """Lines for a shell."""
    undo_command: str = ""
    """Of `--undo`."""


@dataclass(frozen=True, slots=True)
class Release:
    """It is in service again, or was never taken out."""

    node: str
    who: str
    at: str
    how: str


def keep(run: RunDir, action: Action) -> None:
    """Write it down, as this account's own: its undo command may be run later."""
    content = dump_json(action).encode()
    run.write_raw(f"{_ACTIONS}/{action.node}.json", content)
    own_plans.note_plan(content)


def keep_release(run: RunDir, release: Release) -> None:
    """Write it down."""
    artefacts.keep(run, f"{_RELEASED}/{release.node}.json", release)


def of(run: RunDir) -> tuple[Action, ...]:
    """What this run did and nobody undid with `busbw release`, by node.

    Raises:
        RunDirError: a record cannot be read.
    """
    return tuple(
        parse_json(run.read_raw(name) or b"", Action, f"raw/{name}", error=RunDirError)
        for name in run.raw_names(_ACTIONS)
        if not (run.raw / _RELEASED / name.rpartition("/")[2]).exists()
    )


def acted_on(run: RunDir, node: str) -> bool:
    """This run did something to the node before, undone or not."""
    return (run.raw / _ACTIONS / f"{node}.json").exists()


def is_own(run: RunDir, node: str) -> bool:
    """This account made the record."""
    content = run.read_raw(f"{_ACTIONS}/{node}.json")
    return content is not None and own_plans.is_own(content)


def that_acted(folder: Path) -> tuple[RunDir, ...]:
    """Runs of a folder that took a node out, oldest first."""
    matching = {path.parents[2] for path in folder.glob(f"*/raw/{_ACTIONS}/*.json")}
    return tuple(RunDir(path) for path in sorted(matching) if not path.is_symlink())


def who() -> str:
    """This account and machine."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
