"""What every stage is handed: the run directory, the nodes, the plan, and a way to tell the user
what happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.transport.fanout import Fleet

Progress = Callable[[str, str], None]
"""Called with (step, text) for each event."""


class Row(str):
    """The text of an event that is the newest row of the benchmark's table, as it printed it."""

    planned: tuple[int, ...] = ()
    """Sizes in bytes that the launch tries, in order; () = not known."""

    @property
    def size_bytes(self) -> int | None:
        """The row's first column; None = it is no size."""
        first = self.split()[0]
        return int(first) if re.fullmatch(r"[0-9]{1,18}", first) else None


class Done(str):
    """The text of a launch that ended well."""


class Awaited(str):
    """What a step says of itself while it waits: no event, and no line where lines are written."""


class End(str):
    """The text of a run's last event."""


_KINDS: dict[type, str] = {Row: "row", End: "end"}


@dataclass(frozen=True)
class Context:
    """Handed in, never global: tests and the replay hand in others."""

    run: RunDir
    plan: RunPlan
    fleet: Fleet
    now: Callable[[], str]
    """RFC 3339, UTC."""
    progress: Progress
    """For the terminal; also kept in `events.jsonl` where it is `logged`."""
    heartbeat: Callable[[], None] = lambda: None
    """To be called now and then while the run holds its nodes."""


def logged(run: RunDir, progress: Progress, now: Callable[[], str]) -> Progress:
    """The same callback, which also keeps each event in `events.jsonl`."""

    def keep(step: str, text: str) -> None:
        if not isinstance(text, Awaited):
            size = {"size_bytes": text.size_bytes} if isinstance(text, Row) else {}
            run.event(now(), step, _KINDS.get(type(text), "note"), text=text, **size)
        progress(step, text)

    return keep
