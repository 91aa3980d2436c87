"""Raw evidence at the end of the page: excerpts in full as far as the page's size allows, the others by name and sum."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.reports.input import Excerpt, ReportInput

_MOST_CHARACTERS = 400_000
"""Of all excerpts together: the page stays one that opens at once."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One artefact."""

    excerpt: Excerpt
    whole: bool
    """False = its text is left out here, the page would grow too large."""


def view(report: ReportInput) -> tuple[Shown, ...] | None:
    """The excerpts in the order given; None = there are none."""
    left = _MOST_CHARACTERS
    made = []
    for excerpt in report.excerpts:
        fits = len(excerpt.text) <= left
        left -= len(excerpt.text) if fits else 0
        made.append(Shown(excerpt, fits))
    return tuple(made) or None
