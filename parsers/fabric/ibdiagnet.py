"""What `ibdiagnet` leaves: its tables (`ibdiagnet2.db_csv`) with nodes, ports, links and counters,
and its log with what it complains of."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from busbw.model.topology import EndKind, FabricLink, LinkEnd, PortErrors
from busbw.parsers.fabric import Reading, names
from busbw.text import whole_number

_START = re.compile(r"^START_([A-Z_0-9]+)[ \t\r]*$", re.M)
_COMPLAINT = re.compile(r"^-([EW])- +(.*\S)", re.M)
_LOG = re.compile(r"^-[IEWF]- |^Discovery$|Running version: +\"IBDIAGNET", re.M)
_KINDS = {"1": EndKind.NIC, "2": EndKind.SWITCH, "3": EndKind.ROUTER}
_WIDTHS = {1: "1X", 2: "4X", 4: "8X", 8: "12X", 16: "2X"}
_SPEEDS = {
    1: "SDR",
    2: "DDR",
    4: "QDR",
    1 << 8: "FDR",
    1 << 9: "EDR",
    1 << 10: "HDR",
    1 << 11: "NDR",
    1 << 12: "XDR",
    1 << 16: "FDR10",
}
"""LinkWidthActv and LinkSpeedActv of the PORTS table: ibutils2's ibdm, IBLinkWidth and
IBLinkSpeed."""
_STATES = {1: "Down", 2: "Initialize", 3: "Armed", 4: "Active"}
_PHYSICAL = {
    1: "Sleep",
    2: "Polling",
    3: "Disabled",
    4: "PortConfigurationTraining",
    5: "LinkUp",
    6: "LinkErrorRecovery",
}
_ERRORS = (
    *(
        "SymbolErrorCounter",
        "LinkErrorRecoveryCounter",
        "LinkDownedCounter",
        "PortRcvErrors",
        "PortRcvRemotePhysicalErrors",
    ),
    *(
        "PortXmitDiscard",
        "PortXmitDiscards",
        "PortXmitConstraintErrors",
        "PortRcvConstraintErrors",
        "LocalLinkIntegrityErrors",
    ),
    *("ExcessiveBufferOverrunErrors", "ExcBufOverrunErrors", "VL15Dropped"),
)
_MOST_COMPLAINTS = 200
"""Of the log; thousands of equal ones say no more."""


@dataclass(frozen=True, slots=True)
class _Port:
    width: str | None
    speed: str | None
    state: str | None
    physical_state: str | None
    lid: int | None


def looks_like(text: str) -> bool:
    """Whether the text is of this tool: its tables, or its log."""
    return _START.search(text) is not None or len(_LOG.findall(text[:20000])) > 1


def parse(text: str) -> Reading:
    """The links of the tables, once each, and the ports whose error counters are not 0; of the log
    its warnings and errors.

    >>> parse("-I- Links\\n-W- leaf01/U1/P12 - Unexpected actual link speed 53.125 (enable_speed1=\\"106.25\\")\\n").problems
    ('ibdiagnet warns: leaf01/U1/P12 - Unexpected actual link speed 53.125 (enable_speed1="106.25")',)
    """
    tables = dict(_tables(text))
    if not tables:
        words = {"E": "complains", "W": "warns"}
        complaints = tuple(
            dict.fromkeys(f"ibdiagnet {words[m[1]]}: {m[2]}" for m in _COMPLAINT.finditer(text))
        )
        more = (
            (f"ibdiagnet: {len(complaints) - _MOST_COMPLAINTS} more",)
            if len(complaints) > _MOST_COMPLAINTS
            else ()
        )
        return Reading("ibdiagnet", problems=(*complaints[:_MOST_COMPLAINTS], *more))
    nodes = {_guid(row): row for _, row in tables.get("NODES", ())}
    ports = {(_guid(row), row.get("PortNum", "")): _port(row) for _, row in tables.get("PORTS", ())}
    ends = _Ends(nodes, ports)
    links = tuple(_link(line_no, row, ends) for line_no, row in tables.get("LINKS", ()))
    errors = tuple(
        port_errors
        for line_no, row in tables.get("PM_INFO", ())
        if (port_errors := _errors(line_no, row, ends))
    )
    lacking = [name for name in ("NODES", "PORTS", "LINKS") if name not in tables]
    return Reading(
        "ibdiagnet",
        links,
        errors,
        tuple(f"ibdiagnet: the tables have no complete section {name}" for name in lacking),
    )


def _tables(text: str) -> Iterator[tuple[str, tuple[tuple[int, dict[str, str]], ...]]]:
    """(name, rows with their line numbers) of every section that is whole."""
    for start in _START.finditer(text):
        end = text.find(f"END_{start[1]}", start.end())
        if end < 0:
            continue
        first = text.count("\n", 0, start.end()) + 2
        rows = list(csv.reader(text[start.end() : end].strip("\n").splitlines()))
        head = [name.strip() for name in rows[0]] if rows else []
        yield (
            start[1],
            tuple(
                (first + n, dict(zip(head, row, strict=False))) for n, row in enumerate(rows[1:], 1)
            ),
        )


def _guid(row: Mapping[str, str]) -> str | None:
    return names.guid(row.get("NodeGUID", row.get("NodeGuid", "")))


@dataclass(frozen=True, slots=True)
class _Ends:
    nodes: Mapping[str | None, Mapping[str, str]]
    ports: Mapping[tuple[str | None, str], _Port]

    def end(self, guid: str | None, port: str) -> LinkEnd:
        """One end, with its node's description; a node that the tables do not list has none."""
        row = self.nodes.get(guid, {})
        # A switch has one LID, that of its port 0.
        numbered = self.ports.get((guid, "0")) or self.ports.get((guid, port))
        lid = numbered.lid if numbered is not None else None
        return LinkEnd(
            _KINDS.get(row.get("NodeType", ""), EndKind.UNKNOWN),
            row.get("NodeDesc", guid or "").strip(),
            port,
            guid,
            lid,
        )


def _port(row: Mapping[str, str]) -> _Port:
    return _Port(
        _WIDTHS.get(_number(row.get("LinkWidthActv"))),
        _SPEEDS.get(_number(row.get("LinkSpeedActv"))),
        _STATES.get(_number(row.get("PortState"))),
        _PHYSICAL.get(_number(row.get("PortPhyState"))),
        _number(row.get("LID")) or None,
    )


def _number(text: str | None) -> int:
    """A whole number, decimal or 0x…; 0 where there is none."""
    cleaned = (text or "").strip()
    if re.fullmatch(r"0x[0-9a-fA-F]+", cleaned):
        return int(cleaned, 16)
    return whole_number(cleaned) or 0


def _link(line_no: int, row: Mapping[str, str], ends: _Ends) -> FabricLink:
    one = (names.guid(row.get("NodeGuid1", "")), row.get("PortNum1", "").strip())
    two = (names.guid(row.get("NodeGuid2", "")), row.get("PortNum2", "").strip())
    port = ends.ports.get(one) or ends.ports.get(two) or _Port(None, None, None, None, None)
    rate = names.rate_gbit_s(port.width, port.speed)
    return FabricLink(
        ends.end(*one),
        ends.end(*two),
        port.state,
        port.physical_state,
        port.width,
        port.speed,
        rate,
        "",
        line_no,
    )


def _errors(line_no: int, row: Mapping[str, str], ends: _Ends) -> PortErrors | None:
    """The error counters of one port; the wider ones where the table has both."""
    values: dict[str, int] = {}
    for name, value in row.items():
        plain = re.sub(r"(?:Ext|Extended|64)$", "", name)
        if plain in _ERRORS:
            values[plain] = max(values.get(plain, 0), _number(value))
    counters = tuple((name, value) for name, value in values.items() if value)
    return (
        PortErrors(ends.end(_guid(row), row.get("PortNumber", "").strip()), counters, line_no)
        if counters
        else None
    )
