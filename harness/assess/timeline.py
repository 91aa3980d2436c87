"""The course of every launch that stalled, from what the run noted while it watched and what the
nodes said before it was ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime

from busbw.assess.launches import Launch
from busbw.model import Finding
from busbw.model.stall import StallStory, StoryEvent, StoryRank
from busbw.parsers.stall import live
from busbw.parsers.stall.evidence import RankSeen, RequestedJob
from busbw.store.artefacts import CaseArtefact
from busbw.store.run_directory import RunDir
from busbw.triage import offline, samples

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
_WORD = re.compile(r"[A-Za-z0-9._-]+")


def stories(run: RunDir, made: Iterable[Launch]) -> tuple[StallStory, ...]:
    """One per launch whose nodes were looked at before it was ended; () = none stalled."""
    return tuple(
        _story(run, launch)
        for launch in made
        if launch.artefact.samples or launch.artefact.unreachable
    )


def _story(run: RunDir, launch: Launch) -> StallStory:
    artefact = launch.artefact
    evidence = [
        offline.of_text(
            file.node,
            run.read_raw(file.path.removeprefix("raw/")) or b"",
            file.path,
            None,
            file.clock_offset_s,
        )
        for file in artefact.samples
    ]
    judged = live.judge(evidence, artefact.unreachable, RequestedJob(), None)
    named = _named(launch.findings)
    ticks = {node.node: node.tick_hz for node in evidence}
    # Without a process of the launch, the evidence may be of another job on these nodes.
    own = judged.job.startswith(samples.MARK)
    seen_ranks = sorted(judged.ranks, key=lambda seen: seen.rank) if own else ()
    ranks = tuple(_rank(seen, named, ticks.get(seen.node, 0)) for seen in seen_ranks)
    told = judged.timeline if own else ()
    events = [
        *_noted(run, artefact),
        *(StoryEvent(event.at_s, event.node, event.text) for event in told),
    ]
    return StallStory(
        case_id=artefact.case.id,
        ended=artefact.state,
        why=artefact.problem,
        events=tuple(
            sorted(events, key=lambda event: (event.at_s, event.who, event.text))[-_MOST_EVENTS:]
        ),
        ranks=(*ranks, *_absent(artefact, ranks, named)),
        silent=tuple(missing.node for missing in artefact.unreachable),
    )


def _named(findings: Iterable[Finding]) -> set[str]:
    """Nodes that the findings name, also as the place of a rank."""
    return {word for finding in findings for text in finding.where for word in _WORD.findall(text)}


def _rank(seen: RankSeen, named: set[str], tick_hz: int) -> StoryRank:
    last = seen.second or seen.first
    state = (
        "not found"
        if last is None
        else "ended"
        if seen.second is None
        else _STATES.get(last.state, last.state)
    )
    spent = None if seen.cpu_ticks is None or tick_hz <= 0 else round(seen.cpu_ticks / tick_hz, 3)
    channel = last.wait_channel if last is not None and last.wait_channel not in ("0", "-") else ""
    return StoryRank(seen.rank, seen.node, state, channel, spent, seen.node in named)


def _absent(
    artefact: CaseArtefact, found: tuple[StoryRank, ...], named: set[str]
) -> tuple[StoryRank, ...]:
    """Ranks that were planned and that no node showed."""
    seen = {rank.rank for rank in found}
    planned = [(number, node) for node, numbers in artefact.ranks_of.items() for number in numbers]
    return tuple(
        StoryRank(rank, node, "not found", "", None, node in named)
        for rank, node in planned
        if rank not in seen
    )


def _noted(run: RunDir, artefact: CaseArtefact) -> list[StoryEvent]:
    """What the run said of this launch while it watched; rows of the benchmark without their many
    columns."""
    found = []
    for line in (run.read_raw("events.jsonl") or b"").decode("utf-8", "replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        text, at = (
            (event.get("text"), _seconds(event.get("at")))
            if isinstance(event, dict)
            else (None, None)
        )
        if isinstance(text, str) and at is not None and event.get("step") == artefact.case.id:
            words = text.split()
            row = words and words[0].isdigit() and len(words) > 5
            found.append(StoryEvent(at, OURS, f"row of {words[0]} bytes" if row else text.strip()))
    return found


def _seconds(at: object) -> float | None:
    try:
        return datetime.fromisoformat(at).timestamp() if isinstance(at, str) else None
    except ValueError:
        return None
