"""The fabric profiles: those that busbw ships and a site's own.

The data is in `busbw/fabrics/<name>.yaml`; a profile starts from the one it `inherits` and adds to
it, or replaces by name. Adding a fabric is adding a file.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TypeVar

from busbw import codec
from busbw.errors import PlaybookError
from busbw.fabrics.profile import (
    Carrier,
    ChecksPlan,
    Family,
    FlowHashing,
    Harmful,
    LinkTool,
    MpiOption,
    MustSee,
    NeverSet,
    Profile,
    ProfileVar,
    Setup,
    Sign,
    SiteFile,
    Trial,
)
from busbw.files import read_given
from busbw.table_cache import cached
from busbw.text import decoded


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
