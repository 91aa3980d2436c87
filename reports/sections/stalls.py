"""Launches that stalled: what happened when, and what each rank did while nothing came."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from busbw.model import StallStory, StoryEvent, StoryRank
from busbw.reports import phrases
from busbw.reports.charts import lanes
from busbw.reports.charts.svg import Drawing
from busbw.reports.input import ReportInput
from busbw.units import format_duration

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
    return (
        tuple(_stall(timeline, number) for number, timeline in enumerate(report.result.stalls, 1))
        or None
    )


def _stall(timeline: StallStory, number: int) -> Stall:
    flagged = {rank.node for rank in timeline.ranks if rank.flagged}
    conclusion = _conclusion(timeline, flagged)
    first = timeline.events[0].at_s if timeline.events else 0.0
    rows = tuple(
        EventRow(
            _clock(event.at_s),
            f"+{format_duration(event.at_s - first)}",
            event.who,
            event.text,
            event.who in flagged,
        )
        for event in timeline.events
    )
    return Stall(
        f"{timeline.case_id}: {timeline.ended.replace('-', ' ')}",
        conclusion,
        _picture(timeline, number, flagged, conclusion),
        rows,
        _ranks(timeline),
    )


def _conclusion(timeline: StallStory, flagged: set[str]) -> str:
    odd = [rank for rank in timeline.ranks if rank.flagged]
    seen = [rank for rank in timeline.ranks if rank.state != "not found"]
    text = (
        f"Ended because of {timeline.why}."
        if timeline.why
        else "Ended because it made no progress."
    )
    text += f" {len(seen)} of {phrases.count(len(timeline.ranks), 'rank')} were found."
    if odd:
        did = ", ".join(dict.fromkeys(rank.state for rank in odd))
        count = f"{phrases.count(len(odd), 'rank')} {'was' if len(odd) == 1 else 'were'}"
        text += f" Accused: {phrases.where(tuple(sorted(flagged)))}, whose {count} {did}."
    if timeline.silent:
        text += f" No answer from {phrases.nodes(timeline.silent)}."
    return text


def _picture(
    timeline: StallStory, number: int, flagged: set[str], conclusion: str
) -> Drawing | None:
    if len({event.at_s for event in timeline.events}) < 2:
        return None
    begin, end = timeline.events[0].at_s, timeline.events[-1].at_s
    names = sorted(
        {event.who for event in timeline.events} | flagged,
        key=lambda who: (who != _OURS, who not in flagged, who),
    )[:_LANES]
    marks = tuple(
        lanes.Mark(names.index(e.who), (e.at_s - begin) / (end - begin))
        for e in timeline.events
        if e.who in names
    )
    ticks = tuple(
        (share, f"+{format_duration((end - begin) * share)}")
        for share in (n / (_TICKS - 1) for n in range(_TICKS))
    )
    quiet = _quiet(timeline.events)
    return lanes.draw(
        lanes.Lanes(
            key=f"stall-{number}",
            title=f"What happened when in {timeline.case_id}",
            description=conclusion,
            names=tuple(names),
            flagged=tuple(index for index, name in enumerate(names) if name in flagged),
            marks=marks,
            ticks=ticks,
            quiet=(
                None
                if quiet is None
                else ((quiet[0] - begin) / (end - begin), (quiet[1] - begin) / (end - begin))
            ),
            quiet_label="no output",
        )
    )


def _quiet(events: tuple[StoryEvent, ...]) -> tuple[float, float] | None:
    """From the last output, or the start, to the run's next word: it looked at the nodes."""
    ours = [event for event in events if event.who == _OURS]
    looks = [event.at_s for event in ours if event.text.startswith("no output")]
    before = [
        event.at_s
        for event in ours
        if looks and event.at_s < looks[-1] and not event.text.startswith("no output")
    ]
    return (before[-1], looks[-1]) if before else None


def _ranks(timeline: StallStory) -> tuple[RankRow, ...]:
    alike: dict[tuple[str, str, str, bool], list[StoryRank]] = {}
    for rank in timeline.ranks:
        busy = "not known" if rank.cpu_s is None else "none" if rank.cpu_s == 0 else "some"
        alike.setdefault((rank.state, rank.waits_in, busy, rank.flagged), []).append(rank)
    rows = [
        RankRow(
            _numbers(own),
            phrases.nodes(dict.fromkeys(rank.node for rank in own)),
            state,
            waits_in or "–",
            _cpu(own),
            flagged,
        )
        for (state, waits_in, _, flagged), own in alike.items()
    ]
    return tuple(sorted(rows, key=lambda row: not row.flagged))


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
