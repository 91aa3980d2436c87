"""From what several tools printed to one topology: every cable once, its ends named as the
inventory names them, rails and leaves."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from busbw.model import Node
from busbw.model.topology import (
    EndKind,
    FabricLink,
    Leaf,
    LinkEnd,
    PortErrors,
    Topology,
    TopologyNic,
)
from busbw.parsers.fabric import Reading, names
from busbw.text import whole_number


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the nodes besides the fabric's own texts."""

    nodes: tuple[Node, ...] = ()
    """Of the inventory; () = every host that the fabric shows is a node."""
    guids: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """GUID of an adapter or of its port → (node, device), as the nodes say it themselves."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Host name → node, where the inventory names it otherwise."""


def assemble(
    readings: Sequence[tuple[str, Reading]], known: Known, problems: tuple[str, ...] = ()
) -> Topology:
    """The topology that `readings`, as (source, what it says), come to; `problems` = what else
    could not be read."""
    owner = _Owner(known)
    links: list[FabricLink] = []
    errors: list[PortErrors] = []
    of_readings: dict[str, None] = {}
    for source, reading in readings:
        for link in reading.links:
            links.append(dataclasses.replace(owner.link(link), source=source))
        for error in reading.errors:
            errors.append(dataclasses.replace(error, end=owner.end(error.end), source=source))
        of_readings |= dict.fromkeys(f"{source}: {text}" for text in reading.problems)
    merged = _oriented(_merged(_with_kinds(links)))
    nics = _nics(merged, known)
    order = [node.name for node in known.nodes] or sorted({nic.node for nic in nics}, key=natural)
    cabled = {nic.node for nic in nics}
    return Topology(
        nodes=tuple(name for name in order if name in cabled),
        nics=nics,
        leaves=_leaves(merged, order),
        links=merged,
        errors=tuple(dict.fromkeys(_placed(error, merged) for error in errors)),
        groups=_groups(known.nodes, cabled),
        missing=tuple(name for name in order if name not in cabled),
        sources=tuple(f"{reading.tool}: {source}" for source, reading in readings),
        problems=(*problems, *of_readings),
    )


def _groups(nodes: Sequence[Node], cabled: set[str]) -> tuple[tuple[str, ...], ...]:
    """The groups of the label `group`, else of `leaf`; () unless every node of the inventory has
    it: half a plan is none."""
    for name in ("group", "leaf"):
        labels = {node.name: dict(node.labels).get(name) for node in nodes}
        if labels and None not in labels.values():
            break
    else:
        return ()
    groups: dict[str | None, list[str]] = {label: [] for label in labels.values()}
    for node, label in labels.items():
        if node in cabled:
            groups[label].append(node)
    return tuple(map(tuple, groups.values()))


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts `mlx5_2` before `mlx5_10`.

    >>> sorted(["mlx5_10", "mlx5_2"], key=natural)
    ['mlx5_2', 'mlx5_10']
    """
    parts = ((whole_number(part), part) for part in re.split(r"([0-9]+)", text) if part)
    return tuple((0, 0, part) if number is None else (1, number, "") for number, part in parts)


class _Owner:
    """Whose end a cable's end is."""

    def __init__(self, known: Known) -> None:
        self._guids = known.guids
        self._open = not known.nodes
        self._hosts = dict(known.hosts)
        for node in known.nodes:
            hosts = [node.name, node.name.partition(".")[0]]
            if node.address:
                hosts.append(node.address)
            for host in hosts:
                self._hosts.setdefault(host, node.name)

    def link(self, link: FabricLink) -> FabricLink:
        """The link with both its ends named."""
        return dataclasses.replace(link, a=self.end(link.a), b=self.end(link.b) if link.b else None)

    def end(self, end: LinkEnd) -> LinkEnd:
        """The end with its node and device, where it is an adapter of one."""
        if end.node is not None:
            return dataclasses.replace(end, node=self._hosts.get(end.node, end.node))
        if end.guid is not None and end.guid in self._guids:
            node, device = self._guids[end.guid]
            return dataclasses.replace(end, kind=EndKind.NIC, node=node, device=device)
        adapter = names.adapter(end.name)
        if adapter is None:
            return end
        host, device = adapter
        owner = self._hosts.get(host) or self._hosts.get(host.partition(".")[0])
        if not owner and self._open:
            owner = host
        return dataclasses.replace(end, kind=EndKind.NIC, node=owner, device=device)


def _with_kinds(links: Iterable[FabricLink]) -> list[FabricLink]:
    """A far end whose kind was not printed has the kind that it has where its own ports are listed;
    and a name fit for people."""
    listed = list(links)
    kinds: dict[tuple[object, ...], EndKind] = {}
    for end, source in _ends(listed):
        if end.kind is not EndKind.UNKNOWN:
            kinds.update(dict.fromkeys(_of_node(end, source), end.kind))

    def known(end: LinkEnd, source: str) -> LinkEnd:
        kind = end.kind
        if kind is EndKind.UNKNOWN:
            kind = next((kinds[key] for key in _of_node(end, source) if key in kinds), kind)
        name = end.name if kind is EndKind.NIC else names.switch(end.name)
        return dataclasses.replace(end, kind=kind, name=name)

    with_kinds = []
    for link in listed:
        far = known(link.b, link.source) if link.b else None
        with_kinds.append(dataclasses.replace(link, a=known(link.a, link.source), b=far))
    return with_kinds


def _ends(links: Iterable[FabricLink]) -> list[tuple[LinkEnd, str]]:
    """Every end with the source that showed it."""
    return [(end, link.source) for link in links for end in (link.a, link.b) if end is not None]


def _of_node(end: LinkEnd, source: str) -> list[tuple[object, ...]]:
    # LIDs are given per subnet, and each rail may be one: they tell apart only within one text.
    keys: list[tuple[object, ...]] = []
    if end.lid is not None:
        keys.append(("lid", source, end.lid))
    if end.guid is not None:
        keys.append(("guid", end.guid))
    return [*keys, ("name", end.name)]


def _keys(end: LinkEnd, source: str) -> list[tuple[object, ...]]:
    """What tells one port from all others; a factory's description does not, where a LID or GUID is
    there."""
    if end.node is not None and end.device is not None:
        return [("nic", end.node, end.device)]
    if not end.port:
        return []
    keys: list[tuple[object, ...]] = []
    if end.lid is not None:
        keys.append(("lid", source, end.lid, end.port))
    if end.guid is not None:
        keys.append(("guid", end.guid, end.port))
    return keys or [("name", end.name, end.port)]


def _merged(links: Iterable[FabricLink]) -> list[FabricLink]:
    """Every cable once: a port holds one, so links that share a port are the same. What one text
    lacks the other gives."""
    merged: list[FabricLink] = []
    place: dict[tuple[object, ...], int] = {}
    for link in links:
        keys = [key for end, source in _ends([link]) for key in _keys(end, source)]
        places = [place[key] for key in keys if key in place]
        at = next((n for n in places if not _two_adapters(merged[n], link)), None)
        if at is None:
            at = len(merged)
            merged.append(link)
        else:
            merged[at] = _joined(merged[at], link)
        place.update(dict.fromkeys(keys, at))
    return merged


def _two_adapters(one: FabricLink, two: FabricLink) -> bool:
    """Both end in an adapter, and not in the same: whatever a switch calls its ports, these are two
    cables."""
    adapters = []
    for link in (one, two):
        ends = [end for end, _ in _ends([link])]
        adapters.append({(end.node, end.device) for end in ends if end.node and end.device})
    return all(adapters) and adapters[0].isdisjoint(adapters[1])


def _joined(one: FabricLink, two: FabricLink) -> FabricLink:
    """Both views of one cable. Where they contradict each other the slower counts: it is what the
    link can carry."""
    slower = one
    if one.rate_gbit_s is None or (two.rate_gbit_s or one.rate_gbit_s) < one.rate_gbit_s:
        slower = two
    same_side = not set(_keys(one.a, one.source)).isdisjoint(_keys(two.a, two.source))
    near, far = (two.a, two.b) if same_side else (two.b, two.a)
    return FabricLink(
        a=_filled(one.a, near),
        b=_filled(one.b, far) if one.b is not None else far,
        state=one.state or two.state,
        physical_state=one.physical_state or two.physical_state,
        width=slower.width or one.width or two.width,
        speed=slower.speed or one.speed or two.speed,
        rate_gbit_s=slower.rate_gbit_s,
        hint=one.hint or two.hint,
        line_no=slower.line_no if slower.line_no is not None else one.line_no,
        source=slower.source,
    )


def _filled(one: LinkEnd, two: LinkEnd | None) -> LinkEnd:
    if two is None:
        return one
    kind = two.kind if one.kind is EndKind.UNKNOWN else one.kind
    return dataclasses.replace(
        one,
        kind=kind,
        guid=one.guid or two.guid,
        lid=one.lid or two.lid,
        node=one.node or two.node,
        device=one.device or two.device,
    )


def _adapter_first(link: FabricLink) -> FabricLink:
    if link.b and link.b.kind is EndKind.NIC and link.a.kind is not EndKind.NIC:
        return dataclasses.replace(link, a=link.b, b=link.a)
    return link


def _oriented(links: Iterable[FabricLink]) -> tuple[FabricLink, ...]:
    """The adapter first; by node and device, then between switches by name and port."""
    return tuple(sorted(map(_adapter_first, links), key=_end_order))


def _end_order(link: FabricLink) -> tuple[object, ...]:
    return link.a.kind is not EndKind.NIC, natural(link.a.label()), natural(link.a.port)


def _nics(links: Sequence[FabricLink], known: Known) -> tuple[TopologyNic, ...]:
    plugged = [link for link in links if link.a.node is not None and link.a.device is not None]
    devices = _rail_devices(plugged)
    stated = {node.name: node.rails for node in known.nodes}
    nics = []
    for link in plugged:
        node, device = str(link.a.node), str(link.a.device)
        rails = stated.get(node) or devices.get(node, ())
        names_of_it = (device, f"{device}:{link.a.port}")
        rail = next((place for place, name in enumerate(rails) if name in names_of_it), None)
        leaf = leaf_port = None
        if link.b is not None and link.b.kind is not EndKind.NIC:
            leaf, leaf_port = link.b.name, link.b.port
        nics.append(TopologyNic(node, device, rail, leaf, leaf_port))
    return tuple(sorted(nics, key=_nic_order))


def _nic_order(nic: TopologyNic) -> tuple[object, ...]:
    return natural(nic.node), nic.rail is None, nic.rail or 0, natural(nic.device)


def _rail_devices(plugged: Sequence[FabricLink]) -> dict[str, tuple[str, ...]]:
    """Per node the devices that are rails by their kind: those that on most nodes run at the
    highest rate. A slow link stays a rail."""
    rates: dict[str, Counter[float]] = defaultdict(Counter)
    for link in plugged:
        rates[str(link.a.device)][link.rate_gbit_s or 0.0] += 1
    usual = {}
    for device, counts in rates.items():
        usual[device], _ = max(counts.items(), key=lambda item: (item[1], item[0]))
    fastest = max(usual.values(), default=0.0)
    devices: dict[str, set[str]] = defaultdict(set)
    for link in plugged:
        if usual[str(link.a.device)] == fastest:
            devices[str(link.a.node)].add(str(link.a.device))
    return {node: tuple(sorted(own, key=natural)) for node, own in devices.items()}


def _leaves(links: Sequence[FabricLink], order: Sequence[str]) -> tuple[Leaf, ...]:
    place = {name: position for position, name in enumerate(order)}
    members: dict[str, set[str]] = {}
    guids: dict[str, str | None] = {}
    for link in links:
        if link.a.node is not None and link.b is not None and link.b.kind is not EndKind.NIC:
            members.setdefault(link.b.name, set()).add(link.a.node)
            guids[link.b.name] = guids.get(link.b.name) or link.b.guid
    leaves = []
    for name in sorted(members, key=natural):
        nodes = sorted(members[name], key=lambda node: (place.get(node, len(place)), node))
        leaves.append(Leaf(name, guids[name], tuple(nodes)))
    return tuple(leaves)


def _placed(error: PortErrors, links: Sequence[FabricLink]) -> PortErrors:
    """The end as the links know it: with the name for people and its node."""
    keys = set(_keys(error.end, error.source))
    for end, source in _ends(links):
        if not keys.isdisjoint(_keys(end, source)):
            return dataclasses.replace(error, end=end)
    name = names.switch(error.end.name)
    return dataclasses.replace(error, end=dataclasses.replace(error.end, name=name))
