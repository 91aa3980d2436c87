"""What UFM exports: `GET /ufmRest/resources/ports` and `…/links` as JSON, and the same tables as
CSV (UFM Enterprise REST API 6.14 to 6.22)."""

from __future__ import annotations

import csv
import re

from busbw.model.topology import EndKind, FabricLink, LinkEnd, PortErrors
from busbw.parsers.fabric import Reading, names
from busbw.parsers.logs.json_values import integer, loaded, mapping, text_of

_LINK_KEYS = ("source_guid", "destination_guid")
_PORT_KEYS = ("peer_node_name", "peer_guid", "peer_node_description")
_NONE = ("", "n/a", "none", "null", "unknown", "0000000000000000")
_ERRORS = {
    "symbol_error_counter": "SymbolErrorCounter",
    "symbol_errors": "SymbolErrorCounter",
    "link_down_counter": "LinkDownedCounter",
    "link_downed_counter": "LinkDownedCounter",
    "link_error_recovery_counter": "LinkErrorRecoveryCounter",
    "port_rcv_errors": "PortRcvErrors",
    "port_xmit_discards": "PortXmitDiscards",
}


def looks_like(text: str) -> bool:
    """Whether the text is such an export."""
    head = text[:20000]
    if head.lstrip()[:1] in ("[", "{"):
        return any(f'"{key}"' in head for key in (_LINK_KEYS[0], *_PORT_KEYS))
    first = head.lstrip().partition("\n")[0].lower()
    return "," in first and (
        all(key in first for key in _LINK_KEYS) or any(key in first for key in _PORT_KEYS)
    )


def parse(text: str) -> Reading:
    """Links once each from a table of links, from both sides from a table of ports.

    >>> (link,) = parse('''[{"source_guid": "fc6a1c0300a00001", "source_port": "12", "source_port_node_description": "leaf01:12",
    ... "destination_guid": "a088c20300ab0000", "destination_port": "1", "destination_port_node_description": "gpu-001 mlx5_0:1",
    ... "width": "4x", "severity": "Info"}]''').links
    >>> link.a.name, link.b.name, link.width, link.rate_gbit_s
    ('leaf01', 'gpu-001 mlx5_0', '4X', None)
    """
    rows, problem = _rows(text)
    links: list[FabricLink] = []
    errors: list[PortErrors] = []
    for line_no, row in rows:
        if all(key in row for key in _LINK_KEYS):
            links.append(_link(row, line_no))
        elif any(key in row for key in _PORT_KEYS):
            end = _own(row)
            links.append(_port(row, end, line_no))
            values = [(name, integer(row, key)) for key, name in _ERRORS.items()]
            counters = tuple((name, value) for name, value in values if value)
            if counters:
                errors.append(PortErrors(end, counters, line_no))
    if not problem and not links:
        problem = "ufm: neither ports nor links are in it"
    problems = (problem,) if problem else ()
    return Reading("ufm", tuple(links), tuple(errors), problems)


def _rows(text: str) -> tuple[list[tuple[int | None, dict[str, object]]], str]:
    """The rows of a table, with their line in a CSV; and why it could not be read."""
    if text.lstrip()[:1] in ("[", "{"):
        try:
            document: object = loaded(text)
        except ValueError as error:
            return [], f"ufm: incomplete JSON: {error}"
        rows = document
        if not isinstance(rows, list):
            inner = mapping(document)
            rows = next((value for value in inner.values() if isinstance(value, list)), [inner])
        return [(None, mapping(row)) for row in rows], ""
    try:
        lines = list(csv.reader(text.strip().splitlines()))
    except csv.Error as error:
        return [], f"ufm: not a table: {error}"
    head = [re.sub(r"\W+", "_", name.strip().lower()) for name in lines[0]] if lines else []
    return [(n, dict(zip(head, row, strict=False))) for n, row in enumerate(lines[1:], 2)], ""


def _value(row: dict[str, object], *keys: str) -> str:
    """The first value under these keys that says something; "" = none."""
    for key in keys:
        value = (text_of(row, key) or "").strip()
        if value.lower() not in _NONE:
            return value
    return ""


def _description(text: str) -> str:
    """A node description without the port that UFM puts behind it: `gpu-001 mlx5_0:1`,
    `sw-ndr03:1/3/1`."""
    return re.sub(r":[\d/]+$", "", text)


def _end(name: str, port: str, guid: str, lid: int | None, *, switch: bool = False) -> LinkEnd:
    kind = EndKind.SWITCH if switch else EndKind.UNKNOWN
    if names.adapter(name):
        kind = EndKind.NIC
    return LinkEnd(kind, name, port, names.guid(guid), lid or None)


def _link(row: dict[str, object], line_no: int | None) -> FabricLink:
    ends = []
    for side in ("source", "destination"):
        guid = _value(row, f"{side}_guid")
        name = _description(_value(row, f"{side}_port_node_description")) or guid
        port = _value(row, f"{side}_port_dname", f"{side}_port")
        ends.append(_end(name, port, guid, None))
    lanes = names.width(_value(row, "width"))
    lane = names.speed(_value(row, "speed", "active_speed"))
    return FabricLink(
        ends[0],
        ends[1],
        width=lanes,
        speed=lane,
        rate_gbit_s=names.rate_gbit_s(lanes, lane),
        line_no=line_no,
    )


def _own(row: dict[str, object]) -> LinkEnd:
    switch = "switch" in _value(row, "description", "path").lower()
    name = _description(_value(row, "node_description", "system_name"))
    if switch:
        name = _value(row, "system_name") or name
    # A switch's ports share its GUID; an adapter's port has one of its own.
    return _end(
        name,
        _value(row, "dname", "number"),
        _value(row, "guid", "systemID", "system_guid"),
        integer(row, "lid"),
        switch=switch,
    )


def _port(row: dict[str, object], end: LinkEnd, line_no: int | None) -> FabricLink:
    peer = _description(_value(row, "peer_node_description")) or _value(row, "peer_node_name")
    if not names.adapter(peer):
        peer = _value(row, "peer_node_name") or peer
    far = None
    if peer:
        port = _value(row, "peer_port_dname")
        guid = _value(row, "peer_guid", "peer_node_guid")
        far = _end(peer, port, guid, integer(row, "peer_lid"))
    lanes, lane = names.width(_value(row, "active_width")), names.speed(_value(row, "active_speed"))
    return FabricLink(
        a=end,
        b=far,
        state=_value(row, "logical_state").capitalize() or None,
        physical_state=_value(row, "physical_state").replace(" ", "") or None,
        width=lanes,
        speed=lane,
        rate_gbit_s=names.rate_gbit_s(lanes, lane),
        line_no=line_no,
    )
