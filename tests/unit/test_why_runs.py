"""What `busbw why RUN` puts first: what the run puts first."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.cli.why_reading import Reading
from busbw.cli.why_text import answer
from busbw.cli.why_verdict import with_findings, worth_showing
from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings.evidence import Diagnosis, EvidenceSet

SEEN = (Evidence("raw/x", None, "seen"),)
NODE = Finding(
    "slow-node", Status.FAIL, "node3 is slow", ("node3",), SEEN, explains=("slower-than-accepted",)
)
NUMBERS = Finding(
    "slower-than-accepted", Status.FAIL, "-40 %", (), SEEN, confidence=Confidence.CERTAIN
)
BUSY = Finding(
    "measured-while-busy", Status.WARN, "CPUs in use", (), SEEN, confidence=Confidence.CERTAIN
)


@pytest.mark.parametrize(
    ("sure", "of_the_texts"), [(Confidence.LIKELY, False), (Confidence.POSSIBLE, True)]
)
def test_the_node_comes_before_what_follows_from_it_however_sure_that_is(
    sure: Confidence, of_the_texts: bool
) -> None:
    text = Finding("xid", Status.FAIL, "a text", (), SEEN, confidence=Confidence.LIKELY)
    own = (replace(NODE, confidence=sure), NUMBERS, BUSY)
    reading = Reading(EvidenceSet(()), (), own)
    found = with_findings(Diagnosis((text,)), own)
    # The texts' own come first where they are surer than what the run blames.
    assert [each.id for each in found.findings].index("xid") == (0 if of_the_texts else 3)
    out = answer(found, worth_showing(found), reading)
    places = [out.index(f"[{name}]") for name in ("slow-node", "slower-than-accepted")]
    assert places == sorted(places)
    assert out.index("[slow-node]") < out.index("[measured-while-busy]")
    assert f"CAUSE ({sure.value})  node3 is slow" in out


def test_a_certain_cause_in_a_text_comes_before_a_likely_suspect() -> None:
    text = Finding("xid", Status.FAIL, "a text", (), SEEN, confidence=Confidence.CERTAIN)
    own = (replace(NODE, confidence=Confidence.LIKELY), NUMBERS)
    ids = [each.id for each in with_findings(Diagnosis((text,)), own).findings]
    assert ids == ["xid", "slow-node", "slower-than-accepted"]


RUNS = Path(__file__).parents[1] / "fixtures" / "lab_runs"


def why(path: Path, capsys: pytest.CaptureFixture[str]) -> set[str]:
    main(["why", str(path), "--json", "--all"])
    return {each["id"] for each in json.loads(capsys.readouterr().out)["findings"]}


@pytest.mark.parametrize("name", ["quick", "slowed", "persona"])
def test_what_the_playbook_chose_and_what_the_run_judges_is_no_cause_of_its_own(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(RUNS / f"{name}.tar.xz") as packed:
        packed.extractall(tmp_path / "run", filter="data")
    of_tables = {"test-size-too-small", "gpu-thermal-slowdown", "numa-balancing-on"}
    of_socket_rows = {"scheduler-cgroup-limits", "scheduler-node-configuration"}
    assert why(tmp_path / "run", capsys).isdisjoint(of_tables | of_socket_rows)
    # The same table from elsewhere was chosen by somebody.
    shutil.copy(tmp_path / "run/raw/cases/all-reduce/stdout.txt", tmp_path / "table.txt")
    assert "test-size-too-small" in why(tmp_path / "table.txt", capsys)


@pytest.mark.parametrize(("open_run", "wanted"), [("runs/a b", True), ("", False)])
def test_a_run_without_an_end_is_looked_at_while_it_works_or_resumed(
    open_run: str, wanted: bool
) -> None:
    reading = Reading(EvidenceSet(()), (), gaps=("run a: not enough",), open_run=open_run)
    out = answer(Diagnosis(()), [], reading)
    assert ("still runs: busbw why --live -w NODES; " in out) == wanted
    assert ("busbw run --resume 'runs/a b'" in out) == wanted


def test_the_commands_for_a_copied_run_name_the_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(RUNS / "healthy.tar.xz") as archive:
        archive.extractall(tmp_path / "a copy", filter="data")
    reach = tmp_path / "a copy" / "raw" / "reach.json"
    reach.write_text(reach.read_text() + " ")
    assert main(["why", str(tmp_path / "a copy")]) == 1
    out = capsys.readouterr().out
    assert "[evidence-damaged]" in out
    assert re.search(r"busbw report '\S*a copy'\n", out)
    assert "runs/20261123" not in out
