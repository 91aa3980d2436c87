"""The counters of a launch's nodes, taken right before and right after it: what moved in between is
evidence, and proves which ports were used."""

from __future__ import annotations

from collections.abc import Mapping

from busbw.checks import counters
from busbw.model import Answer, Command, CommandResult
from busbw.run.context import Context
from busbw.store import artefacts
from busbw.store.artefacts import CounterFile, CountersArtefact


def take(
    context: Context, launches: Mapping[str, tuple[str, ...]], moment: str, *, gpus: bool = True
) -> None:
    """Ask all nodes of launches that run side by side at once. `launches`: id of a case → its
    nodes, no node twice. `moment` is `before` or `after`; what an earlier try took for a same
    launch stays.

    `gpus=False` leaves out the GPUs' own counters: for the many short launches of a survey, which
    are about the network. A node that does not answer is an entry with its reason: a missing
    snapshot never ends a measurement.
    """
    requested = {f"cases/{case_id}/counters-{moment}": nodes for case_id, nodes in launches.items()}
    requested = {
        name: nodes
        for name, nodes in requested.items()
        if context.run.read_raw(f"{name}.json") is None
    }
    if not requested:
        return
    commands: dict[str, Command] = {}
    for name, nodes in requested.items():
        _set_aside(context, name)
        commands |= {
            node: counters.snapshot(f"{name}/{node}.txt", gpus=gpus)
            for node in nodes
            if node in context.fleet.sessions
        }
    answers = {
        answer.node: answer
        for answer in context.fleet.run(commands, deadline_s=counters.LIMIT_S + 5)
    }
    for name, nodes in requested.items():
        files = tuple(_file(name, node, answers.get(node)) for node in nodes)
        artefacts.keep(context.run, f"{name}.json", CountersArtefact(moment, files))


def _file(name: str, node: str, answer: Answer | None) -> CounterFile:
    if answer is None:
        return CounterFile(node, None, "not reached")
    if not isinstance(answer, CommandResult):
        return CounterFile(node, None, answer.reason)
    # Without standard output nothing was kept: a file that is named exists.
    path = f"raw/{name}/{node}.txt" if answer.stdout or answer.ok else None
    return CounterFile(
        node,
        path,
        answer.problem
        or ("" if answer.ok else f"exit status {answer.exit_status}: {answer.err().strip()[:200]}"),
    )


def taken(context: Context, case_id: str) -> bool:
    """Whether an earlier try has taken the first snapshot of this launch."""
    return context.run.read_raw(f"cases/{case_id}/counters-before.json") is not None


def forget(context: Context, case_id: str) -> None:
    """Set aside what was taken before a launch that was ended half way: it is made afresh, and so
    is its first snapshot."""
    for name in (f"cases/{case_id}/counters-before", f"cases/{case_id}/counters-before.json"):
        _set_aside(context, name)


def _set_aside(context: Context, name: str) -> None:
    """Half of what an interrupted try took is no snapshot."""
    if (context.run.raw / name).exists():
        context.run.set_aside(name)
