"""From what was given on the command line to the nodes of the run: which reader, which nodes of it,
and what was recognised."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from pathlib import Path

from busbw.codec import Problem, read_tree, refuse
from busbw.errors import InventoryError
from busbw.files import read_given
from busbw.inventory import ansible_ini, ansible_yaml, hostfile, own, programs, slurm
from busbw.inventory.ansible import VAULT_FILE, VAULT_TAGS
from busbw.inventory.hostlist import expand, fold
from busbw.model import Cluster, Node

# Which kind of inventory a text is: decided by its content, never by guessing at a range sign.
#
# YAML and JSON: `nodes` is busbw's own, groups with hosts or children are Ansible's. Lines: a
# `[section]`, an `ansible_` variable or a range
# with `:` is Ansible's INI; everything else is a hostfile.

_LIST_HINT = "write what it lists to a file: ansible-inventory -i {path} --list > hosts.json"
_YAML_LINE = re.compile(r"---|\{|[\w.\"'-][^\[\]=#]*:(\s|$)")
_ANSIBLE_LINE = re.compile(r"^\s*\[[^\]]+\]\s*(?:[#;]|$)|\bansible_\w+\s*=|\[\w+:\w+")


def read(text: str, path: str) -> Cluster:
    """The cluster of an inventory file, whatever kind it is; `Cluster.source` says what was
    recognised.

    Raises:
        InventoryError: it is none of the known kinds, or is wrong: every problem at once.
    """
    lines = [
        line
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith(("#", ";"))
    ]
    if text.startswith("#!"):
        raise InventoryError(
            f"{path}: a script, and busbw runs none", next_step=_LIST_HINT.format(path=path)
        )
    if text.startswith(VAULT_FILE):
        raise InventoryError(
            f"{path}: encrypted with Ansible Vault, and busbw reads no secrets",
            next_step="give it in plain text",
        )
    if not lines:
        refuse([Problem(path, "empty: no node is named")], InventoryError)
    if path.endswith((".yaml", ".yml", ".json")) or _YAML_LINE.match(lines[0]):
        return _tree(text, path)
    if path.endswith(".ini") or any(_ANSIBLE_LINE.search(line) for line in lines):
        return ansible_ini.read_ini(text, path)
    return hostfile.read(text, path)


def _tree(text: str, path: str) -> Cluster:
    tree = read_tree(text, path, error=InventoryError, opaque_tags=VAULT_TAGS)
    if isinstance(tree.value, dict) and "plugin" in tree.value and "nodes" not in tree.value:
        raise InventoryError(
            f"{path}: configures a plugin of Ansible, and busbw runs none",
            next_step=_LIST_HINT.format(path=path),
        )
    if ansible_yaml.looks_like(tree.value):
        return ansible_yaml.read_yaml(tree)
    if not isinstance(tree.value, dict):
        refuse(
            [tree.problem((), "a busbw inventory starts with nodes:, one of Ansible with all:")],
            InventoryError,
        )
    return own.read(tree)


HERE = "busbw.yaml"
"""The inventory that is found where nothing else names nodes."""


def resolve(
    inventory: str | None,
    nodes: str | None,
    exclude: str | None,
    environ: Mapping[str, str],
    *,
    here: bool = True,
) -> Cluster:
    """The nodes of the run. `here` = False: what stands in `busbw.yaml` does not count.

    `inventory` is a file (recognised by its content) or `lab` / `lab:NAME`; `nodes` (-w) is a host
    list that stands alone or picks from the inventory; `exclude` (-x) is a host list that is taken
    away. With neither of the first two, the Slurm allocation in `environ` is used, else
    `busbw.yaml` in the current folder. That file also describes nodes that -w or an allocation
    names, if it has all of them.

    Raises:
        InventoryError: nothing names a node, nothing is left, a name is unknown, or a text cannot
        be read; every problem of a text at once.
    """
    if inventory is not None:
        cluster = _read(inventory)
        if nodes is not None:
            cluster = _keep(cluster, _known(cluster, expand(nodes), "-w"), f", -w {nodes}")
    elif nodes is not None:
        names = expand(nodes)
        cluster = (_here(names, f"-w {fold(names)}") if here else None) or Cluster(
            nodes=tuple(Node(name) for name in names), head=names[0], source=f"-w {fold(names)}"
        )
    else:
        cluster = _discovered(environ, here=here)
    if exclude is not None:
        out = set(_known(cluster, expand(exclude), "-x"))
        left = tuple(node.name for node in cluster.nodes if node.name not in out)
        if not left:
            raise InventoryError(
                "no node is left",
                seen=f"-x {exclude} takes away all of {fold(out)}",
                next_step="exclude fewer nodes",
            )
        cluster = _keep(cluster, left, f", -x {fold(out)}")
    return cluster


def _discovered(environ: Mapping[str, str], *, here: bool) -> Cluster:
    """The nodes where none were named."""
    allocation = slurm.read(environ)
    if allocation is not None:
        described = None
        if here:
            names = tuple(node.name for node in allocation.nodes)
            described = _here(names, allocation.source)
        if described is None:
            return allocation
        return dataclasses.replace(described, notes=(*described.notes, *allocation.notes))
    if here and Path(HERE).is_file():
        file = _read_here()
        return dataclasses.replace(
            file, notes=(*file.notes, f"no nodes were given: those of {HERE} are used")
        )
    raise InventoryError(
        "no nodes were given",
        seen=f"no -w, no -i, no {HERE} in this folder, and SLURM_JOB_NODELIST is not set",
        next_step=(
            "name them: -w 'gpu-[001-016]', -i FILE (own YAML, Ansible, Open MPI hostfile), or -i"
            " lab after `busbw lab up`"
        ),
    )


def _here(names: tuple[str, ...], why: str) -> Cluster | None:
    """The nodes of that name as `busbw.yaml` in this folder describes them; None = there is none,
    or it does not have all of them."""
    if not Path(HERE).is_file():
        return None
    file = _read_here()
    return (
        _keep(file, names, f", {why}") if {node.name for node in file.nodes} >= set(names) else None
    )


def _read_here() -> Cluster:
    """`busbw.yaml` of this folder, which nobody named: it says which programs it runs."""
    file = _read(HERE)
    warning = programs.note(file, HERE)
    return dataclasses.replace(file, notes=(*file.notes, warning)) if warning else file


def _read(inventory: str) -> Cluster:
    if inventory == "lab" or inventory.startswith("lab:"):
        from busbw.inventory import lab

        return lab.load(inventory.partition(":")[2] or None)
    path = Path(inventory)
    try:
        text = read_given(path).decode("utf-8-sig")
    except OSError as error:
        raise InventoryError(
            f"{inventory}: {error.strerror or error}",
            next_step="give the path of an inventory file to -i; a host list goes to -w",
        ) from error
    except UnicodeDecodeError as error:
        raise InventoryError(
            f"{inventory}: not a text in UTF-8",
            seen=str(error),
            next_step="give an inventory file to -i",
        ) from error
    return read(text, inventory)


def _known(cluster: Cluster, requested: tuple[str, ...], option: str) -> tuple[str, ...]:
    """The requested names, if the cluster has all of them."""
    names = tuple(node.name for node in cluster.nodes)
    known = set(names)
    strangers = [name for name in requested if name not in known]
    if strangers:
        close = difflib.get_close_matches(strangers[0], names, n=1)
        suggestion = f"; did you mean {close[0]!r}?" if close else ""
        plural = "host" if len(strangers) == 1 else "hosts"
        raise InventoryError(
            f"{option} names unknown {plural} {fold(strangers)}{suggestion}",
            seen=f"{cluster.source} has {len(names)}: {fold(names)}",
            next_step=f"name hosts that are in it, or leave {option} out",
        )
    return requested


def _keep(cluster: Cluster, names: tuple[str, ...], how: str) -> Cluster:
    """The cluster with only these nodes, in inventory order; the head moves to the first node if it
    is not among them."""
    requested = set(names)
    kept = tuple(node for node in cluster.nodes if node.name in requested)
    head, notes = cluster.head, cluster.notes
    if head not in requested:
        head = kept[0].name
        if cluster.head != cluster.nodes[0].name:
            notes = (
                *notes,
                (
                    f"the head node {cluster.head} is not among the nodes of this run; {head}"
                    " starts the launcher"
                ),
            )
    return dataclasses.replace(
        cluster, nodes=kept, head=head, notes=notes, source=cluster.source + how
    )
