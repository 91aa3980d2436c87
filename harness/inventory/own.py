"""busbw's own inventory: one YAML file that names the nodes, their head, and what is the same for
all.

::

    nodes:
      - gpu-[001-016]               # a host list …
      - name: gpu-[017-020]         # … or one with what differs here
        user: hpc
        labels: {leaf: sw2}
    defaults: {gpus: 8, rails: [mlx5_0, mlx5_3]}
    head: gpu-001
    fabric: infiniband
    env: {NCCL_IB_TC: 106, NCCL_NET: null}   # over the profile's; null takes a variable away from the ranks
    setup: /opt/site/nccl-env.sh             # a script on the nodes that every rank sources
    specification: {gpus: 8, nics: 8, nic_rate: 400, driver: ">= 550.54"}   # of every node
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from busbw.codec import Document, Problem, Tree, from_tree, refuse, unknown
from busbw.errors import InventoryError
from busbw.fabrics.profiles import is_path
from busbw.inventory import designs
from busbw.inventory.hostlist import LEGAL_NAME, expand, fold, illegal
from busbw.launch import variables
from busbw.launch.choose import launchers
from busbw.model import Cluster, Node, Requirement
from busbw.playbook import specification


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """How a node is reached and what it has; None = not said here."""

    user: str | None = None
    port: int | None = None
    identity_file: str | None = None
    ssh_options: dict[str, str] | None = None
    gpus: int | None = None
    slots: int | None = None
    rails: tuple[str, ...] | None = None
    labels: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(NodeSettings):
    """Nodes with something of their own; `name` is a host list."""

    name: str
    address: str | None = None
    """Only where `name` is one host."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The file."""

    nodes: tuple[str | Entry, ...]
    defaults: NodeSettings = NodeSettings()
    """Holds for every node that does not say otherwise."""
    head: str | None = None
    fabric: str | None = None
    launcher: str | None = None
    ssh_config: str | None = None
    """For `ssh -F`; relative to this file."""
    env: dict[str, str | None] = field(default_factory=dict)
    """Variables of every launch, over the profile's; a name without a value takes it away from the
    ranks."""
    setup: str | None = None
    """Absolute path of a script on the nodes, sourced by every rank."""
    specification: dict[str, str] = field(default_factory=dict)
    """What every node must have, by the keys of `specification.FIELDS`."""


def read(tree: Tree) -> Cluster:
    """The cluster of a YAML document that has `nodes`.

    Raises:
        InventoryError: every problem at once, with line and column.
    """
    tree = _with_list_of_nodes(tree)
    document = Document(from_tree(tree, Inventory, error=InventoryError), tree)
    file = document.value
    nodes, bad_nodes = _nodes(document)
    ssh_config = _ssh_config(file.ssh_config, tree.path)
    problems = [
        *_numbers(document),
        *bad_nodes,
        *_unknown_names(document, tuple(node.name for node in nodes)),
    ]
    if ssh_config is not None and not Path(ssh_config).is_file():
        problems.append(document.problem(("ssh_config",), f"no file {ssh_config}"))
    problems += _bad_environment(document)
    problems += [
        document.problem(("specification", key), what)
        for key, what in specification.problems(file.specification)
    ]
    requirements = specification.requirements(file.specification, "inventory")
    if not problems:
        problems += _bad_designs(document, nodes, requirements)
    refuse(problems, InventoryError)
    return Cluster(
        nodes=nodes,
        head=file.head or nodes[0].name,
        source=f"{tree.path} (busbw inventory)",
        fabric=_fabric(file.fabric, tree.path),
        launcher=file.launcher,
        ssh_config=ssh_config,
        env=tuple(sorted(file.env.items())),
        setup=file.setup,
        requirements=requirements,
    )


def _with_list_of_nodes(tree: Tree) -> Tree:
    """`nodes: gpu-[001-004]` as a list of that one entry.

    Raises:
        InventoryError: `nodes` is a mapping.
    """
    nodes = tree.value.get("nodes") if isinstance(tree.value, dict) else None
    if isinstance(nodes, dict):
        name = next(iter(nodes), "node1")
        what = f"nodes: a list, such as [{name}, …] or - name: {name}; found a mapping"
        refuse([tree.problem(("nodes",), what)], InventoryError)
    if isinstance(tree.value, dict) and isinstance(nodes, str):
        return dataclasses.replace(tree, value={**tree.value, "nodes": [nodes]})
    return tree


def _nodes(document: Document[Inventory]) -> tuple[tuple[Node, ...], list[Problem]]:
    """The nodes in the file's order, each once; and what is wrong with their entries."""
    file = document.value
    problems: list[Problem] = []
    nodes: list[Node] = []
    first_index: dict[str, int] = {}
    for index, item in enumerate(file.nodes):
        entry = Entry(name=item) if isinstance(item, str) else item
        where = ("nodes", index) if isinstance(item, str) else ("nodes", index, "name")
        try:
            names = expand(entry.name)
        except InventoryError as error:
            problems.append(document.problem(where, error.what))
            continue
        if entry.address is not None and len(names) > 1:
            what = f"one address for {len(names)} nodes ({entry.name})"
            problems.append(document.problem(("nodes", index, "address"), what, key=True))
        again = [name for name in names if name in first_index]
        if again:
            what = _repeated(entry.name, again, first_index[again[0]], document.tree)
            problems.append(document.problem(where, what))
        new = [name for name in names if name not in first_index]
        nodes.extend(_node(name, entry, file.defaults) for name in new)
        first_index |= dict.fromkeys(new, index)
    if not file.nodes:
        problems.append(document.problem(("nodes",), "names no node"))
    return tuple(nodes), problems


def _unknown_names(document: Document[Inventory], nodes: tuple[str, ...]) -> Iterator[Problem]:
    """A head that is no node, and a launcher that is none."""
    head, launcher = document.value.head, document.value.launcher
    if head is not None and nodes and head not in nodes:
        yield document.problem(("head",), unknown("node", head, list(nodes)[:40]))
    if launcher is not None and launcher not in launchers():
        yield document.problem(("launcher",), unknown("launcher", launcher, launchers()))


def _bad_environment(document: Document[Inventory]) -> Iterator[Problem]:
    file = document.value
    for name, value in file.env.items():
        what = variables.fault(name, value or "")
        if what is not None:
            yield document.problem(("env", name), what, key=True)
    bad_script = variables.script_fault(file.setup) if file.setup is not None else None
    if bad_script is not None:
        yield document.problem(("setup",), bad_script)


def _fabric(written: str | None, inventory: str) -> str | None:
    """The profile's name; a file of the site's own starts beside the inventory."""
    if written is None or not is_path(written):
        return written
    return str(Path(inventory).parent / Path(written).expanduser())


def _ssh_config(written: str | None, inventory: str) -> str | None:
    """The file meant: `~` is the user's home, a relative path starts beside the inventory."""
    return str(Path(inventory).parent / Path(written).expanduser()) if written is not None else None


def _repeated(what: str, again: list[str], first_index: int, tree: Tree) -> str:
    line = tree.positions.get(("nodes", first_index), (None, None))[0]
    hosts = "1 host" if len(again) == 1 else f"{len(again)} hosts"
    return f"{what!r} repeats {hosts} of line {line}: {fold(again)}"


def _settings(file: Inventory) -> Iterator[tuple[tuple[str | int, ...], NodeSettings]]:
    """The places of the file that say something of nodes."""
    yield ("defaults",), file.defaults
    for index, item in enumerate(file.nodes):
        if isinstance(item, Entry):
            yield ("nodes", index), item


def _bad_designs(
    document: Document[Inventory], nodes: tuple[Node, ...], requirements: tuple[Requirement, ...]
) -> Iterator[Problem]:
    """Uplinks that are not readable, or that two labels state in different ways."""
    bad = False
    for where, item in _settings(document.value):
        text = (item.labels or {}).get(designs.UPLINKS)
        what = designs.fault(text, requirements) if text is not None else None
        if what is not None:
            bad = True
            yield document.problem((*where, "labels", designs.UPLINKS), what)
    what = None if bad else designs.contradiction(nodes, requirements)
    if what is not None:
        yield document.problem(("nodes",), what)


def _numbers(document: Document[Inventory]) -> Iterator[Problem]:
    """Numbers and names that the types cannot refuse."""
    for where, item in _settings(document.value):
        if item.port is not None and not 0 < item.port < 65536:
            yield document.problem((*where, "port"), f"a port is 1 to 65535, not {item.port}")
        for key, value in (("gpus", item.gpus), ("slots", item.slots)):
            if value is not None and not 0 < value <= 1024:
                yield document.problem((*where, key), f"expected 1 to 1024, found {value}")
        for index, rail in enumerate(item.rails or ()):
            if not LEGAL_NAME.match(rail):
                yield document.problem(
                    (*where, "rails", index), f"{rail!r} is not the name of a network device"
                )
        if item.user is not None and not LEGAL_NAME.match(item.user):
            yield document.problem((*where, "user"), f"{item.user!r} is not a login name")
        address = item.address if isinstance(item, Entry) else None
        if address is not None and not LEGAL_NAME.match(address.replace(":", "_")):
            yield document.problem(
                (*where, "address"), illegal(address).replace("node name", "address")
            )


def _node(name: str, entry: Entry, defaults: NodeSettings) -> Node:
    """The node of that name; labels and ssh options of the entry come over those of the defaults."""
    own = {
        each.name: getattr(entry, each.name)
        for each in dataclasses.fields(defaults)
        if getattr(entry, each.name) is not None
    }
    settings = dataclasses.replace(defaults, **own)
    return Node(
        name=name,
        address=entry.address,
        user=settings.user,
        port=settings.port,
        identity_file=settings.identity_file,
        ssh_options=_merged(defaults.ssh_options, entry.ssh_options),
        gpus=settings.gpus,
        slots=settings.slots,
        rails=settings.rails or (),
        labels=_merged(defaults.labels, entry.labels),
    )


def _merged(
    defaults: dict[str, str] | None, own: dict[str, str] | None
) -> tuple[tuple[str, str], ...]:
    """The pairs of both by name; where both have one, the own one."""
    return tuple(sorted({**(defaults or {}), **(own or {})}.items()))
