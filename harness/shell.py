"""The programs that run on nodes: `sh/*.sh`, `sh/*.awk` and `py/*.py` beside the module that sends
them, checked by shellcheck and ruff. A file's leading comment is for its reader and stays here."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def load(package: str, *names: str) -> str:
    """The files of `package`, one after the other, without their leading comments.

    >>> load("busbw.run", "supervise.sh").splitlines()[1]
    'sh job.sh > stdout 2> stderr'
    """
    folder = resources.files(package)
    files = (folder / ("py" if name.endswith(".py") else "sh") / name for name in names)
    return "".join(_body(file.read_text(encoding="utf-8")) for file in files)


def _body(text: str) -> str:
    head, _, rest = text.partition("\n\n")
    return rest if head.startswith("#") else text
