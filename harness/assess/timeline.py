"""The course of every launch that stalled, from what the run noted while it watched and what the
nodes reported before it was ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from busbw.assess import events
from busbw.assess.launches import Launch
from busbw.model.stall import StallStory, StoryEvent, StoryRank
from busbw.parsers.stall.job import RankSeen
from busbw.parsers.stall.verdict import StallVerdict
from busbw.store.artefacts import CaseArtefact
from busbw.store.run_directory import RunDir

OURS = "busbw"
_MOST_EVENTS = 40
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "disk sleep",
    "T": "stopped",
    "t": "stopped",
    "Z": "ended",
    "X": "ended",
}


def stories(run: RunDir, launches: Iterable[Launch]) -> tuple[StallStory, ...]:
    """One per launch of which samples were taken before it was ended; () = none stalled."""
    return tuple(
        _story(run, launch.artefact, launch.stall)
        for launch in launches
        if launch.stall is not None
    )


def _story(run: RunDir, artefact: CaseArtefact, verdict: StallVerdict) -> StallStory:
    flagged = set(verdict.flagged_nodes)
    ranks = tuple(_rank(seen, flagged) for seen in sorted(verdict.ranks, key=lambda r: r.rank))
    noted = _noted(run, artefact)
    # Without a process of the launch, the events may be of another job on these nodes.
    if verdict.ranks:
        noted += [StoryEvent(event.at_s, event.node, event.text) for event in verdict.timeline]
    noted.sort(key=lambda event: (event.at_s, event.who, event.text))
    return StallStory(
        case_id=artefact.case.id,
        ended=artefact.state,
        why=artefact.problem,
        events=tuple(noted[-_MOST_EVENTS:]),
        ranks=(*ranks, *_absent(artefact, ranks, flagged)),
        silent=tuple(missing.node for missing in artefact.unreachable),
        quiet=_quiet(artefact),
    )


def _quiet(artefact: CaseArtefact) -> tuple[float, float] | None:
    if artefact.quiet is None:
        return None
    begin, end = map(_seconds, artefact.quiet)
    return None if begin is None or end is None else (begin, end)


def _rank(seen: RankSeen, flagged: set[str]) -> StoryRank:
    last = seen.second or seen.first
    if last is None:
        state = "not found"
    elif seen.second is None:
        state = "ended"
    else:
        state = _STATES.get(last.state, last.state)
    channel = last.wait_channel if last is not None and last.wait_channel not in ("0", "-") else ""
    return StoryRank(seen.rank, seen.node, state, channel, seen.cpu_s, seen.node in flagged)


def _absent(
    artefact: CaseArtefact, present: tuple[StoryRank, ...], flagged: set[str]
) -> tuple[StoryRank, ...]:
    """Ranks that were planned and that no node showed."""
    seen = {(rank.node, rank.rank) for rank in present}
    return tuple(
        StoryRank(rank, node, "not found", "", None, node in flagged)
        for node, numbers in artefact.ranks_of.items()
        for rank in numbers
        if (node, rank) not in seen
    )


def _noted(run: RunDir, artefact: CaseArtefact) -> list[StoryEvent]:
    """What the run logged of this launch while it watched; a row of the benchmark without its many
    columns."""
    noted = []
    for event in events.logged(run):
        if event.get("step") != artefact.case.id:
            continue
        text, at_s = event.get("text"), _seconds(event.get("at"))
        if isinstance(text, str) and at_s is not None:
            if event.get("kind") == "row":
                text = f"row of {event.get('size_bytes')} bytes"
            noted.append(StoryEvent(at_s, OURS, text.strip()))
    return noted


def _seconds(at: object) -> float | None:
    try:
        return datetime.fromisoformat(at).timestamp() if isinstance(at, str) else None
    except ValueError:
        return None
