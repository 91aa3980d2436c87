"""A run directory that another takes the place of while it is read, at every moment: the verdict is
of one of them, or there is none."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import bases
import pytest

from busbw import assess, files
from busbw.errors import BusbwError
from busbw.model import Status
from busbw.store.run_directory import RunDir

EVERY = 9
"""Of the moments, so many are passed over for one that is tried."""
_opened = files.folder_beneath


@pytest.fixture(scope="module")
def runs() -> dict[str, bases.Base]:
    return {each.name: each for each in bases.recorded()}


class Swapping:
    """Opens folders of a run as `busbw.files` does; before the `moment`th of them, counted from 1,
    the other run takes its place."""

    def __init__(self, place: Path, first: bases.Base, second: bases.Base, moment: int) -> None:
        self.run = first.written(place / "run")
        self.other = second.written(place / "other")
        self.opened = 0
        self._place, self._moment = place, moment

    @contextlib.contextmanager
    def folder_beneath(
        self, root: Path, parts: tuple[str, ...], mode: int | None = None
    ) -> Iterator[int]:
        self.opened += 1
        if self.opened == self._moment:
            self.run.path.rename(self._place / "before")
            self.other.path.rename(self.run.path)
        with _opened(root, parts, mode) as folder:
            yield folder


def judged(run: RunDir) -> tuple[Status, str, str]:
    """Verdict, run id and headline. A run that is refused has none."""
    try:
        result = assess.derive(run)
    except BusbwError as error:
        return Status.UNKNOWN, "", f"{error}"
    return result.verdict, result.run_id, result.headline


@pytest.mark.parametrize(
    ("first", "second"), [("slowed", "healthy"), ("stalled", "healthy"), ("healthy", "slowed")]
)
def test_a_run_that_is_swapped_while_it_is_read_is_never_half_of_each(
    runs: dict[str, bases.Base],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
    second: str,
) -> None:
    whole = {judged(runs[name].written(tmp_path / name)) for name in (first, second)}
    assert {verdict for verdict, _, _ in whole} == {Status.PASS, Status.FAIL}
    refused = 0
    for moment in itertools.count(1, EVERY):
        place = tmp_path / f"{moment}"
        swapping = Swapping(place, runs[first], runs[second], moment)
        monkeypatch.setattr(files, "folder_beneath", swapping.folder_beneath)
        seen = judged(swapping.run)
        if swapping.opened < moment:
            break
        assert seen in whole or seen[0] is Status.UNKNOWN, (moment, seen)
        refused += "changed while it was read" in seen[2]
    assert refused > 2


def test_a_file_that_is_changed_while_a_run_is_read_is_named(
    runs: dict[str, bases.Base], tmp_path: Path
) -> None:
    run, _ = runs["healthy"].written(tmp_path).sound()
    (run.raw / "plan.json").write_bytes(b"{}")
    with pytest.raises(BusbwError) as error:
        run.read_raw("plan.json")
    assert "changed while it was read" in str(error.value)
    assert "plan.json" in error.value.seen
    assert error.value.next_step


def test_what_comes_while_a_run_is_read_is_no_part_of_it(
    runs: dict[str, bases.Base], tmp_path: Path
) -> None:
    run, _ = runs["healthy"].written(tmp_path).sound()
    run.write_raw("later.json", "{}")
    assert run.read_raw("later.json") is None
    assert RunDir(run.path).read_raw("later.json") == b"{}"
