"""The completion scripts, asked as the shells would ask them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from busbw.cli import build_parser
from busbw.cli.completion import script


def asked(line: str) -> list[str]:
    """What bash offers at the end of that line."""
    words = line.split(" ")
    array = " ".join(repr(word) for word in words)
    ask = (
        f'COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _busbw 2>/dev/null; printf "%s\\n"'
        ' "${COMPREPLY[@]}"'
    )
    text = script(build_parser(), "bash")
    done = subprocess.run(
        ["bash", "-c", f"{text}\n{ask}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd="/",
    )
    return done.stdout.split()


def test_commands_are_offered_first() -> None:
    assert {"check", "run", "why", "read", "report"} <= set(asked("busbw "))
    assert asked("busbw rep") == ["report"]


def test_the_options_of_the_command_are_offered_and_no_others() -> None:
    assert "--resume" in asked("busbw run --re")
    assert "--redact" in asked("busbw report --re")
    assert "--redact" not in asked("busbw run --re")


def test_commands_below_a_command_have_their_own() -> None:
    assert {"up", "down", "fault"} <= set(asked("busbw lab "))
    assert "--name" in asked("busbw lab fault --n")


def test_the_values_of_an_option_are_offered_behind_it() -> None:
    assert asked("busbw run --transport o") == ["openssh"]


def test_where_a_file_may_stand_files_are_offered() -> None:
    assert "etc" in asked("busbw why et")


@pytest.mark.parametrize(
    ("shell", "check"), [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])]
)
def test_the_script_is_valid_for_its_shell(shell: str, check: list[str]) -> None:
    text = script(build_parser(), shell)
    assert "busbw" in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here: its script is not parsed")
    done = subprocess.run(
        [*check, "/dev/stdin"], input=text, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
