"""A bounded run of `python tests/fuzz/stored_runs.py`, every mutated run that ever broke a command, and that
it can find what it looks for."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import bases
import damage
import stored_runs

from busbw import assess
from busbw.cli import report
from busbw.errors import RunDirError
from busbw.model import Status
from busbw.store.run_directory import LIST, RunDir

RUNS, FIRST = 200, 1
LONG_MINUTES = 10.0


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[stored_runs.Whole, ...]:
    """All bases, judged whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        return stored_runs.wholes(tmp_path_factory.mktemp("whole"))


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_no_mutated_run_breaks_a_command_or_is_judged_better(
    known: tuple[stored_runs.Whole, ...], tmp_path: Path
) -> None:
    tally = stored_runs.fuzz(FIRST, RUNS, known, tmp_path)
    assert tally.faults == []
    assert set(tally.commands) == set(stored_runs.COMMANDS)
    assert tally.runs == RUNS


def test_a_launch_with_a_name_longer_than_a_file_may_have_breaks_no_command(
    known: tuple[stored_runs.Whole, ...], tmp_path: Path
) -> None:
    tally = stored_runs.fuzz(113235, 1, known, tmp_path)
    assert (tally.faults, tally.commands) == ([], {"redact": 1})


@pytest.mark.long
def test_ten_minutes_of_mutated_runs(known: tuple[stored_runs.Whole, ...], tmp_path: Path) -> None:
    tally = stored_runs.for_minutes(LONG_MINUTES, known, tmp_path)
    assert tally.faults == []
    assert tally.runs > RUNS


def test_the_bases_have_every_verdict(known: tuple[stored_runs.Whole, ...]) -> None:
    verdicts = Counter(each.result.verdict for each in known)
    assert min(verdicts[each] for each in (Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN))
    assert len(known) >= 10


def one(known: tuple[stored_runs.Whole, ...], place: Path, command: str) -> list[str]:
    """The faults of one mutated run that goes through this command."""
    tally = stored_runs.Tally(1)
    seed = next(seed for seed in itertools.count() if stored_runs.command_of(seed) == command)
    stored_runs.tried(seed, known, place / "one", tally)
    return tally.faults


def test_a_command_with_a_defect_is_caught(
    known: tuple[stored_runs.Whole, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "run", lambda args: 1 // 0)
    assert "internal error" in one(known, tmp_path, "report")[0]


def test_a_judge_that_is_blind_to_damage_is_caught(
    known: tuple[stored_runs.Whole, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = next(each.result for each in known if each.result.verdict is Status.PASS)
    monkeypatch.setattr(assess, "derive", lambda run: passed)
    failed = tuple(each for each in known if each.result.verdict is Status.FAIL)
    tally = stored_runs.fuzz(1, 10, failed, tmp_path)
    assert any("better by damage: FAIL became PASS" in each for each in tally.faults)


def test_a_secret_in_redacted_output_is_caught(
    tmp_path: Path,
) -> None:
    (tmp_path / "summary.md").write_text(f"token: {stored_runs.KEYS[0]}\n")
    assert stored_runs.leaked(tmp_path, "") == f"leaked: {stored_runs.KEYS[0]} in summary.md"


def test_a_secret_in_a_bundle_is_caught(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(f"token: {stored_runs.KEYS[0]}\n")
    with tarfile.open(tmp_path / stored_runs.ARCHIVE, "w:gz") as packed:
        packed.add(tmp_path / "report.txt", "bundle/report.txt")
    found = stored_runs.leaked(stored_runs.unpacked(tmp_path / stored_runs.ARCHIVE), "")
    assert found == f"leaked: {stored_runs.KEYS[0]} in report.txt"


def test_the_secrets_are_planted() -> None:
    base = next(each for each in bases.recorded() if each.name == "healthy")
    text = b"".join(stored_runs.planted(base).files.values())
    assert all(key.encode() in text for key in stored_runs.KEYS)


def test_an_error_line_has_no_control_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(args: object) -> int:
        raise RunDirError("a\x1b[2Jb", seen="c\x9bd", next_step="e\rf")

    monkeypatch.setattr(report, "run", refused)
    assert stored_runs.faults(("report",))[1] == ""


def test_a_run_whose_list_and_last_files_were_cut_off_is_no_better(
    known: tuple[stored_runs.Whole, ...], tmp_path: Path
) -> None:
    for whole in known:
        for number, share in enumerate((0.2, 0.5, 0.8, 0.95)):
            folder = tmp_path / f"{whole.name}-{number}"
            shutil.copytree(whole.path / stored_runs.RUN_ID, folder)
            damage.cut_off(folder, share)
            try:
                verdict = assess.derive(RunDir(folder)).verdict
            except RunDirError:
                continue
            assert not damage.better(whole.result.verdict, verdict), (whole.name, share)


@pytest.fixture(autouse=True)
def _derive_is_restored() -> Iterator[None]:
    before = assess.derive
    yield
    assert assess.derive is before


@pytest.mark.parametrize("name", ["participants.json", "cases/*/outcome.json"])
def test_a_record_with_a_node_that_the_plan_lacks_is_refused_with_its_name(
    name: str, tmp_path: Path
) -> None:
    (base,) = (each for each in bases.recorded() if each.name == "healthy")
    run = base.written(tmp_path / "run")
    # Without a list nobody knows what the files were, and they are read.
    (run.raw / LIST).unlink()
    file = sorted(run.raw.glob(name))[0]
    file.write_text(file.read_text().replace('"node1"', '"node0"'))
    with pytest.raises(RunDirError, match="names the node 'node0'") as refusal:
        assess.derive(run)
    assert file.relative_to(run.path).as_posix() in refusal.value.what


def test_a_node_of_the_plan_that_no_record_names_was_not_reached(tmp_path: Path) -> None:
    (base,) = (each for each in bases.recorded() if each.name == "healthy")
    plan = json.loads(base.files["plan.json"])
    nodes = plan["cluster"]["nodes"]
    plan["cluster"]["nodes"] = [*nodes, {**nodes[0], "name": "node9"}]
    files = {**base.files, "plan.json": json.dumps(plan).encode()}
    run = bases.Base(base.name, bases.relisted(files)).written(tmp_path / "run")
    result = assess.derive(run)
    told = [(c.node, c.status) for c in result.checks if c.check_id == "ssh.connect"]
    assert told[-1] == ("node9", Status.UNKNOWN)
    assert result.verdict is Status.UNKNOWN
