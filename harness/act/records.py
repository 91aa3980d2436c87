"""What was done to a node, in the run directory that decided it: `raw/actions/NODE.json`, and
`raw/undrained/NODE.json` once it is undone."""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass
from pathlib import Path

from busbw.codec import dump_json, parse_json
from busbw.errors import RunDirError
from busbw.reports.safe import one_line
from busbw.store import artefacts, own_plans
from busbw.store.run_directory import RunDir

_ACTIONS, _UNDRAINED = "actions", "undrained"


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
class Undrained:
    """It is in service again, or was never taken out."""

    node: str
    who: str
    at: str
    how: str


def keep(run: RunDir, action: Action) -> None:
    """Write it down, as this account's own: its undo command may be run later."""
    content = dump_json(action).encode()
    run.write_raw(f"{_ACTIONS}/{action.node}.json", content)
    own_plans.note(content)


def keep_undrained(run: RunDir, undrained: Undrained) -> None:
    """Write it down."""
    artefacts.keep(run, f"{_UNDRAINED}/{undrained.node}.json", undrained)


def of(run: RunDir) -> tuple[Action, ...]:
    """What this run did and nobody undid with `busbw undrain`, by node.

    Raises:
        RunDirError: a record cannot be read, or is of another node than its name says.
    """
    return tuple(
        _read(run, name)
        for name in run.raw_names(_ACTIONS)
        if not (run.raw / _UNDRAINED / name.rpartition("/")[2]).exists()
    )


def _read(run: RunDir, name: str) -> Action:
    content = run.read_raw(name)
    if content is None:
        raise RunDirError(f"{run.run_id}/raw/{name} is no regular file")
    action = parse_json(content, Action, f"{run.run_id}/raw/{name}", error=RunDirError)
    if name != f"{_ACTIONS}/{action.node}.json":
        raise RunDirError(f"{run.run_id}/raw/{name} is of another node", seen=action.node)
    return action


def acted_on(run: RunDir, node: str) -> bool:
    """This run did something to the node before, undone or not."""
    return (run.raw / _ACTIONS / f"{node}.json").exists()


def is_own(action: Action) -> bool:
    """This account made the record: what is asked about is what will be done, not a file."""
    return own_plans.is_own(dump_json(action).encode())


@dataclass(frozen=True, slots=True)
class Acted:
    """The runs of a folder that took a node out."""

    runs: tuple[tuple[RunDir, tuple[Action, ...]], ...]
    """Oldest first, with what nobody undid."""
    unreadable: tuple[str, ...]
    """Why the records of others are not among them: somebody else may have put them there."""


def of_folder(folder: Path) -> Acted:
    """Of the run directories in a folder."""
    matching = {path.parents[2] for path in folder.glob(f"*/raw/{_ACTIONS}/*.json")}
    runs, unreadable = [], []
    for path in sorted(matching):
        if path.is_symlink():
            continue
        try:
            runs.append((RunDir(path), of(RunDir(path))))
        except RunDirError as error:
            unreadable.append(one_line(error.what))
    return Acted(tuple(runs), tuple(unreadable))


def who() -> str:
    """This account and machine."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
