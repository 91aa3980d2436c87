"""The busbw process that works on a run, named so that another busbw on the same machine can tell
whether it is still there."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import socket
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD = 19
"""Of /proc/PID/stat after the name: the start time, in clock ticks since boot."""


def identity() -> str:
    """`by=ACCOUNT@HOST,pid=PID,at=PLACE.START`: letters, digits and `.@_-` only."""
    try:
        account = getpass.getuser()
    except (KeyError, OSError):
        account = str(os.getuid())
    by = "@".join(re.sub(r"[^A-Za-z0-9._-]", "_", part) for part in (account, socket.gethostname()))
    pid = os.getpid()
    return f"by={by},pid={pid},at={_place()}.{_started(pid)}"


def ended(pid: int, at: str) -> bool:
    """Whether that process is known to have ended. False = it lives, or nobody here can tell."""
    place, _, start = at.partition(".")
    return place == _place() and _started(pid) != start


def _place() -> str:
    """This boot of this machine, its process namespace and this account: who can see the process.
    Empty = the system does not say."""
    try:
        text = f"{_BOOT.read_text()} {os.readlink('/proc/self/ns/pid')} {os.getuid()}"
    except OSError:
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _started(pid: int) -> str:
    """Its start time, which tells it from a later process of the same number; empty = there is no
    such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[_START_FIELD]
