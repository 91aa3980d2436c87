"""The texts of the nodes' counters at two moments, as they lie in `raw/cases/`."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.store import artefacts
from busbw.store.artefacts import CounterFile, CountersArtefact
from busbw.store.run_directory import RunDir
from busbw.text import decoded


@dataclass(frozen=True, slots=True)
class Taken:
    """A node's counters at one moment."""

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class NodeTexts:
    """One node at both moments; None = there are none, see `problems`."""

    node: str
    before: Taken | None
    after: Taken | None
    problems: tuple[str, ...]
    """`no counters before: why`."""


def of_case(run: RunDir, case_id: str) -> tuple[NodeTexts, ...] | None:
    """Before and after a case, in the order of the launch; None = none were taken (an older run, or
    the launch did not start).

    Raises:
        RunDirError: an artefact is not readable.
    """
    return load_snapshots(
        run, f"cases/{case_id}/counters-before.json", f"cases/{case_id}/counters-after.json"
    )


def load_snapshots(run: RunDir, before: str, after: str) -> tuple[NodeTexts, ...] | None:
    """What the nodes of the first artefact said then and at the second; None = one of the two is
    missing.

    Raises:
        RunDirError: an artefact is not readable.
    """
    first, second = (artefacts.load(run, name, CountersArtefact) for name in (before, after))
    if first is None or second is None:
        return None
    later = {file.node: file for file in second.files}
    return tuple(_node(run, file, later.get(file.node)) for file in first.files)


def _node(run: RunDir, file: CounterFile, later: CounterFile | None) -> NodeTexts:
    before, after = _text(run, file), _text(run, later)
    moments = (("before", file, before), ("after", later, after))
    problems = (f"no counters {moment}: {_why(of)}" for moment, of, text in moments if text is None)
    return NodeTexts(file.node, before, after, tuple(problems))


def _why(file: CounterFile | None) -> str:
    if file is None:
        return "not asked"
    return file.problem or f"{file.path} is not there"


def _text(run: RunDir, file: CounterFile | None) -> Taken | None:
    if file is None or file.path is None:
        return None
    content = run.kept(file.path)
    return None if content is None else Taken(decoded(content), file.path)
