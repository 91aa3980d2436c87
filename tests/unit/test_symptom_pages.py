"""docs/symptoms/: the pages are what the generator writes from the catalogue."""

import re
from pathlib import Path
from types import ModuleType

from scripts import loaded

from busbw.parsers.findings import catalogue

DOCS = Path(__file__).parents[2] / "docs"


def generator() -> ModuleType:
    return loaded("docs/tools/symptoms.py")


def test_the_pages_are_those_that_the_catalogue_gives() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("symptoms/*.md")}
    assert texts == generator().pages(), "run docs/tools/symptoms.py"


def test_the_index_has_one_line_for_each_id() -> None:
    index = (DOCS / "symptoms" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[([^]]+)\]", index, re.M)
    assert sorted(listed) == sorted(catalogue.load().by_id)
