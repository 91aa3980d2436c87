"""Building the benchmark on the nodes: nccl-tests, or the payload that speaks its dialect, through
one contract.

The contract is nccl-tests' own: `make MPI=1 MPI_HOME=… [CUDA_HOME=… NCCL_HOME=… NVCC_GENCODE=…]`
gives `build/<collective>_perf`; of rccl-tests `make MPI=1 MPI_HOME=… ROCM_PATH=… NCCL_HOME=…`.
A build is stamped by all its inputs (sources, make variables, the node type) and kept under that
stamp, so that other inputs never reuse it. Its hash is recorded on the machine that busbw runs on
(`busbw.store.own_builds`): a build that is not recorded there is never executed, but built again.
It is built on one node of a type, copied to the others, and proven afterwards: same hashes
everywhere, linked to MPI.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass

from busbw import shell
from busbw.model import Command
from busbw.units import counted

BUILD_TIMEOUT_S = 900.0
COPY_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Where the binaries come from: sources to build (tar.gz, with make variables), or a folder
    that is on all nodes already."""

    sources: bytes | None
    make_args: tuple[str, ...] = ()
    directory: str | None = None
    cuda: bool = False
    """The sources are CUDA's: nvcc, NCCL and the GPUs' kinds are looked for on the nodes."""
    hip: bool = False
    """They are rccl-tests: hipcc and RCCL are what they take of these."""
    version: str | None = None
    """NCCL_TESTS_VERSION of the sources; None = they do not say, or are not nccl-tests."""
    origin: str = ""
    """What `--nccl-tests` named; empty = the payload that busbw brings."""
    sha256: str | None = None
    """Of the archive as it came; None = it was none."""
    commit: str | None = None
    """Of the git repository that they were fetched from; None = from none."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """What is built, how, and where it will stand."""

    sources: bytes
    """Archive (tar.gz) of the source tree, the Makefile at its top."""
    make_args: tuple[str, ...]
    directory: str
    """Absolute path on every node, named by the stamp; the binaries are in its `build/`."""
    stamp: str
    nccl_home: str = ""
    """Folder with include/nccl.h; empty = the build needs no NCCL."""
    nccl_library: str = ""
    """Path of the libnccl.so.2 that is linked."""
    run_path: str = ""
    """Where the loader looks for libraries first, written into the binaries (RUNPATH): no
    LD_LIBRARY_PATH is needed on any node."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a node says of the binaries it has."""

    node: str
    hashes: tuple[tuple[str, str], ...]
    """(file name, SHA-256), sorted; () = the node has none."""
    mpi_linked: bool | None
    """`ldd` names libmpi; None = `ldd` could not tell."""
    not_found: tuple[str, ...]
    """Libraries that the loader does not find on this node."""
    nccl: str | None = None
    """The libnccl that the loader takes; None = the binary needs none, or it is not found."""
    nccl_hash: str | None = None
    """SHA-256 of that file."""


@dataclass(frozen=True, slots=True)
class NodeTypeBuild:
    """The build for one node type."""

    stamp: str
    directory: str
    builder: str
    reused: bool
    """True = a build that this machine had recorded was on the builder."""
    nodes: tuple[str, ...]
    """Whose binaries are the builder's, byte for byte."""
    cuda: str | None = None
    """Version of the toolkit that built it; None = not built with CUDA."""
    nccl: str | None = None
    """Version of NCCL's header that it was built with."""


@dataclass(frozen=True, slots=True)
class BuildOutcome:
    """What stands on the nodes after the build stage."""

    folder: str
    """Absolute path of the folder with the programs, the same on every node."""
    builds: tuple[NodeTypeBuild, ...]
    """One for each node type, the head's first; () = the binaries were there."""
    proofs: tuple[Proof, ...]
    """What each node has: of its own type's build."""
    usable: tuple[str, ...]
    """Nodes that can be launched on."""
    problems: tuple[str, ...]
    version: str | None = None
    """nccl-tests' own version, of the sources."""
    origin: str = ""
    """What `--nccl-tests` named."""
    sha256: str | None = None
    """Of the archive as it came."""
    commit: str | None = None
    """Of the repository that it was fetched from."""

    @property
    def summary(self) -> str:
        """Who has what, in one line."""
        if not self.builds:
            return f"{self.folder}: there on {counted(len(self.usable), 'node')}"
        each = [
            f"{'reused' if b.reused else 'built'} {b.stamp} on {b.builder} for {counted(len(b.nodes), 'node')}"
            for b in self.builds
        ]
        return "; ".join(each)


def archive(files: Mapping[str, bytes], mode: int = 0o644) -> bytes:
    """A tar.gz of `files` (relative path → content) that is the same bytes for the same input: no
    clock, no owner, sorted."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size = len(files[name])
            info.mode = mode
            tar.addfile(info, io.BytesIO(files[name]))
    return gzip.compress(buffer.getvalue(), mtime=0)


def plan(
    sources: bytes,
    make_args: tuple[str, ...],
    node_type: str,
    root: str,
    *,
    nccl: tuple[str, str, str] = ("", "", ""),
    run_path: str = "",
    owner: str = "",
) -> BuildPlan:
    """The build of `sources` under `root` (absolute, on the nodes). `node_type` says what the nodes are:
    another one is another build.

    `nccl` = NCCL's home, library and version. `owner` keeps the builds of several machines apart.
    """
    text = json.dumps(
        [
            hashlib.sha256(sources).hexdigest(),
            list(make_args),
            node_type,
            *([list(nccl), run_path] if any(nccl) else []),
        ]
    )
    stamp = hashlib.sha256(text.encode()).hexdigest()[:16]
    directory = f"{root}/build/{stamp}{f'-{owner}' if owner else ''}"
    return BuildPlan(sources, make_args, directory, stamp, nccl[0], nccl[1], run_path)


def digest(hashes: tuple[tuple[str, str], ...]) -> str:
    """One hash of a build's programs and libraries, as `digest.sh` works it out on a node.

    >>> digest((("all_reduce_perf", "ab12"), ("libnccl.so.2", "cd34")))[:12]
    'de2b75633c40'
    """
    programs = [(name, each) for name, each in sorted(hashes) if name.endswith("_perf")]
    libraries = [pair for pair in sorted(hashes) if pair not in programs]
    text = "".join(f"{each}  {name}\n" for name, each in (*programs, *libraries))
    return hashlib.sha256(text.encode()).hexdigest()


def _script(*names: str) -> str:
    return shell.load("busbw.building", *(f"{name}.sh" for name in names))


def build_command(build: BuildPlan, known: tuple[str, ...] = ()) -> Command:
    """Builds, or finds a build there whose digest is `known` (`reused …` on standard output);
    another one is replaced (`replaced …`). Leaves nothing half-built behind."""
    argv = (
        "sh",
        "-c",
        _script("digest", "build"),
        "busbw-build",
        build.directory,
        build.nccl_home,
        build.nccl_library,
        build.run_path,
        " ".join(known),
        *build.make_args,
    )
    return Command(argv, stdin=build.sources, timeout_s=BUILD_TIMEOUT_S, label="build")


def prove_command(folder: str, digests: tuple[str, ...] = ()) -> Command:
    """Hashes of the binaries in `folder`, and what one of them is linked to where they are one of
    `digests`; () = whatever they are. Exit status 3 = there are none."""
    script = _script("digest", "prove")
    argv = ("sh", "-c", script, "busbw-prove", folder, " ".join(digests))
    return Command(argv, timeout_s=60, label="prove")


def pack_command(directory: str) -> Command:
    """The binaries as a tar.gz on standard output."""
    return Command(
        ("sh", "-c", _script("pack"), "busbw-pack", directory),
        timeout_s=COPY_TIMEOUT_S,
        label="pack",
    )


def unpack_command(directory: str, packed: bytes) -> Command:
    """Puts the packed binaries in place, at once or not at all."""
    return Command(
        ("sh", "-c", _script("unpack"), "busbw-unpack", directory),
        stdin=packed,
        timeout_s=COPY_TIMEOUT_S,
        label="unpack",
    )


def parse_proof(node: str, stdout: str) -> Proof:
    """Reads `prove_command`'s output.

    >>> parse_proof("n1", "ab12  all_reduce_perf\\n--- ldd\\n\\tlibmpi.so.40 => /lib/libmpi.so.40 (0x7f)\\n\\tlibnccl.so.2 => not found\\n")
    Proof(node='n1', hashes=(('all_reduce_perf', 'ab12'),), mpi_linked=True, not_found=('libnccl.so.2',), nccl=None, nccl_hash=None)
    """
    head, _, linked = stdout.partition("--- ldd\n")
    linked, _, nccl = linked.partition("--- nccl\n")
    used = re.search(r"^([0-9a-f]+)  (\S+)$", nccl, re.M)
    hashes = tuple(
        sorted((name, digest) for digest, name in re.findall(r"^([0-9a-f]+)  (\S+)$", head, re.M))
    )
    libraries = re.findall(r"^\s+(\S+) =>", linked, re.M)
    missing = tuple(re.findall(r"^\s+(\S+) => not found", linked, re.M))
    linked_to_mpi = any(name.startswith("libmpi") for name in libraries) if libraries else None
    return Proof(
        node, hashes, linked_to_mpi, missing, used[2] if used else None, used[1] if used else None
    )


def first_error(text: str) -> str:
    """The line of a failed build that says why: the first compiler or linker error, else the last
    line.

    >>> first_error("cc -c a.c\\na.c:3:1: error: unknown type name 'x'\\nmake: *** [Makefile:4: a.o] Error 1\\n")
    "a.c:3:1: error: unknown type name 'x'"
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern in (
        r"\berror:",
        r"fatal error|cannot find -l|undefined reference|No such file or directory|not found",
        r"\*\*\*",
    ):
        for line in lines:
            if re.search(pattern, line):
                return line
    return lines[-1] if lines else "(the build printed nothing)"
