"""Launches that stalled: their timeline, and the state of each rank while no output came."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from busbw.model import StallStory, StoryEvent, StoryRank
from busbw.reports import phrases
from busbw.reports.charts import lanes
from busbw.reports.charts.svg import Drawing
from busbw.reports.input import ReportInput
from busbw.units import counted, format_duration

_LANES = 12
_TICKS = 5
_OURS = "busbw"


@dataclass(frozen=True, slots=True)
class EventRow:
    """One line of the timeline."""

    clock: str
    after: str
    """Since the first one."""
    who: str
    text: str
    flagged: bool


@dataclass(frozen=True, slots=True)
class RankRow:
    """Ranks that did the same."""

    ranks: str
    nodes: str
    state: str
    waits_in: str
    cpu: str
    flagged: bool


@dataclass(frozen=True, slots=True)
class Stall:
    """One launch."""

    heading: str
    conclusion: str
    picture: Drawing | None
    """None = fewer than two moments are known."""
    events: tuple[EventRow, ...]
    ranks: tuple[RankRow, ...]


def view(report: ReportInput) -> tuple[Stall, ...] | None:
    """A picture and two tables for each; None = no launch stalled."""
    stalls = [_stall(story, number) for number, story in enumerate(report.result.stalls, 1)]
    return tuple(stalls) or None


def _stall(story: StallStory, number: int) -> Stall:
    flagged = {rank.node for rank in story.ranks if rank.flagged}
    conclusion = _conclusion(story, flagged)
    return Stall(
        heading=f"{story.case_id}: {story.ended.replace('-', ' ')}",
        conclusion=conclusion,
        picture=_picture(story, number, flagged, conclusion),
        events=tuple(_event_row(event, story.events[0].at_s, flagged) for event in story.events),
        ranks=_ranks(story),
    )


def _event_row(event: StoryEvent, first_s: float, flagged: set[str]) -> EventRow:
    after = f"+{format_duration(event.at_s - first_s)}"
    return EventRow(_clock(event.at_s), after, event.who, event.text, event.who in flagged)


def _conclusion(story: StallStory, flagged: set[str]) -> str:
    present = sum(rank.state != "not found" for rank in story.ranks)
    text = (
        f"busbw ended the launch: {story.why or 'it made no progress'}."
        f" Ranks seen: {present} of {len(story.ranks)}."
    )
    suspects = [rank for rank in story.ranks if rank.flagged]
    if suspects:
        states = ", ".join(dict.fromkeys(rank.state for rank in suspects))
        ranks = f"{counted(len(suspects), 'rank')} {states}"
        text += f" Suspects: {phrases.where(tuple(sorted(flagged)))} ({ranks})."
    if story.silent:
        text += f" No answer from {phrases.nodes(story.silent)}."
    return text


def _picture(story: StallStory, number: int, flagged: set[str], conclusion: str) -> Drawing | None:
    if len({event.at_s for event in story.events}) < 2:
        return None
    begin, end = story.events[0].at_s, story.events[-1].at_s
    everybody = {event.who for event in story.events} | flagged
    names = sorted(everybody, key=lambda who: (who != _OURS, who not in flagged, who))[:_LANES]

    def place(at_s: float) -> float:
        return min(1.0, max(0.0, (at_s - begin) / (end - begin)))

    shares = [number / (_TICKS - 1) for number in range(_TICKS)]
    shown = [event for event in story.events if event.who in names]
    return lanes.draw_both(
        lanes.Lanes(
            key=f"stall-{number}",
            title=f"Timeline of {story.case_id}",
            description=conclusion,
            names=tuple(names),
            flagged=tuple(index for index, name in enumerate(names) if name in flagged),
            marks=tuple(lanes.Mark(names.index(each.who), place(each.at_s)) for each in shown),
            ticks=tuple((share, f"+{format_duration((end - begin) * share)}") for share in shares),
            quiet=(place(story.quiet[0]), place(story.quiet[1])) if story.quiet else None,
            quiet_label="no output",
        )
    )


def _ranks(story: StallStory) -> tuple[RankRow, ...]:
    alike: dict[tuple[str, str, str, bool], list[StoryRank]] = {}
    for rank in story.ranks:
        key = (rank.state, rank.waits_in, _cpu_use(rank), rank.flagged)
        alike.setdefault(key, []).append(rank)
    rows = [
        RankRow(
            ranks=_numbers(own),
            nodes=phrases.nodes(dict.fromkeys(rank.node for rank in own)),
            state=state,
            waits_in=waits_in or "–",
            cpu=_cpu(own),
            flagged=flagged,
        )
        for (state, waits_in, _, flagged), own in alike.items()
    ]
    return tuple(sorted(rows, key=lambda row: not row.flagged))


def _cpu_use(rank: StoryRank) -> str:
    if rank.cpu_s is None:
        return "not known"
    return "some" if rank.cpu_s else "none"


def _cpu(ranks: list[StoryRank]) -> str:
    known = [rank.cpu_s for rank in ranks if rank.cpu_s is not None]
    if not known:
        return "not known"
    low, high = min(known), max(known)
    return f"{low:.2f} s" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f} s"


def _numbers(ranks: list[StoryRank]) -> str:
    """`0-1,4-7`."""
    parts: list[list[int]] = []
    for number in sorted(rank.rank for rank in ranks):
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S")
