"""Makes a link of a lab answer late: passes all frames on between two interfaces, each after a time.

    python late_link.py ONE OTHER SECONDS

The kernel of many machines has no netem. The interfaces are joined here instead of by a bridge, in
the namespace that this runs in. PACKET_VNET_HDR keeps what the sender left to the adapter (checksums,
segmentation) with each frame. Ends when its standard input does: a signal does not reach it through
nsenter.
"""

from __future__ import annotations

import heapq
import itertools
import select
import socket
import sys
import time

_SOL_PACKET, _VNET_HDR = 263, 15
_EVERY_PROTOCOL = 3
_LONGEST = 1 << 17


def _opened(interface: str) -> socket.socket:
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
    frames.setsockopt(_SOL_PACKET, _VNET_HDR, 1)
    frames.bind((interface, _EVERY_PROTOCOL))
    return frames


def main(one: str, other: str, seconds: str) -> None:
    """Pass frames on until it is ended."""
    late_s = float(seconds)
    ends = {_opened(one): one, _opened(other): other}
    across = dict(zip(ends, reversed(tuple(ends)), strict=True))
    waiting: list[tuple[float, int, socket.socket, bytes]] = []
    order = itertools.count()
    print("ready", flush=True)
    while True:
        limit_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 1.0
        for frames in select.select([*ends, sys.stdin], [], [], limit_s)[0]:
            if frames is sys.stdin:
                return
            content, where = frames.recvfrom(_LONGEST)
            if where[2] != socket.PACKET_OUTGOING:
                due_s = time.monotonic() + late_s
                heapq.heappush(waiting, (due_s, next(order), across[frames], content))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, frames, content = heapq.heappop(waiting)
            try:
                frames.send(content)
            except OSError as error:
                print(f"a frame was not sent: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
