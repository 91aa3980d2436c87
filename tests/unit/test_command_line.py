"""The frame of the command line: help, unknown commands and options, and what a start imports."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from busbw import cli


def test_busbw_alone_prints_its_help_and_how_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("usage: busbw ")
    assert printed.err.endswith("\nStart: busbw check -w 'gpu-[001-016]'\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("chek", "no command 'chek'; did you mean 'check'?"),
        ("xyzzy", "no command 'xyzzy'"),
        ("run --nodez gpu1", "run has no option --nodez; did you mean --nodes (-w)?"),
        ("run --nodez=gpu1", "run has no option --nodez; did you mean --nodes (-w)?"),
        ("lab up --nodes 3 --rale 1", "lab has no option --rale; did you mean --rate?"),
        ("check --qqqqq", "check has no option --qqqqq"),
        ("schema run plan", "schema takes no further argument: plan"),
        ("run --profil tcp", "run has no option --profil; did you mean --profile (-p)?"),
        ("undrain", "undrain: the following arguments are required: NODES|RUN"),
        ("lab fault slow", "lab fault slow: the following arguments are required: NODE, RATE"),
        ("run --forks many", "run: argument -f/--forks: invalid int value: 'many'"),
    ],
)
def test_an_unknown_word_is_named_with_what_was_probably_meant(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words.split()) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"busbw: error: {message}"


def test_a_folder_of_runs_that_is_no_argument_is_named_as_the_option_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["history", str(tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines()[1] == f"busbw: next: busbw history -o {tmp_path}"


def test_every_module_of_a_command_is_in_the_table_and_every_line_of_help_fits() -> None:
    folder = Path(cli.__file__).parent
    sources = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    runnable = {
        name for name, text in sources.items() if "\ndef register(" in text and "\ndef run(" in text
    }
    assert runnable == set(cli.COMMANDS)
    assert [line for line in cli.COMMANDS.values() if len(line) > 100] == []


@pytest.mark.parametrize("words", [["--help"], ["schema", "--help"], ["completion", "--help"]])
def test_a_start_imports_the_named_command_and_no_other(words: list[str]) -> None:
    code = (
        "import sys, busbw.cli\n"
        "try: busbw.cli.main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sorted(m for m in sys.modules if m.startswith('busbw.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = done.stdout.partition("LOADED ")[2].split()
    named = [f"busbw.cli.{words[0]}", "busbw.cli.examples"] if len(words) > 1 else []
    assert loaded == sorted(["busbw.cli", "busbw.cli.environment", "busbw.errors", *named])


def ended(*words: str, into: str) -> subprocess.CompletedProcess[str]:
    """`busbw WORDS INTO`, by a shell."""
    argv = shlex.join((sys.executable, "-m", "busbw", *words))
    return subprocess.run(
        ("sh", "-c", f"{argv} {into}"), capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("into", [">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_closed_streams_and_a_lost_message_change_no_exit_status(into: str) -> None:
    done = ended("report", "none-such", into=into)
    assert (done.returncode, "internal error" in done.stderr) == (2, False)


def test_output_on_a_full_disk_is_reported_as_lost() -> None:
    done = ended("why", "--list", into=">/dev/full")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        3,
        "busbw: error: standard output cannot be written",
    )


def test_a_check_goes_on_where_its_progress_cannot_be_printed(tmp_path: Path) -> None:
    words = ("check", "-w", "n1", "-p", "tcp", "--transport", "local", "--out", str(tmp_path))
    ended(*words, into="2>/dev/full")
    assert (tmp_path / "latest/check.json").exists()


@pytest.mark.parametrize(
    "environ",
    [
        {"PYTHONIOENCODING": "ascii"},
        # As a Python that leaves the locale as it is: what cannot be encoded is an error there, too.
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
)
def test_a_terminal_without_utf_8_gets_the_answer(tmp_path: Path, environ: dict[str, str]) -> None:
    log = tmp_path / "dmesg.txt"
    log.write_text(
        "NVRM: Xid (PCI:0000:4b:00): 79, pid=4, name=python3, GPU has fallen off the bus.\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "why", log],
        env={**os.environ, **environ},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.startswith(b"? CAUSE (certain)  A GPU has fallen off the bus (Xid 79)")


def test_json_loses_no_character_where_the_terminal_has_no_utf_8(tmp_path: Path) -> None:
    log = tmp_path / "dmesg.txt"
    line = "NVRM: Xid (PCI:0000:4b:00): 79, pid=4, name=größe, GPU has fallen off the bus."
    log.write_text(line + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "why", "--json", log],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert json.loads(done.stdout)["findings"][0]["evidence"][0]["text"] == line
