"""What node tools report as an error is a finding of the catalogue, with a fix: one text a tool,
composed in its format, in a file named after the finding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from format_texts.pastes import PASTES

from busbw import cli
from busbw.cli import why_reading
from busbw.parsers import tools
from busbw.parsers.findings.diagnose import diagnose
from busbw.parsers.tools import states

TEXTS = sorted((Path(__file__).parents[1] / "fixtures" / "composed_tool_errors").glob("*.txt"))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_an_error_of_a_node_tool_is_a_finding(path: Path) -> None:
    diagnosis = diagnose(why_reading.read([str(path)]).evidence)
    assert path.name.partition(".")[0] in {each.id for each in diagnosis.findings}
    assert not diagnosis.by_words, "the entry knows the line, and not only its words"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_both_commands_fail_for_it_and_the_finding_cites_its_line(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["read", str(path)]) == 1, capsys.readouterr().out
    capsys.readouterr()
    assert cli.main(["why", "--all", "--json", str(path)]) == 1
    document = json.loads(capsys.readouterr().out)
    wanted = path.name.partition(".")[0]
    cited = []
    for finding in document["findings"]:
        if wanted in (finding["id"], *finding["also"]):
            cited += [each["line"] for each in finding["evidence"] if each["line"] is not None]
    assert cited, document["findings"]


def test_every_tool_with_states_has_such_a_text() -> None:
    texts = [*(path.read_text() for path in TEXTS), *(paste.text for paste in PASTES.values())]
    outputs = [output for text in texts for output in tools.read(text)]
    seen = {output.tool for output in outputs if output.errors}
    assert {tool.name for tool in states.TOOL} - seen == set()


def test_an_unused_port_of_a_switch_is_no_error() -> None:
    text = (
        "Switch: 0xb83fd20300aabb00 MF0;leaf1:MQM9700/U1:\n"
        '           3    9[  ] ==(                Down/ Polling)==>             [  ] "" ( )\n'
    )
    (output,) = tools.read(text)
    assert (output.tool, output.errors, output.facts) == ("iblinkinfo", (), ())
