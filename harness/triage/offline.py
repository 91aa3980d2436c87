"""A directory of collected answers, ours (`raw/live.json`) or what a site collected with the
printed script (`NODE.txt`), as evidence again."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from busbw import files
from busbw.checks.script import split
from busbw.codec import parse_json
from busbw.errors import ReadError, RunDirError
from busbw.faults import Fault, attempt
from busbw.model import CommandResult, Node, Unreachable
from busbw.parsers.stall.answer import read
from busbw.parsers.stall.evidence import NodeEvidence, SectionText
from busbw.parsers.stall.job import RequestedJob, StallEvidence

_MAGIC = re.compile(rb"(?:\A|\n)busbw-live 1 ([0-9A-Za-z-]{6,64})\r?\n")
_RECORD = "raw/live.json"
_HEAD_BYTES = 65536
_MOST_BYTES = 64 << 20
"""Of one node's answer: 24 MB of dumps in base64 and what else there is."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """One node's answer."""

    node: str
    path: str
    """Inside the directory."""
    exit_status: int | None
    problem: str | None
    seconds: float
    clock_offset_s: float | None
    """The node's clock minus ours; None = not known."""
    clock_uncertain_s: float | None


@dataclass(frozen=True, slots=True)
class LiveArtefact:
    """`raw/live.json`: which nodes were asked for what, and where the answers are."""

    schema: str
    tool_version: str
    asked_s: float
    """Since 1970, by the clock of who asked."""
    boundary: str
    source: str
    slurm: str | None
    pid: int | None
    mark: str | None
    files: tuple[LiveFile, ...]
    unreachable: tuple[Unreachable, ...]
    leaves: tuple[tuple[str, str], ...] = ()
    """(node, leaf), as the inventory says; () = it does not."""


def is_collection(path: Path) -> bool:
    """A directory of ours, or one that holds answers of the printed script."""
    return path.is_dir() and ((path / _RECORD).is_file() or bool(_answers(path)))


def load(path: Path) -> LiveArtefact:
    """What was collected. A site's files name their nodes: `gpu-003.txt`; their clocks are not
    compared.

    Raises:
        ReadError: nothing in it is an answer.
    """
    if os.path.lexists(path / _RECORD):
        return parse_json(
            _content(path, _RECORD), LiveArtefact, f"{path}/{_RECORD}", error=RunDirError
        )
    names = _answers(path)
    if not names:
        raise ReadError(
            f"{path} holds no answer of the collecting script",
            seen="no file begins with 'busbw-live 1'",
            next_step="busbw why --live --print-script",
        )
    files = tuple(
        LiveFile(name.partition(".")[0], name, 0, None, 0.0, None, None) for name in names
    )
    return LiveArtefact("busbw.live/1", "", 0.0, "", str(path), None, None, None, files, ())


def evidence(path: Path, artefact: LiveArtefact) -> StallEvidence:
    """All that was collected: the same from the same files, whoever reads them."""
    return StallEvidence(
        tuple(_node(path, file) for file in artefact.files),
        artefact.unreachable,
        RequestedJob(artefact.slurm, artefact.pid, artefact.mark),
        artefact.asked_s or None,
        dict(artefact.leaves),
    )


def _node(path: Path, file: LiveFile) -> NodeEvidence:
    try:
        data = _content(path, file.path)
    except RunDirError as error:
        problem = f"{error.what}: {error.seen}"
        return of_text(file.node, b"", file.path, problem, file.clock_offset_s)
    return of_text(file.node, data, file.path, file.problem, file.clock_offset_s)


def _content(path: Path, name: str) -> bytes:
    """A file of the collection, cut where it is larger than an answer.

    Raises:
        RunDirError: it is no regular file below the folder, or cannot be read.
    """
    try:
        with files.open_beneath(path, name, None) as stream:
            return stream.read(_MOST_BYTES)
    except OSError as error:
        raise RunDirError(f"{path}/{name} cannot be read", seen=str(error)) from error


def of_text(
    node: str, data: bytes, artefact: str, problem: str | None, clock_offset_s: float | None
) -> NodeEvidence:
    """One node's answer as evidence; what is missing in it is missing, with the reason."""
    result = attempt(lambda: _of_text(node, data, artefact, problem, clock_offset_s))
    if isinstance(result, Fault):
        why = f"busbw could not read the answer ({result.text}); it is kept"
        return read(node, (), artefact, why, clock_offset_s)
    return result


def _of_text(
    node: str, data: bytes, artefact: str, problem: str | None, clock_offset_s: float | None
) -> NodeEvidence:
    head = _MAGIC.search(data[:_HEAD_BYTES])
    if head is None:
        return read(
            node,
            (),
            artefact,
            problem or "the answer does not begin as the script's does",
            clock_offset_s,
        )
    result = CommandResult(node, (), 0, data, b"", 0.0)
    answer = split(Node(node), result, head[1].decode(), artefact)
    sections = (
        SectionText(s.name, s.stdout, s.exit_status, s.line_no) for s in answer.sections.values()
    )
    return read(node, sections, artefact, problem or answer.problem, clock_offset_s)


def _answers(path: Path) -> list[str]:
    """Names of the files that begin as the script's answers do; no link is followed."""
    return [
        name
        for name in files.listing(path, deep=False).files
        if Path(name).suffix in (".txt", ".out", ".log", "") and _is_answer(path, name)
    ]


def _is_answer(path: Path, name: str) -> bool:
    try:
        with files.open_beneath(path, name, None) as stream:
            return _MAGIC.search(stream.read(_HEAD_BYTES)) is not None
    except OSError:
        return False
