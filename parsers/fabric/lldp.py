"""What `lldpctl` prints: the switch and its port behind each interface of one node, as keyvalue,
json or json0 (lldpd 1.0)."""

from __future__ import annotations

import re

from busbw.model.topology import EndKind, FabricLink, LinkEnd
from busbw.parsers.fabric import Reading
from busbw.parsers.logs.json_values import loaded, mapping

_KEY = re.compile(
    r"^lldp\.([^=]+?)\.(chassis\.name|chassis\.mac|port\.ifname|port\.local|port\.mac|port\.descr|via)=(.*)$",
    re.M,
)


def looks_like(text: str) -> bool:
    """Whether the text is of this tool."""
    return _KEY.search(text) is not None or (
        text.lstrip()[:1] == "{" and re.search(r'^\s*\{\s*"lldp"\s*:', text) is not None
    )


def parse(text: str, node: str = "") -> Reading:
    """The neighbours of one node; `node` is its name, which the text does not hold.

    >>> (link,) = parse("lldp.eth0.via=LLDP\\nlldp.eth0.chassis.name=leaf01\\nlldp.eth0.port.ifname=swp12\\n", "gpu-001").links
    >>> link.label()
    'gpu-001 eth0 – leaf01 port swp12'
    """
    if text.lstrip()[:1] == "{":
        return _from_json(text, node)
    fields_by_name: dict[str, dict[str, tuple[str, int]]] = {}
    for match in _KEY.finditer(text):
        line_no = text.count("\n", 0, match.start()) + 1
        fields_by_name.setdefault(match[1], {}).setdefault(match[2], (match[3].strip(), line_no))
    links = []
    for name, fields in fields_by_name.items():
        values = {key: value for key, (value, _) in fields.items()}
        _, line_no = next(iter(fields.values()))
        links.append(_neighbour(node, name, values, line_no))
    return Reading("lldp", tuple(link for link in links if link))


def _neighbour(
    node: str, interface: str, fields: dict[str, str], line_no: int | None
) -> FabricLink | None:
    switch = fields.get("chassis.name") or fields.get("chassis.mac")
    # A switch may name its port by interface, by a number of its own, by address, or only in words.
    port = next(
        (
            fields[key]
            for key in ("port.ifname", "port.local", "port.descr", "port.mac")
            if fields.get(key)
        ),
        "",
    )
    if not switch:
        return None
    a = LinkEnd(
        EndKind.NIC, f"{node} {interface}".strip(), "1", node=node or None, device=interface
    )
    return FabricLink(a, LinkEnd(EndKind.SWITCH, switch, port), line_no=line_no)


def _from_json(text: str, node: str) -> Reading:
    try:
        document = mapping(loaded(text))
    except ValueError as error:
        return Reading("lldp", problems=(f"lldp: incomplete JSON: {error}",))
    links = []
    for interface, body in _interfaces(document.get("lldp")):
        fields: dict[str, str] = {}
        for name, chassis in _named(body.get("chassis")):
            fields.setdefault("chassis.name", name or _value(chassis.get("name")))
            fields.setdefault("chassis.mac", _value(chassis.get("id")))
        for port in _list(body.get("port")):
            inner = mapping(port)
            for identity in _list(inner.get("id")):
                kind = str(mapping(identity).get("type", ""))
                fields.setdefault(
                    {"ifname": "port.ifname", "local": "port.local", "mac": "port.mac"}.get(
                        kind, "port.descr"
                    ),
                    _value(identity),
                )
            fields.setdefault("port.descr", _value(inner.get("descr")))
        links.append(_neighbour(node, interface, fields, None))
    return Reading("lldp", tuple(link for link in links if link))


def _list(value: object) -> list[object]:
    """json0 writes everything as an array, json one element without."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def _interfaces(value: object) -> list[tuple[str, dict[str, object]]]:
    """(name, body): json keys interfaces by name, json0 names them inside."""
    interfaces = []
    for outer in _list(value):
        for each in _list(mapping(outer).get("interface")):
            inner = mapping(each)
            if isinstance(inner.get("name"), str):
                interfaces.append((str(inner["name"]), inner))
            else:
                interfaces += [(name, mapping(body)) for name, body in inner.items()]
    return interfaces


def _named(value: object) -> list[tuple[str, dict[str, object]]]:
    """(name, body) of a chassis: json keys it by its system name where it has one."""
    named = []
    for each in _list(value):
        inner = mapping(each)
        if "id" in inner or "name" in inner:
            named.append(("", inner))
        else:
            named += [(name, mapping(body)) for name, body in inner.items()]
    return named


def _value(value: object) -> str:
    """`{"value": …}`, `[{"value": …}]` or the text itself; "" = none."""
    for each in _list(value):
        fields = mapping(each).get("value", each)
        if isinstance(fields, str):
            return fields
    return ""
