"""The topology and the checks of the fabric, from what `raw/fabric/` holds."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from busbw.checks import NodeAnswer, fabric_side, script
from busbw.faults import Fault, attempt
from busbw.model import CheckResult, CommandResult, Finding, Node, Topology
from busbw.parsers.fabric import Reading, cabling, lldp, names, recognise
from busbw.parsers.fabric import checks as fabric_checks
from busbw.parsers.fabric.assemble import Known, assemble
from busbw.store import artefacts
from busbw.store.artefacts import FabricArtefact, FabricText
from busbw.store.run_directory import RunDir
from busbw.text import decoded

_GUID = re.compile(r"^guid (\S+) ([0-9a-f:]+)$", re.M)


@dataclass(frozen=True, slots=True)
class FabricView:
    """What the fabric's side comes to."""

    topology: Topology
    checks: tuple[CheckResult, ...]


def load(run: RunDir) -> FabricView | None:
    """The fabric of a run; None = nobody asked for it.

    Raises:
        RunDirError: an artefact is not readable.
    """
    artefact = artefacts.load(run, "fabric.json", FabricArtefact)
    if artefact is None:
        return None
    readings: list[tuple[str, Reading]] = []
    problems: list[str] = []
    guids: dict[str, tuple[str, str]] = {}
    hosts: dict[str, str] = {}
    for text in artefact.texts:
        if text.kind == "file":
            found = recognise.read(
                decoded(run.kept(text.path)), PurePosixPath(text.name).name.partition(".")[0]
            )
            readings += [(text.name, found)] if found else []
            problems += [] if found else [f"{text.name}: not of a tool that busbw knows"]
            continue
        answer = _answer(run, artefact, text)
        if answer.problem:
            problems.append(f"{text.name}: {answer.problem}")
        if text.kind == "node":
            _learn(answer, guids, hosts)
            reading = attempt(functools.partial(_neighbours, answer))
            if isinstance(reading, Fault):
                problems.append(f"{text.name}: its LLDP cannot be read: {reading.text}")
            elif reading is not None:
                readings.append((answer.artefact, reading))
        else:
            _of_host(answer, readings, problems)
    topology = assemble(readings, Known(artefact.nodes, guids, hosts), tuple(problems))
    return FabricView(topology, fabric_checks.judge(topology))


def _answer(run: RunDir, artefact: FabricArtefact, text: FabricText) -> NodeAnswer:
    result = CommandResult(
        text.name,
        ("sh", "-s"),
        text.exit_status,
        decoded(run.kept(text.path)).encode(),
        decoded(run.kept(text.stderr)).encode(),
        0.0,
        text.problem or None,
    )
    return script.split(Node(text.name), result, artefact.boundary, text.path or "")


def _neighbours(answer: NodeAnswer) -> Reading | None:
    section = answer.section("lldp")
    if section is None or section.exit_status != 0 or not section.stdout.strip():
        return None
    return lldp.parse(section.stdout, answer.node.name).at_line(section.line_no)


def _learn(answer: NodeAnswer, guids: dict[str, tuple[str, str]], hosts: dict[str, str]) -> None:
    """Which GUIDs and which host name are this node's."""
    listed = answer.section("guids")
    for device, digits in _GUID.findall(listed.stdout) if listed else ():
        guid = names.guid(digits)
        if guid is not None:
            guids.setdefault(guid, (answer.node.name, device))
    host = answer.section("host")
    if host is not None and host.stdout.strip():
        hosts[host.stdout.strip()] = answer.node.name
        hosts.setdefault(host.stdout.strip().partition(".")[0], answer.node.name)


def _of_host(answer: NodeAnswer, readings: list[tuple[str, Reading]], problems: list[str]) -> None:
    """What each tool on the host said; one that said nothing is a problem with its own words."""
    for name, _ in fabric_side.TOOLS:
        output = answer.section(name)
        if output is None:
            continue
        found = recognise.read(output.stdout)
        if found is not None and (found.links or found.errors or output.exit_status == 0):
            readings.append((answer.artefact, found.at_line(output.line_no)))
        if output.exit_status != 0 and not (found and (found.links or found.errors)):
            why = (output.stderr.strip().splitlines() or [f"exit status {output.exit_status}"])[-1]
            problems.append(
                f"{name} on {answer.node.name}: {'timed out' if output.timed_out else why}"
            )


def with_far_ends(run: RunDir, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings, with the switch port at the far end of each link that one names, where the
    fabric was asked.

    Raises:
        RunDirError: an artefact is not readable.
    """
    found = load(run)
    return findings if found is None else cabling.with_far_ends(findings, found.topology)
