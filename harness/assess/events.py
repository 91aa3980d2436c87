"""What a run logged while it went on, and whether it came to its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from busbw.parsers.logs.json_values import loaded, mapping
from busbw.store.run_directory import RunDir


def logged(run: RunDir) -> Iterator[Mapping[str, object]]:
    """The events in their order; a torn line is none."""
    for line in (run.read_raw("events.jsonl") or b"").decode("utf-8", "replace").splitlines():
        try:
            yield mapping(loaded(line))
        except ValueError:
            continue


def finished(run: RunDir) -> str | None:
    """When the last step ended; None = the run was cut off before it ended."""
    ends = [event.get("at") for event in logged(run) if event.get("kind") == "end"]
    return ends[-1] if ends and isinstance(ends[-1], str) else None


def is_logged(run: RunDir) -> bool:
    """Whether there is an event at all."""
    return any(True for _ in logged(run))
