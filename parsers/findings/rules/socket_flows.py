"""TCP connections that are too few for the link: NCCL's line of threads and sockets, the channels
that go over a device, and the rate that its topology gives that device.

Each channel to a peer sends over threads times sockets connections, at the pace of the slowest; one
connection of a kernel carries 25 Gb/s or so, which NCCL's maintainers aim at
(https://github.com/NVIDIA/nccl-tests/issues/83). Where NCCL prints no line it has no helper thread
and one connection (`net_socket.cc`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_THREADS = Watch("threads", r"NET/Socket ?: Using \d+ threads? and \d+ sockets? per thread")
_RATE = Watch("rate", r"NET\[[\d.]+\] - NET/[\da-f]", keep=16)
"""`NET/3`; since NCCL 2.19 `NET/0-3`, then `NET/0-0-3`: the last is the device, hexadecimal."""
_DEVICE = re.compile(r"NET\[(\d+(?:\.\d+)?)\] - NET/(?:[\da-fA-F]+-)*([\da-fA-F]{1,8})\b")
_SENDS = Watch("sends", r"Channel \d+(?:/\d+)? : .*\[send\] via NET/Socket/\d+", keep=64)
_CONNECTION_GBIT_S = 25.0
_FAST_GBIT_S = 50.0
"""Links below it are filled by a few connections of any kind."""


def _judge(view: View) -> Iterator[Clue]:
    channels: dict[tuple[str | None, str], set[str]] = {}
    for line in view.sightings(_SENDS.name):
        sent = re.search(r"Channel (\d+).* via NET/Socket/(\d+)", line.text)
        if sent is not None:
            channels.setdefault((line.process, sent[2]), set()).add(sent[1])
    if not channels:
        return
    threads = view.sightings(_THREADS.name)
    each = max((_product(line.text) for line in threads), default=1)
    for line in view.sightings(_RATE.name):
        found = _DEVICE.search(line.text)
        if found is None:
            continue
        rate_gbit_s, device = float(found[1]) * 8, str(int(found[2], 16))
        most = max((len(those) for (_, dev), those in channels.items() if dev == device), default=0)
        if rate_gbit_s < _FAST_GBIT_S or most == 0:
            continue
        if rate_gbit_s / (most * each) > _CONNECTION_GBIT_S:
            shown = threads[0] if threads else line
            yield shown.clue("tcp-single-flow-limit", Weight.STRONG, "nccl-log", line.hosts)
        return


def _product(text: str) -> int:
    """Threads times sockets.

    >>> _product("NET/Socket: Using 4 threads and 2 sockets per thread")
    8
    """
    threads, sockets = re.findall(r"Using (\d+) threads? and (\d+)", text)[-1]
    return max(1, int(threads) * int(sockets))


_GRAPH = "a:1:2 [0] NCCL INFO             + NET[12.5] - NET/0 (0/0/12.500000)\n"
_CHANNELS = "".join(
    f"a:1:2 [0] NCCL INFO Channel 0{number}/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n"
    for number in range(2)
)

RULE = Rule(
    name="socket_flows",
    conclusion=(
        "TCP sockets are too few for a link of 50 Gb/s or more: its rate over channels, threads and "
        "sockets is above 25 Gb/s."
    ),
    watches=(_THREADS, _RATE, _SENDS),
    judge=_judge,
    fires=(
        Fires(_GRAPH + _CHANNELS, (("tcp-single-flow-limit", "strong"),)),
        Fires(
            _GRAPH.replace("NET/0 (0/0", "NET/0-a (0/0/0")
            + _CHANNELS.replace("Socket/0", "Socket/10"),
            (("tcp-single-flow-limit", "strong"),),
        ),
        Fires(
            "a:1:2 [0] NCCL INFO NET/Socket: Using 1 threads and 1 sockets per thread\n"
            + _GRAPH
            + _CHANNELS,
            (("tcp-single-flow-limit", "strong"),),
        ),
    ),
    silent=(
        _CHANNELS,
        _GRAPH,
        "a:1:2 [0] NCCL INFO NET/Socket: Using 4 threads and 4 sockets per thread\n"
        + _GRAPH
        + _CHANNELS,
        _GRAPH.replace("12.5", "1.2") + _CHANNELS,
        _GRAPH.replace("NET/0 (0/0", "NET/0-1 (0/0/0") + _CHANNELS,
        _GRAPH + _CHANNELS.replace("Socket", "IB"),
    ),
)
