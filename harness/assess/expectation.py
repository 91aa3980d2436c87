"""What a run's cluster should give: its hardware from the preflight answers, and from that the
limit, the model and the published rows.

What the nodes did not say, or say differently of each other, is never guessed: the reason stands in
the place of the number.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass

from busbw.checks import NodeAnswer, read_answer, software
from busbw.errors import UsageError
from busbw.fabrics.profile import Wire
from busbw.fabrics.profiles import carrier_by_fabric
from busbw.inventory import fold
from busbw.model import Limit, Reference, Requirement
from busbw.parsers.expect import baselines, cluster, figures, judge
from busbw.parsers.expect.baselines import Matches
from busbw.parsers.expect.cluster import Expectation, Question
from busbw.parsers.expect.figures import Curve, Tables
from busbw.parsers.expect.hardware import Gpu, Nics, recognise_gpu
from busbw.parsers.tools import gpus, ibverbs, imex, os_facts, rdma_sysfs
from busbw.parsers.tools.os_facts import InterfaceSpeed
from busbw.parsers.tools.rdma_sysfs import SysfsPort
from busbw.playbook.specification import met

_DEFAULT = re.compile(r"^default (\S+)$", re.M)
_ETHERNET_MTU = {1024: 1500, 2048: 2200, 4096: 9000}
"""RDMA MTU of a RoCE port → an MTU of its network device that gives it; the payload share depends
on the RDMA MTU alone."""


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """One node, as its answers describe it; None or () = it did not say."""

    node: str
    gpu_products: tuple[str, ...]
    """One per GPU, in the driver's order."""
    rails: tuple[tuple[str, float], ...]
    """(device, Gb/s) of the active RDMA ports that carry data: the inventory's rails, else the
    fastest active ones."""
    link_layers: tuple[str, ...]
    """Of those, each once, sorted."""
    rdma_mtu: int | None
    sockets: tuple[InterfaceSpeed, ...] = ()
    """What TCP goes over: the inventory's rails where they are interfaces, else the one that busbw
    came in on, else that of the default route."""
    nvlink_domain: tuple[str, ...] = ()
    """Addresses of the nodes that NVLink joins with this one, by IMEX; () = none, or not reported."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What all nodes have in common; None with a reason in `missing` where they do not, or do not
    say."""

    nodes: tuple[NodeHardware, ...]
    gpu: Gpu | None
    gpus_per_node: int | None
    nics: Nics | None
    rdma_mtu: int | None
    missing: tuple[str, ...]
    """Why something is None, in words."""
    sockets: Nics | None = None
    """The interfaces that TCP goes over, as their drivers tell their rate; None = `no_sockets` says
    why."""
    sockets_mtu: int | None = None
    no_sockets: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one case should give on so many nodes."""

    expectation: Expectation | None
    """None = `why_not` says what is missing."""
    published: Reference
    matches: Matches | None = None
    curves: tuple[Curve, ...] = ()
    why_not: str = ""

    @property
    def limit(self) -> Limit | None:
        """The physical limit; None = no expectation."""
        return None if self.expectation is None else self.expectation.limit


def node_hardware(answer: NodeAnswer) -> NodeHardware:
    """The hardware of one node from what preflight asked."""
    query = answer.section("gpu_query")
    sysfs = answer.section("rdma_sysfs")
    rows = gpus.rows(query.stdout) or () if query is not None else ()
    devices = rdma_sysfs.parse(sysfs.stdout) if sysfs is not None else ()
    active = []
    for device in devices:
        for port in device.ports:
            if port.state == "ACTIVE" and port.rate_gbit_s:
                active.append((device.name, port))
    named = [(name, port) for name, port in active if name in answer.node.rails]
    chosen = named or _fastest(active)
    return NodeHardware(
        node=answer.node.name,
        gpu_products=tuple(row.text("name") or "not shown" for row in rows),
        rails=tuple((name, port.rate_gbit_s or 0.0) for name, port in chosen),
        link_layers=tuple(sorted({port.link_layer for _, port in chosen if port.link_layer})),
        rdma_mtu=_active_mtu(answer, {name for name, _ in chosen}),
        sockets=_sockets(answer),
        nvlink_domain=_nvlink_domain(answer),
    )


def _nvlink_domain(answer: NodeAnswer) -> tuple[str, ...]:
    """The members of a domain that is UP; one by itself joins nobody."""
    section = answer.section("imex")
    domain = imex.parse(section.stdout) if section is not None else None
    if domain is None or domain.state != "UP" or len(domain.members) < 2:
        return ()
    return domain.members


def _active_mtu(answer: NodeAnswer, names: set[str]) -> int | None:
    """The one RDMA MTU of these devices' ports."""
    verbs = answer.section("ibv_devinfo")
    mtus: set[int | None] = set()
    for info in ibverbs.parse_devinfo(verbs.stdout) if verbs else ():
        if info.name in names:
            mtus.update(port.active_mtu for port in info.ports)
    return _only(mtus)


def _only(values: Set[int | None]) -> int | None:
    """The value that all share; None = they differ, or there is none."""
    return next(iter(values)) if len(values) == 1 else None


def _sockets(answer: NodeAnswer) -> tuple[InterfaceSpeed, ...]:
    section = answer.section("link_speed")
    listed = os_facts.parse_link_speeds(section.stdout) if section is not None else ()
    speeds = {each.name: each for each in listed}
    rails = tuple(speeds[name] for name in answer.node.data_interfaces if name in speeds)
    interfaces = answer.section("interfaces")
    default = _DEFAULT.search(interfaces.stdout) if interfaces is not None else None
    interface = software.facts(answer).ssh_interface or (default[1] if default else None)
    return rails or tuple(
        speeds[name] for name in (interface,) if name is not None and name in speeds
    )


def _fastest(active: list[tuple[str, SysfsPort]]) -> list[tuple[str, SysfsPort]]:
    """Where nobody named the rails: the ports of the highest rate, which leaves out the adapters
    for storage and management."""
    best = max((port.rate_gbit_s or 0.0 for _, port in active), default=0.0)
    return [(name, port) for name, port in active if port.rate_gbit_s == best]


def hardware_of(answers: tuple[NodeAnswer, ...], nodes: tuple[str, ...]) -> Hardware:
    """What the nodes that took part have in common."""
    known = tuple(
        read_answer(node_hardware, answer) for answer in answers if answer.node.name in nodes
    )
    missing: list[str] = []
    gpu, per_node = _gpus(known, missing)
    nics = _nics(known, missing)
    sockets, no_sockets = _socket_nics(known)
    return Hardware(
        nodes=known,
        gpu=gpu,
        gpus_per_node=per_node,
        nics=nics,
        rdma_mtu=_only({node.rdma_mtu for node in known}),
        missing=tuple(missing),
        sockets=sockets,
        sockets_mtu=_only({each.mtu for node in known for each in node.sockets}),
        no_sockets=no_sockets,
    )


def as_demanded(hardware: Hardware, requirements: tuple[Requirement, ...]) -> Hardware:
    """The hardware that limits are worked out for: what is demanded in the place of what was detected,
    so that a cluster which trained at half rate does not halve its own limit."""
    by_key = {each.key: each for each in requirements}
    detected = hardware.nics
    count = _demanded(by_key.get("nics"), None if detected is None else detected.count)
    rate = _demanded(by_key.get("nic_rate"), None if detected is None else detected.rate_gbit_s)
    gpus = _demanded(by_key.get("gpus"), hardware.gpus_per_node)
    mtu = _demanded(by_key.get("rdma_mtu"), hardware.rdma_mtu)
    return dataclasses.replace(
        hardware,
        gpu=_gpu_as_demanded(hardware, by_key.get("gpu_model")),
        gpus_per_node=_whole(gpus),
        nics=detected if count is None or rate is None else _nics_of(count, rate, detected),
        sockets=_sockets_as_demanded(hardware.sockets, by_key),
        rdma_mtu=_whole(mtu),
        sockets_mtu=_whole(_demanded(by_key.get("interface_mtu"), hardware.sockets_mtu)),
    )


def demanded_of(answers: tuple[NodeAnswer, ...], nodes: tuple[str, ...]) -> Hardware:
    """What the nodes should have in common: what is demanded, else what they show."""
    requirements = answers[0].requirements if answers else ()
    return as_demanded(hardware_of(answers, nodes), requirements)


def _gpu_as_demanded(hardware: Hardware, model: Requirement | None) -> Gpu | None:
    """The detected GPU where it is as demanded: it says more than a few words of its name."""
    products = {product for node in hardware.nodes for product in node.gpu_products}
    if model is None or (products and all(met(model, product) for product in products)):
        return hardware.gpu
    return recognise_gpu(model.value) or hardware.gpu


def _demanded(requirement: Requirement | None, detected: float | None) -> float | None:
    """The number that counts: `>=` never takes away from what was detected."""
    if requirement is None:
        return detected
    if requirement.at_least and detected is not None:
        return max(requirement.number, detected)
    return requirement.number


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _nics_of(count: float, rate: float, detected: Nics | None) -> Nics:
    if detected is not None and (detected.count, detected.rate_gbit_s) == (count, rate):
        return detected
    return Nics(int(count), f"{rate:g}", rate, source="the specification: block")


def _sockets_as_demanded(detected: Nics | None, by_key: Mapping[str, Requirement]) -> Nics | None:
    if detected is None:
        return None
    rate = _demanded(by_key.get("interface_rate"), detected.rate_gbit_s) or detected.rate_gbit_s
    return _nics_of(detected.count, rate, detected)


def _socket_nics(known: tuple[NodeHardware, ...]) -> tuple[Nics | None, str]:
    """The interfaces of all nodes, where they are alike; and why not."""
    silent = [
        node.node
        for node in known
        if not node.sockets or any(each.rate_gbit_s is None for each in node.sockets)
    ]
    if silent:
        named = sorted({each.name for node in known for each in node.sockets})
        which = f"of {', '.join(named)} " if named else ""
        return None, (
            f"the rate {which}is not shown on {fold(silent)} (a virtual machine, or no link):"
            " give it with --nics"
        )
    if not known:
        return None, "no node said which interfaces it has"
    rates_of = {
        node.node: tuple(each.rate_gbit_s or 0.0 for each in node.sockets) for node in known
    }
    kinds = _kinds({node: _counted_rates(rates) for node, rates in rates_of.items()})
    rates = {rate for own in rates_of.values() for rate in own}
    if len(kinds) != 1 or len(rates) != 1:
        reported = "; ".join(f"{text} Gb/s on {fold(nodes)}" for text, nodes in kinds)
        return None, f"the interfaces that TCP goes over differ: {reported}"
    (rate,) = rates
    source = "the nodes' own interfaces (/sys/class/net)"
    return Nics(len(known[0].sockets), f"{rate:g}", rate, source=source), ""


def _gpus(known: tuple[NodeHardware, ...], missing: list[str]) -> tuple[Gpu | None, int | None]:
    kinds = _kinds({node.node: _counted(node.gpu_products) for node in known})
    if len(kinds) != 1 or not kinds[0][0]:
        reported = "; ".join(f"{text or 'no answer'} on {fold(nodes)}" for text, nodes in kinds)
        missing.append(
            f"the nodes do not have the same GPUs: {reported}"
            if len(kinds) > 1
            else "the GPUs are not known: nvidia-smi lists none"
        )
        return None, None
    products = known[0].gpu_products
    if len(set(products)) > 1:
        missing.append(f"a node has more than one kind of GPU: {kinds[0][0]}")
        return None, len(products)
    gpu = recognise_gpu(products[0])
    if gpu is None:
        missing.append(f"the tables do not know the GPU {products[0]!r}")
    return gpu, len(products)


def _nics(known: tuple[NodeHardware, ...], missing: list[str]) -> Nics | None:
    kinds = _kinds(
        {node.node: _counted_rates(tuple(rate for _, rate in node.rails)) for node in known}
    )
    if len(kinds) != 1 or not kinds[0][0]:
        reported = "; ".join(
            f"{text + ' Gb/s' if text else 'none'} on {fold(nodes)}" for text, nodes in kinds
        )
        missing.append(
            f"the nodes do not have the same network: {reported}"
            if len(kinds) > 1
            else "the rate of the NICs is not known"
        )
        return None
    rails = known[0].rails
    if len({rate for _, rate in rails}) > 1:
        missing.append(f"the rails of a node have more than one rate: {kinds[0][0]} Gb/s")
        return None
    rate = rails[0][1]
    return Nics(
        len(rails), f"{rate:g}", rate, source="the nodes' own ports (/sys/class/infiniband)"
    )


def _counted(values: tuple[str, ...]) -> str:
    return ", ".join(f"{count} x {text}" for text, count in sorted(Counter(values).items()))


def _counted_rates(rates_gbit_s: tuple[float, ...]) -> str:
    return _counted(tuple(f"{rate:g}" for rate in rates_gbit_s))


def _kinds(reported: dict[str, str]) -> list[tuple[str, list[str]]]:
    """Equal answers with the nodes that gave them, most frequent first."""
    nodes_by_text: dict[str, list[str]] = {}
    for node, text in reported.items():
        nodes_by_text.setdefault(text, []).append(node)
    return sorted(nodes_by_text.items(), key=lambda item: (-len(item[1]), item[0]))


NOTHING = Reference("none", None, "no published figure was looked up")


def outlook(
    hardware: Hardware,
    fabric: str,
    collective: str,
    nodes: int,
    ranks_per_node: int,
    tables: Tables | None = None,
) -> Outlook:
    """What so many nodes should give; `tables` None = the packaged ones."""
    question, why_not = _question(hardware, fabric, collective, nodes, ranks_per_node)
    if question is None:
        return Outlook(None, NOTHING, why_not=why_not)
    try:
        expectation = cluster.answer(question)
    except (UsageError, ValueError) as error:
        return Outlook(None, NOTHING, why_not=str(error))
    known = tables or figures.load()
    matches = judge.published(known, expectation)
    curves = baselines.curves(known, collective, question.gpu, nodes, question.gpus_per_node)
    return Outlook(expectation, baselines.reference(matches), matches, curves)


def _question(
    hardware: Hardware, fabric: str, collective: str, nodes: int, ranks_per_node: int
) -> tuple[Question | None, str]:
    if collective not in cluster.COLLECTIVES:
        return None, f"no limit is known for {collective}"
    if fabric not in carrier_by_fabric():
        return None, f"the profile {fabric} describes no hardware that the tables know"
    nics, mtu = carried_by(hardware, fabric)
    if hardware.gpu is None or hardware.gpus_per_node is None or (nodes > 1 and nics is None):
        why = (*hardware.missing, hardware.no_sockets) if over_tcp(fabric) else hardware.missing
        return None, "; ".join(text for text in why if text) or "the hardware is not known"
    if ranks_per_node != hardware.gpus_per_node:
        return None, (
            f"{ranks_per_node} ranks on a node of {hardware.gpus_per_node} GPUs: the tables"
            " describe whole nodes"
        )
    question = Question(
        collective=collective,
        nodes=nodes,
        gpus_per_node=hardware.gpus_per_node,
        fabric=fabric,
        gpu=hardware.gpu,
        nics=nics if nodes > 1 else None,
        device_mtu=mtu,
    )
    per_domain, why_not = nodes_per_domain(hardware, nodes)
    if per_domain is None:
        return None, why_not
    return cluster.joined(question, per_domain), ""


def nodes_per_domain(hardware: Hardware, nodes: int) -> tuple[int | None, str]:
    """How many of `nodes` NVLink joins, 1 where none; None with the reason where the domains differ
    in size or the nodes of a smaller case are not known."""
    sizes = Counter(node.nvlink_domain for node in hardware.nodes)
    if set(sizes) <= {()}:
        return 1, ""
    if len(sizes) == 1:
        return nodes, ""
    if nodes != len(hardware.nodes):
        return None, f"which NVLink domains the {nodes} nodes belong to is not known"
    if () in sizes or len(set(sizes.values())) > 1:
        parts = ", ".join(str(count) for count in sorted(sizes.values()))
        return None, f"NVLink domains of {parts} nodes; the model describes domains of one size"
    return next(iter(sizes.values())), ""


def over_tcp(fabric: str) -> bool:
    """Whether interfaces carry the data, not RDMA ports."""
    return carrier_by_fabric()[fabric].wire is Wire.TCP


def carried_by(hardware: Hardware, fabric: str) -> tuple[Nics | None, int | None]:
    """What carries the data of a fabric, and the MTU that a question takes: over TCP the
    interfaces, else the RDMA ports."""
    if over_tcp(fabric) and hardware.sockets is not None:
        return hardware.sockets, hardware.sockets_mtu
    return hardware.nics, device_mtu(hardware.rdma_mtu, fabric)


def device_mtu(rdma_mtu: int | None, fabric: str) -> int | None:
    """The MTU that a question takes: InfiniBand's own, of RoCE that of a network device which gives
    it; None = the usual one."""
    wire = carrier_by_fabric()[fabric].wire
    if wire is Wire.INFINIBAND:
        return rdma_mtu
    return _ETHERNET_MTU.get(rdma_mtu) if wire is Wire.ROCE and rdma_mtu is not None else None
