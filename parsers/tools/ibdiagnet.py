"""What ibdiagnet (2.x) prints: its stages with warnings and errors, and the errors themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool
from busbw.parsers.tools.blocks import runs
from busbw.text import whole_number

_BEGIN = re.compile(r"^Running version: +\"?IBDIAGNET", re.M)
_TABLE = re.compile(r"^-I- Stage +Warnings +Errors\b", re.M)
_STAGE = re.compile(
    r"^-I- (\S.{0,40}?) +(\d{1,9}|NA) +(\d{1,9}|NA)(?: +(\S.{0,80}?))?[ \t]*$", re.M
)
_ERROR = re.compile(r"^-E- (\S.{0,200})", re.M)
_OF_IT = re.compile(r"ibdiagnet|^-I- |^Summary$", re.M)
_MOST_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Stage:
    """One check of the fabric."""

    name: str
    warnings: int | None
    """None = not run."""
    errors: int | None
    comment: str


@dataclass(frozen=True, slots=True)
class Fabric:
    """One run."""

    stages: tuple[Stage, ...]
    """() = the text has no summary."""
    errors: tuple[str, ...]
    """The first of those printed."""


def parse(text: str) -> tuple[Fabric, ...]:
    """Every run in a text.

    >>> (run,) = parse("-I- Stage                     Warnings   Errors     Comment\\n-I- Links Check               0          2\\n")
    >>> run.stages
    (Stage(name='Links Check', warnings=0, errors=2, comment=''),)
    """
    found = map(_run, runs(_BEGIN, text))
    return tuple(run for run in found if run is not None)


def _run(text: str) -> Fabric | None:
    table = _TABLE.search(text)
    errors = [match[1].strip() for match in _ERROR.finditer(text)][:_MOST_ERRORS]
    begun = _BEGIN.search(text) is not None
    if table is None and not begun and not (errors and _OF_IT.search(text)):
        return None
    stages = _STAGE.findall(text, table.end()) if table else []
    return Fabric(
        tuple(
            Stage(name, whole_number(warned), whole_number(failed), note)
            for name, warned, failed, note in stages
        ),
        tuple(dict.fromkeys(errors)),
    )


def _lines(run: Fabric) -> Iterator[str]:
    for stage in run.stages:
        if stage.errors is None or stage.warnings is None:
            yield f"{stage.name}: not run" + (f" ({stage.comment})" if stage.comment else "")
        else:
            yield f"{stage.name}: {stage.errors} errors, {stage.warnings} warnings"


def _errors(run: Fabric) -> Iterator[str]:
    yield from (
        f"ibdiagnet: {stage.name}: {stage.errors} errors" for stage in run.stages if stage.errors
    )
    yield from (f"ibdiagnet: {error}" for error in run.errors)


def _gaps(run: Fabric) -> Iterator[str]:
    if not run.stages:
        yield "ibdiagnet: its summary is missing"


TOOL = Tool(
    name="ibdiagnet",
    marks=("-I- Stage", "-E- ", "IBDIAGNET"),
    parse=parse,
    lines=_lines,
    errors=_errors,
    gaps=_gaps,
)
