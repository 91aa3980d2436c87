"""Connecting to all nodes at once: who was reached, who was not and why, kept before anything else is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from busbw import artefacts
from busbw.artefacts import ReachArtefact
from busbw.inventory.hostlist import fold
from busbw.plan import RunPlan
from busbw.rundir import RunDir
from busbw.transport import Transport
from busbw.transport.fanout import Fleet, open_fleet
from busbw.transport.recorder import RecordingTransport


@contextlib.contextmanager
def reach(run: RunDir, plan: RunPlan, transport: Transport, say: Callable[[str, str], None]) -> Iterator[Fleet]:
    """The open sessions of all nodes that could be reached; every command on them is recorded in `run`."""
    nodes, limit_s = plan.cluster.nodes, plan.connect_timeout_s
    say("reach", f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}: {fold(node.name for node in nodes)}")
    # Two tries each, in as many waves as the fan-out needs.
    deadline_s = 2 * limit_s * (1 + len(nodes) // plan.forks) + 10
    recording = RecordingTransport(transport, run)
    with open_fleet(plan.cluster, recording, forks=plan.forks, connect_timeout_s=limit_s, deadline_s=deadline_s) as fleet:
        notes = tuple(f"{node}: {note}" for node, note in fleet.notes)
        if artefacts.load(run, "reach.json", ReachArtefact) is None:
            artefacts.keep(run, "reach.json", ReachArtefact(tuple(fleet.sessions), fleet.unreachable, transport.name, notes))
        for text in (*notes, *(f"{missing.node} not reached: {missing.reason}" for missing in fleet.unreachable)):
            say("reach", text)
        yield fleet
