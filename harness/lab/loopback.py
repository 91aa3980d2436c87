"""Labs without namespaces: one sshd of the user's own per loopback address. Nothing but ssh, mpirun and signals to ranks works in it."""

from __future__ import annotations

from busbw.lab.state import LabNode, LabState, Rail

CANNOT: tuple[str, ...] = ()


def plan_nodes(count: int, marker: str) -> tuple[LabNode, ...]:
    raise NotImplementedError


def start(state: LabState) -> LabState:
    raise NotImplementedError


def end(state: LabState) -> None:
    raise NotImplementedError
