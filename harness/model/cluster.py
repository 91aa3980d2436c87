"""What a cluster is: its nodes, how they are reached, what sits in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from busbw.model.benchmark import Settings
from busbw.model.requirement import Requirement


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of the cluster, as the inventory names it."""

    name: str
    """The name in every report; checked against `[A-Za-z0-9._-]` where it enters."""
    address: str | None = None
    """What to connect to when it is not the name; None = the name, as `ssh -G` resolves it."""
    user: str | None = None
    """Login user; None = as `ssh -G` resolves it."""
    port: int | None = None
    """SSH port; None = as `ssh -G` resolves it."""
    identity_file: str | None = None
    """Private key file; None = as `ssh -G` resolves it (agent included)."""
    ssh_options: tuple[tuple[str, str], ...] = ()
    """Further `ssh -o` options of this node, as (name, value)."""
    gpus: int | None = None
    """GPUs expected on the node; None = not stated."""
    slots: int | None = None
    """Ranks the launcher may start here; None = as many as `gpus`, or as the node is found to
    have."""
    rails: tuple[str, ...] = ()
    """Compute network devices or interfaces, in rail order; () = not stated."""
    data_links: tuple[str, ...] = ()
    """Interfaces that really carry an emulated benchmark's data where `rails` names invented
    devices; () = `rails` do."""
    labels: tuple[tuple[str, str], ...] = ()
    """Free labels such as rack, leaf, group; sorted by name."""

    @property
    def data_interfaces(self) -> tuple[str, ...]:
        """What carries the data of a benchmark: the rails, and where those are invented the links
        in their place."""
        return self.data_links or self.rails


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes of a run, in inventory order, and what is known of them as a whole."""

    nodes: tuple[Node, ...]
    head: str
    """Name of the node that starts the launcher: the inventory's `head`, else its first node."""
    source: str
    """Where the list came from, for people: `-w gpu-[001-016]`, `cluster.yaml`,
    `SLURM_JOB_NODELIST`, `lab`."""
    fabric: str | None = None
    """Fabric profile named by the inventory; None = to be detected or given."""
    launcher: str | None = None
    """Launcher named by the inventory; None = mpirun."""
    emulated: bool = False
    """True for the embedded lab: its numbers say nothing about real hardware, and every report says
    so."""
    invented: str = ""
    """Hardware that emulated nodes show without having it: `8 x NVIDIA H100 …`; empty = they show
    none."""
    ssh_config: str | None = None
    """Path of an ssh_config file to use instead of the user's own (`ssh -F`); None = the user's."""
    notes: tuple[str, ...] = ()
    """What reading the inventory noticed and the user should see."""
    env: Settings = ()
    """Variables of every launch, over the profile's."""
    setup: str | None = None
    """Script on the nodes that every rank sources, in the place of the profile's."""
    requirements: tuple[Requirement, ...] = ()
    """The `specification:` block of the inventory; () = nodes are compared with each other only."""

    def node(self, name: str) -> Node:
        """The node of that name.

        Raises:
            KeyError: there is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def chosen(self, names: Iterable[str]) -> tuple[Node, ...]:
        """The nodes of these names, in their order: for all nodes at once, since `node` looks at
        every one of them.

        Raises:
            KeyError: there is none of a name.
        """
        by_name = {node.name: node for node in self.nodes}
        return tuple(by_name[name] for name in names)


@dataclass(frozen=True, slots=True)
class LinkRate:
    """A rail as it is fitted: its name on the node and its line rate."""

    name: str
    rate_gbit_s: float | None = field(default=None)
    """Line rate in Gb/s; None = not known."""
