"""Raw evidence at the end of the page: excerpts as far as the page's size allows, the others by
name and sum."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.reports.input import Excerpt, ReportInput

_MOST_OF_ONE = 16_000
_MOST_OF_ALL = 60_000
"""Characters: the page stays one that opens at once and can be mailed."""


@dataclass(frozen=True, slots=True)
class Part:
    """One artefact."""

    excerpt: Excerpt
    text: str
    """Empty = left out, for the reason beside it."""
    reason: str


def view(report: ReportInput) -> tuple[Part, ...] | None:
    """The excerpts in their order; None = there are none."""
    budget = _MOST_OF_ALL
    excerpts = []
    for excerpt in report.excerpts:
        part = _excerpt(excerpt, budget)
        budget -= len(part.text)
        excerpts.append(part)
    return tuple(excerpts) or None


def _excerpt(excerpt: Excerpt, budget: int) -> Part:
    if excerpt.artefact.endswith(".json"):
        # nccl-tests writes its whole environment into its JSON: a report that is mailed must not
        # carry that.
        return Part(
            excerpt,
            "",
            "It is for programs, and may hold the environment of the launch: see the file.",
        )
    text = _cut(excerpt.text)
    if len(text) > budget:
        return Part(excerpt, "", "Left out here to keep the page small: see the file.")
    return Part(excerpt, text, "" if text else "It is empty.")


def _cut(text: str) -> str:
    if len(text) <= _MOST_OF_ONE:
        return text
    half = _MOST_OF_ONE // 2
    return (
        f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out here, see the file"
        f" …\n{text[-half:]}"
    )
