"""The documentation: links lead somewhere, commands that stand in it are ones that the command line
takes, every page can be found."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from busbw import cli

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?!https?://|mailto:)([^)#\s]+)(#[^)]*)?\)")
COMMAND = re.compile(r"^(?:    |\$ |\| `|)busbw [a-z].*$", re.MULTILINE)
OWN_WORDS = ("…", "RUN", "NAME", "FILE", "DIR", "SHELL", "KIND", "CMD", "ID", "a.log", "<", "[--")
"""Stand for something: such a line is a form, not a command."""


def blocks(text: str) -> str:
    """What stands in code: fenced blocks and indented lines."""
    fenced = "\n".join(re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    indented = "\n".join(
        line
        for line in re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()
        if line.startswith("    ")
    )
    return f"{fenced}\n{indented}"


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for line in COMMAND.findall(
            re.sub(r" *\\\n *", " ", blocks(page.read_text(encoding="utf-8")))
        ):
            text = re.split(
                r"\s{2,}#|\s\|\s|\s&&\s|\s\|\|\s|\s2?>|;", line.strip().removeprefix("$ ")
            )[0].strip()
            found.append((page.name, text))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [target for target, _ in LINK.findall(text) if not (page.parent / target).exists()]
    assert missing == []
    assert text.count("\n```") % 2 == 0, "a fence is not closed"


def test_every_page_can_be_found_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if f"docs/{page.name}" not in text] == []


def test_every_command_that_stands_in_the_documentation_is_taken_by_the_command_line() -> None:
    parser = cli.build_parser()
    refused, tried = [], 0
    for page, text in commands():
        if any(word in text for word in OWN_WORDS):
            continue
        tried += 1
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parser.parse_args(shlex.split(text)[1:])
        except SystemExit:
            refused.append((page, text, said.getvalue().splitlines()[-1:]))
    assert refused == []
    assert tried > 40
