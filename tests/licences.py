"""Writes docs/licences.md: what `pip install busbw` brings with it, under which licence, as the
installed packages state it.

usage: python tests/licences.py > docs/licences.md
"""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements.lock"
_HEAD = """\
# Licences of what busbw installs

Made by `python tests/licences.py > docs/licences.md` from the packages' own metadata. Versions and hashes are pinned in `requirements.lock`,
those of the tools for development in `requirements-dev.lock`; `make lock` renews both. At run time busbw downloads nothing but what you name.

| package | version | licence |
| --- | --- | --- |
"""


def pinned(lock: Path = LOCK) -> dict[str, str]:
    """Package → version."""
    return dict(re.findall(r"^([A-Za-z0-9][\w.-]*)==(\S+)", lock.read_text(), re.M))


def licence(package: str) -> str:
    """As the package states it: an SPDX expression, else its own word, else its classifier."""
    told = importlib.metadata.metadata(package)
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in told.get_all("Classifier") or ()
        if each.startswith("License ::")
    ]
    stated = (
        told.get("License-Expression")
        or (told.get("License") or "").strip().partition("\n")[0]
        or ", ".join(classifiers)
    )
    if not stated:
        raise SystemExit(f"{package} states no licence")
    return str(stated)


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(
        f"| {name} | {version} | {licence(name)} |\n" for name, version in pinned().items()
    )


if __name__ == "__main__":
    print(page(), end="")
