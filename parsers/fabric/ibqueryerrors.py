"""What `ibqueryerrors` prints: ports whose error counters are above its thresholds, with
`--report-port` their links."""

from __future__ import annotations

import re

from busbw.model.topology import EndKind, FabricLink, LinkEnd, PortErrors
from busbw.parsers.fabric import Reading, iblinkinfo, names

_HEAD = re.compile(r'^Errors for (?:0x([0-9a-f]+) )?"(.*)"$')
_PORT = re.compile(r"^   GUID 0x([0-9a-f]+) port (\d+|ALL):(.*)$")
_COUNTER = re.compile(r"\[(\w+) == (\d+)")
_LINK = re.compile(r"^ +Link info: +(\d+.*)$")
_FAILED = re.compile(r"^## +(\d+) PMA query failures", re.M)
_WHOLE = re.compile(r"^## Summary: \d+ nodes checked", re.M)

CONGESTION = (
    "PortXmitWait",
    "PortSwHOQLifetimeLimitDiscards",
    "PortRcvSwitchRelayErrors",
    "PortXmitData",
    "PortRcvData",
)
"""Not of a link's health: waits for credits, and drops of looped multicast (ibqueryerrors(8) leaves
them out with --suppress-common)."""


def looks_like(text: str) -> bool:
    """Whether the text is of this tool."""
    return bool(
        re.search(r'^Errors for (?:0x[0-9a-f]+ )?"|^## Summary: \d+ nodes checked', text, re.M)
    )


def parse(text: str) -> Reading:
    """The ports with errors. Without its summary the text is cut off, and says so.

    >>> (port,) = parse('''Errors for "gpu-007 mlx5_2"
    ...    GUID 0xa088c20300ab0702 port 1: [SymbolErrorCounter == 12] [LinkDownedCounter == 3]
    ... ## Summary: 40 nodes checked, 1 bad nodes found
    ... ''').errors
    >>> port.end.name, port.counters
    ('gpu-007 mlx5_2', (('SymbolErrorCounter', 12), ('LinkDownedCounter', 3)))
    """
    errors: list[PortErrors] = []
    links: list[FabricLink] = []
    head: tuple[EndKind, str] | None = None
    for line_no, line in enumerate(text.splitlines(), 1):
        if block := _HEAD.match(line):
            # Only of a switch the GUID is printed here.
            head = (EndKind.SWITCH if block[1] else EndKind.NIC, block[2])
        elif (port := _PORT.match(line)) and head is not None and port[2] != "ALL":
            counters = tuple((name, int(value)) for name, value in _COUNTER.findall(port[3]))
            errors.append(
                PortErrors(
                    LinkEnd(head[0], head[1], port[2], names.guid(port[1])), counters, line_no
                )
            )
        elif (info := _LINK.match(line)) and head is not None and errors:
            kind = (
                "Switch: 0x" + (errors[-1].end.guid or "0") + " "
                if head[0] is EndKind.SWITCH
                else "CA: "
            )
            own_links = iblinkinfo.parse(f"{kind}{head[1]}:\n{info[1]}").links
            links += [_at(link, line_no, errors[-1].end) for link in own_links]
    problems = [] if _WHOLE.search(text) else ["ibqueryerrors: the text ends before its summary"]
    problems += [
        f"ibqueryerrors: {failed[1]} ports did not answer" for failed in _FAILED.finditer(text)
    ]
    return Reading("ibqueryerrors", tuple(links), tuple(errors), tuple(problems))


def _at(link: FabricLink, line_no: int, end: LinkEnd) -> FabricLink:
    a = LinkEnd(end.kind, link.a.name, link.a.port, end.guid, link.a.lid)
    return FabricLink(
        a,
        link.b,
        link.state,
        link.physical_state,
        link.width,
        link.speed,
        link.rate_gbit_s,
        link.hint,
        line_no,
    )
