"""Host lists: `gpu-[001-004,006]` expanded and folded, with ClusterShell's NodeSet (1.10.1) and its
zero padding.

Groups (`@rack1`), wildcards and set operators (`&`, `!`, `^`) are refused: they would need files or
mean something else to Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from busbw.errors import InventoryError

MAXIMUM_NAMES = 100_000
"""A list longer than this is a slip of the keyboard (`n[1-1000000]`), not a cluster."""

LEGAL_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_-]{1,63})*\.?\Z"
)
"""A node name travels through shells, reports and file names: nothing else is let in. `-x` would
read as an option, `..` as a folder. Labels between dots have 1 to 63 characters (RFC 1035)."""

_PATTERN = re.compile(r"[A-Za-z0-9._\[\],/-]+\Z")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?:/(\d+))?)?\Z")


def expand(text: str) -> tuple[str, ...]:
    """The names of a host list, in the order written, each once; items are separated by commas or
    blanks.

    Ranges: `[1-4,6]`, `[001-064]` keeps its zeros, `[0-10/2]` has a step, several brackets
    multiply.

    >>> expand("gpu-[009-011],login,gpu-010")
    ('gpu-009', 'gpu-010', 'gpu-011', 'login')

    Raises:
        InventoryError: a part cannot be read, a name is illegal, or there are more than
        MAXIMUM_NAMES.
    """
    names: dict[str, None] = {}
    total = 0
    for item in _items(text):
        total += _count(item)
        if total > MAXIMUM_NAMES:
            raise InventoryError(
                f"host list {_shown(text)} has more than {MAXIMUM_NAMES} names",
                next_step="write the ranges that exist",
            )
        for name in _expand_item(item):
            if not LEGAL_NAME.match(name):
                raise InventoryError(illegal(name))
            names[name] = None
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """Names as one host list, sorted, each once: how nodes are written in every message. No names
    at all is the empty text.

    A name that could not be a host (it came from a log) stays as it is, after the others.

    >>> fold(("gpu-003", "gpu-001", "gpu-002", "login"))
    'gpu-[001-003],login'
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    every = sorted(set(names))
    hosts = [name for name in every if LEGAL_NAME.match(name)]
    others = [name for name in every if not LEGAL_NAME.match(name)]
    if len(hosts) > 1:
        hosts = [str(NodeSet.fromlist(hosts, resolver=RESOLVER_NOGROUP))]
    return ",".join([*hosts, *others])


def illegal(name: str) -> str:
    """What to say of a name that cannot be a node's."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        return f"illegal node name {name!r}: 1 to 63 characters between dots, 253 in all"
    return (
        f"illegal node name {name!r}: letters, digits, dot, dash and underscore only, none of dot"
        " and dash in front"
    )


def _items(text: str) -> list[str]:
    """Cut at commas and blanks that are outside brackets."""
    items = [""]
    depth = 0
    for letter in text.strip():
        if depth == 0 and (letter == "," or letter.isspace()):
            items.append("")
            continue
        depth += {"[": 1, "]": -1}.get(letter, 0)
        items[-1] += letter
    found = [item for item in items if item]
    if not found:
        raise InventoryError("the host list is empty", next_step="name nodes as in gpu-[001-016]")
    return found


def _count(item: str) -> int:
    """How many names an item has at most, from the ranges alone: nothing is expanded before this is
    known."""
    _check(item)
    product = 1
    for bracket in _BRACKET.findall(item):
        length = 0
        for part in bracket.split(","):
            match = _RANGE.match(part)
            if not match:
                raise InventoryError(_bad(item, f"{part!r} is not a number or a range such as 1-4"))
            first, last, step = match.groups()
            if last and int(last) < int(first):
                raise InventoryError(
                    _bad(item, f"the range {part} runs backwards"),
                    next_step=f"write {last}-{first}",
                )
            length += (int(last) - int(first)) // max(int(step or 1), 1) + 1 if last else 1
        product *= max(length, 1)
    return product


def _check(item: str) -> None:
    if item.startswith("@") or "@" in item.partition("[")[0]:
        raise InventoryError(
            _bad(item, "groups and user names are not read in a host list"),
            next_step="name the hosts; the login user goes into ssh_config or an inventory file",
        )
    if "*" in item or "?" in item:
        raise InventoryError(
            _bad(item, "wildcards are not read"), next_step="write a range such as gpu-[001-016]"
        )
    if re.search(r"\[\w+:\w+", item):
        raise InventoryError(
            _bad(item, "':' is Ansible's range sign"), next_step=f"write {item.replace(':', '-')}"
        )
    if item.count("[") > item.count("]"):
        whole = (
            f"write '{item}]'" if item[-1].isdigit() else "complete the range, as in gpu-[001-016]"
        )
        raise InventoryError(_bad(item, "']' is missing"), next_step=whole)
    if re.search(r"[&!^]", item):
        raise InventoryError(
            _bad(item, "set operators are not read"), next_step="leave nodes out with -x"
        )
    if not _PATTERN.match(item):
        raise InventoryError(illegal(item))


def _expand_item(item: str) -> tuple[str, ...]:
    if "[" not in item and "]" not in item:
        return (item,)
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        return tuple(NodeSet(item, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise InventoryError(
            _bad(item, str(error).replace('"', "").replace(" : ", ": "))
        ) from error


def _bad(item: str, why: str) -> str:
    return f"host list {_shown(item)}: {why}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")
