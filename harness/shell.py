"""The shell scripts that run on nodes: `sh/*.sh` beside the module that sends them, checked by
shellcheck. A file's leading comment is for its reader and stays here."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def load(package: str, *names: str) -> str:
    """The files of `package`, one after the other, without their leading comments.

    >>> load("busbw.run", "supervise.sh").splitlines()[1]
    'sh job.sh > stdout 2> stderr'
    """
    folder = resources.files(package) / "sh"
    return "".join(_body((folder / name).read_text(encoding="utf-8")) for name in names)


def _body(text: str) -> str:
    head, _, rest = text.partition("\n\n")
    return rest if head.startswith("#") else text
