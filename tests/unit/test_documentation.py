"""The documentation: links lead somewhere, commands, options, ids and files that stand in it exist,
every page can be found."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import re
import runpy
import shlex
from pathlib import Path

import pytest
import yaml

from busbw import cli
from busbw.cli.run_options import PLAYBOOKS
from busbw.lab.persona_faults import FAULTS
from busbw.launch.choose import launchers
from busbw.parsers.findings import catalogue
from busbw.parsers.logs.formats import formats

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
    absent = []
    for page in PAGES:
        for line in COMMAND.findall(
            re.sub(r" *\\\n *", " ", blocks(page.read_text(encoding="utf-8")))
        ):
            text = re.split(
                r"\s{2,}#|\s\|\s|\s&&\s|\s\|\|\s|\s2?>|;", line.strip().removeprefix("$ ")
            )[0].strip()
            absent.append((page.name, text))
    return absent


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [target for target, _ in LINK.findall(text) if not (page.parent / target).exists()]
    assert missing == []
    assert text.count("\n```") % 2 == 0, "a fence is not closed"


ANCHORED = re.compile(r"(?<!!)\[[^\]]+\]\((?!https?://|mailto:)([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)


def anchors(page: Path) -> frozenset[str]:
    """Those of a page's headings that GitHub and mkdocs both give: each drops the characters that
    are no letters, digits, `_`, `-` or blanks; mkdocs also drops letters beyond ASCII, and makes
    one hyphen of several."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    both = set()
    for heading in HEADING.findall(text):
        shown = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).replace("`", "")
        github = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        plain = shown.encode("ascii", "ignore").decode()
        mkdocs = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        both |= {github} & {mkdocs}
    return frozenset(both)


@pytest.mark.parametrize(
    "page",
    [*PAGES, *sorted((ROOT / "docs").glob("*/*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_into_a_page_lead_to_a_heading_on_github_and_on_the_site(page: Path) -> None:
    dead = []
    for target, anchor in ANCHORED.findall(page.read_text(encoding="utf-8")):
        file = (page.parent / target).resolve() if target else page
        if file.suffix == ".md" and anchor not in anchors(file):
            dead.append(f"{target}#{anchor}")
    assert not dead, dead


def test_every_page_can_be_found_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if f"docs/{page.name}" not in text] == []


def test_the_readme_and_the_help_name_every_playbook() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    known = {path.stem for path in (ROOT / "playbooks").glob("*.yaml")}
    assert set(re.findall(r"^\| `([a-z-]+)`", text, re.MULTILINE)) == known == set(PLAYBOOKS)


def test_every_command_that_stands_in_the_documentation_is_taken_by_the_command_line() -> None:
    parser = cli.build_parser()
    refused, tried = [], 0
    for page, text in commands():
        if any(word in text for word in OWN_WORDS):
            continue
        tried += 1
        output = io.StringIO()
        try:
            with contextlib.redirect_stderr(output):
                parser.parse_args(shlex.split(text)[1:])
        except SystemExit:
            refused.append((page, text, output.getvalue().splitlines()[-1:]))
    assert refused == []
    assert tried > 40


def spans(page: Path) -> list[str]:
    """Text in single backticks."""
    return re.findall(
        r"`([^`\n]+)`",
        re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL),
    )


def options(parser: argparse.ArgumentParser) -> set[str]:
    """Of this command and all below it."""
    known: set[str] = set()
    for action in parser._actions:
        known |= set(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                known |= options(below)
    return known


OTHERS_OPTIONS = frozenset(
    (
        *(
            "--bind-to",
            "--build-arg",
            "--collector",
            "--cpu-bind",
            "--distribution",
            "--level",
            "--line",
            "--map-by",
            "--mca",
        ),
        *("--query-", "--query-compute-apps", "--query-gpu", "--query-remapped-rows"),
        *("--report-port", "--user"),
    )
)
"""Other tools' options that stand alone, or behind a name that is not theirs."""
NOT_IDS = {
    "all-reduse",
    "apt-get",
    "errors-grow",
    "gpu-007",
    "memlock-small",
    "nvidia-nccl-cu12",
    "nvidia-smi",
    "on-shortfall",
    "package-dir",
}
"""Names of other things, and a planted mistake (docs/verdicts.md)."""


def unknown_options(texts: list[str]) -> list[str]:
    known: set[str] = set(OTHERS_OPTIONS)
    for name in cli.COMMANDS:
        parser = argparse.ArgumentParser()
        importlib.import_module(f"busbw.cli.{name}").register(parser)
        known |= options(parser)
    own = re.compile(rf"-|busbw |(?:{'|'.join(cli.COMMANDS)}) -")
    return [
        option
        for text in texts
        if own.match(text)
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)
        if option not in known
    ]


def unknown_ids(texts: list[str]) -> list[str]:
    findings = set(catalogue.load().by_id)
    subjects = "|".join({known.partition(".")[0] for known in findings if "." in known})
    names = findings | NOT_IDS | set(launchers()) | {form.name for form in formats()}
    names |= {fault.kind for fault in FAULTS} | {"nccl-tests", "nccl-tests-json"}
    names |= {"rccl-tests-records"}
    for folder in ("playbooks", "harness/fabrics", "harness/lab/personas"):
        names |= {path.stem for path in (ROOT / folder).glob("*.yaml")}
    for playbook in (ROOT / "playbooks").glob("*.yaml"):
        names |= set(re.findall(r"\bid: ([a-z-]+)", playbook.read_text("utf-8")))
    name = re.compile(rf"[a-z0-9]+(?:-[a-z0-9]+)+|(?:{subjects})\.(?!json|yaml)[a-z_.]+")
    return [text for text in texts if name.fullmatch(text) and text not in names]


def missing_files(texts: list[str]) -> list[str]:
    """Paths of this repository; NAME and its like stand for something."""
    top = "harness|parsers|reports|tests|docs|playbooks|inventories"
    return [
        text
        for text in texts
        if re.fullmatch(rf"(?:{top})/[\w./-]*", text)
        and not re.search(r"[A-Z]{4}", text)
        and not (ROOT / text).exists()
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_ids_and_files_of_a_page_exist(page: Path) -> None:
    texts = spans(page)
    assert unknown_ids(texts) == []
    assert missing_files(texts) == []
    if page.name != "measured.md":
        assert unknown_options(texts) == [], "measured.md alone has options of the benches"


def test_an_unknown_option_id_or_file_is_seen() -> None:
    assert unknown_options(["--turns A", "why --lively", "--sweep A=1"]) == ["--turns", "--lively"]
    assert unknown_ids(["slow-nodes", "slow-node", "rdma.nothing"]) == [
        "slow-nodes",
        "rdma.nothing",
    ]
    assert missing_files(["parsers/none.py", "parsers/contract.py"]) == ["parsers/none.py"]


def test_every_page_is_in_the_menu_of_the_site() -> None:
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = {
        page for part in menu for pages in part.values() for each in pages for page in each.values()
    }
    assert listed == {*(page.name for page in PAGES[1:]), "symptoms/index.md"}


def test_every_command_has_a_manual_page_with_its_options() -> None:
    pages = runpy.run_path(str(ROOT / "docs" / "tools" / "man.py"))["pages"]()
    assert {f"busbw-{name}.1" for name in cli.COMMANDS} | {"busbw.1"} == set(pages)
    assert "\\-\\-budget TIME" in pages["busbw-run.1"]
    for name, page in pages.items():
        assert page.count(".SH NAME") == 1, name
        assert not re.search(r"(?m)^\.(?!TH|SH|SS|TP|nf|fi)", page), name
