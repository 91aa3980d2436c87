"""What every stage is handed: the run directory, the nodes, the plan, and a way to tell the user
what happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.transport.fanout import Fleet


@dataclass(frozen=True)
class Context:
    """Handed in, never global: tests and the replay hand in others."""

    run: RunDir
    plan: RunPlan
    fleet: Fleet
    now: Callable[[], str]
    """RFC 3339, UTC."""
    say: Callable[[str, str], None]
    """(step, text) for the terminal; also kept in `events.jsonl` by the pipeline."""
