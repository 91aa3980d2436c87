"""Ansible's INI inventories: `[group]`, `[group:children]`, `[group:vars]`, host lines with
`key=value`, ranges `[01:32]` and `[a:f]`.

Written against the ini plugin of ansible-core 2.19. The range sign is `:`; Slurm's `-` is
refused, since the two look alike.
"""

from __future__ import annotations

import re
import shlex
import string

from busbw.codec import Problem, unknown
from busbw.inventory.ansible import VAULT_FILE, Inventory, cluster
from busbw.inventory.ansible_variables import Var
from busbw.inventory.hostlist import MAXIMUM_NAMES
from busbw.model import Cluster

_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:[#;].*)?\Z")
_RANGE = re.compile(r"\[([0-9]+|[a-zA-Z]):([0-9]+|[a-zA-Z])(?::([0-9]+))?\]")
_PORT = re.compile(r":(\d+)\Z")


def read_ini(text: str, path: str) -> Cluster:
    """The cluster of an INI inventory, `group_vars` and `host_vars` beside it included.

    Raises:
        InventoryError: every problem at once, with its line.
    """
    inventory = Inventory(path)
    group, part = "ungrouped", "hosts"
    sections: dict[str, tuple[int, int]] = {}
    variables: dict[str, dict[str, Var]] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        column = len(raw) - len(raw.lstrip()) + 1
        if not line or line[0] in "#;":
            continue
        section = _SECTION.match(line)
        if section:
            group, part = section[1], section[2] or "hosts"
            if part not in ("hosts", "children", "vars"):
                inventory.problems.append(
                    Problem(path, unknown("section", part, ("children", "vars")), number, column)
                )
                part = "skip"
            elif part == "vars":
                sections[group] = (number, column)
            else:
                inventory.group(group)
        elif part == "hosts":
            _host_line(inventory, group, line, number, column)
        elif part == "children":
            inventory.group(group).children.setdefault(line.split()[0], (number, column))
        elif part == "vars":
            variables.setdefault(group, {}).update(_variable_line(inventory, line, number, column))
    for name, (number, column) in sections.items():
        if name in inventory.groups:
            inventory.groups[name].variables |= variables.get(name, {})
        else:
            inventory.problems.append(
                Problem(path, unknown("group", name, inventory.groups), number, column)
            )
    return cluster(inventory, "Ansible INI")


def expand_ranges(pattern: str) -> tuple[str, ...]:
    """The hosts of a pattern with Ansible's ranges, zeros kept.

    >>> expand_ranges("gpu[08:10]-[a:b]")
    ('gpu08-a', 'gpu08-b', 'gpu09-a', 'gpu09-b', 'gpu10-a', 'gpu10-b')

    Raises:
        ValueError: a range is not one; the message says why.
    """
    match = _RANGE.search(pattern)
    if match is None:
        if "[" in pattern or "]" in pattern:
            hint = "expected a range such as [01:32] or [a:f]"
            if re.search(r"\[[\d,]*\d-\d", pattern):
                hint = "Ansible's range sign is ':'"
            raise ValueError(f"host pattern {pattern!r}: {hint}")
        return (pattern,)
    values = _values(match[1], match[2], int(match[3] or 1), pattern)
    rest = expand_ranges(pattern[match.end() :])
    if len(values) * len(rest) > MAXIMUM_NAMES:
        raise ValueError(f"host pattern {pattern!r} has more than {MAXIMUM_NAMES} names")
    return tuple(pattern[: match.start()] + value + tail for value in values for tail in rest)


def _values(first: str, last: str, step: int, pattern: str) -> tuple[str, ...]:
    if step < 1:
        raise ValueError(f"host pattern {pattern!r}: a step of 0")
    if first.isdecimal() and last.isdecimal():
        if first.startswith("0") and len(first) > 1 and len(first) != len(last):
            raise ValueError(
                f"host pattern {pattern!r}: both ends must have the same number of digits"
            )
        if int(last) < int(first):
            raise ValueError(f"host pattern {pattern!r}: the range runs backwards")
        if (int(last) - int(first)) // step >= MAXIMUM_NAMES:
            raise ValueError(f"host pattern {pattern!r} has more than {MAXIMUM_NAMES} names")
        width = len(first) if first.startswith("0") else 0
        return tuple(str(value).zfill(width) for value in range(int(first), int(last) + 1, step))
    letters = string.ascii_letters
    if first.isdecimal() or last.isdecimal() or letters.index(last) < letters.index(first):
        raise ValueError(f"host pattern {pattern!r}: expected a range such as [01:32] or [a:f]")
    return tuple(letters[letters.index(first) : letters.index(last) + 1 : step])


def _host_line(inventory: Inventory, group: str, line: str, number: int, column: int) -> None:
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        inventory.problems.append(
            Problem(inventory.path, f"cannot be read: {error}", number, column)
        )
        return
    if not words:
        return
    pattern = words[0]
    variables: dict[str, Var] = {}
    port = _PORT.search(pattern) if ":" in _RANGE.sub("", pattern) else None
    if port:
        pattern = pattern[: port.start()]
        variables["ansible_port"] = Var(
            port[1], False, inventory.path, number, column + port.start() + 1
        )
    position = column + len(words[0])
    for word in words[1:]:
        key, equals, value = word.partition("=")
        found = line.find(key, position - column)
        position = column + found if found >= 0 else position
        if not equals:
            inventory.problems.append(
                Problem(inventory.path, f"expected key=value, found {word!r}", number, position)
            )
            continue
        variables[key] = Var(value, value.startswith(VAULT_FILE), inventory.path, number, position)
        position += len(key)
    here = Problem(inventory.path, "", number, None)
    try:
        names = expand_ranges(pattern)
    except ValueError as error:
        inventory.problems.append(Problem(inventory.path, str(error), number, column))
        return
    inventory.add_hosts(group, names, pattern, variables, here)


def _variable_line(inventory: Inventory, line: str, number: int, column: int) -> dict[str, Var]:
    key, equals, value = line.partition("=")
    if not equals:
        inventory.problems.append(
            Problem(inventory.path, f"expected key=value, found {line!r}", number, column)
        )
        return {}
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return {key.strip(): Var(value, value.startswith(VAULT_FILE), inventory.path, number, column)}
