"""The completion scripts, asked as the shells would ask them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from busbw.cli import build_parser
from busbw.cli.completion import script


def offered(line: str) -> list[str]:
    """What bash offers at the end of that line."""
    words = line.split(" ")
    array = " ".join(repr(word) for word in words)
    call = (
        f"COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _shtab_busbw busbw 2>/dev/null;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", f"{script(build_parser(), 'bash')}\n{call}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd="/",
    )
    return done.stdout.split()


def test_commands_are_offered_first() -> None:
    assert {"check", "run", "why", "read", "report"} <= set(offered("busbw "))
    assert offered("busbw rep") == ["report"]


def test_the_options_of_the_command_are_offered_and_no_others() -> None:
    assert "--resume" in offered("busbw run --re")
    assert "--redact" in offered("busbw report --re")
    assert "--redact" not in offered("busbw run --re")


def test_commands_below_a_command_have_their_own() -> None:
    assert {"up", "down", "fault"} <= set(offered("busbw lab "))
    assert "--name" in offered("busbw lab fault --n")


def test_the_values_of_an_option_are_offered_behind_it() -> None:
    assert offered("busbw run --transport o") == ["openssh"]


def test_where_a_file_may_stand_files_are_offered() -> None:
    assert "etc" in offered("busbw why et")


@pytest.mark.parametrize(
    ("shell", "check"),
    [
        ("bash", ["bash", "-n"]),
        ("zsh", ["zsh", "-n"]),
        ("fish", ["fish", "-n"]),
        ("tcsh", ["tcsh", "-n"]),
    ],
)
def test_the_script_is_valid_for_its_shell(shell: str, check: list[str]) -> None:
    text = script(build_parser(), shell)
    assert "busbw" in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here: its script is not parsed")
    done = subprocess.run(
        [*check, "/dev/stdin"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
