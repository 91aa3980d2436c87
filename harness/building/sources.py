"""Where nccl-tests comes from: a folder or an archive here, an address, or binaries that the nodes
have. Read whole, checked, and recorded.

Nothing is unpacked on this machine: an archive is read in memory, and what goes to the nodes is
packed anew, without links, owners or clocks.
"""

from __future__ import annotations

import dataclasses
import io
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from busbw.building import recipe
from busbw.building.download import archive, check, confirm, is_address, is_git, revision
from busbw.building.recipe import Benchmark
from busbw.errors import UsageError
from busbw.files import read_given
from busbw.store import artefacts
from busbw.store.run_directory import RunDir
from busbw.units import counted

MOST_FILES = 20_000
MOST_BYTES = 256 << 20
"""Of all files together; nccl-tests has 0.5 MB."""
FILE = "benchmark.json"
_ARCHIVE = "benchmark.tar.gz"
_PRODUCTS = ("build/", ".git/")
"""What is no source: an object that somebody's make left would be taken for up to date, whatever
machine it is for."""
_GIVE = (
    "give the checkout of nccl-tests, an archive or the address of one, or the absolute folder of"
    " all_reduce_perf on the nodes"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """`raw/benchmark.json`: what a run measures with, so that --resume and a replay take the
    same."""

    given: str
    """As `--nccl-tests` had it; empty = the payload that busbw brings."""
    sources: str | None
    """Where their archive is kept below raw/; None = binaries that the nodes have."""
    benchmark: Benchmark
    """Without its bytes."""


def take(given: str, *, fetch: bool = True) -> Benchmark:
    """What `--nccl-tests` names: `PATH[#sha256=…]`, `https://…/nccl-tests.tar.gz[#sha256=…]`,
    `https://….git[#REF]`, or an absolute folder of the nodes that need not exist here. `fetch` =
    False: an address is checked and not asked, and the benchmark is without bytes.

    Raises:
        UsageError: it is none of these, its hash is another one, or what is there is not
        nccl-tests.
        BuildError: the address does not give it.
    """
    text, sha256 = _pinned(given)
    if is_address(text):
        if fetch:
            return _fetched(given, text, sha256)
        address, _, _ = text.partition("#")
        check(address, sha256)
        return Benchmark(b"", origin=given)
    path = Path(text)
    if path.is_dir() and (path / "Makefile").is_file():
        if sha256 is not None:
            raise UsageError(
                f"--nccl-tests {given}: a folder has no hash",
                next_step="pin an archive of it, or a commit of its repository",
            )
        return of_sources(_listed(path), given)
    if path.is_file():
        content = read_given(path, MOST_BYTES)
        actual = confirm(text, content, sha256)
        return dataclasses.replace(of_sources(unpacked(text, content), given), sha256=actual)
    if path.is_absolute() and sha256 is None:
        return Benchmark(None, directory=text.rstrip("/"), origin=given)
    raise UsageError(
        f"--nccl-tests {given}: neither sources nor an absolute path of binaries",
        seen="no folder with a Makefile, no archive, no address",
        next_step=_GIVE,
    )


def _pinned(given: str) -> tuple[str, str | None]:
    text, mark, digest = given.partition("#sha256=")
    if mark and not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
        raise UsageError(
            f"--nccl-tests {given}: no SHA-256",
            seen=digest,
            next_step="64 hexadecimal digits, as sha256sum prints them",
        )
    return text, digest.lower() if mark else None


def _fetched(given: str, text: str, sha256: str | None) -> Benchmark:
    address, _, ref = text.partition("#")
    if is_git(address):
        if sha256 is not None:
            raise UsageError(
                f"--nccl-tests {given}: a repository has no hash", next_step="pin a commit: #COMMIT"
            )
        tree, commit = revision(address, ref or None)
        return dataclasses.replace(of_sources(unpacked(address, tree), given), commit=commit)
    if ref:
        raise UsageError(
            f"--nccl-tests {given}: an archive has no revision",
            seen=f"#{ref}",
            next_step="#sha256=…, or git+https://… for git",
        )
    content = archive(address, sha256)
    return dataclasses.replace(
        of_sources(unpacked(address, content), given), sha256=confirm(address, content, sha256)
    )


def of_sources(files: dict[str, bytes], given: str) -> Benchmark:
    """Sources to build, with what they say of themselves.

    Raises:
        UsageError: they are not those of nccl-tests, or of something that speaks its dialect.
    """
    files = {name: data for name, data in files.items() if not name.startswith(_PRODUCTS)}
    cuda = any(name.endswith("all_reduce.cu") for name in files)
    if "Makefile" not in files or not (cuda or b"_perf" in files["Makefile"]):
        has = "a Makefile and no all_reduce.cu" if "Makefile" in files else "no Makefile"
        raise UsageError(
            f"{given} is not nccl-tests",
            seen=f"{counted(len(files), 'file')}, {has}",
            next_step=_GIVE,
        )
    texts = b"\n".join(files[name] for name in sorted(files) if name.endswith((".h", ".cu")))
    version = re.search(rb'#define NCCL_TESTS_VERSION "([\d.]+)"', texts)
    makefiles = (data for name, data in files.items() if name.endswith("Makefile"))
    return Benchmark(
        recipe.archive(files),
        cuda=cuda,
        hip=cuda and any(b"hipcc" in data for data in makefiles),
        version=version[1].decode() if version else None,
        origin=given,
    )


def with_files(benchmark: Benchmark, more: dict[str, bytes]) -> Benchmark:
    """The same sources with more files beside them."""
    files = unpacked("sources", benchmark.sources or b"") | more
    return dataclasses.replace(benchmark, sources=recipe.archive(files))


def _listed(folder: Path) -> dict[str, bytes]:
    paths = ((path.relative_to(folder).as_posix(), path) for path in sorted(folder.rglob("*")))
    root = folder.resolve()
    return _bounded(
        str(folder),
        (
            (name, path)
            for name, path in paths
            if not f"{name}/".startswith(_PRODUCTS) and _own_file(path, root)
        ),
    )


def _own_file(path: Path, root: Path) -> bool:
    """A regular file; a link counts where it stays in the folder.

    Raises:
        UsageError: a link leads out of the folder: what it leads to would be packed.
    """
    if path.is_symlink() and not path.resolve().is_relative_to(root):
        raise _strange(str(root), f"{path} is a link to {path.resolve()}")
    return path.is_file()


def _bounded(what: str, entries: Iterator[tuple[str, Path]]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    for name, path in entries:
        total += path.stat().st_size
        _limit(what, len(files), total)
        files[name] = read_given(path, MOST_BYTES)
    return files


def unpacked(what: str, content: bytes) -> dict[str, bytes]:
    """The files of a tar (plain, gz, bz2, xz) or zip, without the one folder that most archives put
    everything into.

    Raises:
        UsageError: it is none, it is damaged, it holds links or paths that lead out of it, or it is
        far too large.
    """
    try:
        if content.startswith(b"PK"):
            members = dict(_zipped(what, content))
        else:
            members = dict(_tarred(what, content))
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        EOFError,
        OSError,
        zlib.error,
        NotImplementedError,
        RuntimeError,
    ) as error:
        seen = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"{what} cannot be read as an archive",
            seen=seen,
            next_step="a whole .tar.gz, .tar.xz or .zip of nccl-tests",
        ) from error
    makefiles = sorted(
        (name for name in members if name.rpartition("/")[2] == "Makefile"),
        key=lambda name: (name.count("/"), name),
    )
    top = makefiles[0].removesuffix("Makefile") if makefiles else ""
    return {name.removeprefix(top): data for name, data in members.items() if name.startswith(top)}


def _tarred(what: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    total = 0
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for number, member in enumerate(tar):
            if member.isdir():
                continue
            total += member.size
            _limit(what, number, total)
            stream = tar.extractfile(member) if member.isfile() else None
            if stream is None:
                raise _strange(what, f"{member.name} is a link or a device")
            yield _plain(what, member.name), stream.read()


def _zipped(what: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    total = 0
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for number, member in enumerate(packed.infolist()):
            if member.is_dir():
                continue
            total += member.file_size
            _limit(what, number, total)
            if stat.S_ISLNK(member.external_attr >> 16):
                raise _strange(what, f"{member.filename} is a link")
            yield _plain(what, member.filename), packed.read(member)


def _plain(what: str, name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.parts:
        raise _strange(what, f"{name!r} leads out of it")
    return path.as_posix()


def _limit(what: str, files: int, total: int) -> None:
    if files > MOST_FILES or total > MOST_BYTES:
        raise UsageError(
            f"{what} holds far more than nccl-tests",
            seen=f"{files:,} files, {total:,} bytes; at most {MOST_FILES:,} and {MOST_BYTES:,}",
            next_step=_GIVE,
        )


def _strange(what: str, seen: str) -> UsageError:
    return UsageError(
        f"{what} is not an archive to be trusted",
        seen=seen,
        next_step="pack nccl-tests anew: plain files below one folder",
    )


def keep(run: RunDir, benchmark: Benchmark) -> None:
    """Write down what the run measures with: `raw/benchmark.json`, and the sources beside it."""
    sources = None
    if benchmark.sources is not None:
        run.write_raw(_ARCHIVE, benchmark.sources)
        sources = _ARCHIVE
    artefacts.keep(
        run, FILE, Origin(benchmark.origin, sources, dataclasses.replace(benchmark, sources=None))
    )


def are_binaries(run: RunDir) -> bool:
    """Whether the run was begun with binaries that the nodes should have: nothing is built."""
    origin = artefacts.load(run, FILE, Origin)
    return origin is not None and origin.sources is None and origin.benchmark.directory is not None


def kept(run: RunDir) -> Benchmark | None:
    """What the run was begun with; None = it does not say."""
    origin = artefacts.load(run, FILE, Origin)
    if origin is None or origin.sources is None:
        return origin.benchmark if origin else None
    return dataclasses.replace(origin.benchmark, sources=run.read_raw(origin.sources))
