"""What the vendors' own files set, beside the environment of a dry run: `docs/vendors/*.yaml`
against the profile that each names. `fabrics_page.py` prints the tables."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from busbw import playbook
from busbw.codec import load_yaml
from busbw.fabrics import profiles
from busbw.fabrics.profile import Profile
from busbw.launch import FabricFacts
from busbw.launch.env import Origins, resolve

FOLDER = Path(__file__).parents[1] / "vendors"
LOGGING = "NCCL_DEBUG"
"""Begins the names of the run's own log settings: no vendor's file decides them."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The cluster that the vendor's file is for."""

    socket_ifname: str | None = None
    rails: tuple[str, ...] = ()
    nccl_version: str | None = None
    machine: str | None = None


@dataclass(frozen=True, slots=True)
class VendorFile:
    """What one file of a vendor sets, and why the profile differs where it does."""

    title: str
    source: str
    revision: str
    seen: str
    env: dict[str, str]
    version: str = ""
    facts: Facts = Facts()
    differences: dict[str, str] = field(default_factory=dict)
    profile: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A variable; None = that side does not set it."""

    name: str
    ours: str | None
    vendor: str | None
    why: str


def files() -> tuple[VendorFile, ...]:
    """The files, sorted by name; a file is for the profile that its name begins with."""
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        file = load_yaml(path.read_text(encoding="utf-8"), path.name, VendorFile)
        profile = file.profile or path.stem
        found.append(dataclasses.replace(file, name=path.stem, profile=profile))
    return tuple(found)


def rows(file: VendorFile, profile: Profile) -> tuple[Row, ...]:
    """Every variable that either side sets, sorted; what the run itself logs is left out."""
    book = dataclasses.replace(playbook.load("quick"), env=())
    facts = FabricFacts(**dataclasses.asdict(file.facts))
    resolved = resolve(Origins(profile, book), book.cases[0], facts).variables
    ours = {variable.name: variable.value for variable in resolved}
    names = sorted({*ours, *file.env})
    return tuple(
        Row(name, ours.get(name), file.env.get(name), file.differences.get(name, ""))
        for name in names
        if not name.startswith(LOGGING)
    )


def unexplained(file: VendorFile, profile: Profile) -> list[str]:
    """The variables in which the two differ, and nothing says why."""
    return [each.name for each in rows(file, profile) if each.ours != each.vendor and not each.why]


def needless(file: VendorFile, profile: Profile) -> list[str]:
    """Explanations of differences that there are not."""
    differing = {each.name for each in rows(file, profile) if each.ours != each.vendor}
    return sorted(set(file.differences) - differing)


def by_profile() -> dict[str, list[VendorFile]]:
    """The files of each profile."""
    found: dict[str, list[VendorFile]] = {}
    for file in files():
        found.setdefault(file.profile, []).append(file)
    return found


def section(name: str) -> str:
    """The profile beside its vendors' files, as Markdown: a row that stands in several files once."""
    profile = profiles.load(name)
    lines, differing = [f"### {name} beside", ""], dict[Row, list[str]]()
    for file in by_profile()[name]:
        version = f", {file.version}" if file.version else ""
        compared = rows(file, profile)
        equal = [f"`{row.name}`" for row in compared if row.ours == row.vendor]
        lines.append(
            f"- {file.name}: [{file.title}]({file.source}){version}, revision {file.revision},"
            f" seen {file.seen}. Equal: {', '.join(equal)}."
        )
        for row in compared:
            if row.ours != row.vendor:
                differing.setdefault(row, []).append(file.name)
    lines += ["", "| variable | busbw | vendor | files | why they differ |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for row, names in sorted(differing.items(), key=lambda item: item[0].name):
        where = "all" if len(names) == len(by_profile()[name]) else ", ".join(names)
        lines.append(
            f"| `{row.name}` | {_cell(row.ours)} | {_cell(row.vendor)} | {where} | {row.why} |"
        )
    return "\n".join(lines) + "\n"


def _cell(value: str | None) -> str:
    return "not set" if value is None else f"`{value}`"
