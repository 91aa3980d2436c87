"""Damage never makes a verdict better: every file of fourteen runs, truncated, removed, emptied or
with one number changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import bases
import pytest
from damage import DAMAGES, better

from busbw import assess
from busbw.errors import BusbwError
from busbw.model import RunResult, Status
from busbw.store.run_directory import LIST, RunDir

GROWING = "events.jsonl"
"""Nothing stands in it that a verdict rests on, and no hash of it: it grows to the end."""
EVERY = 29
"""Of all damaged files of all runs, so many are passed over for one that is judged: a run has
hundreds that differ in their number alone."""

SOME = 4
"""As `EVERY`, of the files that are hashed and not judged."""


def damaged(run: RunDir, name: str, damage: str) -> bytes:
    """One file as the damage leaves it; gives what it was."""
    path = run.raw / name
    before = path.read_bytes()
    content = DAMAGES[damage](before)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    return before


def judged(run: RunDir) -> tuple[Status, str]:
    """The verdict, and what names the damage. A run that is refused has none: UNKNOWN."""
    try:
        result: RunResult = assess.derive(run)
    except BusbwError as error:
        return Status.UNKNOWN, f"{error} {error.seen}"
    titles = [each.title for each in result.findings if each.id == "evidence-damaged"]
    return result.verdict, " ".join(titles)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bases.Base]:
    place = tmp_path_factory.mktemp("composed")
    return {each.name: each for each in (*bases.recorded(), *bases.composed(place))}


def cases(whole: dict[str, bases.Base]) -> list[tuple[str, str, str]]:
    """Run, file and damage, all that there are."""
    return [
        (base.name, name, damage)
        for base in whole.values()
        for name in sorted(base.files)
        for damage in DAMAGES
    ]


def worse(
    whole: dict[str, bases.Base], chosen: list[tuple[str, str, str]], place: Path
) -> Iterator[str]:
    """What each damage made better, or left unnamed: nothing, as it should be."""
    runs = {name: base.written(place / name) for name, base in whole.items()}
    verdicts = {name: assess.derive(run).verdict for name, run in runs.items()}
    for base, name, damage in chosen:
        run = runs[base]
        before = damaged(run, name, damage)
        unchanged = before == (run.raw / name).read_bytes() if (run.raw / name).exists() else False
        verdict, text = judged(run)
        (run.raw / name).write_bytes(before)
        if better(verdicts[base], verdict) or (
            not unchanged and verdict in (Status.PASS, Status.WARN) and name != GROWING
        ):
            yield f"{base}: {name} {damage}: {verdicts[base]} became {verdict}"
        elif not unchanged and name not in (GROWING, LIST) and name not in text:
            yield f"{base}: {name} {damage} is not named: {text}"


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damaged_file_is_seen(
    whole: dict[str, bases.Base], tmp_path: Path, damage: str
) -> None:
    for base in whole.values():
        run = base.written(tmp_path / base.name)
        assert run.damage() == ()
        for name in run.raw_names()[::SOME]:
            before = damaged(run, name, damage)
            same = (run.raw / name).exists() and (run.raw / name).read_bytes() == before
            seen = [each.name for each in run.damage()]
            (run.raw / name).write_bytes(before)
            assert seen == ([] if same or name == GROWING else [name]), (base.name, name)


def test_a_run_with_a_damaged_file_never_passes_and_names_it(
    whole: dict[str, bases.Base], tmp_path: Path
) -> None:
    assert list(worse(whole, cases(whole)[::EVERY], tmp_path)) == []


@pytest.mark.long
def test_no_damaged_file_of_any_run_makes_its_verdict_better(
    whole: dict[str, bases.Base], tmp_path: Path
) -> None:
    assert list(worse(whole, cases(whole), tmp_path)) == []


@pytest.mark.parametrize("damage", ["truncated", "removed", "emptied"])
def test_without_the_record_of_its_end_a_run_with_a_survey_does_not_pass(
    whole: dict[str, bases.Base], tmp_path: Path, damage: str
) -> None:
    run = whole["healthy"].written(tmp_path)
    assert assess.derive(run).verdict is Status.PASS
    damaged(run, GROWING, damage)
    result = assess.derive(run)
    assert result.verdict is Status.UNKNOWN
    assert [each.id for each in result.findings if each.status is Status.UNKNOWN] == [
        "case-not-run"
    ]


def test_a_judge_that_does_not_look_at_damage_is_caught(
    whole: dict[str, bases.Base], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunDir, "sound", lambda run: (run, ()))
    chosen = [("healthy", "cases/all-reduce/counters-after/node3.txt", "removed")]
    assert list(worse({"healthy": whole["healthy"]}, chosen, tmp_path)) != []


@pytest.mark.parametrize("name", [LIST, "plan.json"])
def test_nesting_without_end_is_damage_and_no_internal_error(
    whole: dict[str, bases.Base], tmp_path: Path, name: str
) -> None:
    run = whole["one-launch"].written(tmp_path)
    (run.raw / name).write_bytes(b"[" * 100_000 + b"\n" + (run.raw / name).read_bytes())
    if name != LIST:
        files = {each: (run.raw / each).read_bytes() for each in whole["one-launch"].files}
        (run.raw / LIST).write_bytes(bases.relisted(files)[LIST])
    assert judged(run)[0] in (Status.PASS if name == LIST else Status.UNKNOWN,)
