"""Answers from a recorded run, without any node.

A command is answered by what the same node said to the same command (argv, sudo, standard input),
in the order recorded; the last answer is given again when the recording has no further one, so that
a poll may ask more often. What was never asked is a result with a `problem`.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass, field

from busbw.errors import RunDirError
from busbw.model import Command, CommandResult, Node, Unreachable
from busbw.store.run_directory import RunDir
from busbw.transport import Session
from busbw.transport.recorder import key_of


@dataclass(frozen=True)
class ReplayTransport:
    """The nodes of a recorded run, as they answered then."""

    run: RunDir
    unreachable: tuple[Unreachable, ...]
    name: str = "replay"

    def connect(self, node: Node, timeout_s: float) -> Session | Unreachable:
        """The recorded session of the node, or why it was not reached then."""
        for missing in self.unreachable:
            if missing.node == node.name:
                return missing
        answers = _load(self.run, node.name)
        if not answers:
            return Unreachable(
                node.name, f"the recording {self.run.run_id} has nothing of this node"
            )
        return _ReplaySession(node.name, answers)

    def close(self) -> None:
        """Nothing to end."""


@dataclass(frozen=True)
class _ReplaySession:
    node: str
    answers: dict[str, deque[CommandResult]]
    notes: tuple[str, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, command: Command) -> CommandResult:
        with self._lock:
            queue = self.answers.get(key_of(command))
            if not queue:
                problem = f"not in the recording: {command.label}"
                return CommandResult(self.node, command.argv, None, b"", b"", 0.0, problem=problem)
            return queue.popleft() if len(queue) > 1 else queue[0]

    def close(self) -> None:
        """Nothing to end."""


def _load(run: RunDir, node: str) -> dict[str, deque[CommandResult]]:
    answers: dict[str, deque[CommandResult]] = {}
    for name in run.raw_names(f"nodes/{node}"):
        if not name.endswith(".json"):
            continue
        content = run.read_raw(name) or b"{}"
        try:
            meta = json.loads(content)
            result = CommandResult(
                node=node,
                argv=tuple(meta["argv"]),
                exit_status=meta["exit_status"],
                stdout=(run.read_raw(meta["stdout"]) or b"") if meta["stdout"] else b"",
                stderr=(run.read_raw(meta["stderr"]) or b"") if meta["stderr"] else b"",
                seconds=meta["seconds"],
                problem=meta["problem"],
                answered_s=meta.get("answered_s"),
            )
            answers.setdefault(meta["key"], deque()).append(result)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunDirError(
                f"the recording {run.run_id} cannot be replayed",
                seen=f"raw/{name}: {error!r}",
                next_step="take another recording",
            ) from error
    return answers
