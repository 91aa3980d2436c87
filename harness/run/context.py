"""What every stage is handed: the run directory, the nodes, the plan, and a way to tell the user
what happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.transport.fanout import Fleet

Progress = Callable[[str, str], None]
"""Called with (step, text) for each event."""


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


def logged(run: RunDir, progress: Progress, now: Callable[[], str]) -> Progress:
    """The same callback, which also keeps each event in `events.jsonl`."""

    def keep(step: str, text: str) -> None:
        state = "ended" if (step, text) == ("run", "ended") else "said"
        run.event(now(), step, state, text=text)
        progress(step, text)

    return keep
