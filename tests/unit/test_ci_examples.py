"""The CI examples of docs/ci.md: valid, of commands that exist, and gating on the exit status, where 3 is never a regression."""

from __future__ import annotations

import re
import shlex
import subprocess
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
(MEASURE,) = (step["run"] for step in WORKFLOW["jobs"]["bandwidth"]["steps"] if "run" in step)


def ran(script: str, shell: tuple[str, ...], folder: Path, *statuses: int) -> tuple[int, str, list[str]]:
    """(exit status, output, command lines) of a script where busbw ends with these statuses, the last one from then on."""
    stub = folder / "busbw"
    counts = " ".join(f"{n}) exit {status};;" for n, status in enumerate(statuses, 1))
    stub.write_text(f'#!/bin/sh\necho "$*" >> {folder}/calls\ncase $(wc -l < {folder}/calls) in {counts} esac\nexit {statuses[-1]}\n')
    stub.chmod(0o755)
    done = subprocess.run(
        (*shell, script), capture_output=True, text=True, env={"PATH": f"{folder}:/usr/bin:/bin"}, check=False, timeout=20
    )
    return done.returncode, done.stdout, (folder / "calls").read_text().splitlines()


def test_every_example_measures_with_a_command_line_that_busbw_takes() -> None:
    parser = cli.build_parser(cli.commands())
    lines = re.findall(r"busbw (run firmware-ci .*?)(?:'\)|$)", "\n".join(text for _, text in BLOCKS), re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        assert parser.parse_args(shlex.split(line)).playbook == "firmware-ci"


def test_the_workflow_has_what_github_wants_of_one() -> None:
    # YAML 1.1 reads the key `on` as true.
    assert set(WORKFLOW) == {"name", True, "jobs"}
    assert set(WORKFLOW[True]) == {"workflow_dispatch", "schedule"}
    job = WORKFLOW["jobs"]["bandwidth"]
    assert set(job) <= {"runs-on", "timeout-minutes", "steps"}
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step)
        assert set(step) <= {"name", "uses", "run", "shell", "with", "if"}


# What GitHub runs for `shell: bash`.
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")


@pytest.mark.parametrize(
    ("statuses", "ended", "calls"), [((0,), 0, 1), ((1,), 1, 1), ((2,), 2, 1), ((3, 0), 0, 2), ((3, 1), 1, 2), ((3, 3), 3, 2)]
)
def test_github_stops_at_1_asks_once_more_at_3_and_never_calls_that_a_regression(
    statuses: tuple[int, ...], ended: int, calls: int, tmp_path: Path
) -> None:
    status, said, lines = ran(MEASURE, BASH, tmp_path, *statuses)
    assert (status, len(lines)) == (ended, calls)
    assert ("no regression" in said) == (ended == 3)


def test_gitlab_lets_3_pass_as_a_warning_and_nothing_else() -> None:
    assert GITLAB["bandwidth"]["allow_failure"] == {"exit_codes": [3]}
    assert GITLAB["bandwidth"]["artifacts"] == {"when": "always", "reports": {"junit": "junit.xml"}}


def test_jenkins_is_unstable_at_3_and_fails_at_everything_else_but_0() -> None:
    assert all(JENKINS.count(a) == JENKINS.count(b) for a, b in ("{}", "()", "[]"))
    assert re.search(r"if \(status == 3\) \{ unstable\(.*\) \} else if \(status != 0\) \{ error\(", JENKINS)


@pytest.mark.parametrize("status", [0, 1, 3])
def test_the_slurm_job_ends_with_the_status_of_busbw(status: int, tmp_path: Path) -> None:
    ended, _, lines = ran(SLURM, ("sh", "-c"), tmp_path, status)
    assert (ended, len(lines)) == (status, 1)
    assert all(re.match(r"#SBATCH --\w+", line) for line in SLURM.splitlines() if line.startswith("#SBATCH"))
