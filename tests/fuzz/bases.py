"""The runs that damage and fuzzing begin with: ten recorded in the embedded lab, and composed ones.

A recorded run is `tests/fixtures/lab_runs/NAME.tar.xz`: its `raw/` without `raw/nodes` and the packed
benchmark, on which no verdict rests, and `raw/files.jsonl` without their lines.

=============  ===========================================================================
healthy        tests/lab/short.yaml on four nodes: PASS
quick          the playbook `quick`: PASS
slowed         short.yaml, node3 at 50 Mb/s: FAIL
stalled        short.yaml, the ranks of node4 stopped in the middle: FAIL
unreached      short.yaml, the sshd of node2 hangs: UNKNOWN
resumed        tests/lab/resume.yaml, killed in its second case and resumed: UNKNOWN
acceptance     tests/lab/rails.yaml on three nodes of four rails, with a contract
checked        `busbw check` of four nodes that show H100: PASS
check-failed   the same, a port of node3 down: FAIL
persona        short.yaml on nodes that show H100: PASS
=============  ===========================================================================
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planted import BOOK, Recording, healthy, slow_alike, slow_pairs

from busbw import playbook
from busbw.playbook import Gate
from busbw.store.run_directory import LIST, RunDir

GROWING = frozenset({LIST, "events.jsonl"})
"""Files without a line in the list of files."""
RECORDED = Path(__file__).parents[1] / "fixtures" / "lab_runs"


@dataclass(frozen=True, slots=True)
class Base:
    """One run, whole."""

    name: str
    files: dict[str, bytes]
    """All of `raw/`, by name, the list of files among them."""

    def written(self, folder: Path) -> RunDir:
        """The run directory of it, at `folder`."""
        for name, content in self.files.items():
            path = folder / "raw" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return RunDir(folder)


def recorded() -> tuple[Base, ...]:
    """The runs of the lab, by name."""
    return tuple(_unpacked(path) for path in sorted(RECORDED.glob("*.tar.xz")))


def composed(place: Path) -> tuple[Base, ...]:
    """Runs of eight H100 a node, as the traps use them: one that passes, one that warns, one that
    fails, and a small one of a single launch. `place`: an empty folder to work in."""
    return tuple(
        _composed(name, make(), place / name)
        for name, make in (
            ("day-one", healthy),
            ("day-one-warned", _warned),
            ("day-one-failed", _failed),
            ("one-launch", _small),
        )
    )


def _warned() -> Recording:
    recording = healthy()
    slow_alike(recording, 0.8)
    return recording


def _failed() -> Recording:
    recording = healthy()
    slow_pairs(recording, 0.5, "node3")
    return recording


def _small() -> Recording:
    """A gate of its own number: nothing but the launch is judged."""
    book = playbook.parse(BOOK, "plan.yaml", "one-launch")
    gate = Gate("all-reduce", 1 << 30, "playbook", minimum_busbw_gb_s=300.0)
    return healthy(dataclasses.replace(book, gates=(gate,)))


def _composed(name: str, recording: Recording, place: Path) -> Base:
    run = recording.written(place)
    return Base(name, dict(_read(run.raw)))


def _read(raw: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(raw.rglob("*")):
        if path.is_file():
            yield path.relative_to(raw).as_posix(), path.read_bytes()


def _unpacked(archive: Path) -> Base:
    files = {}
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            stream = packed.extractfile(member)
            assert stream is not None
            files[member.name.removeprefix("raw/")] = stream.read()
    return Base(archive.name.removesuffix(".tar.xz"), files)


def relisted(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with a list that fits them, as somebody leaves them who rewrites the hashes too."""
    lines = []
    for name, content in files.items():
        if name not in GROWING:
            digest = hashlib.sha256(content).hexdigest()
            lines.append(json.dumps({"name": name, "bytes": len(content), "sha256": digest}))
    return {**files, LIST: "".join(f"{line}\n" for line in lines).encode()}
