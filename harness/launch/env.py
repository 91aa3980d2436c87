"""The environment of a launch: which value of each variable wins, where it comes from and why it is
there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from string import Formatter

from busbw.errors import UsageError
from busbw.fabrics import nccl_settings
from busbw.fabrics.profile import Harmful, MpiOption, NeverSet, Profile, ProfileVar
from busbw.launch import FabricFacts, variables
from busbw.model import BenchmarkCase, ResolvedVar, Settings, SetupScript, UnsetVar
from busbw.playbook import Playbook
from busbw.versions import release

STRAY_PREFIXES = ("NCCL_", "UCX_", "OMPI_", "PRTE_", "PMIX_MCA_", "FI_", "RDMAV_")
"""Variables with these beginnings steer NCCL or MPI: found in the caller's shell, they are named
and not passed on."""
_LOGGING = "NCCL_DEBUG"
"""Begins the names of the log's settings: the proof needs them as the profile has them."""
_PLACES = ("NCCL_HOME", "NCCL_ROOT")
"""Say where NCCL lies, to builds; they steer nothing."""


def parse_overrides(items: Iterable[str], unset: Iterable[str] = ()) -> Settings:
    """The (name, value) pairs of `--env NAME=VALUE` options, in the order given; None = `--unset
    NAME`.

    Raises:
        UsageError: one has no `=`, is no legal name, holds a control character, is given twice with
        two values, or looks like a secret.
    """
    overrides: dict[str, str | None] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(
                f"--env {item!r}: expected NAME=VALUE",
                next_step="for example --env NCCL_IB_QPS_PER_CONNECTION=4",
            )
        _demand_legal("--env", name, value)
        if overrides.get(name, value) != value:
            raise UsageError(
                f"--env {name} is given twice, as {overrides[name]!r} and {value!r}",
                next_step="give it once",
            )
        overrides[name] = value
    for name in unset:
        _demand_legal("--unset", name, "")
        if overrides.get(name) is not None:
            raise UsageError(
                f"{name} is given to --env and to --unset", next_step="leave one of them out"
            )
        overrides[name] = None
    return tuple(overrides.items())


def _demand_legal(option: str, name: str, value: str) -> None:
    what = variables.fault(name, value)
    if what is not None:
        raise UsageError(f"{option}: {what}", next_step="leave it out")


def stray(environ: Mapping[str, str]) -> tuple[str, ...]:
    """`NAME=VALUE` of the caller's own variables that would steer NCCL or MPI, sorted: to be listed
    as found and ignored.

    >>> stray({"NCCL_DEBUG": "INFO", "HOME": "/root"})
    ('NCCL_DEBUG=INFO',)
    """
    return tuple(
        f"{name}={environ[name]}"
        for name in sorted(environ)
        if name.startswith(STRAY_PREFIXES) and name not in _PLACES
    )


@dataclass(frozen=True, slots=True)
class Origins:
    """Whatever sets a variable of the ranks, besides the case."""

    profile: Profile
    playbook: Playbook
    overrides: Settings = ()
    """`--env` and `--unset`."""
    site: Settings = ()
    """The inventory's."""


@dataclass(frozen=True, slots=True)
class RankEnvironment:
    """The variables of a launch's ranks, each sorted by name."""

    variables: tuple[ResolvedVar, ...]
    unset: tuple[UnsetVar, ...]
    """What no rank may have."""


def resolve(origins: Origins, case: BenchmarkCase, facts: FabricFacts) -> RankEnvironment:
    """The variables of a launch. A case wins over `--env`, that over the playbook, that over the
    inventory, that over the profile.

    A profile's value with a placeholder whose fact is not known is left out: `excluded` says
    which."""
    settled = _resolved(origins, case, facts)
    return RankEnvironment(
        tuple(each for each in settled if isinstance(each, ResolvedVar)),
        tuple(each for each in settled if isinstance(each, UnsetVar)),
    )


def _resolved(
    origins: Origins, case: BenchmarkCase, facts: FabricFacts
) -> list[ResolvedVar | UnsetVar]:
    profile, playbook, overrides = origins.profile, origins.playbook, origins.overrides
    resolved: dict[str, ResolvedVar | UnsetVar] = {}
    for variable in profile.env:
        if _applies(variable, case, facts):
            setting = _of_profile(variable, profile, facts)
            if setting is not None:
                resolved[variable.name] = setting
    split = (("NCCL_TESTS_SPLIT", case.split),) if case.split is not None else ()
    given = "given on the command line"
    layers = (
        (origins.site, "inventory", "set by the inventory for its nodes"),
        (playbook.env, f"playbook {playbook.name}", "set by the playbook for all its cases"),
        (tuple(pair for pair in overrides if pair[1] is not None), "--env", given),
        (tuple(pair for pair in overrides if pair[1] is None), "--unset", given),
        (case.env, f"case {case.id}", "set by the case"),
        (split, f"case {case.id}", "cuts the ranks into groups"),
    )
    for pairs, origin, why in layers:
        for name, value in pairs:
            resolved[name] = _layered(name, value, origin, why, resolved.get(name))
    return [resolved[name] for name in sorted(resolved)]


def _of_profile(
    variable: ProfileVar, profile: Profile, facts: FabricFacts
) -> ResolvedVar | UnsetVar | None:
    """None = a fact that the value needs is not known."""
    origin = variable.site_file or f"profile {profile.name}"
    if variable.value is None:
        return UnsetVar(variable.name, origin, variable.why, variable.source)
    value = _filled(variable.value, facts)
    if value is None:
        return None
    return ResolvedVar(
        variable.name,
        value,
        origin,
        variable.why,
        variable.source,
        yields=not variable.name.startswith(_LOGGING),
    )


def _layered(
    name: str, value: str | None, origin: str, why: str, before: ResolvedVar | UnsetVar | None
) -> ResolvedVar | UnsetVar:
    """The value of a higher layer, which says what it replaces."""
    if value is None:
        why = why.replace("set by", "unset by")
        return UnsetVar(name, origin, why)
    if isinstance(before, UnsetVar):
        why += f"; {before.origin} unsets it"
    elif before is not None and before.value != value:
        why += f"; instead of {before.value!r} from {before.origin}"
    return ResolvedVar(name, value, origin, why)


def setup_script(
    profile: Profile, playbook: Playbook, site: str | None = None
) -> SetupScript | None:
    """The script that every rank sources: the playbook's, else the inventory's (`site`), else the
    profile's; None = none."""
    if playbook.setup is not None:
        return SetupScript(playbook.setup, f"playbook {playbook.name}")
    if site is not None:
        return SetupScript(site, "inventory")
    if profile.setup is not None:
        setup = profile.setup
        return SetupScript(setup.path, f"profile {profile.name}", optional=setup.optional)
    return None


def mpi_options(profile: Profile, facts: FabricFacts) -> tuple[MpiOption, ...]:
    """The profile's MCA parameters with their placeholders filled; those whose fact is not known
    are left out."""
    filled = ((option, _filled(option.value, facts)) for option in profile.mpi)
    return tuple(replace(option, value=value) for option, value in filled if value is not None)


def excluded(profile: Profile, facts: FabricFacts) -> tuple[str, ...]:
    """What the profile would set and does not for want of a fact, as sentences."""
    settings = [(item.name, item.value) for item in profile.env if item.value is not None]
    settings += [(item.name, item.value) for item in profile.mpi]
    missing = [(name, value) for name, value in settings if _filled(value, facts) is None]
    return tuple(
        f"{name} is not set: {value} is not known" for name, value in dict.fromkeys(missing)
    )


def cautions(profile: Profile, resolved: tuple[ResolvedVar, ...]) -> tuple[str, ...]:
    """What is known against a value that a playbook, a case or `--env` sets, and settings that do
    not do what they say, as sentences. They are still set: a person asked for them."""
    texts = []
    for variable in resolved:
        if variable.origin == f"profile {profile.name}":
            continue
        known: list[Harmful | NeverSet] = []
        known += [
            item
            for item in profile.harmful
            if item.name == variable.name and _any_glob(variable.value, item.values)
        ]
        if not known:
            known += [item for item in profile.never_set if item.name == variable.name]
        for item in known:
            instead = f"; instead: {item.instead}" if item.instead else ""
            where = f"{variable.name}={variable.value} ({variable.origin})"
            texts.append(f"{where}: {item.why}{instead}")
    settings = {variable.name: variable.value for variable in resolved}
    return (*texts, *(remark.text for remark in nccl_settings.remarks(settings)))


def _applies(variable: ProfileVar, case: BenchmarkCase, facts: FabricFacts) -> bool:
    """A name that a version does not know does no harm, so `since` lets an unknown version pass;
    `until` does not."""
    if variable.purposes and case.purpose not in variable.purposes:
        return False
    if variable.machines and not _any_glob(facts.machine or "", variable.machines):
        return False
    nccl = release(facts.nccl_version)
    if variable.since is not None and nccl and nccl < release(variable.since):
        return False
    return variable.until is None or bool(nccl and nccl < release(variable.until))


def _filled(text: str, facts: FabricFacts) -> str | None:
    """The text with its placeholders filled; None = a fact is not known."""
    values = {
        "socket_ifname": facts.socket_ifname,
        "rails": ",".join(facts.rails) or None,
        "log_dir": facts.log_dir,
    }
    placeholders = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    if any(values[name] is None for name in placeholders):
        return None
    return text.format_map(values)


def _any_glob(value: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(value, glob) for glob in globs)
