"""Locked memory on nodes with invented hardware: where the kernel refuses the lab to raise the
limit, sessions are shown one that is not there.

Nodes of a cluster have no such limit, and a lab without the right to lift it (CAP_SYS_RESOURCE)
would fail the same check on every node. A small library, loaded into what runs in the sessions,
answers `getrlimit`. A limit that is lower than the highest allowed is shown as it is, so that
`memlock-small` stays a real fault.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

SMALL_BYTES = 64 * 1024
"""The limit that distributions come with."""
LIBRARY = "memlock.so"
CANNOT = (
    (
        "lock more memory than its maker: sessions are shown an unlimited limit, as the invented"
        " hardware would have"
    ),
)
_SOURCE = Path(__file__).parent / "scripts/memlock.c"


@functools.cache
def needed() -> bool:
    """True = the kernel does not let this process lift the limit, and there is a compiler to
    pretend with."""
    if shutil.which("cc") is None:
        return False
    argv = ("sh", "-c", "ulimit -l unlimited")
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    return done.returncode != 0


def build(directory: Path) -> Path | None:
    """The library, made in that directory; None = it is not needed, or could not be made: the real
    limit is shown then."""
    if not needed():
        return None
    library = directory / LIBRARY
    argv = ("cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE))
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    return library if done.returncode == 0 else None
