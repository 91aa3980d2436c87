"""What a report is made from: one run's result, excerpts of its raw evidence, and its replayable commands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from busbw.records import RunResult
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


@dataclass(frozen=True)
class ReportInput:
    """Everything a report says comes from here: the same input gives the same bytes. Without slots, for what is computed once."""

    result: RunResult
    excerpts: tuple[Excerpt, ...] = ()
    commands_text: str = ""
    """The text of `commands.sh`; empty = the report shows `result.commands`."""

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Every group of the surveys; half a million of them take seconds, and several sections show them."""
        return measured_groups(self.result)
