"""What an Ansible inventory means, in whatever form it was written: groups, the precedence of
variables, and the nodes that come out.

Written against ansible-core 2.19. Nothing is run: plugins, scripts and templates are not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from busbw.codec import Opaque, Problem, Tree, read_tree, refuse, unknown
from busbw.errors import InventoryError
from busbw.files import read_given
from busbw.inventory.ansible_variables import Var, node
from busbw.inventory.hostlist import LEGAL_NAME, fold, illegal
from busbw.model import Cluster, Node

VAULT_TAGS = ("!vault", "!vault-encrypted", "!unsafe")
VAULT_FILE = "$ANSIBLE_VAULT"


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
    folder = Path(inventory.path).parent
    group_files = {
        name: _variables_of(folder / "group_vars", name, inventory) for name in inventory.groups
    }
    host_files = {
        name: _variables_of(folder / "host_vars", name, inventory) for name in inventory.hosts
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
        if text.startswith(VAULT_FILE):
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


_ENDINGS = ("", ".yml", ".yaml", ".json")
"""As Ansible tries them: of `all/` and `all.yml` it reads the folder alone."""


def _files(folder: Path, name: str) -> Iterator[Path]:
    """The files of the first of the names that is there: itself, or all in the folder."""
    for ending in _ENDINGS:
        path = folder / f"{name}{ending}"
        if path.is_file():
            yield path
            return
        if path.is_dir():
            yield from _files_in(path)
            return


def _files_in(folder: Path) -> Iterator[Path]:
    """By name, with those of its folders; no hidden file, no backup, no folder with an ending."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name.endswith("~"):
            continue
        if path.is_file() and path.suffix in _ENDINGS:
            yield path
        elif path.is_dir() and not path.is_symlink() and not path.suffix:
            yield from _files_in(path)


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
        isinstance(value, Opaque) or (text or "").startswith(VAULT_FILE),
        tree.path,
        line,
        column,
        items,
    )
