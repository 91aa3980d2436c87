"""TCP connections with what waits in them: `ss -tineo` (iproute2 5.10 to 6.9), or the kernel's own
table where there is no ss.

>>> one = "ESTAB 0 65536 10.0.0.1:40140 10.0.0.2:5001 timer:(on,1.2sec,4) ino:77 sk:1 <->\\t cubic bytes_acked:10 bytes_received:5"
>>> (socket,) = parse(one)
>>> socket.peer, socket.send_queue, socket.retries, socket.moved_bytes
('10.0.0.2', 65536, 4, 15)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.text import whole_number

_SS = re.compile(
    r"^(ESTAB|SYN-SENT|SYN-RECV|FIN-WAIT-1|FIN-WAIT-2|CLOSE-WAIT|CLOSING|LAST-ACK|TIME-WAIT)\s+(\d+)\s+(\d+)\s+(\S+):(\d+)\s+(\S+):(\d+)(.*)$"
)
_TABLE = re.compile(
    r"^\s*\d+: ([0-9A-F]+):([0-9A-F]{4}) ([0-9A-F]+):([0-9A-F]{4}) ([0-9A-F]{2})"
    r" ([0-9A-F]{8}):([0-9A-F]{8})"
    r" ([0-9A-F]{2}):[0-9A-F]+ ([0-9A-F]{8})\s+\d+\s+\d+ (\d+)"
)
_STATES = {
    "01": "ESTAB",
    "02": "SYN-SENT",
    "03": "SYN-RECV",
    "04": "FIN-WAIT-1",
    "05": "FIN-WAIT-2",
    "08": "CLOSE-WAIT",
    "09": "LAST-ACK",
}
_OWN = re.compile(r"^own (\d+)$")


@dataclass(frozen=True, slots=True)
class Socket:
    """One connection in one look."""

    state: str
    local: str
    local_port: int
    peer: str
    """Address of the other end, without brackets and scope."""
    peer_port: int
    receive_queue: int
    """Bytes that arrived and were not read."""
    send_queue: int
    """Bytes that were written and not acknowledged."""
    retries: int
    """Retransmissions in a row without an answer; 0 = the peer's kernel answers. A window probe
    counts as none."""
    moved_bytes: int | None
    """Acknowledged and received since it was opened; None = not reported."""
    inode: int | None
    idle_ms: int | None
    """Since data last got through: received, acknowledged, or sent with nothing on the way; None =
    not reported. What is sent again and again without an answer does not count."""
    line_no: int


def parse(text: str) -> tuple[Socket, ...]:
    """The connections, in order; listening ones are left out."""
    sockets: list[Socket] = []
    lines = text.splitlines()
    for line_no, line in enumerate(lines, 1):
        # An ss without -O (before 5.3) puts the details on a line of their own.
        more = lines[line_no] if line_no < len(lines) and lines[line_no][:1] in " \t" else ""
        if (m := _SS.match(line + more)) is not None:
            sockets.append(_of_ss(m, line_no))
        elif (m := _TABLE.match(line)) is not None and m[5] in _STATES:
            retries = int(m[9], 16) if m[8] == "01" else 0
            local, peer = _address(m[1]), _address(m[3])
            queues = int(m[7], 16), int(m[6], 16)
            sockets.append(
                Socket(
                    _STATES[m[5]],
                    local,
                    int(m[2], 16),
                    peer,
                    int(m[4], 16),
                    *queues,
                    retries,
                    None,
                    int(m[10]),
                    None,
                    line_no,
                )
            )
    return tuple(sockets)


def owners(text: str) -> dict[int, int]:
    """Inode → pid, from the script's `own PID` lines and the inodes below them.

    >>> owners("own 7\\n70\\n71\\nown 8\\n70\\n")
    {70: 7, 71: 7}
    """
    pids: dict[int, int] = {}
    pid: int | None = None
    for line in text.splitlines():
        if (m := _OWN.match(line)) is not None:
            pid = int(m[1])
        elif pid is not None and (inode := whole_number(line)) is not None:
            pids.setdefault(inode, pid)
        else:
            pid = None
    return pids


def _of_ss(m: re.Match[str], line_no: int) -> Socket:
    rest = m[8]
    timer = re.search(r"timer:\((\w+),[^,]*,(\d+)\)", rest)
    inode = re.search(r"ino:(\d+)", rest)
    on_the_way = timer is not None and timer[1] == "on"
    # The kernel renews `lastsnd` with every retransmission, and `lastack` with every answer to a
    # window probe.
    last_out = "lastack" if on_the_way else "lastsnd"
    idle = [int(n) for n in re.findall(rf"(?:lastrcv|{last_out}):(\d+)", rest)]
    moved = [int(n) for n in re.findall(r"bytes_(?:acked|received):(\d+)", rest)]
    moved_bytes = None
    if moved or any(word in rest for word in ("cubic", "bbr", "rto:")):
        moved_bytes = sum(moved)
    return Socket(
        state=m[1],
        local=_plain(m[4]),
        local_port=int(m[5]),
        peer=_plain(m[6]),
        peer_port=int(m[7]),
        receive_queue=int(m[2]),
        send_queue=int(m[3]),
        retries=int(timer[2]) if timer and on_the_way else 0,
        moved_bytes=moved_bytes,
        inode=int(inode[1]) if inode else None,
        idle_ms=min(idle) if idle else None,
        line_no=line_no,
    )


def _plain(address: str) -> str:
    return address.strip("[]").partition("%")[0].removeprefix("::ffff:")


def _address(hexadecimal: str) -> str:
    """An IPv4 address as the kernel's table writes it on little-endian machines; IPv6 ones that are
    mapped IPv4 too; others stay as they are."""
    if len(hexadecimal) == 32 and hexadecimal.startswith("0000000000000000FFFF0000"):
        hexadecimal = hexadecimal[24:]
    if len(hexadecimal) != 8:
        return hexadecimal
    return ".".join(str(int(hexadecimal[at : at + 2], 16)) for at in (6, 4, 2, 0))
