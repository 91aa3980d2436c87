"""What an Ansible inventory means, in whatever form it was written: groups, the precedence of
variables, and the nodes that come out.

Written against ansible-core 2.19. Read are the connection variables (`ansible_host`, `_port`,
`_user`, `_ssh_private_key_file`, `_ssh_common_args`) and busbw's own (`busbw_gpus`, `busbw_slots`,
`busbw_rails`, `busbw_label_NAME`). Nothing is run: plugins, scripts and templates are not followed.
"""

from __future__ import annotations

import difflib
import re
import shlex
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from busbw.codec import Opaque, Problem, Tree, read_tree, refuse, unknown
from busbw.codec import Path as TreePath
from busbw.codec import unknown as unknown_name
from busbw.errors import InventoryError
from busbw.files import read_given
from busbw.inventory.hostlist import LEGAL_NAME, MAXIMUM_NAMES, fold, illegal
from busbw.model import Cluster, Node

# The variables of one Ansible host as a node: which are read, which are left to Ansible, which
# were probably misspelt.


@dataclass(frozen=True, slots=True)
class Var:
    """A variable where it was written."""

    text: str | None
    """Its value as text; None = it is a mapping, nothing, or secret."""
    vault: bool
    """True = encrypted: nobody here can read it."""
    path: str
    line: int | None
    column: int | None
    items: tuple[str, ...] | None = None
    """Its value as a list; None = it is not one."""

    def problem(self, what: str) -> Problem:
        """A problem at this variable."""
        return Problem(self.path, what, self.line, self.column)


_READ = {
    "ansible_host": "address",
    "ansible_ssh_host": "address",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_ssh_private_key_file": "identity_file",
    "ansible_private_key_file": "identity_file",
    "ansible_ssh_common_args": "arguments",
    "ansible_ssh_extra_args": "arguments",
    "busbw_gpus": "gpus",
    "busbw_slots": "slots",
    "busbw_rails": "rails",
}
"""Later names of one kind win over earlier ones."""
_LABEL = "busbw_label_"
_SECRETS = (
    "ansible_password",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_become_password",
    "ansible_become_pass",
)
_TEMPLATE = re.compile(r"\{\{|\{%")


def node(
    name: str,
    variables: Mapping[str, Var],
    groups: tuple[str, ...],
    problems: list[Problem],
    notes: list[str],
) -> Node | None:
    """The node; what is wrong goes to `problems`, what was noticed to `notes`. None = the host is
    not reached over ssh."""
    connection = variables.get("ansible_connection")
    if connection is not None and connection.text in ("local", "docker", "podman", "winrm", "psrp"):
        notes.append(f"{name} is left out: ansible_connection={connection.text}")
        return None
    misspelt = [_misspelt(key, variable) for key, variable in variables.items()]
    problems += [problem for problem in misspelt if problem is not None]
    notes += [
        f"{variables[key].path}: {key} is not read; log in with a key or the agent"
        for key in _SECRETS
        if key in variables
    ]
    read = {
        key: variable
        for key, variable in variables.items()
        if key in _READ or key.startswith(_LABEL)
    }
    unreadable = {
        key: why for key, variable in read.items() if (why := _unreadable(variable)) is not None
    }
    problems += [read[key].problem(f"{key} {why}") for key, why in unreadable.items()]
    usable = {key: variable for key, variable in read.items() if key not in unreadable}
    values = {kind: usable[key] for key, kind in _READ.items() if key in usable}
    labels = {
        key.removeprefix(_LABEL): variable.text or ""
        for key, variable in usable.items()
        if key.startswith(_LABEL)
    }
    if groups:
        labels["groups"] = ",".join(groups)
    options = _ssh_options(
        [usable[key] for key in _READ if _READ[key] == "arguments" and key in usable], problems
    )
    address = _text(values.get("address"))
    return Node(
        name=name,
        address=address if address != name else None,
        user=options.pop("User", None) or _login(values.get("user"), problems),
        port=_number(values.get("port"), 65535, problems),
        identity_file=_text(values.get("identity_file")) or options.pop("IdentityFile", None),
        ssh_options=tuple(sorted(options.items())),
        gpus=_number(values.get("gpus"), 1024, problems),
        slots=_number(values.get("slots"), 1024, problems),
        rails=_rails(values.get("rails"), problems),
        labels=tuple(sorted(labels.items())),
    )


def _misspelt(key: str, variable: Var) -> Problem | None:
    """A name that nobody reads and that is one slip away from one that is read."""
    if key in _READ or key.startswith(_LABEL) or not key.startswith(("ansible_", "busbw_")):
        return None
    close = difflib.get_close_matches(key, _READ, n=1, cutoff=0.9)
    if close and key not in _SECRETS:
        return variable.problem(f"unknown key {key!r}; did you mean {close[0]!r}?")
    if key.startswith("busbw_"):
        return variable.problem(
            f"unknown key {key!r}; known: {', '.join(k for k in _READ if k.startswith('busbw_'))},"
            f" {_LABEL}NAME"
        )
    return None


def _unreadable(variable: Var) -> str | None:
    if variable.vault:
        return (
            "is encrypted with Ansible Vault, and busbw reads no secrets: put it into ssh_config,"
            " or take it out of the vault"
        )
    if variable.text is None:
        return "is neither text nor a number"
    if _TEMPLATE.search(variable.text):
        return (
            "is a template, and busbw does not run Ansible: give it the output of"
            " `ansible-inventory --list`"
        )
    return None


def _ssh_options(arguments: list[Var], problems: list[Problem]) -> dict[str, str]:
    """`-o Name=value`, `-J jump`, `-i key`, `-l user` of ansible_ssh_common_args, as options of
    ssh."""
    options: dict[str, str] = {}
    for variable in arguments:
        try:
            words = shlex.split(variable.text or "")
        except ValueError as error:
            problems.append(variable.problem(f"ssh arguments cannot be read: {error}"))
            continue
        while words:
            word = words.pop(0)
            flag, value = word[:2], word[2:]
            if flag not in ("-o", "-J", "-i", "-l") or not (value or words):
                problems.append(
                    variable.problem(f"ssh argument {word!r} is not read; put it into ssh_config")
                )
                break
            value = value or words.pop(0)
            option, _, setting = re.sub(r"\s*=\s*|\s+", "=", value, count=1).partition("=")
            if flag == "-o":
                options[option] = setting
            else:
                options[{"-J": "ProxyJump", "-i": "IdentityFile", "-l": "User"}[flag]] = value
    return options


def _text(variable: Var | None) -> str | None:
    return variable.text or None if variable is not None else None


def _login(variable: Var | None, problems: list[Problem]) -> str | None:
    text = _text(variable)
    if variable is not None and text is not None and not LEGAL_NAME.match(text):
        problems.append(variable.problem(f"{text!r} is not a login name"))
        return None
    return text


def _number(variable: Var | None, most: int, problems: list[Problem]) -> int | None:
    text = _text(variable)
    if variable is None or text is None:
        return None
    if not text.isdecimal() or not 0 < int(text) <= most:
        problems.append(variable.problem(f"expected a number from 1 to {most}, found {text!r}"))
        return None
    return int(text)


def _rails(variable: Var | None, problems: list[Problem]) -> tuple[str, ...]:
    if variable is None:
        return ()
    rails = variable.items
    if rails is None:
        rails = tuple(filter(None, re.split(r"[,\s]+", variable.text or "")))
    bad = [rail for rail in rails if not LEGAL_NAME.match(rail)]
    if bad:
        problems.append(variable.problem(f"{bad[0]!r} is not the name of a network device"))
        return ()
    return rails


VAULT_TAGS = ("!vault", "!vault-encrypted", "!unsafe")
_VAULT_FILE = "$ANSIBLE_VAULT"


@dataclass(slots=True)
class Group:
    """A group while it is read."""

    hosts: dict[str, int | None] = field(default_factory=dict)
    """Name → line where the group has it."""
    children: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """Name → line and column where the group names it."""
    variables: dict[str, Var] = field(default_factory=dict)


@dataclass(slots=True)
class Inventory:
    """An inventory while it is read."""

    path: str
    groups: dict[str, Group] = field(default_factory=lambda: {"all": Group(), "ungrouped": Group()})
    hosts: dict[str, dict[str, Var]] = field(default_factory=dict)
    """Every host in the order written, with its own variables."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def group(self, name: str) -> Group:
        """The group of that name, made if it is new."""
        return self.groups.setdefault(name, Group())

    def add_hosts(
        self,
        group: str,
        names: tuple[str, ...],
        pattern: str,
        variables: dict[str, Var],
        here: Problem,
    ) -> None:
        """Put hosts into a group; a host that the group has already, or whose own variable changes
        its value, is a problem.

        `here` is the place of `pattern`, with any text."""
        known = self.group(group).hosts
        again = [name for name in names if name in known]
        if again:
            line = known[again[0]]
            of = f" of line {line}" if line is not None else ""
            hosts = "1 host" if len(again) == 1 else f"{len(again)} hosts"
            self.problems.append(
                Problem(
                    here.path,
                    f"{pattern!r} repeats {hosts}{of}: {fold(again)}",
                    here.line,
                    here.column,
                )
            )
        for name in names:
            if not LEGAL_NAME.match(name):
                self.problems.append(Problem(here.path, illegal(name), here.line, here.column))
                continue
            known.setdefault(name, here.line)
            own = self.hosts.setdefault(name, {})
            for key, variable in variables.items():
                before = own.get(key)
                if before is not None and before.text != variable.text:
                    what = (
                        f"{key} of {name!r} is {variable.text!r} here and {before.text!r} at line"
                        f" {before.line}"
                    )
                    self.problems.append(
                        Problem(variable.path, what, variable.line, variable.column)
                    )
                own[key] = variable


def cluster(inventory: Inventory, kind: str) -> Cluster:
    """The nodes of an inventory that was read; `group_vars` and `host_vars` beside its file are
    read too.

    Raises:
        InventoryError: every problem at once.
    """
    problems = inventory.problems
    for group in inventory.groups.values():
        strangers = (
            (name, place) for name, place in group.children.items() if name not in inventory.groups
        )
        problems += [
            Problem(inventory.path, unknown("group", name, inventory.groups), *place)
            for name, place in strangers
        ]
    odd = [name for name in inventory.groups if not LEGAL_NAME.match(name)]
    problems += [Problem(inventory.path, f"illegal group name {name!r}") for name in odd]
    order = _by_depth(inventory)
    members = {group: _members(inventory, group) for group in order}
    beside = Path(inventory.path).parent
    group_files = {
        name: _variables_of(beside / "group_vars", name, inventory) for name in inventory.groups
    }
    host_files = {
        name: _variables_of(beside / "host_vars", name, inventory) for name in inventory.hosts
    }
    nodes: list[Node] = []
    for name, own in inventory.hosts.items():
        groups = [group for group in order if group == "all" or name in members[group]]
        # Ansible's order: variables of all groups in the inventory, then of all groups in
        # group_vars, then the host's, then its host_vars.
        inline = (inventory.groups[group].variables for group in groups)
        merged: dict[str, Var] = {}
        for layer in (*inline, *(group_files[group] for group in groups), own, host_files[name]):
            merged |= layer
        labels = tuple(group for group in groups if group not in ("all", "ungrouped"))
        found = node(name, merged, labels, problems, inventory.notes)
        if found is not None:
            nodes.append(found)
    if not nodes and not problems:
        problems.append(Problem(inventory.path, "names no host that is reached over ssh"))
    refuse(problems, InventoryError)
    return Cluster(
        nodes=tuple(nodes),
        head=nodes[0].name,
        source=f"{inventory.path} ({kind})",
        notes=tuple(dict.fromkeys(inventory.notes)),
    )


def _by_depth(inventory: Inventory) -> list[str]:
    """Groups in the order their variables apply: parents before children, at the same depth by
    name."""
    depth = {"all": 0, **{name: 1 for name in inventory.groups if name != "all"}}
    for _ in inventory.groups:
        before = dict(depth)
        for name, group in inventory.groups.items():
            for child in group.children:
                if child in depth and child != "all":
                    depth[child] = max(depth[child], depth[name] + 1)
        if depth == before:
            return sorted(depth, key=lambda name: (depth[name], name))
    inside = sorted(name for name in depth if depth[name] > len(inventory.groups) - 1) or sorted(
        depth
    )
    inventory.problems.append(
        Problem(inventory.path, f"groups contain each other: {', '.join(inside)}")
    )
    return sorted(depth)


def _members(inventory: Inventory, group: str) -> set[str]:
    """Hosts of a group and of all groups in it."""
    hosts: set[str] = set()
    waiting, seen = [group], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen and name in inventory.groups:
            seen.add(name)
            hosts |= set(inventory.groups[name].hosts)
            waiting += inventory.groups[name].children
    return hosts


def _variables_of(folder: Path, name: str, inventory: Inventory) -> dict[str, Var]:
    """Variables of `group_vars/NAME`, `NAME.yml`, … or of all files in a folder of that name."""
    variables: dict[str, Var] = {}
    if not LEGAL_NAME.match(name) or not folder.is_dir():
        return variables
    for path in _files(folder, name):
        try:
            text = read_given(path).decode()
        except (OSError, UnicodeDecodeError) as error:
            inventory.problems.append(Problem(str(path), f"cannot be read: {error}"))
            continue
        if text.startswith(_VAULT_FILE):
            inventory.notes.append(
                f"{path}: encrypted with Ansible Vault, not read; what ssh needs of it belongs in"
                " ssh_config"
            )
            continue
        tree = read_tree(
            text, str(path), error=InventoryError, opaque_tags=VAULT_TAGS, allow_empty=True
        )
        if tree.value is not None and not isinstance(tree.value, dict):
            inventory.problems.append(tree.problem((), "expected variables as a mapping"))
            continue
        variables |= variables_at(tree, ())
    return variables


def _files(folder: Path, name: str) -> Iterator[Path]:
    for suffix in ("", ".yml", ".yaml", ".json"):
        path = folder / f"{name}{suffix}"
        if path.is_file():
            yield path
        elif path.is_dir() and not suffix:
            yield from sorted(
                each
                for each in path.rglob("*")
                if each.is_file() and each.suffix in ("", ".yml", ".yaml", ".json")
            )


def variables_at(tree: Tree, where: tuple[str | int, ...]) -> dict[str, Var]:
    """The variables of the mapping at that place of a document."""
    return {
        key: _variable(tree, (*where, key), item) for key, item in (tree.at(where) or {}).items()
    }


def _variable(tree: Tree, where: tuple[str | int, ...], value: object) -> Var:
    line, column = tree.positions[where]
    items = None
    text = None
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        items = tuple(
            tree.texts.get((*where, index), str(item)) for index, item in enumerate(value)
        )
        text = ",".join(items)
    elif isinstance(value, str | bool | int | float):
        text = tree.texts.get(where, str(value))
    return Var(
        text,
        isinstance(value, Opaque) or (text or "").startswith(_VAULT_FILE),
        tree.path,
        line,
        column,
        items,
    )


# Ansible's INI inventories: `[group]`, `[group:children]`, `[group:vars]`, host lines with
# `key=value`, ranges `[01:32]` and `[a:f]`.
#
# Written against the ini plugin of ansible-core 2.19. The range sign is `:`; Slurm's `-` is
# refused, since the two look alike.

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
        variables[key] = Var(
            value, value.startswith("$ANSIBLE_VAULT"), inventory.path, number, position
        )
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
    return {
        key.strip(): Var(value, value.startswith("$ANSIBLE_VAULT"), inventory.path, number, column)
    }


# Ansible's YAML inventories (`all: {hosts, children, vars}`), and the JSON of `ansible-inventory
# --list`, which dynamic inventories print.
#
# Written against ansible-core 2.19.

_PARTS = ("hosts", "children", "vars")


def looks_like(value: object) -> bool:
    """Whether a document has the shape of an Ansible inventory: groups with hosts, children or
    vars, or `_meta`."""
    if not isinstance(value, dict):
        return False
    return (
        "_meta" in value
        or "all" in value
        or any(isinstance(group, dict) and set(group) & set(_PARTS) for group in value.values())
    )


def read_yaml(tree: Tree) -> Cluster:
    """The cluster of a YAML or JSON inventory, `group_vars` and `host_vars` beside it included.

    Raises:
        InventoryError: every problem at once, with line and column.
    """
    inventory = Inventory(tree.path)
    listed = "_meta" in tree.value
    for name in tree.value:
        if name != "_meta":
            _group(inventory, tree, (name,), name, listed)
    if listed:
        _hostvars(inventory, tree)
    return cluster(inventory, "ansible-inventory --list" if listed else "Ansible YAML")


def _group(inventory: Inventory, tree: Tree, where: TreePath, name: str, listed: bool) -> None:
    """Read one group, and the groups that stand inside it."""
    value = tree.at(where)
    group = inventory.group(name)
    if value is None:
        return
    if not isinstance(value, dict):
        inventory.problems.append(
            tree.problem(where, f"expected a group with hosts, children or vars, found {value!r}")
        )
        return
    for part in value:
        here = (*where, part)
        if part not in _PARTS:
            inventory.problems.append(
                tree.problem(here, unknown_name("key", part, _PARTS), key=True)
            )
        elif value[part] is None:
            continue
        elif listed and part != "vars" and isinstance(value[part], list):
            _listed(inventory, tree, here, name)
        elif not isinstance(value[part], dict):
            problem = f"expected a mapping under {part!r}"
            if isinstance(value[part], str | list):
                problem += f"; write {name!r} as a mapping with a colon after each name"
            inventory.problems.append(tree.problem(here, problem))
        elif part == "vars":
            group.variables |= variables_at(tree, here)
        elif part == "hosts":
            _hosts(inventory, tree, here, name)
        else:
            for child in value[part]:
                group.children.setdefault(child, tree.keys[(*here, child)])
                _group(inventory, tree, (*here, child), child, listed)


def _hosts(inventory: Inventory, tree: Tree, where: TreePath, group: str) -> None:
    for pattern, variables in tree.at(where).items():
        here = (*where, pattern)
        if variables is not None and not isinstance(variables, dict):
            inventory.problems.append(
                tree.problem(here, f"expected variables as a mapping, found {variables!r}")
            )
            continue
        try:
            names = expand_ranges(pattern)
        except ValueError as error:
            inventory.problems.append(tree.problem(here, str(error), key=True))
            continue
        inventory.add_hosts(
            group, names, pattern, variables_at(tree, here), tree.problem(here, "", key=True)
        )


def _listed(inventory: Inventory, tree: Tree, where: TreePath, group: str) -> None:
    """The lists of `ansible-inventory --list`: names only."""
    for index, name in enumerate(tree.at(where)):
        here = (*where, index)
        if where[-1] == "hosts":
            inventory.add_hosts(group, (str(name),), str(name), {}, tree.problem(here, ""))
        else:
            inventory.group(group).children.setdefault(str(name), tree.positions[here])
            inventory.group(str(name))


def _hostvars(inventory: Inventory, tree: Tree) -> None:
    where: TreePath = ("_meta", "hostvars")
    meta = tree.value["_meta"]
    found = meta.get("hostvars") if isinstance(meta, dict) else None
    for name, variables in (found or {}).items():
        if name in inventory.hosts and isinstance(variables, dict):
            inventory.hosts[name] |= variables_at(tree, (*where, name))
