"""Ansible's YAML inventories (`all: {hosts, children, vars}`), and the JSON of `ansible-inventory
--list`, which dynamic inventories print. Written against ansible-core 2.19."""

from __future__ import annotations

from busbw.codec import Path as TreePath
from busbw.codec import Tree
from busbw.codec import unknown as unknown_name
from busbw.inventory.ansible import Inventory, cluster, variables_at
from busbw.inventory.ansible_ini import expand_ranges
from busbw.model import Cluster

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
