"""The raw link between two nodes, rail by rail, without NCCL: iperf3 over TCP interfaces,
ib_write_bw over RDMA devices.

Written against iperf3 3.9 and later and perftest 4.5 and later. One node serves, each server
bounded in time and gone after its tests; the other asks, rail after rail, so that rails do not
share a CPU. TCP is measured both ways: a slow direction is half of a slow path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.fabrics.fabric import LinkTool
from busbw.model import Command
from busbw.parsers.tools import iperf3, perftest

FIRST_PORT = 18710
"""Of as many ports as there are rails; perftest's own default is 18515, iperf3's 5201."""
SECONDS = 2
"""Of one test."""
STREAMS = 4
"""TCP connections of one test: one alone does not fill a fast link."""
_SERVE = """\
LC_ALL=C; export LC_ALL
command -v iperf3 >/dev/null 2>&1 || { echo 'no iperf3'; exit 0; }
while read -r i p; do
a=$(ip -o -4 addr show dev "$i" 2>/dev/null | awk '{split($4, x, "/"); print x[1]; exit}')
[ -n "$a" ] || { echo "$i - $p"; continue; }
(for n in 1 2; do timeout LIMIT iperf3 -s -1 -B "$a" -p "$p"; done) >/dev/null 2>&1 </dev/null &
echo "$i $a $p"; done
"""
_ASK = """\
LC_ALL=C; export LC_ALL
command -v iperf3 >/dev/null 2>&1 || { echo 'no iperf3'; exit 0; }
while read -r i a p; do for way in '' -R; do n=0
while :; do
out=$(timeout 30 iperf3 -c "$a" -p "$p" -t SECONDS -P STREAMS -J $way 2>&1 </dev/null)
case $out in *'unable to connect'*|*'server is busy'*) n=$((n + 1)); [ $n -lt 25 ] && sleep 0.2 && continue;; esac
break; done
echo "@@ $i tcp$way"; printf '%s\\n' "$out"; done; done
"""
_SERVE_RDMA = """\
command -v ib_write_bw >/dev/null 2>&1 || { echo 'no ib_write_bw'; exit 0; }
while read -r i p; do timeout LIMIT ib_write_bw -d "$i" -p "$p" -F --report_gbits -D SECONDS >/dev/null 2>&1 </dev/null &
echo "$i SERVER $p"; done
"""
_ASK_RDMA = """\
command -v ib_write_bw >/dev/null 2>&1 || { echo 'no ib_write_bw'; exit 0; }
while read -r i a p; do n=0
while :; do
out=$(timeout 30 ib_write_bw -d "$i" -p "$p" -F --report_gbits -D SECONDS "$a" 2>&1 </dev/null)
case $out in *"Couldn't connect"*) n=$((n + 1)); [ $n -lt 25 ] && sleep 0.2 && continue;; esac
break; done
echo "@@ $i rdma"; printf '%s\\n' "$out"; done
"""


@dataclass(frozen=True, slots=True)
class RawLink:
    """One rail between two nodes, one way."""

    rail: int
    interface: str
    tool: str
    """`iperf3` or `ib_write_bw`."""
    back: bool
    """True = from the second node to the first."""
    gbit_s: float | None
    """What arrived; None = not measured, see `problem`."""
    problem: str = ""


def serve(interfaces: tuple[str, ...], tool: LinkTool, *, address: str) -> Command:
    """Serve every rail once (RDMA) or once each way (TCP); what it prints is what the other node
    asks with. `address`: for RDMA's hello."""
    limit_s = 30 + 10 * len(interfaces)
    script = (
        (_SERVE_RDMA if tool is LinkTool.PERFTEST else _SERVE)
        .replace("LIMIT", str(limit_s))
        .replace("SERVER", address)
        .replace("SECONDS", str(SECONDS))
    )
    lines = "".join(f"{name} {FIRST_PORT + rail}\n" for rail, name in enumerate(interfaces))
    return Command(
        ("sh", "-c", script, "busbw-raw-link"), stdin=lines.encode(), timeout_s=20, label="raw-link"
    )


def ask(served: str, tool: LinkTool, *, store: str) -> Command:
    """Measure every rail that is served. `served`: what `serve` printed."""
    lines = [
        line
        for line in served.splitlines()
        if re.fullmatch(r"[\w.@:-]+ [\w.:-]+ \d+", line) and line.split()[1] != "-"
    ]
    script = (
        (_ASK_RDMA if tool is LinkTool.PERFTEST else _ASK)
        .replace("SECONDS", str(SECONDS))
        .replace("STREAMS", str(STREAMS))
    )
    stdin = "".join(f"{line}\n" for line in lines).encode()
    return Command(
        ("sh", "-c", script, "busbw-raw-link"),
        stdin=stdin,
        timeout_s=40 + 20 * len(lines),
        label="raw-link",
        store=store,
    )


def parse(text: str, interfaces: tuple[str, ...], tool: LinkTool) -> tuple[RawLink, ...]:
    """Every rail each way, in the order of the rails; a rail that is not in the text was not
    measured, and says so.

    >>> parse("no iperf3\\n", ("eth0",), LinkTool.IPERF3)[0].problem
    'no iperf3'
    """
    program = "ib_write_bw" if tool is LinkTool.PERFTEST else "iperf3"
    parts = re.split(r"^@@ (\S+) (tcp|tcp-R|rdma)$", text, flags=re.M)
    said = {(parts[i], parts[i + 1] == "tcp-R"): parts[i + 2] for i in range(1, len(parts) - 2, 3)}
    absent = f"no {program}" if parts[0].strip() == f"no {program}" else "not measured"
    found = []
    for rail, name in enumerate(interfaces):
        for back in (False,) if tool is LinkTool.PERFTEST else (False, True):
            rate, problem = (
                _rate(said[name, back], tool) if (name, back) in said else (None, absent)
            )
            found.append(RawLink(rail, name, program, back, rate, problem))
    return tuple(found)


def _rate(text: str, tool: LinkTool) -> tuple[float | None, str]:
    """(Gbit/s, why there is none)."""
    if tool is LinkTool.PERFTEST:
        read = perftest.parse(text)
        if read is None or not read.bandwidth:
            return None, (read.problem if read else "") or "no result of ib_write_bw"
        return read.bandwidth[-1].average_gbit_s, ""
    test = iperf3.parse(text)
    if test is None:
        return None, "no result of iperf3"
    return test.received_gbit_s, test.problem
