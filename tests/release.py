"""The packages of a release, made from a clean checkout of the last commit and checked.

    python tests/release.py packages DIR      wheel and sdist, checked, with their SHA-256 sums
    python tests/release.py airgapped DIR     one tar with every wheel, for a machine without a network

Signs and publishes nothing. Exit status 1 = a check failed; the line says which. Needs a package
index, for the locked dependencies and twine.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = PROJECT["project"]["version"]
FOLDERS = PROJECT["tool"]["setuptools"]["package-dir"]
BACKEND = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
TWINE = "twine==6.2.0"
INSTALL = """\
#!/bin/sh
# Installs busbw from the wheels beside this file, without a network:  sh install.sh [FOLDER]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
(cd "$here" && sha256sum --quiet -c SHA256SUMS)
${PYTHON:-python3} -m venv "${1:-busbw}"
"${1:-busbw}/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$here/wheels" busbw
"${1:-busbw}/bin/busbw" --version
"""


class Failed(Exception):
    """A check did not hold."""


def checkout(target: Path) -> Path:
    """The last commit, as nobody changed it."""
    target.mkdir(parents=True)
    tar = target.with_suffix(".tar")
    run("git", "-C", str(ROOT), "archive", "--output", str(tar), "HEAD")
    with tarfile.open(tar) as archive:
        archive.extractall(target, filter="data")
    tar.unlink()
    return target


def run(*argv: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Standard output.

    Raises:
        Failed: the exit status is not 0.
    """
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    if done.returncode:
        raise Failed(f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def built(source: Path, kind: str, target: Path) -> Path:
    """The `sdist` or `wheel` of a checkout, built with the locked setuptools."""
    target.mkdir(parents=True, exist_ok=True)
    output = run(sys.executable, "-c", BACKEND, f"build_{kind}", str(target), cwd=source)
    return target / output.splitlines()[-1]


def wheel_contents(wheel: Path) -> dict[str, str]:
    """Name → SHA-256, without RECORD, which lists the others."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if not name.endswith("/RECORD")
        }


def check_wheel(wheel: Path, source: Path) -> None:
    """Every file of the five folders and nothing else, with licence and entry point.

    Raises:
        Failed: a file is missing, or too many.
    """
    expected = {
        Path(package.replace(".", "/"), path.relative_to(source / folder)).as_posix()
        for package, folder in FOLDERS.items()
        for path in (source / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    info = f"busbw-{VERSION}.dist-info"
    names = set(wheel_contents(wheel))
    inside = {name for name in names if not name.startswith(f"{info}/")}
    same(inside, expected, "the wheel")
    own = {"METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"}
    same({name.removeprefix(f"{info}/") for name in names - inside}, own, f"{info} of the wheel")
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
    if (metadata["License-Expression"], metadata["Version"]) != ("Apache-2.0", VERSION):
        raise Failed(f"metadata: {metadata['License-Expression']} {metadata['Version']}")


def check_sdist(sdist: Path, source: Path) -> None:
    """Every file of the checkout, tests and docs too, and what setuptools adds.

    Raises:
        Failed: a file is missing, or too many.
    """
    with tarfile.open(sdist) as archive:
        names = {each.name.partition("/")[2] for each in archive if each.isfile()}
    tracked = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    added = {name for name in names if name in ("PKG-INFO", "setup.cfg") or ".egg-info/" in name}
    same(names - added, tracked, "the sdist")


def same(names: set[str], expected: set[str], what: str) -> None:
    """Nothing where both are equal.

    Raises:
        Failed: they are not; the message has the first of what differs.
    """
    for word, files in (("lacks", expected - names), ("has too many:", names - expected)):
        if files:
            raise Failed(f"{what} {word} {len(files)} files: {', '.join(sorted(files)[:5])}")


def environment(target: Path) -> Path:
    """A fresh virtual environment; the folder of its programs."""
    run(sys.executable, "-m", "venv", str(target))
    return target / "bin"


def pip(programs: Path, *words: str) -> None:
    """pip of that environment."""
    run(str(programs / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", *words)


def check_installed(programs: Path, source: Path, scratch: Path) -> str:
    """It says its version, names the cause of the example, and starts fast, from an empty folder.

    Raises:
        Failed: it does not.
    """
    busbw, empty = str(programs / "busbw"), scratch / "empty"
    empty.mkdir()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    version = run(busbw, "--version", cwd=empty, env=env).strip()
    if version != f"busbw {VERSION}":
        raise Failed(f"--version prints {version!r}")
    log = source / "docs" / "examples" / "nccl.log"
    why = subprocess.run(
        [busbw, "why", str(log)], capture_output=True, text=True, check=False, cwd=empty, env=env
    )
    if why.returncode != 1 or "retry-exceeded-at-start" not in why.stdout.partition("\n")[0]:
        raise Failed(f"why {log.name}: exit status {why.returncode}\n{why.stdout}{why.stderr}")
    run(busbw, "version", "--json", cwd=empty, env=env)
    if list(empty.iterdir()):
        raise Failed(f"it left files in an empty folder: {list(empty.iterdir())}")
    return f"{version}; why docs/examples/nccl.log: {why.stdout.partition(chr(10))[0]}"


def sums(folder: Path, names: Iterable[str]) -> str:
    """Lines for `sha256sum -c`."""
    lines = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}"
        for name in sorted(names)
    ]
    return "".join(f"{line}\n" for line in lines)


def packages(target: Path, *, install: bool = True) -> tuple[Path, Path]:
    """Wheel and sdist in `target`; `install` = also twine, and the wheel in a fresh environment."""
    with tempfile.TemporaryDirectory(prefix="busbw-release-") as folder:
        scratch = Path(folder)
        source = checkout(scratch / "source")
        # setuptools leaves its own folders where it builds: the pristine copy is compared with.
        wheel = built(shutil.copytree(source, scratch / "for-wheel"), "wheel", target)
        sdist = built(shutil.copytree(source, scratch / "for-sdist"), "sdist", target)
        check_wheel(wheel, source)
        print(
            f"wheel: {len(wheel_contents(wheel))} files, no tests, {wheel.stat().st_size:,} bytes"
        )
        check_sdist(sdist, source)
        print(f"sdist: the whole checkout with tests and docs, {sdist.stat().st_size:,} bytes")
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch / "unpacked", filter="data")
        again = built(scratch / "unpacked" / f"busbw-{VERSION}", "wheel", scratch / "again")
        if wheel_contents(again) != wheel_contents(wheel):
            raise Failed("the wheel built from the sdist differs from that of the checkout")
        print("wheel built from the sdist: the same files")
        if install:
            tools = environment(scratch / "twine")
            pip(tools, "install", TWINE)
            run(str(tools / "twine"), "check", "--strict", str(wheel), str(sdist))
            print("twine check --strict: passed")
            own = environment(scratch / "own")
            pip(
                own,
                "install",
                "--no-deps",
                "--require-hashes",
                "-r",
                str(source / "requirements.lock"),
            )
            pip(own, "install", "--no-deps", str(wheel))
            print(f"installed: {check_installed(own, source, scratch)}")
    (target / "SHA256SUMS").write_text(sums(target, (wheel.name, sdist.name)))
    return wheel, sdist


def airgapped(target: Path) -> Path:
    """One tar: the wheels of busbw and of its locked dependencies for this Python and machine."""
    wheel, _ = packages(target, install=False)
    name = f"busbw-{VERSION}-airgapped-{tag()}"
    with tempfile.TemporaryDirectory(prefix="busbw-airgapped-") as scratch:
        folder = Path(scratch) / name
        wheels = folder / "wheels"
        lock = ("--require-hashes", "-r", str(ROOT / "requirements.lock"))
        pip(Path(sys.executable).parent, "wheel", "--no-deps", "--wheel-dir", str(wheels), *lock)
        shutil.copy(wheel, wheels)
        for file in ("LICENSE", "docs/licences.md", "docs/airgapped.md", "requirements.lock"):
            shutil.copy(ROOT / file, folder)
        (folder / "install.sh").write_text(INSTALL)
        files = (
            path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
        )
        (folder / "SHA256SUMS").write_text(sums(folder, list(files)))
        tar = target / f"{name}.tar"
        with tarfile.open(tar, "w") as archive:
            archive.add(folder, name)
    count = len(list_wheels(tar))
    print(f"{tar.name}: {count} wheels, {tar.stat().st_size:,} bytes")
    return tar


def list_wheels(tar: Path) -> tuple[str, ...]:
    """Names of the wheels in it."""
    with tarfile.open(tar) as archive:
        return tuple(name for name in archive.getnames() if name.endswith(".whl"))


def tag() -> str:
    """Python and machine that the wheels are for: `cp311-linux_x86_64`."""
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp{''.join(platform.python_version_tuple()[:2])}-{system}"


def main() -> int:
    """Make one of both; 0 = every check held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("packages", "airgapped"))
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    target: Path = args.folder.resolve()
    target.mkdir(parents=True, exist_ok=True)
    try:
        if args.what == "packages":
            packages(target)
            print((target / "SHA256SUMS").read_text(), end="")
        else:
            airgapped(target)
    except Failed as error:
        print(f"release: failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
