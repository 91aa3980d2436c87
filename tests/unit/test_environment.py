"""`BUSBW_*`: a flag wins over the environment, the environment over busbw.yaml, busbw.yaml over
what is built in."""

from __future__ import annotations

import argparse
import importlib
import os
import re
from pathlib import Path

import pytest

from busbw import cli
from busbw.cli import environment
from busbw.errors import UsageError

ROOT = Path(__file__).parents[2]
DRY = ("run", "quick", "--dry-run", "--nccl-tests", "/opt/nccl-tests/build")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [*os.environ]:
        if name.startswith(("BUSBW_", "SLURM_")):
            monkeypatch.delenv(name)
    return tmp_path


def output_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(list(words)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def profile_of(text: str) -> str:
    profile_match = re.search(r"profile ([a-z0-9-]+)", text)
    assert profile_match, text
    return profile_match[1]


def test_flag_then_environment_then_file_then_what_is_built_in(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "BUSBW_PROFILE" not in os.environ
    (here / "busbw.yaml").write_text(
        "nodes:\n  - name: gpu-[1-2]\n    gpus: 8\n    rails: [mlx5_0]\nfabric: infiniband\n"
    )
    assert profile_of(output_of(capsys, *DRY)) == "infiniband", (
        "the file, over what is built in (to ask the nodes)"
    )
    monkeypatch.setenv("BUSBW_PROFILE", "rocev2")
    assert profile_of(output_of(capsys, *DRY)) == "rocev2", "the environment, over the file"
    assert profile_of(output_of(capsys, *DRY, "-p", "tcp")) == "tcp", (
        "the command line, over the environment"
    )


def test_the_nodes_of_the_environment_are_used_until_the_command_line_names_some(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_NODES", "gpu-[001-003]")
    monkeypatch.setenv("BUSBW_EXCLUDE", "gpu-002")
    text = output_of(capsys, *DRY, "-p", "tcp", "--ranks-per-node", "8")
    assert "gpu-001" in text
    assert "gpu-003" in text
    assert "gpu-002:" not in text
    text = output_of(capsys, *DRY, "-p", "tcp", "--ranks-per-node", "8", "-w", "box-[1-2]")
    assert "box-2" in text
    assert "gpu-00" not in text


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("BUSBW_FORKS", "many", "BUSBW_FORKS cannot be read"),
        ("BUSBW_TRANSPORT", "pigeon", "BUSBW_TRANSPORT is none of ssh, openssh, local"),
        ("BUSBW_QUIET", "perhaps", "BUSBW_QUIET is neither yes nor no"),
    ],
)
def test_a_value_that_the_option_would_refuse_is_refused_by_name_in_three_lines(
    name: str,
    value: str,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    assert cli.main([*DRY, "-w", "gpu-1"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second, third = captured.err.splitlines()
    assert first == f"busbw: error: {what}"
    assert second.startswith(f"busbw: seen: {name}={value}")
    assert third.startswith("busbw: next: ")


def test_an_explicit_flag_that_equals_the_default_still_wins() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--forks", type=int, default=64)
    environment.apply(parser, {"BUSBW_FORKS": "8"})
    assert parser.parse_args(["--forks", "64"]).forks == 64
    assert parser.parse_args([]).forks == 8


def test_what_changes_what_a_command_does_is_never_taken_from_a_variable() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume")
    parser.add_argument("--force", action="store_true")
    assert environment.apply(parser, {"BUSBW_RESUME": "runs/x", "BUSBW_FORCE": "1"}) == {}
    assert not {"resume", "force", "replay", "dry_run", "redact", "env", "temporary_keys"} & set(
        environment.OPTIONS
    )


def test_a_value_that_cannot_be_read_raises_and_never_passes_silently() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connect-timeout", type=float, default=10.0)
    with pytest.raises(UsageError, match="BUSBW_CONNECT_TIMEOUT"):
        environment.apply(parser, {"BUSBW_CONNECT_TIMEOUT": "soon"})


def test_every_option_named_here_is_one_of_some_command_and_stands_in_the_documentation() -> None:
    known = set()
    for name in cli.COMMANDS:
        parser = argparse.ArgumentParser()
        importlib.import_module(f"busbw.cli.{name}").register(parser)
        known |= {action.dest for action in parser._actions if action.option_strings}
    assert set(environment.OPTIONS) <= known
    text = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert [
        environment.variable(option)
        for option in environment.OPTIONS
        if environment.variable(option) not in text
    ] == []
