"""Which kind of inventory a text is: decided by its content, never by guessing at a range sign.

YAML and JSON: `nodes` is busbw's own, groups with hosts or children are Ansible's. Lines: a `[section]`, an `ansible_` variable or a range
with `:` is Ansible's INI; everything else is a hostfile.
"""

from __future__ import annotations

import re

from busbw.codec import Problem, read_tree, refuse
from busbw.errors import InventoryError
from busbw.inventory import ansible_ini, ansible_yaml, hostfile, own
from busbw.inventory.ansible import VAULT_TAGS
from busbw.records import Cluster

_LIST_HINT = "write what it lists to a file: ansible-inventory -i {path} --list > hosts.json"
_YAML_LINE = re.compile(r"---|\{|[\w.\"'-][^\[\]=#]*:(\s|$)")
_ANSIBLE_LINE = re.compile(r"^\s*\[[^\]]+\]\s*(?:[#;]|$)|\bansible_\w+\s*=|\[\w+:\w+")


def read(text: str, path: str) -> Cluster:
    """The cluster of an inventory file, whatever kind it is; `Cluster.source` says what was recognised.

    Raises:
        InventoryError: it is none of the known kinds, or is wrong: every problem at once.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", ";"))]
    if text.startswith("#!"):
        raise InventoryError(f"{path}: a script, and busbw runs none", next_step=_LIST_HINT.format(path=path))
    if text.startswith("$ANSIBLE_VAULT"):
        raise InventoryError(f"{path}: encrypted with Ansible Vault, and busbw reads no secrets", next_step="give it in plain text")
    if not lines:
        refuse([Problem(path, "empty: no node is named")], InventoryError)
    if path.endswith((".yaml", ".yml", ".json")) or _YAML_LINE.match(lines[0]):
        return _tree(text, path)
    if path.endswith(".ini") or any(_ANSIBLE_LINE.search(line) for line in lines):
        return ansible_ini.read(text, path)
    return hostfile.read(text, path)


def _tree(text: str, path: str) -> Cluster:
    tree = read_tree(text, path, error=InventoryError, opaque_tags=VAULT_TAGS)
    if isinstance(tree.value, dict) and "plugin" in tree.value and "nodes" not in tree.value:
        raise InventoryError(f"{path}: configures a plugin of Ansible, and busbw runs none", next_step=_LIST_HINT.format(path=path))
    if ansible_yaml.looks_like(tree.value):
        return ansible_yaml.read(tree)
    if not isinstance(tree.value, dict):
        refuse(
            [tree.problem((), "a busbw inventory starts with nodes:, one of Ansible with all:")],
            InventoryError,
        )
    return own.read(tree)
