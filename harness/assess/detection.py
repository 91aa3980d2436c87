"""Which fabric profile fits a cluster, from what its nodes answered, and which facts decided. Where
two fit, both are named and none is taken."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from busbw.assess.expectation import NodeHardware, node_hardware
from busbw.checks import NodeAnswer, read_answer
from busbw.errors import UsageError
from busbw.fabrics import profiles
from busbw.fabrics.profile import UNDETECTED, Ports, Sign
from busbw.inventory import fold
from busbw.parsers.tools import os_facts, rdma_sysfs
from busbw.parsers.tools.rdma_sysfs import SysfsDevice
from busbw.store.plan import RunPlan


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
        read = functools.partial(_of_node, alone=len(answers) == 1)
        nodes_by_guess.setdefault(read_answer(read, answer), []).append(answer.node.name)
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


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a node shows of its fabric."""

    devices: tuple[SysfsDevice, ...]
    hardware: NodeHardware
    vendor: str
    directories: frozenset[str]
    alone: bool
    """It is the only node."""

    @property
    def ports(self) -> frozenset[Ports]:
        """Both kinds where the fastest ports are of both."""
        layers = self.hardware.link_layers
        return frozenset(kind for kind in Ports if kind.value in layers) or frozenset({Ports.NONE})

    @property
    def adapters(self) -> tuple[str, ...]:
        """The types of the devices that carry data."""
        rails = {name for name, _ in self.hardware.rails}
        return tuple(device.hca_type or "" for device in self.devices if device.name in rails)


def _of_node(answer: NodeAnswer, *, alone: bool) -> Guess:
    sysfs = answer.section("rdma_sysfs")
    if sysfs is None:
        return Guess((), ("the node did not say which RDMA ports it has",))
    marks = answer.section("fabric_marks")
    shown = os_facts.parse(marks.stdout) if marks is not None else os_facts.OsFacts(())
    node = _Facts(
        devices=rdma_sysfs.parse(sysfs.stdout),
        hardware=node_hardware(answer),
        vendor=shown.text("vendor") or "",
        directories=frozenset(value for name, value in shown.values if name == "directory"),
        alone=alone,
    )
    fitting = [
        (name, sign)
        for name, signs in profiles.signs().items()
        for sign in signs
        if all(_tests(sign, node))
    ]
    strongest = max((sign.strength for _, sign in fitting), default=0)
    deciding = [(name, sign) for name, sign in fitting if sign.strength == strongest]
    facts = dict.fromkeys(fact for _, sign in deciding for fact in _facts(sign, node))
    return Guess(tuple(sorted({name for name, _ in deciding})), tuple(facts))


def _own_devices(sign: Sign, node: _Facts) -> list[str]:
    """The devices whose names show the fabric."""
    names = [device.name for device in node.devices]
    return [name for name in names if any(fnmatchcase(name, glob) for glob in sign.devices)]


def _tests(sign: Sign, node: _Facts) -> Iterator[bool]:
    """Whether each fact of the sign is true of the node."""
    if sign.devices:
        yield bool(_own_devices(sign, node))
    if sign.directory is not None:
        yield sign.directory in node.directories
    if sign.vendor is not None:
        yield node.vendor.startswith(sign.vendor)
    if sign.ports is not None:
        yield sign.ports in node.ports
    if sign.adapter is not None:
        yield any(kind.startswith(sign.adapter) for kind in node.adapters)
    if sign.alone is not None:
        yield node.alone is sign.alone


def _facts(sign: Sign, node: _Facts) -> Iterator[str]:
    """What the sign rests on, in words."""
    if sign.devices:
        names = _own_devices(sign, node)
        yield f"{len(names)} RDMA device{'s'[: len(names) != 1]} named {' or '.join(sign.devices)}"
    if sign.vendor is not None:
        yield f"the machine is of {node.vendor}"
    if sign.directory is not None:
        yield f"{sign.directory} is there"
    if sign.alone:
        yield "one node"
    if sign.ports is Ports.NONE:
        yield "no active RDMA port"
    elif sign.ports is not None:
        yield _ports(node.hardware)
    if sign.doubt:
        yield sign.doubt


def _ports(hardware: NodeHardware) -> str:
    rates = sorted({f"{rate:g}" for _, rate in hardware.rails})
    return (
        f"{len(hardware.rails)} active ports of {'/'.join(hardware.link_layers)} at"
        f" {'/'.join(rates)} Gb/s"
    )


def settled(plan: RunPlan, answers: tuple[NodeAnswer, ...]) -> RunPlan:
    """The plan with the profile that the answers decide; as it is where one was given, or nothing
    is decided."""
    if plan.profile.name != UNDETECTED:
        return plan
    found = guess(answers)
    return (
        dataclasses.replace(plan, profile=profiles.load(found.candidates[0]))
        if len(found.candidates) == 1
        else plan
    )


def demand_profile(plan: RunPlan, answers: tuple[NodeAnswer, ...]) -> str:
    """What decided the profile, as one line; empty = it was given.

    Raises:
        UsageError: nothing decides it; the candidates and the facts are listed.
    """
    found = guess(answers)
    if plan.profile.name != UNDETECTED:
        return "; ".join(found.facts)
    candidates = found.candidates or profiles.of_hardware()
    raise UsageError(
        f"the nodes do not show which fabric they are on: it may be {' or '.join(candidates)}",
        seen="; ".join(found.facts),
        next_step=f"-p {candidates[0]}" + "".join(f", or -p {name}" for name in candidates[1:]),
    )
