"""Programs that reaching the nodes starts on this machine, because an inventory or its ssh_config
names them. OpenSSH 9.2's ssh_config(5) lists the keywords."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from busbw.files import read_given
from busbw.model import Cluster
from busbw.text import decoded

_RUNS = frozenset(
    ("proxycommand", "localcommand", "knownhostscommand", "pkcs11provider", "securitykeyprovider")
)
"""Each names a program or a library that ssh, or busbw in its place, runs."""
_MATCH = re.compile(r"\bexec\b", re.IGNORECASE)
_LINE = re.compile(r"\s*([A-Za-z0-9]+)[\s=]+(.*)")
_SHOWN = 3
_WIDTH = 100


def note(cluster: Cluster, file: str) -> str:
    """One line that names them; empty = there are none."""
    named = tuple(dict.fromkeys((*_of_options(cluster), *_of_config(cluster.ssh_config))))
    if not named:
        return ""
    more = f", and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return f"{file} of this folder runs programs on this machine: {', '.join(named[:_SHOWN])}{more}"


def _of_options(cluster: Cluster) -> Iterator[str]:
    for node in cluster.nodes:
        for name, value in node.ssh_options:
            yield from _named(name, value, "ssh_options")


def _of_config(path: str | None) -> Iterator[str]:
    if path is None:
        return
    try:
        lines = decoded(read_given(Path(path))).splitlines()
    except OSError as error:
        yield f"whatever {path} names ({error})"
        return
    for number, line in enumerate(lines, 1):
        if match := _LINE.fullmatch(line):
            yield from _named(match[1], match[2], f"{path}:{number}")


def _named(name: str, value: str, place: str) -> Iterator[str]:
    keyword = name.lower()
    runs = keyword in _RUNS and value.strip().lower() != "none"
    if runs or (keyword == "match" and _MATCH.search(value)) or keyword == "include":
        yield f"{name} {' '.join(value.split())[:_WIDTH]} ({place})"
