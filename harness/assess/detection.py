"""Which fabric profile fits a cluster, from what its nodes answered, and which facts decided. Where
two fit, both are named and none is taken."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from busbw.assess.expectation import NodeHardware, node_hardware
from busbw.checks import NodeAnswer
from busbw.errors import UsageError
from busbw.fabrics import fabric
from busbw.inventory import fold
from busbw.parsers.tools import os_facts, rdma_sysfs
from busbw.store.plan import RunPlan

_GOOGLE, _MICROSOFT = "Google", "Microsoft Corporation"
_GOOGLE_MARKS = (("mark_gib", "gcp-gib"), ("mark_tcpxo", "gcp-tcpxo"), ("mark_tcpx", "gcp-tcpx"))
_BLUEFIELD_3 = "MT41692"
"""Device type of the SuperNIC that Spectrum-X is built with; the switches cannot be seen from a
host."""


@dataclass(frozen=True, slots=True)
class Guess:
    """What one node, or all of them, may be on."""

    candidates: tuple[str, ...]
    """Profiles that fit; one = it is clear; () = the nodes said nothing."""
    facts: tuple[str, ...]
    """What decided, or what leaves it open."""


def guess(answers: tuple[NodeAnswer, ...]) -> Guess:
    """The profile that all nodes fit."""
    if not answers:
        return Guess((), ("no node answered",))
    nodes_by_guess: dict[Guess, list[str]] = {}
    for answer in answers:
        nodes_by_guess.setdefault(_of_node(answer, alone=len(answers) == 1), []).append(
            answer.node.name
        )
    if len(nodes_by_guess) == 1:
        (only,) = nodes_by_guess
        return only
    facts = tuple(
        f"{fold(nodes)}: {', '.join(each.candidates)} ({'; '.join(each.facts)})"
        for each, nodes in nodes_by_guess.items()
    )
    return Guess(
        tuple(sorted({name for each in nodes_by_guess for name in each.candidates})), facts
    )


def _of_node(answer: NodeAnswer, *, alone: bool) -> Guess:
    hardware = node_hardware(answer)
    section = answer.section("fabric_marks")
    marks = os_facts.parse(section.stdout) if section is not None else os_facts.OsFacts(())
    efa = answer.section("efa_devices")
    vendor = marks.text("vendor") or ""
    if efa is not None and efa.stdout.split():
        return Guess(("efa",), (f"{len(efa.stdout.split())} EFA devices",))
    if vendor.startswith(_GOOGLE):
        return _google(marks, hardware)
    ports = _ports(hardware)
    if "InfiniBand" in hardware.link_layers and "Ethernet" in hardware.link_layers:
        return Guess(("infiniband", "rocev2"), (f"{ports}: both kinds at the highest rate",))
    if "InfiniBand" in hardware.link_layers:
        azure = vendor == _MICROSOFT
        return Guess(
            ("azure-ib" if azure else "infiniband",),
            (ports, *((f"the machine is of {vendor}",) if azure else ())),
        )
    if "Ethernet" in hardware.link_layers:
        if _bluefield(answer, hardware):
            return Guess(
                ("rocev2", "spectrum-x"),
                (
                    (
                        f"{ports} of BlueField-3: whether the switches are Spectrum-X is not seen"
                        " from a host"
                    ),
                ),
            )
        return Guess(("rocev2",), (ports,))
    if answer.section("rdma_sysfs") is None:
        return Guess((), ("the node did not say which RDMA ports it has",))
    if alone:
        return Guess(("nvlink-only",), ("one node, without an active RDMA port",))
    return Guess(("tcp",), ("no active RDMA port",))


def _google(marks: os_facts.OsFacts, hardware: NodeHardware) -> Guess:
    found = tuple(name for mark, name in _GOOGLE_MARKS if marks.text(mark))
    paths = tuple(f"{path} is there" for mark, _ in _GOOGLE_MARKS if (path := marks.text(mark)))
    maker = f"the machine is of {marks.text('vendor')}"
    if found:
        return Guess(found, (maker, *paths))
    if "Ethernet" in hardware.link_layers:
        return Guess(("gcp-gib",), (maker, _ports(hardware)))
    return Guess(
        ("gcp-tcpx", "gcp-tcpxo", "tcp"),
        (maker, "no RDMA port, and no plugin in /var/lib/tcpxo or /var/lib/tcpx"),
    )


def _ports(hardware: NodeHardware) -> str:
    rates = sorted({f"{rate:g}" for _, rate in hardware.rails})
    return (
        f"{len(hardware.rails)} active ports of {'/'.join(hardware.link_layers)} at"
        f" {'/'.join(rates)} Gb/s"
    )


def _bluefield(answer: NodeAnswer, hardware: NodeHardware) -> bool:
    section = answer.section("rdma_sysfs")
    names = {name for name, _ in hardware.rails}
    devices = rdma_sysfs.parse(section.stdout) if section is not None else ()
    return any(
        device.name in names and (device.hca_type or "").startswith(_BLUEFIELD_3)
        for device in devices
    )


def settled(plan: RunPlan, answers: tuple[NodeAnswer, ...]) -> RunPlan:
    """The plan with the profile that the answers decide; as it is where one was given, or nothing
    is decided."""
    if plan.profile.name != fabric.UNDETECTED:
        return plan
    found = guess(answers)
    return (
        dataclasses.replace(plan, profile=fabric.load(found.candidates[0]))
        if len(found.candidates) == 1
        else plan
    )


def demand_profile(plan: RunPlan, answers: tuple[NodeAnswer, ...]) -> str:
    """What decided the profile, as one line; empty = it was given.

    Raises:
        UsageError: nothing decides it; the candidates and the facts are listed.
    """
    found = guess(answers)
    if plan.profile.name != fabric.UNDETECTED:
        return "; ".join(found.facts)
    candidates = found.candidates or tuple(name for name in fabric.names() if name != "lab")
    raise UsageError(
        f"which fabric the nodes have cannot be told: it may be {' or '.join(candidates)}",
        seen="; ".join(found.facts),
        next_step=f"-p {candidates[0]}" + "".join(f", or -p {name}" for name in candidates[1:]),
    )
