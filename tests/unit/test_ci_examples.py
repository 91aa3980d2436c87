"""The CI examples of docs/ci.md: valid, of commands that exist, and gating on the exit status,
where 3 is never a regression."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from busbw import cli

TEXT = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
WORKFLOW: Any
GITLAB: Any
WORKFLOW, GITLAB = (yaml.safe_load(text) for kind, text in BLOCKS if kind == "yaml")
(JENKINS,) = (text for kind, text in BLOCKS if kind == "groovy")
(SLURM,) = (text for kind, text in BLOCKS if kind == "sh")
(CRON,) = (text for kind, text in BLOCKS if kind == "crontab")
(MEASURE,) = (step["run"] for step in WORKFLOW["jobs"]["bandwidth"]["steps"] if "run" in step)


def run_script(
    script: str, shell: tuple[str, ...], folder: Path, *statuses: int
) -> tuple[int, str, list[str]]:
    """(exit status, output, command lines) of a script where busbw ends with these statuses, the
    last one from then on."""
    stub = folder / "busbw"
    counts = " ".join(f"{n}) exit {status};;" for n, status in enumerate(statuses, 1))
    stub.write_text(
        f'#!/bin/sh\necho "$*" >> {folder}/calls\ncase $(wc -l < {folder}/calls) in {counts}'
        f" esac\nexit {statuses[-1]}\n"
    )
    stub.chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "GITHUB_OUTPUT": str(folder / "outputs")}
    done = subprocess.run(
        (*shell, script),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=60,
        cwd=folder,
    )
    return done.returncode, done.stdout, (folder / "calls").read_text().splitlines()


def test_every_example_measures_with_a_command_line_that_busbw_takes() -> None:
    parser = cli.build_parser()
    lines = re.findall(
        r"busbw (run firmware-ci .*?)(?:'\)|$)", "\n".join(text for _, text in BLOCKS), re.MULTILINE
    )
    assert len(lines) == 4
    for line in lines:
        assert parser.parse_args(shlex.split(line)).playbook == "firmware-ci"


def test_the_workflow_has_what_github_wants_of_one() -> None:
    # YAML 1.1 reads the key `on` as true.
    assert set(WORKFLOW) == {"name", True, "jobs"}
    assert set(WORKFLOW[True]) == {"workflow_dispatch", "schedule"}
    for job in WORKFLOW["jobs"].values():
        assert set(job) <= {"needs", "if", "runs-on", "timeout-minutes", "outputs", "steps"}
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert set(step) <= {"name", "id", "uses", "run", "shell", "with", "if"}


# What GitHub runs for `shell: bash`, and GitLab's runner.
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")


@pytest.mark.parametrize("statuses", [(0,), (1,), (2,), (130,), (3, 0), (3, 1), (3, 3)])
def test_github_asks_once_more_where_there_was_no_answer_and_says_that_it_is_no_regression(
    statuses: tuple[int, ...], tmp_path: Path
) -> None:
    _, output, lines = run_script(MEASURE, BASH, tmp_path, *statuses)
    assert len(lines) == len(statuses)
    assert ("no regression" in output) == (statuses[-1] == 3)


def github(folder: Path, status: int) -> str:
    ended, _, _ = run_script(MEASURE, BASH, folder, status)
    (output,) = (folder / "outputs").read_text().splitlines()
    gate, answered = WORKFLOW["jobs"]["bandwidth"], WORKFLOW["jobs"]["answered"]
    assert gate["outputs"] == {"status": "${{ steps.measure.outputs.status }}"}
    assert (answered["needs"], answered["if"]) == (
        "bandwidth",
        "needs.bandwidth.outputs.status == '3'",
    )
    assert [step["run"] for step in answered["steps"]] == ["exit 3"]
    return "fail" if ended else "neutral" if output == "status=3" else "pass"


def gitlab(folder: Path, status: int) -> str:
    job = GITLAB["bandwidth"]
    assert job["artifacts"] == {"when": "always", "reports": {"junit": "junit.xml"}}
    ended, _, _ = run_script("\n".join(job["script"]), BASH, folder, status)
    return (
        "pass"
        if ended == 0
        else "neutral"
        if ended in job["allow_failure"]["exit_codes"]
        else "fail"
    )


def jenkins(folder: Path, status: int) -> str:
    assert all(JENKINS.count(a) == JENKINS.count(b) for a, b in ("{}", "()", "[]"))
    script = re.search(r"sh\(returnStatus: true, script: '([^']*)'\)", JENKINS)
    verdict_line = re.search(
        r"if \(status == (\d)\) \{ unstable\(.*\) \} else if \(status != (\d)\) \{ error\(", JENKINS
    )
    assert script is not None
    assert verdict_line is not None
    ended, _, _ = run_script(script[1], ("sh", "-xe", "-c"), folder, status)
    return (
        "neutral"
        if ended == int(verdict_line[1])
        else "fail"
        if ended != int(verdict_line[2])
        else "pass"
    )


def slurm(folder: Path, status: int) -> str:
    assert all(
        re.match(r"#SBATCH --\w+", line)
        for line in SLURM.splitlines()
        if line.startswith("#SBATCH")
    )
    (folder / "nightly.sh").write_text(SLURM)
    # `sbatch --wait` ends as its job does; here the job runs at once.
    for name, text in (
        ("sbatch", f"exec sh {folder}/nightly.sh > {folder}/log"),
        ("mail", f"touch {folder}/mailed"),
    ):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    fields = CRON.strip().split(maxsplit=5)
    assert [bool(re.fullmatch(r"[\d*]+", field)) for field in fields] == [True] * 5 + [False]
    assert "%" not in fields[5], "cron would take it for the end of the line"
    run_script(fields[5].replace("/srv/busbw", str(folder)), ("sh", "-c"), folder, status)
    ended, _, _ = run_script(SLURM, ("sh", "-c"), folder, status)
    return "fail" if (folder / "mailed").exists() else "pass" if ended == 0 else "neutral"


@pytest.mark.parametrize(("status", "expected"), [(0, "pass"), (1, "fail"), (3, "neutral")])
@pytest.mark.parametrize("example", [github, gitlab, jenkins, slurm])
def test_each_gate_fails_for_a_regression_and_neither_fails_nor_passes_where_there_is_no_answer(
    example: Callable[[Path, int], str], status: int, expected: str, tmp_path: Path
) -> None:
    assert example(tmp_path, status) == expected


@pytest.mark.parametrize("status", [2, 130])
@pytest.mark.parametrize("example", [github, gitlab, jenkins, slurm])
def test_a_wrong_command_or_an_interrupted_run_is_never_a_pass(
    example: Callable[[Path, int], str], status: int, tmp_path: Path
) -> None:
    assert example(tmp_path, status) == "fail"
