"""What node tools report as an error is a finding of the catalogue, with a fix: one text a tool,
composed in its format, in a file named after the finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli import why
from busbw.parsers import tools
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.tools import states

TEXTS = sorted((Path(__file__).parents[1] / "fixtures" / "composed_tool_errors").glob("*.txt"))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_an_error_of_a_node_tool_is_a_finding(path: Path) -> None:
    diagnosis = diagnose(why.read([str(path)]).evidence)
    assert path.name.partition(".")[0] in {each.id for each in diagnosis.findings}
    assert not diagnosis.by_words, "the entry knows the line, and not only its words"


def test_every_tool_with_states_has_such_a_text() -> None:
    outputs = [output for path in TEXTS for output in tools.read(path.read_text())]
    seen = {output.tool for output in outputs if output.errors}
    assert {tool.name for tool in states.TOOL} - seen == set()
