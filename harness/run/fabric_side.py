"""Asking for the fabric's view: every node for its GUIDs and LLDP neighbours, one host for what the
fabric's tools see; or files as given."""

from __future__ import annotations

from collections.abc import Sequence

from busbw import intake
from busbw.checks import fabric_side
from busbw.errors import ReadError, UsageError
from busbw.model import CommandResult, Node
from busbw.store import artefacts
from busbw.store.artefacts import FabricArtefact, FabricText
from busbw.store.run_directory import RunDir
from busbw.transport import Session
from busbw.transport.fanout import Fleet

MOST_BYTES = 256 << 20
"""Of one file; ibdiagnet's tables of 10,000 ports have about 20 MB."""


def ask(
    run: RunDir, nodes: tuple[Node, ...], fleet: Fleet, host: Session | None, *, sudo: bool
) -> FabricArtefact:
    """Ask the nodes at once, then the host. What does not answer is an entry with its reason."""
    boundary = run.run_id
    commands = {
        name: fabric_side.local(boundary, f"fabric/nodes/{name}.txt") for name in fleet.sessions
    }
    longest_s = max((command.timeout_s for command in commands.values()), default=0.0)
    answers = fleet.run(commands, deadline_s=longest_s + 10)
    texts = [
        _kept(answer, "node", f"fabric/nodes/{answer.node}.txt")
        for answer in answers
        if isinstance(answer, CommandResult)
    ]
    if host is not None:
        store = f"fabric/host/{host.node}.txt"
        texts.append(_kept(host.run(fabric_side.host(boundary, store, sudo=sudo)), "host", store))
    artefact = FabricArtefact(nodes, boundary, tuple(texts))
    artefacts.keep(run, "fabric.json", artefact)
    return artefact


def _kept(result: CommandResult, kind: str, store: str) -> FabricText:
    path = f"raw/{store}" if result.stdout or result.ok else None
    err = f"{path}.err" if path and result.stderr else None
    return FabricText(kind, result.node, path, err, result.exit_status, result.problem or "")


def take_files(run: RunDir, nodes: tuple[Node, ...], names: Sequence[str]) -> FabricArtefact:
    """Copy the files into the run, as they are but for their compression: what is concluded can be
    concluded again.

    Raises:
        UsageError: a name is no file.
        ReadError: one is too large, or compressed in a way that cannot be read here.
    """
    texts = []
    for number, source in enumerate(intake.expand(names), 1):
        content = _whole(source)
        path = run.write_raw(f"fabric/files/{number}.txt", content)
        texts.append(FabricText("file", source.name, path, None, 0, ""))
    if not texts:
        raise UsageError(
            "no file of the fabric's tools was given",
            seen=" ".join(names),
            next_step="busbw check --help",
        )
    artefact = FabricArtefact(nodes, run.run_id, tuple(texts))
    artefacts.keep(run, "fabric.json", artefact)
    return artefact


def _whole(source: intake.Source) -> bytes:
    found = bytearray()
    for chunk in source.open():
        found += chunk
        if len(found) > MOST_BYTES:
            raise ReadError(
                f"{source.name} is larger than {MOST_BYTES >> 20} MiB",
                next_step="give the tool's output alone",
            )
    return bytes(found)
