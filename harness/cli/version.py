"""`busbw version`: busbw, its libraries and the programs of this machine that it works with, each
with its version.

The libraries are those that the installed package asks for, as its own metadata names them.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import re
import sys
from dataclasses import dataclass

import busbw

SCHEMA = "busbw.versions/1"
PROGRAMS = {
    "ssh": ("-V",),
    "mpirun": ("--version",),
    "srun": ("--version",),
    "kubectl": ("version", "--client"),
    "iperf3": ("--version",),
    "nvidia-smi": ("--version",),
}
"""Program → the words that make it print its version."""
_TIMEOUT_S = 10.0
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Version:
    """One library or program."""

    name: str
    version: str | None
    """None = it is not here."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What this machine runs busbw with."""

    schema: str
    busbw: str
    python: str
    system: str
    """Kernel and architecture, `Linux-6.1.0-18-amd64-x86_64-with-glibc2.36`."""
    libraries: tuple[Version, ...]
    optional_libraries: tuple[Version, ...]
    """Asked for by an extra of the package (`busbw[parquet]`); those for development are left out."""
    programs: tuple[Version, ...]


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw version`."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    from busbw.codec import dump_json

    these = versions()
    sys.stdout.write(dump_json(these) if args.json else as_text(these))
    return 0


def versions() -> Versions:
    """Of this machine, now: each program is started once."""
    required, optional = libraries()
    return Versions(
        SCHEMA,
        busbw.__version__,
        platform.python_version(),
        platform.platform(),
        required,
        optional,
        tuple(Version(name, program_version(name)) for name in PROGRAMS),
    )


def as_text(these: Versions) -> str:
    """One line each; what is not here is named last."""
    every = (*these.libraries, *these.optional_libraries, *these.programs)
    rows = [("busbw", these.busbw), ("python", these.python), ("system", these.system)]
    rows += [(each.name, each.version) for each in every if each.version is not None]
    missing = ", ".join(each.name for each in every if each.version is None)
    text = "".join(f"{name:20} {version}\n" for name, version in rows)
    return f"{text}not here: {missing}\n" if missing else text


def libraries() -> tuple[tuple[Version, ...], tuple[Version, ...]]:
    """What the package needs, and what its extras for users add, each sorted by name."""
    try:
        requirements = importlib.metadata.requires("busbw") or []
    except importlib.metadata.PackageNotFoundError:
        requirements = []
    required, optional = set(), set()
    for line in requirements:
        name, extra = _name(line), re.search(r"extra == [\"'](\w+)", line)
        if extra is None:
            required.add(name)
        elif extra[1] != "dev":
            optional.add(name)
    return _installed(required), _installed(optional)


def _installed(names: set[str]) -> tuple[Version, ...]:
    return tuple(Version(name, _version(name)) for name in sorted(names, key=str.lower))


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def _name(requirement: str) -> str:
    """Of a line of the metadata, without its bounds.

    >>> _name("hyperscan>=0.8; platform_machine == 'x86_64'")
    'hyperscan'
    """
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def program_version(name: str) -> str | None:
    """The first line with a number that the program prints about itself; what it says instead where
    there is none; None = it is not here."""
    from busbw.lab.requirements import find
    from busbw.reports.phrases import cut
    from busbw.reports.safe import one_line

    path = find(name)
    if path is None:
        return None
    exit_status, text = printed(path, *PROGRAMS[name])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    numbered = [line for line in lines if _DIGIT.search(line)]
    if exit_status == 0 and numbered:
        return cut(one_line(numbered[0]), 120)
    return cut(one_line(f"does not start: {lines[0] if lines else exit_status}"), 120)


def printed(*argv: str) -> tuple[int | None, str]:
    """Exit status (None = it did not end within its limit) and all that a program of this machine
    printed."""
    from busbw.model import Command
    from busbw.transport.local import LocalSession

    result = LocalSession("localhost").run(Command(argv, timeout_s=_TIMEOUT_S))
    return result.exit_status, f"{result.out()}\n{result.err()}"
