"""Launches of a survey that fail: their halves, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.survey import measure, separate_launches
from busbw.survey.schedule import Round

NODES = tuple(f"node{i}" for i in range(1, 17))
PAIRS = Round("pairs-1", tuple(zip(NODES[::2], NODES[1::2], strict=True)))
QUARTERS = (
    Round("pairs-1-a", PAIRS.groups[:4]),
    Round("pairs-1-b", PAIRS.groups[4:]),
)


@dataclass(frozen=True)
class _Launch:
    round_: Round
    concurrent_with: str = ""

    @property
    def case(self) -> Any:
        return SimpleNamespace(id=self.round_.id, medium=None)


def surveyed(
    monkeypatch: pytest.MonkeyPatch, broken: str, state: str = "ended", *, together: bool = True
) -> tuple[bool, list[list[str]], float]:
    """(it went well, ids of each wave, seconds), where every launch with node `broken` fails."""
    waves: list[list[str]] = []

    def measured(_: object, launches: tuple[_Launch, ...]) -> tuple[Any, ...]:
        waves.append([launch.round_.id for launch in launches])
        artefacts = []
        for launch in launches:
            bad = broken in launch.round_.order()
            artefacts.append(
                SimpleNamespace(
                    case=launch.case,
                    seconds=60.0,
                    state=state if bad else "ended",
                    exit_status=int(bad),
                    problem="",
                )
            )
        return tuple(artefacts)

    monkeypatch.setattr(measure, "measure_together", measured)
    monkeypatch.setattr(separate_launches, "possible", lambda _: together)
    survey = object.__new__(measure._Survey)
    survey._context = SimpleNamespace(progress=lambda *_: None)  # type: ignore[assignment]
    survey._order, survey._launches, survey._spent_s = 1, 0, 0.0
    survey._ended = set()
    monkeypatch.setattr(survey.__class__, "_prepared", lambda _, r, order: (r, _Launch(r)))
    return survey._measure(QUARTERS), waves, survey._spent_s


def test_the_halves_of_a_failed_launch_run_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    well, waves, seconds = surveyed(monkeypatch, "node4")
    assert (well, seconds) == (True, 180.0)
    assert waves == [
        ["pairs-1-a", "pairs-1-b"],
        ["pairs-1-a-1", "pairs-1-a-2"],
        ["pairs-1-a-1-1", "pairs-1-a-1-2"],
    ]


def test_where_launches_cannot_run_together_halves_follow_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    well, waves, _ = surveyed(monkeypatch, "node4", together=False)
    assert well
    assert waves[2:] == [["pairs-1-a-1"], ["pairs-1-a-2"], ["pairs-1-a-1-1"], ["pairs-1-a-1-2"]]


def test_a_hung_launch_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    well, waves, _ = surveyed(monkeypatch, "node4", "stalled")
    assert (well, waves) == (False, [["pairs-1-a", "pairs-1-b"]])
