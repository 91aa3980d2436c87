"""Fabric profiles: the environment of each kind of fabric with the reason and source of every
value, and what proves that it was used.

The data is in `busbw/fabrics/<name>.yaml`; a profile starts from the one it `inherits` and adds to
it, or replaces by name. Adding a fabric is adding a file.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import TypeVar

from busbw import codec
from busbw.errors import PlaybookError
from busbw.files import read_given
from busbw.table_cache import cached
from busbw.text import decoded


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


@dataclass(frozen=True, slots=True)
class _File:
    """A profile as written; lists add to those of the profile it inherits, an entry of the same
    name replaces."""

    title: str = ""
    applies_to: str = ""
    inherits: str | None = None
    abstract: bool = False
    """True = only there to be inherited."""
    env: tuple[ProfileVar, ...] = ()
    trials: tuple[Trial, ...] = ()
    never_set: tuple[NeverSet, ...] = ()
    emulated: bool = False
    """True = of the embedded lab, never of hardware."""
    signs: tuple[Sign, ...] = ()
    """What shows on a node that it is this fabric; one is enough. Not inherited."""
    may_set: dict[str, str] = dataclasses.field(default_factory=dict)
    """Variables taken off the inherited `never_set` list, each with the reason."""
    harmful: tuple[Harmful, ...] = ()
    must_see: MustSee | None = None
    checks: ChecksPlan | None = None
    mpi: tuple[MpiOption, ...] = ()
    notes: tuple[str, ...] = ()
    family: Family | None = None
    carrier: Carrier | None = None
    flow_hashing: FlowHashing | None = None
    link_tool: LinkTool | None = None
    libfabric: str = ""
    setup: Setup | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    title: str
    address: str


_Item = TypeVar("_Item", ProfileVar, Trial, NeverSet, Harmful, MpiOption)


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


def names() -> tuple[str, ...]:
    """The profiles there are, sorted."""
    return tuple(name for name in _stems() if not _file(name).abstract)


def load(name: str) -> Profile:
    """The profile of that name, or of a site's file (a text with `/` or ending in `.yaml` or
    `.yml`), with what it inherits.

    Raises:
        PlaybookError: there is none of that name (the known ones are listed), or its file is wrong.
    """
    if is_path(name):
        return _of_site(Path(name))
    if name not in names():
        raise PlaybookError(
            codec.unknown("fabric profile", name, names()),
            next_step=_other_names("profiles", name, names()),
        )
    return _load(name)


@functools.cache
def _load(name: str) -> Profile:
    nothing = Profile(name, "", "", (), (), (), (), MustSee(), ChecksPlan(), (), ())
    return _extended(base(name) or nothing, _file(name), name)


def base(name: str) -> Profile | None:
    """The profile that this one extends, be it one that cannot be chosen; None = it extends none."""
    inherits = _file(name).inherits
    return None if inherits is None else _load(inherits)


def is_path(name: str) -> bool:
    """Whether it names a site's file instead of a profile.

    >>> is_path("./mine.yaml"), is_path("rocev2")
    (True, False)
    """
    return "/" in name or name.endswith((".yaml", ".yml"))


def _of_site(path: Path) -> Profile:
    """The profile that the file extends, under the same name, so that its limits and published
    figures hold."""
    try:
        content = read_given(path)
    except OSError as error:
        raise PlaybookError(
            f"{path}: cannot be read ({error.strerror or error})",
            next_step=f"give a file, or one of: {', '.join(names())}",
        ) from error
    file = codec.load_yaml(decoded(content), str(path), _File, error=PlaybookError)
    if file.inherits is None or file.inherits not in names():
        raise PlaybookError(
            f"{path}: inherits must name the profile that it extends",
            seen=f"inherits: {file.inherits}",
            next_step=f"one of: {', '.join(names())}",
        )
    own = tuple(dataclasses.replace(variable, site_file=str(path)) for variable in file.env)
    base = _load(file.inherits)
    extended = _extended(base, dataclasses.replace(file, env=own), base.name)
    return dataclasses.replace(
        extended,
        title=file.title or base.title,
        applies_to=file.applies_to or base.applies_to,
        site=SiteFile(str(path), hashlib.sha256(content).hexdigest()),
    )


def _extended(base: Profile, file: _File, name: str) -> Profile:
    return Profile(
        name=name,
        title=file.title,
        applies_to=file.applies_to,
        env=_merged(base.env, file.env),
        trials=_merged(base.trials, file.trials),
        never_set=tuple(
            item
            for item in _merged(base.never_set, file.never_set)
            if item.name not in file.may_set
        ),
        harmful=(*base.harmful, *_sourced(file.harmful)),
        must_see=file.must_see or base.must_see,
        checks=file.checks or base.checks,
        mpi=_merged(base.mpi, file.mpi),
        notes=(*base.notes, *file.notes),
        family=file.family or base.family,
        carrier=_with_source(file.carrier) or base.carrier,
        flow_hashing=_with_source(file.flow_hashing) or base.flow_hashing,
        link_tool=file.link_tool or base.link_tool,
        libfabric=file.libfabric or base.libfabric,
        setup=_with_source(file.setup) or base.setup,
    )


_Fact = TypeVar("_Fact", Carrier, FlowHashing, Setup)


def _with_source(fact: _Fact | None) -> _Fact | None:
    return None if fact is None else dataclasses.replace(fact, source=_source(fact.source))


@functools.cache
def carrier_by_fabric() -> Mapping[str, Carrier]:
    """The profiles whose hardware has limits, by name, and what each travels on."""
    profiles = (load(name) for name in names())
    return {each.name: each.carrier for each in profiles if each.carrier is not None}


def network_fabrics() -> tuple[str, ...]:
    """The profiles with limits whose data crosses a network."""
    return tuple(name for name, carrier in carrier_by_fabric().items() if carrier.spans_nodes)


def intra_node_fabrics() -> tuple[str, ...]:
    """The profiles with limits whose data stays on NVLink."""
    return tuple(name for name, carrier in carrier_by_fabric().items() if not carrier.spans_nodes)


@functools.cache
def families() -> Mapping[str, Family]:
    """The families of all profiles, by name."""
    return cached("families", _packaged_families)


def _packaged_families() -> Mapping[str, Family]:
    known = (load(name).family for name in names())
    return {family.name: family for family in known if family is not None}


def family(word: str) -> Family:
    """The family of that name, or the one of the profile of that name.

    Raises:
        PlaybookError: there is neither, or the profile has no family; the known ones are listed.
    """
    known = {**{name: load(name).family for name in names()}, **families()}
    found = known.get(word)
    if found is None:
        words = sorted(name for name, each in known.items() if each is not None)
        raise PlaybookError(
            codec.unknown("fabric", word, words), next_step=_other_names("fabrics", word, words)
        )
    return found


def _other_names(kind: str, name: str, known: Sequence[str]) -> str:
    """What to do about an unknown name: those there are, where the error itself only guesses one."""
    if codec.nearest(name, known):
        return f"known {kind}: {', '.join(known)}"
    return "docs/fabrics.md says which one is for which fabric, and how to write another"


@functools.cache
def signs() -> Mapping[str, tuple[Sign, ...]]:
    """What shows on a node that it is that fabric, by profile."""
    return {name: _file(name).signs for name in names()}


def directories() -> tuple[str, ...]:
    """Where the software of the fabrics is installed: what a node is asked for."""
    every = (sign.directory for each in signs().values() for sign in each)
    return tuple(sorted({directory for directory in every if directory is not None}))


def of_hardware() -> tuple[str, ...]:
    """The profiles of real networks."""
    return tuple(name for name in names() if not _file(name).emulated)


def of_emulated_hosts() -> str:
    """The profile of the embedded lab."""
    return next(name for name in names() if _file(name).emulated)


def _merged(inherited: tuple[_Item, ...], own: tuple[_Item, ...]) -> tuple[_Item, ...]:
    """Own entries replace the inherited ones of the same name."""
    kept = tuple(item for item in inherited if item.name not in {mine.name for mine in own})
    return kept + _sourced(own)


def _sourced(items: tuple[_Item, ...]) -> tuple[_Item, ...]:
    """Entries with the title and address of their source in the place of its key."""
    return tuple(dataclasses.replace(item, source=_source(item.source)) for item in items)


def _source(key: str) -> str:
    """Title and address of a key; a site's file may say in words what it rests on."""
    sources = _sources()
    if " " in key:
        return key
    if key not in sources:
        raise PlaybookError("fabrics/sources.yaml: " + codec.unknown("source", key, sources))
    return f"{sources[key].title}, {sources[key].address}"


@functools.cache
def _file(name: str) -> _File:
    return codec.load_yaml(
        _text(f"{name}.yaml"), f"fabrics/{name}.yaml", _File, error=PlaybookError
    )


@functools.cache
def _sources() -> dict[str, _Source]:
    return codec.load_yaml(
        _text("sources.yaml"), "fabrics/sources.yaml", dict[str, _Source], error=PlaybookError
    )


def _stems() -> tuple[str, ...]:
    entries = (entry.name for entry in resources.files("busbw.fabrics").iterdir())
    return tuple(
        sorted(
            name.removesuffix(".yaml")
            for name in entries
            if name.endswith(".yaml") and name != "sources.yaml"
        )
    )


def _text(file_name: str) -> str:
    return (resources.files("busbw.fabrics") / file_name).read_text(encoding="utf-8")
