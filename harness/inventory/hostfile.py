"""Open MPI hostfiles, and plain lists of names: one host per line, `slots=`, `max_slots=`,
comments.

Written against the hostfiles of Open MPI 4.1 and 5.0. Without `slots` Open MPI takes the number of
cores; here it is then not stated, and the nodes' GPUs decide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.codec import Problem, refuse, unknown
from busbw.errors import InventoryError
from busbw.inventory.hostlist import LEGAL_NAME, expand, illegal
from busbw.model import Cluster, Node

_WORDS: Mapping[str, str] = {
    "slots": "slots",
    "slot": "slots",
    "cpus": "slots",
    "cpu": "slots",
    "count": "slots",
    "max_slots": "max_slots",
    "max-slots": "max_slots",
    "port": "port",
    "username": "user",
    "user-name": "user",
    "user_name": "user",
}
_OTHERS = (
    (
        re.compile(r"\s*PARTITION\b.*\bNODELIST\b"),
        "what sinfo prints",
        '-w "$(sinfo -h -p PARTITION -o %N)"',
    ),
    (
        re.compile(r"\s*NAME\b.*\bSTATUS\b"),
        "what kubectl prints",
        "-w \"$(kubectl get nodes -o jsonpath='{.items[*].metadata.name}' | tr ' ' ,)\"",
    ),
    (
        re.compile(r"\s*(?:Host|Match|Include)\s+\S", re.IGNORECASE),
        "an ssh config",
        "-w HOSTS: your own ssh config is read; another one is named in busbw.yaml, `ssh_config: FILE`",
    ),
)
"""First line → what the text is, which is no list of hosts, and how its nodes are named."""
_TOKEN = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class _Line:
    """One host line."""

    name: str
    user: str | None
    slots: int | None
    port: int | None


def read(text: str, path: str) -> Cluster:
    """The hosts of a hostfile in its order. A host on several lines has the slots of all of them,
    as Open MPI counts.

    Raises:
        InventoryError: every line that cannot be read, at once.
    """
    problems: list[Problem] = []
    lines: dict[str, list[_Line]] = {}
    for number, text_line in enumerate(text.splitlines(), 1):
        stripped = text_line.partition("#")[0].rstrip()
        if stripped.strip():
            for line in _line(stripped, path, number, problems):
                lines.setdefault(line.name, []).append(line)
    if not lines and not problems:
        problems.append(Problem(path, "names no host"))
    if problems:
        _refuse_others(text, path)
    refuse(problems, InventoryError)
    nodes = tuple(_node(name, same) for name, same in lines.items())
    has_slots = any(node.slots is not None for node in nodes)
    notes = [
        f"{path}: {name!r} is on {len(same)} lines; its slots were added up"
        for name, same in lines.items()
        if len(same) > 1
    ]
    kind = "Open MPI hostfile" if has_slots else "list of hosts"
    source = f"{path} ({kind})"
    return Cluster(nodes=nodes, head=nodes[0].name, source=source, notes=tuple(notes[:1]))


def _refuse_others(text: str, path: str) -> None:
    """Name a well-known text that is no list of hosts, in the place of an error for each word."""
    first = next((line for line in text.splitlines() if line.partition("#")[0].strip()), "")
    for layout, what, step in _OTHERS:
        if layout.match(first):
            raise InventoryError(
                f"{path} is {what}, and no list of hosts", seen=first.strip(), next_step=step
            )


def _node(name: str, lines: list[_Line]) -> Node:
    slots = lines[0].slots
    if len(lines) > 1:
        slots = sum(1 if line.slots is None else line.slots for line in lines)
    user = next((line.user for line in lines if line.user is not None), None)
    port = next((line.port for line in lines if line.port is not None), None)
    return Node(name=name, user=user, port=port, slots=slots)


def _line(text: str, path: str, number: int, problems: list[Problem]) -> list[_Line]:
    """The hosts of one line: one, or several where a host list has ranges; what is wrong goes to
    `problems`."""
    # Open MPI allows blanks around the sign.
    joined = re.sub(r"\s*=\s*", lambda match: "=".ljust(len(match[0]), "\0"), text)
    words = [(match[0].replace("\0", ""), match.start() + 1) for match in _TOKEN.finditer(joined)]
    host, column = words[0]
    user, at, name = host.rpartition("@")
    fields: dict[str, str] = {"user": user} if at else {}
    for word, where in words[1:]:
        key, equals, value = word.partition("=")
        if not equals:
            problems.append(Problem(path, f"expected slots=N, found {word!r}", number, where))
        elif key not in _WORDS:
            known = ("slots", "max_slots", "port", "username")
            problems.append(Problem(path, unknown("key", key, known), number, where))
        elif _WORDS[key] in ("slots", "max_slots", "port") and not (
            value.isdecimal() and 0 < int(value) < 65536
        ):
            problems.append(
                Problem(path, f"{key} is a number from 1, not {value!r}", number, where)
            )
        else:
            fields[_WORDS[key]] = value
    names = _names(name, path, number, column, problems)
    if "user" in fields and not LEGAL_NAME.match(fields["user"]):
        problems.append(Problem(path, f"{fields['user']!r} is not a login name", number, column))
    slots = int(fields["slots"]) if fields.get("slots", "").isdecimal() else None
    port = int(fields["port"]) if fields.get("port", "").isdecimal() else None
    return [_Line(each, fields.get("user"), slots, port) for each in names]


def _names(
    name: str, path: str, number: int, column: int, problems: list[Problem]
) -> tuple[str, ...]:
    count = re.fullmatch(r"(.+):(\d+)", name)
    if count and LEGAL_NAME.match(count[1]):
        problems.append(
            Problem(path, f"{name!r}: a hostfile says {count[1]} slots={count[2]}", number, column)
        )
        return ()
    if "[" not in name and "," not in name:
        if not LEGAL_NAME.match(name):
            problems.append(Problem(path, illegal(name), number, column))
            return ()
        return (name,)
    try:
        return expand(name)
    except InventoryError as error:
        problems.append(Problem(path, error.what, number, column))
        return ()
