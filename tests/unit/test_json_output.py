"""`--json`: exactly one document on standard output and nothing else, for every command that has
it; errors leave standard output empty."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw import cli
from busbw.codec import dump_json
from busbw.compare import accepted
from busbw.model.history import Decision
from busbw.store.run_directory import RunDir

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
HERE = os.uname().nodename.partition(".")[0]
LOCAL = ("--transport", "local", "-w", HERE, "-p", "tcp")
ON_HARDWARE = ("--gpu", "H100", "--nodes", "2", "--nics", "8x400", "--fabric", "infiniband")
COMMANDS: dict[str, tuple[str, ...]] = {
    "check": (*LOCAL, "-o", "checks"),
    "run": ("quick", *LOCAL, "--nccl-tests", "/nonexistent", "-o", "runs", "--force"),
    "report": ("checks/latest",),
    "why": (str(EXAMPLES / "nccl.log"), str(EXAMPLES / "all_reduce.out")),
    "read": (str(EXAMPLES / "nccl.log"), str(EXAMPLES / "all_reduce.out")),
    "expect": ON_HARDWARE,
    "cost": ("--parameters", "405B", "--nodes", "8", "--nics", "8x400"),
    "diff": ("past/20261102-000000-day-one",),
    "history": ("--out", "past"),
    "doctor": (),
    "version": (),
    "lab status": (),
}
"""In the order in which they need each other."""
NEEDS_A_LAB = {"lab status": "tests/lab/test_lab_modes.py asks it of a lab"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with two finished runs, the first of them accepted."""
    folder = tmp_path_factory.mktemp("json")
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        for name in [*os.environ]:
            if name.startswith(("BUSBW_", "SLURM_", "GITHUB_")):
                patch.delenv(name)
        patch.setenv("BUSBW_LAB_DIR", str(folder / "labs"))
        patch.chdir(folder)
        assert cli.main(["check", *LOCAL, "-o", "checks", "-q"]) in (0, 1, 3)
        plan = json.loads((folder / "checks" / "latest" / "raw" / "plan.json").read_text())
        result = RUNS.healthy().result
        for number in (1, 2):
            run = folder / "past" / f"2026110{number}-000000-day-one"
            (run / "raw" / "cases").mkdir(parents=True)
            RunDir(run).write_raw("plan.json", json.dumps({**plan, "run_id": run.name}))
            (run / "run.json").write_text(
                dump_json(
                    dataclasses.replace(
                        result, run_id=run.name, started=f"2026-11-0{number}T00:00:00Z"
                    )
                )
            )
        accepted.decide(
            RunDir(folder / "past" / "20261101-000000-day-one"),
            Decision("2026-11-03T00:00:00Z", "ops", "good"),
        )
        yield folder
    assert Path.cwd() == before


def with_json(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from with_json(inner, (*path, name))
        elif "--json" in action.option_strings:
            yield " ".join(path)


def test_this_table_names_every_command_that_has_the_option() -> None:
    assert set(with_json(cli.build_parser())) == set(COMMANDS)


def test_standard_output_is_one_document_and_nothing_else(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    kinds = {}
    for name, words in COMMANDS.items():
        status = cli.main([*name.split(), *words, "--json"])
        captured = capsys.readouterr()
        if name in NEEDS_A_LAB:
            assert (status, captured.out) == (2, ""), NEEDS_A_LAB[name]
            continue
        assert status in (0, 1, 3), (name, captured.err)
        assert captured.out[:1] in ("{", "["), (name, captured.err)
        kinds[name] = type(json.loads(captured.out)).__name__
        assert captured.out.endswith("\n"), name
        assert "internal error" not in captured.err, (name, captured.err)
    assert kinds == {
        name: "list" if name == "history" else "dict"
        for name in COMMANDS
        if name not in NEEDS_A_LAB
    }


@pytest.mark.parametrize(
    "words",
    [
        ("run", "quick", "-w", "a[", "--json"),
        ("check", "-i", "missing.yaml", "--json"),
        ("report", "missing", "--json"),
        ("read", "missing", "--json"),
        ("why", "missing", "--json"),
        ("diff", "missing", "--json"),
        ("history", "--out", "missing", "--json"),
        ("lab", "status", "--json"),
    ],
)
def test_an_error_is_at_most_three_lines_with_a_next_step_and_nothing_on_standard_output(
    place: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    status = cli.main(list(words))
    captured = capsys.readouterr()
    assert status in (2, 3)
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0].startswith("busbw: error: ")
    assert [line.partition(":")[0] for line in lines] == ["busbw"] * len(lines)
    names = [line.split(": ")[1] for line in lines]
    assert names in (
        ["error", "seen", "next"],
        ["error", "next"],
    ), "what was seen is left out where the error itself is verbatim"


def test_a_lab_that_does_not_exist_is_not_passed_over_in_silence(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["lab", "down", "--name", "nosuch"]) == 0
    assert capsys.readouterr().out == "no lab is named nosuch: nothing was taken down\n"
