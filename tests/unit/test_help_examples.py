"""Every command's help ends with examples, and each of them parses."""

from __future__ import annotations

import re
import shlex

import pytest

from busbw import cli
from busbw.cli import examples

LINES = [(name, line) for name, rows in examples.EXAMPLES.items() for line, _ in rows]


def test_every_command_has_examples() -> None:
    assert list(examples.EXAMPLES) == [*cli.COMMANDS]


@pytest.mark.parametrize(("name", "line"), LINES, ids=lambda value: value)
def test_an_example_parses_as_its_command(name: str, line: str) -> None:
    ours = re.search(r"busbw .*", line)
    assert ours is not None
    words = shlex.split(ours[0])[1:]
    assert words[0] == name
    assert cli.build_parser().parse_args(words).command == name


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_examples_stand_at_the_end_of_the_help_line_by_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    text = capsys.readouterr().out
    assert text.rstrip().endswith(examples.text(name).rstrip())
    (description, *_) = text.split("\n\n")[1:]
    assert all(len(line) <= 80 for line in description.splitlines())
