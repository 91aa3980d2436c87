"""The commands of the link baseline: what two nodes run to measure each rail between them, and what
a node runs to read its ports. iperf3 over TCP interfaces, ib_write_bw over RDMA devices.

Written against iperf3 3.9 and later and perftest 4.5 and later. One node serves, each server bounded
in time and gone after its tests; the other one is the client, rail after rail, so that rails do not
share a CPU. TCP is measured in both directions: each can be slow by itself. Of RDMA the other one is
another test, in which the nodes change places (`measure_links`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.fabrics.profile import LinkTool
from busbw.model import Command

FIRST_PORT = 18710
"""Of as many ports as there are rails; perftest's own default is 18515, iperf3's 5201."""
SECONDS = 2
"""Of one test."""
STREAMS = 4
"""TCP connections of one test: one alone does not fill a fast link."""
_SERVE_IPERF3 = """\
LC_ALL=C; export LC_ALL
iperf3 --version >/dev/null 2>&1 || { echo 'no iperf3'; exit 0; }
while read -r i p; do
a=$(ip -o -4 addr show dev "$i" 2>/dev/null | awk '{split($4, x, "/"); print x[1]; exit}')
[ -n "$a" ] || { echo "$i - $p"; continue; }
(for n in TESTS; do timeout LIMIT iperf3 -s -1 -B "$a" -p "$p"; done) >/dev/null 2>&1 </dev/null &
echo "$i $a $p"; done
"""
_PING = """echo "@@ $i latency"; timeout 10 ping -n -c 10 -i 0.2 -W 1 -I "$i" "$a" 2>&1 </dev/null
"""
# Of an idle link: before the bandwidth fills its queues.
_ASK_IPERF3 = """\
LC_ALL=C; export LC_ALL
iperf3 --version >/dev/null 2>&1 || { echo 'no iperf3'; exit 0; }
measure() { n=0
while :; do
out=$(timeout 30 iperf3 -c "$a" -p "$p" -t SECONDS -P STREAMS -J $1 2>&1 </dev/null)
case $out in *'unable to connect'*|*'server is busy'*|*'control '[ms]*) n=$((n + 1)); [ $n -lt 25 ] && sleep 0.2 && continue;; esac
break; done
echo "@@ $i $2"; printf '%s\\n' "$out"; }
rails=$(cat)
while read -r i a p; do
LATENCYfor way in '' -R; do measure "$way" "tcp$way"; done; done <<EOF
$rails
EOF
TOGETHER"""
# A server that ends resets who connected too early to be the next one's client: asked again.
_SERVE_PERFTEST = """\
command -v ib_write_bw >/dev/null 2>&1 || { echo 'no ib_write_bw'; exit 0; }
CUDAwhile read -r i p; do (LATENCYtimeout LIMIT ib_write_bw -d "$i" -p "$p" -F --report_gbits -D SECONDS$mTOGETHER) >/dev/null 2>&1 </dev/null &
echo "$i SERVER $p"; GPUdone
"""
_SERVE_TOGETHER = '; timeout LIMIT ib_write_bw -d "$i" -p "$p" -F --report_gbits -D SECONDS$m'
_ASK_PERFTEST = """\
command -v ib_write_bw >/dev/null 2>&1 || { echo 'no ib_write_bw'; exit 0; }
CUDAmeasure() { n=0
while :; do
out=$(timeout 30 ib_write_bw -d "$i" -p "$p" -F --report_gbits -D SECONDS$m "$a" 2>&1 </dev/null)
case $out in *"Couldn't connect"*) n=$((n + 1)); [ $n -lt 25 ] && sleep 0.2 && continue;; esac
break; done
echo "@@ $i $2"; printf '%s\\n' "$out"; }
rails=$(cat)
while read -r i a p; do
LATENCYmeasure '' rdma; GPUdone <<EOF
$rails
EOF
TOGETHER"""
_ASK_TOGETHER = """\
t=$(mktemp -d) || exit 0
trap 'rm -rf "$t"' EXIT
trap 'exit 1' HUP INT TERM
for way in WAYS; do
sleep 0.3
FIRST_GPUwhile read -r i a p; do (measure "$way" "together$way" >"$t/$i") & GPUdone <<EOF
$rails
EOF
wait
cat "$t"/*; rm -f "$t"/*; done
exit 0
"""
# The servers have 0.3 s to begin anew, so that the rails' tests lie side by side.
_WAYS = {LinkTool.PERFTEST: "''", LinkTool.IPERF3: "'' -R"}
_SERVE_LATENCY = 'timeout LIMIT ib_write_lat -d "$i" -p "$p" -F; '
_ASK_LATENCY = """\
n=0
while :; do
out=$(timeout 30 ib_write_lat -d "$i" -p "$p" -F "$a" 2>&1 </dev/null)
case $out in *"Couldn't connect"*) n=$((n + 1)); [ $n -lt 25 ] && sleep 0.2 && continue;; esac
break; done
echo "@@ $i latency"; printf '%s\\n' "$out"
"""
_CUDA = """\
h=$(ib_write_bw --help 2>&1)
case $h in *--use_cuda=*) ;; *) echo 'no CUDA in ib_write_bw'; exit 0;; esac
d=; case $h in *--use_cuda_dmabuf*) d=' --use_cuda_dmabuf';; esac
FIRST_GPU"""
_FIRST_GPU = 'g=0; m=" --use_cuda=0$d"\n'
_NEXT_GPU = 'g=$((g + GPUS_A_RAIL)); m=" --use_cuda=$g$d"; '
# perftest's --use_cuda takes a GPU by its number; the next rail is nearest to the next ones.


NO_CUDA = "no CUDA in ib_write_bw"
PROGRAMS = {LinkTool.PERFTEST: "ib_write_bw", LinkTool.IPERF3: "iperf3"}
_SERVE = {LinkTool.PERFTEST: _SERVE_PERFTEST, LinkTool.IPERF3: _SERVE_IPERF3}
_ASK = {LinkTool.PERFTEST: _ASK_PERFTEST, LinkTool.IPERF3: _ASK_IPERF3}


@dataclass(frozen=True, slots=True)
class Extent:
    """What a test measures beyond the bandwidth between host memories."""

    latency: bool = False
    gpus_a_rail: int = 0
    """GPUs of a node for each of its rails; 0 = host memory."""
    together: bool = False
    """Once more with all rails of the pair at once, where it has several: what they share on the
    way to the memory, such as a PCIe switch, limits only then."""


BANDWIDTH = Extent()


def serve(
    interfaces: tuple[str, ...], tool: LinkTool, *, address: str, extent: Extent = BANDWIDTH
) -> Command:
    """Serve every rail once (perftest) or once in each direction (iperf3), and as often again where
    the rails are measured together; its output is the input of the client. `address`: where
    perftest's client connects to."""
    limit_s = 10 + _client_s(len(interfaces))
    latency = _SERVE_LATENCY if extent.latency else ""
    together = extent.together and len(interfaces) > 1
    script = _filled(
        _SERVE[tool],
        extent,
        LATENCY=latency,
        TOGETHER=_SERVE_TOGETHER if together else "",
        TESTS="1 2 3 4" if together else "1 2",
        LIMIT=str(limit_s),
        SERVER=address,
        SECONDS=str(SECONDS),
    )
    lines = "".join(f"{name} {FIRST_PORT + rail}\n" for rail, name in enumerate(interfaces))
    return Command(
        ("sh", "-c", script, "busbw-link-baseline"),
        stdin=lines.encode(),
        timeout_s=20,
        label="link-baseline",
    )


def ask(served: str, tool: LinkTool, *, store: str, extent: Extent = BANDWIDTH) -> Command:
    """Measure every rail that is served. `served`: the output of `serve`."""
    lines = [
        line
        for line in served.splitlines()
        if re.fullmatch(r"[\w.@:-]+ [\w.:-]+ \d+", line) and line.split()[1] != "-"
    ]
    latency = _PING if tool is LinkTool.IPERF3 else _ASK_LATENCY
    together = extent.together and len(lines) > 1
    script = _filled(
        _ASK[tool],
        extent,
        LATENCY=latency if extent.latency else "",
        TOGETHER=_ASK_TOGETHER if together else "",
        WAYS=_WAYS.get(tool, "''"),
        SECONDS=str(SECONDS),
        STREAMS=str(STREAMS),
    )
    return Command(
        ("sh", "-c", script, "busbw-link-baseline"),
        stdin="".join(f"{line}\n" for line in lines).encode(),
        timeout_s=_client_s(len(lines)),
        label="link-baseline",
        store=store,
    )


def _client_s(rails: int) -> int:
    """The client's limit; the servers of the last rail wait as long."""
    return 40 + 20 * rails


PORT_FACTS = """\
LC_ALL=C; export LC_ALL
tool() { s=$1; shift; echo "@@ $i $s"
if command -v "$1" >/dev/null 2>&1; then SUDO timeout 20 "$@" 2>&1 </dev/null; else echo "no $1 on the node"; fi; }
while read -r i; do n=$i
for f in /sys/class/infiniband/"$i"/device/net/*; do [ -e "$f" ] && n=${f##*/}; done
if [ -e /sys/class/infiniband/"$i" ]; then tool mlxlink mlxlink -d "$i" -m -c; fi
tool module ethtool -m "$n"; tool fec ethtool --show-fec "$n"
done
exit 0
"""


def ask_ports(interfaces: tuple[str, ...], *, store: str, sudo: bool) -> Command:
    """What each rail's port and cable say of themselves; most drivers tell it to root only."""
    script = PORT_FACTS.replace("SUDO ", "sudo -n " if sudo else "")
    return Command(
        ("sh", "-c", script, "busbw-ports"),
        stdin="".join(f"{name}\n" for name in interfaces).encode(),
        timeout_s=45.0 * max(1, len(interfaces)),
        label="ports",
        store=store,
    )


def _filled(script: str, extent: Extent, **values: str) -> str:
    """The script with its parts in place, for host memory or with each rail's GPU."""
    if extent.gpus_a_rail:
        following = _NEXT_GPU.replace("GPUS_A_RAIL", str(extent.gpus_a_rail))
        gpu = {"CUDA": _CUDA, "FIRST_GPU": _FIRST_GPU, "GPUdone": f"{following}done"}
    else:
        gpu = {"CUDA": "", "FIRST_GPU": "", "GPUdone": "done", "$m": ""}
    # What stands in a part is filled in after the part.
    later = {name: text for name, text in gpu.items() if name != "CUDA"}
    for name, value in ({"CUDA": gpu["CUDA"]} | values | later).items():
        count = 1 if name == "CUDA" else -1
        script = script.replace(name, value, count)
    return script
