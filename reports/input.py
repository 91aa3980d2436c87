"""What a report is made from: one run's result, excerpts of its raw evidence, and its replayable
commands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from busbw.model import RunResult
from busbw.reports.groups import Group, measured_groups


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of an artefact under `raw/`, already cut by the caller to at most 64 KiB."""

    artefact: str
    """Path inside the run directory."""
    text: str
    """The text, decoded; where something was left out, a marker line says how much."""
    sha256: str
    """Of the whole artefact, in hexadecimal: proves which file the excerpt came from."""


@dataclass(frozen=True, slots=True)
class Origin:
    """How an artefact came to be."""

    artefact: str
    host: str
    began: str
    """ISO 8601; empty = not known."""
    command: str
    """The command line, on one line; empty = not known."""


def table_of(artefact: str) -> str:
    """What may be quoted for an artefact: for the JSON of a launch the table that it printed."""
    folder, _, name = artefact.rpartition("/")
    return f"{folder}/stdout.txt" if name == "result.json" else artefact


@dataclass(frozen=True)
class ReportInput:
    """Everything a report says comes from here: the same input gives the same bytes. Without slots,
    for what is computed once."""

    result: RunResult
    excerpts: tuple[Excerpt, ...] = ()
    commands_text: str = ""
    """The text of `commands.sh`; empty = the report shows `result.commands`."""
    origins: tuple[Origin, ...] = ()

    def origin_of(self, artefact: str) -> Origin | None:
        """Who made an artefact; None = the record does not say."""
        return next((each for each in self.origins if each.artefact == artefact), None)

    def excerpt_of(self, artefact: str) -> str:
        """The text of an artefact; of the JSON of a launch, which holds its environment and is
        never quoted, that of the table it printed. Empty = no excerpt."""
        table = table_of(artefact)
        return next((each.text for each in self.excerpts if each.artefact == table), "")

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Every group of the surveys; half a million of them take seconds, and several sections
        show them."""
        return measured_groups(self.result)
