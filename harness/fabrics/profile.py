"""What a fabric profile says: the environment of a kind of fabric with the reason and source of every
value, what proves that it was used, and what its payload travels on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LinkTool(StrEnum):
    """What measures one link of a fabric by itself, without NCCL."""

    PERFTEST = "perftest"
    """`ib_write_bw` over an RDMA device."""
    IPERF3 = "iperf3"
    """TCP over a network interface."""
    NONE = "none"
    """Neither: the fabric has no link to measure, or no tool that drives it."""


@dataclass(frozen=True, slots=True)
class ProfileVar:
    """A variable that the profile sets."""

    name: str
    value: str | None
    """May hold `{socket_ifname}`, `{rails}` and `{log_dir}`: facts of the cluster. Where the fact
    is not known the variable is left out. None = the variable is taken away from the ranks."""
    why: str
    source: str
    """Title and address that the reason rests on."""
    since: str | None = None
    """First NCCL version it is for; None = all."""
    until: str | None = None
    """First NCCL version it is no longer for; None = none."""
    purposes: tuple[str, ...] = ()
    """Purposes of a launch it is for (`proof`, `bandwidth`, …); () = all."""
    machines: tuple[str, ...] = ()
    """Globs of the machines it is for, as the provider names them (`BM.GPU.*A100*`); () = all."""
    site_file: str = ""
    """The site's file that sets it; empty = a profile of busbw's own."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A script that the provider or the site ships for the ranks' environment; it wins over the
    profile's variables, except those of NCCL's log."""

    path: str
    why: str
    source: str
    optional: bool = True
    """False = no rank starts on a node without it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A variable that may help on some sites: never set by itself, named where a person asks what
    to try."""

    name: str
    value: str
    when: str
    why: str
    source: str


@dataclass(frozen=True, slots=True)
class NeverSet:
    """A variable that no profile sets, and what is wrong with setting it."""

    name: str
    why: str
    source: str
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Harmful:
    """A setting known from articles that does harm or nothing."""

    name: str
    values: tuple[str, ...]
    """Globs of the values meant."""
    why: str
    instead: str
    source: str


@dataclass(frozen=True, slots=True)
class MpiOption:
    """An MCA parameter of Open MPI that the profile sets for MPI's own traffic (in the lab: for all
    traffic)."""

    name: str
    value: str
    """May hold the placeholders of `ProfileVar.value`."""
    why: str
    source: str
    runtime: bool = False
    """True = of the launcher's own network (`--prtemca` from Open MPI 5 on), False = of the ranks
    (`--mca`)."""
    since: int | None = None
    """First major version of Open MPI that knows it; None = all."""
    until: int | None = None
    """First major version that does not; None = none."""


@dataclass(frozen=True, slots=True)
class MustSee:
    """What NCCL's log of a proof run must show on every rank."""

    networks: tuple[str, ...] = ()
    """Globs of the name in `Using network NAME`; () = the fabric has no NCCL network to prove."""
    plugin: str | None = None
    """Text that the plugin's lines carry; None = none needed."""
    gdr: bool | None = None
    """True = every channel between nodes ends in `/GDRDMA`, False = none does, None = either."""


class DataPath(StrEnum):
    """Which of NCCL's networks carries the data between nodes."""

    VERBS = "verbs"
    """NCCL's own InfiniBand transport: queue pairs of RDMA devices."""
    PLUGIN = "plugin"
    """A network plugin of the provider."""
    SOCKETS = "sockets"
    """TCP of the kernel."""


@dataclass(frozen=True, slots=True)
class Family:
    """Fabrics that the catalogue of findings takes for one."""

    name: str
    """As the catalogue writes it in `fabrics`: `ib`, `roce`."""
    data_path: DataPath
    marks: tuple[str, ...] = ()
    """Expressions of lines that show it: names of its devices, its software, its provider."""
    needs_mark: bool = False
    """Where the fabric is not known, weak evidence counts only in a text that has a mark."""
    rivals: tuple[str, ...] = ()
    """Expressions of lines that show another provider in its place, under the same plugin."""


class Ports(StrEnum):
    """Link layer of a node's fastest active RDMA ports."""

    INFINIBAND = "InfiniBand"
    ETHERNET = "Ethernet"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Sign:
    """Facts of a node that together show a fabric."""

    devices: tuple[str, ...] = ()
    """Globs of the names of RDMA devices."""
    directory: str | None = None
    """Where the fabric's software is installed."""
    vendor: str | None = None
    """How the name of the machine's vendor begins (/sys/class/dmi/id/sys_vendor)."""
    ports: Ports | None = None
    adapter: str | None = None
    """How the type of the RDMA devices begins (hca_type)."""
    alone: bool | None = None
    """True = the cluster has one node, False = it has several."""
    doubt: str = ""
    """What these facts leave open."""

    @property
    def strength(self) -> int:
        """Signs of the highest strength decide: devices of the fabric's own, its software, the
        vendor, the ports."""
        facts = (bool(self.devices), self.directory is not None, self.vendor is not None)
        return len(facts) - facts.index(True) if any(facts) else 0


class Wire(StrEnum):
    """How payload is framed on the network."""

    INFINIBAND = "InfiniBand"
    ROCE = "RoCEv2"
    TCP = "TCP"
    UNFRAMED = "line rate"
    """Headers not published: the line rate is taken."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """What a fabric's payload travels on, for its limits and the published figures."""

    wire: Wire
    published: str
    """The fabric's name in the published tables: `roce`, `intra-node`; a name without figures = no
    published run is compared."""
    why: str
    source: str
    spans_nodes: bool = True
    """False = NVLink alone: no network between nodes is measured."""


@dataclass(frozen=True, slots=True)
class FlowHashing:
    """Whether switches spread flows by a hash of their addresses, so that two flows may share a
    link while another is idle."""

    value: bool
    why: str
    source: str


@dataclass(frozen=True, slots=True)
class ChecksPlan:
    """Preflight checks by dotted id or glob."""

    required: tuple[str, ...] = ()
    advisory: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A site's own file, as it was when the run was planned."""

    path: str
    """As given to `-p` or written in the inventory."""
    sha256: str


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of fabric."""

    name: str
    title: str
    applies_to: str
    env: tuple[ProfileVar, ...]
    trials: tuple[Trial, ...]
    never_set: tuple[NeverSet, ...]
    harmful: tuple[Harmful, ...]
    must_see: MustSee
    checks: ChecksPlan
    mpi: tuple[MpiOption, ...]
    notes: tuple[str, ...]
    family: Family | None = None
    """None = only the findings for all fabrics apply."""
    carrier: Carrier | None = None
    """None = no hardware that the tables know: no limit is computed."""
    flow_hashing: FlowHashing | None = None
    """None = not known, taken as no."""
    link_tool: LinkTool = LinkTool.NONE
    """What measures its link baseline."""
    libfabric: str = ""
    """Provider of libfabric that its plugin uses and fi_pingpong tries; empty = none."""
    setup: Setup | None = None
    """None = no script is sourced."""
    site: SiteFile | None = None
    """The file of a site that extends it; None = it is as busbw ships it."""


UNDETECTED = "detect"
"""Name of the profile of a run before its nodes have said which fabric they are on."""


def undetected() -> Profile:
    """What is known of a fabric before the nodes were asked: nothing, so that it asks for nothing
    and sets nothing."""
    return Profile(
        UNDETECTED,
        "not detected yet",
        "",
        (),
        (),
        (),
        (),
        MustSee(),
        ChecksPlan(advisory=("*",)),
        (),
        (),
    )
