"""A finding is one entry of YAML, and a rule is one file: each is added to a copy of the sources, and
the copy's `busbw why` knows it."""

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"harness": "busbw"} | {
    name: f"busbw/{name}" for name in ("parsers", "reports", "playbooks", "inventories")
}
ENTRY = """
- id: purple-cable
  title: A cable is purple
  stage: init
  fabrics: [any]
  severity: low
  role: cause
  signals:
  - source: nccl-log
    weight: certain
    regex: 'cable is purple'
    matches: ['n1:1:1 [0] NCCL WARN cable is purple']
  rejects: ['n1:1:1 [0] NCCL WARN cable is black']
  cause: Somebody bought a purple cable.
  explanation: Purple cables are not faster.
  fix:
  - {needs: datacenter-hands, do: Replace the cable}
  verify: [busbw check]
  trust: High.
  references: [['nothing', 'https://example.org']]
"""
RULE = '''"""Two ranks that complain of purple together have no RDMA devices."""

from busbw.parsers.findings.evidence import Clue
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.findings.catalogue import Weight

_PURPLE = Watch("purple", r"everything turned purple")


def _judge(view):
    lines = view.sightings("purple")
    if len({line.process for line in lines}) > 1:
        yield Clue("ib-not-detected", Weight.CERTAIN, "nccl-log", lines[0].evidence(), lines[0].place)


RULE = Rule(
    name="purple-pair",
    conclusion="Two ranks that see purple have no RDMA devices.",
    watches=(_PURPLE,),
    judge=_judge,
    fires=(Fires("a", (("ib-not-detected", "certain"),)),),
    silent=("b",),
)
'''


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A copy of the sources that can be imported as `busbw`."""
    for folder, package in FOLDERS.items():
        shutil.copytree(
            ROOT / folder,
            tmp_path / package,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    return tmp_path


def changed(scratch: Path) -> list[str]:
    """Files of the copy that are not as in the sources."""
    differing = []
    for folder, package in FOLDERS.items():
        for path in (scratch / package).rglob("*"):
            inside = path.relative_to(scratch / package)
            nested = folder == "harness" and inside.parts[0] in FOLDERS
            if nested or path.is_dir() or "__pycache__" in path.parts:
                continue
            original = ROOT / folder / inside
            if not original.exists() or not filecmp.cmp(path, original, shallow=False):
                differing.append(f"{folder}/{inside}")
    return differing


def why(scratch: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(scratch)}
    command = [sys.executable, "-m", "busbw", "why", *words]
    done = subprocess.run(
        command, cwd=scratch, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_a_finding_is_added_with_one_entry_in_one_file(scratch: Path) -> None:
    file = scratch / "busbw/parsers/findings/host.yaml"
    file.write_text(file.read_text(encoding="utf-8") + ENTRY, encoding="utf-8")
    assert changed(scratch) == ["parsers/findings/host.yaml"]
    log = scratch / "nccl.log"
    log.write_text("n1:1:1 [0] NCCL WARN cable is purple\n")
    assert why(scratch, "purple-cable").startswith("purple-cable  A cable is purple\n")
    assert why(scratch, str(log)).startswith("✖ CAUSE (certain)  A cable is purple ")


def test_a_rule_is_added_with_one_file(scratch: Path) -> None:
    file = scratch / "busbw/parsers/findings/rules/purple_pair.py"
    file.write_text(RULE)
    assert changed(scratch) == ["parsers/findings/rules/purple_pair.py"]
    one = "n1:1:1 [0] NCCL WARN everything turned purple\n"
    log = scratch / "nccl.log"
    log.write_text(one)
    assert "ib-not-detected" not in why(scratch, str(log))
    log.write_text(one + one.replace("n1:1", "n2:1"))
    assert "[ib-not-detected]" in why(scratch, str(log))
