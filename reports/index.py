"""The first page of `busbw site`: a row per run with its verdict and a link to its report."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import quote

from busbw.inventory import fold
from busbw.model import RunResult
from busbw.reports import html, phrases
from busbw.reports.safe import one_line


@dataclass(frozen=True, slots=True)
class Row:
    """One run."""

    run: str
    page: str
    """Address of its report; empty = it has none."""
    started: str
    playbook: str
    nodes: str
    state: str
    headline: str


def rows(results: tuple[tuple[str, RunResult], ...], pages: Collection[str]) -> tuple[Row, ...]:
    """The runs, each with the name of its folder, newest first. `pages`: names of the reports that
    are there."""
    return tuple(
        Row(
            run=one_line(name),
            page=_address(f"{name}.html") if f"{name}.html" in pages else "",
            started=one_line(result.started[:16].replace("T", " ")),
            playbook=one_line(f"{result.playbook}, {result.profile}"),
            nodes=one_line(fold(result.nodes)),
            state=phrases.state(result.verdict),
            headline=one_line(result.headline) + (" (emulated)" if result.emulated else ""),
        )
        for name, result in sorted(
            results, key=lambda each: (each[1].started, each[0]), reverse=True
        )
    )


def _address(page: str) -> str:
    """A name in this folder, whatever characters it has: no scheme, no other folder.

    >>> _address("javascript:alert(1).html")
    'javascript%3Aalert%281%29.html'
    """
    return quote(page.encode("utf-8", "surrogateescape"), safe="")


def render(results: tuple[tuple[str, RunResult], ...], pages: Collection[str]) -> str:
    """The whole page. The same input gives the same bytes."""
    return html.standalone("index.html.j2", title="busbw runs", rows=rows(results, pages))
