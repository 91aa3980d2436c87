"""What this account made itself: a plan of somebody else contacts nobody without being asked, and a
report of somebody else is no page of ours."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from busbw.errors import RunDirError, UsageError
from busbw.files import read_beneath


def note(content: bytes) -> None:
    """Remember that this account made a plan, a record or a report. Without a home it is not
    remembered."""
    with contextlib.suppress(OSError):
        plans().mkdir(parents=True, exist_ok=True, mode=0o700)
        (plans() / hashlib.sha256(content).hexdigest()).touch(mode=0o600)


def require_plan(root: Path, *, trust: bool) -> None:
    """The plan of a run directory was made by this account, or the user trusts it: its ssh_config,
    host names and nodes decide what is run here.

    Raises:
        UsageError: it was made elsewhere.
        RunDirError: there is no plan.
    """
    try:
        content = read_beneath(root, "raw/plan.json")
    except OSError as error:
        raise RunDirError(f"{root} has no plan", seen=f"raw/plan.json: {error}") from error
    if trust or is_own(content):
        return
    raise UsageError(
        f"the plan of {root.name} was not made by this account: no node is contacted",
        seen="its ssh_config, proxy commands and nodes are those of whoever made it",
        next_step="read raw/plan.json; if you trust it, give --trust",
    )


def is_own(content: bytes) -> bool:
    """This account made it."""
    return (plans() / hashlib.sha256(content).hexdigest()).exists()


def plans() -> Path:
    """Where they are remembered, a file named by the hash of each."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "busbw" / "plans"
