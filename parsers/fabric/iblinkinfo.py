"""What `iblinkinfo` prints: every port of every node with its far end, in blocks per node or, with
`--line`, one line per port."""

from __future__ import annotations

import re

from busbw.model.topology import EndKind, FabricLink, LinkEnd
from busbw.parsers.fabric import Reading, names

_HEAD = re.compile(r"^(Switch|CA|Router): (?:0x([0-9a-f]+) )?(.*):$")
_LOCAL = re.compile(
    r'^\s*(?:0x([0-9a-f]+) +)?(?:"(.*)" +)?(\d+) +(\d+)\[ *(\d*)\] ==\((.*)\)==>\s*(.*)$'
)
_FAR = re.compile(r'^(?:0x([0-9a-f]+) +)?(\d+) +(\d+)\[ *(\d*)\] "(.*)" \((.*)\)$')
_UP = re.compile(r"^ *(\d+X) +(.+?) +(\w+)/ *(.+?) *$")
_DOWN = re.compile(r"^ *(\w+)/ *(\w+) *$")
_KINDS = {"Switch": EndKind.SWITCH, "CA": EndKind.NIC, "Router": EndKind.ROUTER}


def looks_like(text: str) -> bool:
    """Whether the text is of this tool."""
    return bool(re.search(r"\] ==\(.*\)==>", text)) and "Errors for " not in text


def parse(text: str) -> Reading:
    """Every port as a link from its own side: a cable between two listed nodes is there twice.

    >>> (link,) = parse('''Switch: 0xfc6a1c0300a00001 MF0;leaf01:MQM9700/U1:
    ...           3   12[  ] ==( 4X         106.25 Gbps Active/  LinkUp)==>      17    1[  ] "gpu-001 mlx5_0" ( )
    ... ''').links
    >>> link.a.name, link.b.name, link.rate_gbit_s
    ('MF0;leaf01:MQM9700/U1', 'gpu-001 mlx5_0', 400.0)
    """
    links = []
    problems = []
    head: tuple[EndKind, str | None, str] | None = None
    for line_no, line in enumerate(text.splitlines(), 1):
        block = _HEAD.match(line)
        if block:
            head = (_KINDS[block[1]], block[2], block[3])
        elif "==(" in line:
            link = _link(line, line_no, head)
            if link is None:
                problems.append(f"iblinkinfo: line {line_no} is incomplete: {line.strip()[:80]}")
            else:
                links.append(link)
    return Reading("iblinkinfo", tuple(links), problems=tuple(problems))


def _link(
    line: str, line_no: int, head: tuple[EndKind, str | None, str] | None
) -> FabricLink | None:
    local = _LOCAL.match(line)
    if local is None:
        return None
    own_guid, own_name, lid, port, label, state_text, far_text = local.groups()
    if own_name is not None:
        # --line prints no kind: an adapter is known by its description.
        name = own_name.strip()
        kind = EndKind.NIC if names.adapter(name) else EndKind.UNKNOWN
    elif head is not None:
        kind, name = head[0], head[2]
        own_guid = own_guid or head[1]
    else:
        return None
    lanes, lane = None, None
    if up := _UP.match(state_text):
        lanes, lane = names.width(up[1]), names.speed(up[2])
        state, physical_state = up[3], up[4]
    elif down := _DOWN.match(state_text):
        state, physical_state = down[1], down[2]
    else:
        return None
    far = _FAR.match(far_text.strip())
    a = LinkEnd(kind, name, label or port, names.guid(own_guid or ""), int(lid) or None)
    return FabricLink(
        a=a,
        b=_far(far) if far else None,
        state=state,
        physical_state=physical_state.replace(" ", "") or None,
        width=lanes,
        speed=lane,
        rate_gbit_s=names.rate_gbit_s(lanes, lane),
        hint=far[6].strip() if far else "",
        line_no=line_no,
    )


def _far(match: re.Match[str]) -> LinkEnd:
    kind = EndKind.NIC if names.adapter(match[5]) else EndKind.UNKNOWN
    return LinkEnd(
        kind, match[5], match[4] or match[3], names.guid(match[1] or ""), int(match[2]) or None
    )
