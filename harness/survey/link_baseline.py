"""The link baseline: the bandwidth between two nodes, rail by rail, without NCCL. iperf3 over TCP
interfaces, ib_write_bw over RDMA devices, as the fabric's profile says.

Written against iperf3 3.9 and later and perftest 4.5 and later. One node serves, each server bounded
in time and gone after its tests; the other one is the client, rail after rail, so that rails do not
share a CPU. TCP is measured in both directions: each can be slow by itself. Of RDMA the other one is
another test, in which the nodes change places (`measure_links`).

Two users: a run's layer breakdown measures two pairs, `busbw check --links` every node in rounds.
Both leave one artefact.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.fabrics.fabric import LinkTool
from busbw.model import Command
from busbw.model.links import PortFacts
from busbw.parsers.blame.layer_breakdown import RailLink, pair_busbw
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.parsers.tools import ethtool, ethtool_module, iperf3, mlxlink, perftest
from busbw.store import artefacts
from busbw.store.run_directory import RunDir
from busbw.text import decoded

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


@dataclass(frozen=True, slots=True)
class LinkRate:
    """One rail between two nodes, in one direction."""

    rail: int
    interface: str
    tool: str
    """`iperf3` or `ib_write_bw`."""
    reverse: bool
    """True = from the second node to the first."""
    gbit_s: float | None
    """What arrived; None = not measured, see `problem`."""
    problem: str = ""
    together_gbit_s: float | None = None
    """What arrived while all rails of the pair were busy; None = not measured."""


@dataclass(frozen=True, slots=True)
class LinkBaselineArtefact:
    """`raw/link-baseline.json`: which pairs were measured, and where the output of the tools is."""

    pairs: tuple[tuple[str, str], ...]
    interfaces: tuple[tuple[str, ...], ...]
    """Of the pairs, in rail order."""
    paths: tuple[str | None, ...]
    """Inside the run directory; None = nothing was measured, see `problems`."""
    problems: tuple[str, ...]
    tool: LinkTool
    rounds: tuple[int, ...] = ()
    """Of the pairs, where the whole fleet was measured; () = the two pairs of a layer breakdown."""
    reverse_paths: tuple[str | None, ...] = ()
    """Of the other direction where it is a test of its own, in which the nodes change places."""
    at_fault: tuple[str, ...] = ()
    """The node that a pair's problem is of; empty = it may be either's, or there is none."""
    memory: str = "host"
    """`host`, `gpu`, or `both`."""
    memories: tuple[str, ...] = ()
    """`host` or `gpu` of each pair; () = of all as `memory` says."""
    seconds: float = 0.0
    """That all rounds took, by the nodes' commands."""
    ports: tuple[tuple[str, str], ...] = ()
    """(node, path of what its ports say of themselves)."""
    budget_s: float | None = None
    """None = of a layer breakdown, which has the survey's."""
    origin: str = ""
    """The run that measured it, where this one took it over."""
    sudo: bool = False
    """The ports were asked with `sudo -n`."""


FILE = "link-baseline.json"


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


def parse_ports(text: str) -> dict[str, PortFacts]:
    """{interface: facts}.

    >>> parse_ports("@@ eth0 module\\nnetlink error: Operation not permitted\\n")["eth0"].problem
    'netlink error: Operation not permitted'
    """
    parts = re.split(r"^@@ (\S+) (mlxlink|module|fec)$", text, flags=re.M)
    outputs: dict[str, dict[str, str]] = {}
    for i in range(1, len(parts) - 2, 3):
        outputs.setdefault(parts[i], {})[parts[i + 1]] = parts[i + 2].strip()
    return {name: _port(own) for name, own in outputs.items()}


def _port(outputs: Mapping[str, str]) -> PortFacts:
    link = mlxlink.parse(outputs.get("mlxlink", ""))
    module = ethtool_module.parse(outputs.get("module", ""))
    fec = ethtool.parse_fec(outputs.get("fec", ""))
    if link is None and module is None:
        said = next((text for text in outputs.values() if text), "nothing was printed")
        problem = said.splitlines()[0][:160]
    else:
        problem = ""
    return PortFacts(
        fec=(link.fec if link else None) or (fec.active if fec else None),
        raw_ber=link.raw_ber if link else None,
        effective_ber=link.effective_ber if link else None,
        rx_dbm=(link.rx_dbm if link else ()) or (module.rx_dbm if module else ()),
        tx_dbm=(link.tx_dbm if link else ()) or (module.tx_dbm if module else ()),
        temperature_c=(link.temperature_c if link else None)
        or (module.temperature_c if module else None),
        part=(link.part if link else None) or (module.part if module else None),
        serial=(link.serial if link else None) or (module.serial if module else None),
        problem=problem,
    )


_SECTIONS = re.compile(r"^@@ (\S+) (tcp|tcp-R|rdma|latency|together|together-R)$", re.M)
_ANSWERED = re.compile(r"\btime=([\d.]+) ms$", re.M)
_PINGED = re.compile(r"^(?:rtt|round-trip) min/avg/max(?:/mdev)? = ([\d.]+)/", re.M)


def latencies_us(text: str) -> dict[str, float]:
    """{interface: µs}: the shortest round trip that ping saw, or what ib_write_lat calls typical.

    What ping takes longer it waits for a CPU of either end: on busy nodes that is most of the median,
    and a good rail looked twice as late as the others (seen in the lab at load 12).

    >>> latencies_us("@@ eth0 latency\\nrtt min/avg/max/mdev = 0.042/0.061/0.093/0.01 ms\\n")
    {'eth0': 42.0}
    >>> latencies_us(
    ...     "@@ eth0 latency\\n64 bytes from 10.1.0.3: icmp_seq=1 ttl=64 time=0.152 ms\\n"
    ...     "64 bytes from 10.1.0.3: icmp_seq=2 ttl=64 time=0.026 ms\\n"
    ...     "64 bytes from 10.1.0.3: icmp_seq=3 ttl=64 time=0.061 ms\\n"
    ... )
    {'eth0': 26.0}
    """
    parts = _SECTIONS.split(text)
    found = {}
    for i in range(1, len(parts) - 2, 3):
        if parts[i + 1] != "latency":
            continue
        answered = [float(time) for time in _ANSWERED.findall(parts[i + 2])]
        pinged = _PINGED.search(parts[i + 2])
        test = perftest.parse(parts[i + 2])
        if answered:
            found[parts[i]] = round(min(answered) * 1000, 3)
        elif pinged:
            found[parts[i]] = round(float(pinged[1]) * 1000, 3)
        elif test is not None and test.latency:
            row = test.latency[0]
            value = row.typical_us if row.typical_us is not None else row.average_us
            if value is not None:
                found[parts[i]] = value
    return found


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


def parse(text: str, interfaces: tuple[str, ...], tool: LinkTool) -> tuple[LinkRate, ...]:
    """Every rail in each direction, in rail order; a rail that is not in the text was not measured,
    and says so.

    >>> parse("no iperf3\\n", ("eth0",), LinkTool.IPERF3)[0].problem
    'no iperf3'
    """
    program = PROGRAMS.get(tool, tool.value)
    parts = _SECTIONS.split(text)
    outputs: dict[tuple[str, bool], str] = {}
    together: dict[tuple[str, bool], str] = {}
    for i in range(1, len(parts) - 2, 3):
        kind, _, way = parts[i + 1].partition("-")
        if kind != "latency":
            (together if kind == "together" else outputs)[parts[i], way == "R"] = parts[i + 2]
    absent = "not measured"
    if parts[0].strip() in (f"no {program}", NO_CUDA):
        absent = parts[0].strip()
    directions = (False, True) if tool is LinkTool.IPERF3 else (False,)
    rates = []
    for rail, name in enumerate(interfaces):
        for reverse in directions:
            output = outputs.get((name, reverse))
            rate, problem = (None, absent) if output is None else _rate(output, tool)
            shared = together.get((name, reverse))
            at_once = _rate(shared, tool)[0] if shared is not None else None
            rates.append(LinkRate(rail, name, program, reverse, rate, problem, at_once))
    return tuple(rates)


def _rate(text: str, tool: LinkTool) -> tuple[float | None, str]:
    """(Gbit/s, why there is none)."""
    if tool is LinkTool.PERFTEST:
        read = perftest.parse(text)
        if read is None or not read.bandwidth:
            last_line = (text.strip().splitlines() or [""])[-1][:160]
            said = f": {last_line}" if last_line and read is None else ""
            return None, (read.problem if read else "") or f"no result of ib_write_bw{said}"
        return read.bandwidth[-1].average_gbit_s, ""
    test = iperf3.parse(text)
    if test is None:
        return None, "no result of iperf3"
    return test.received_gbit_s, test.problem


def commands(run: RunDir) -> tuple[str, ...]:
    """The link baseline as shell text, a rail each: the server's line and the client's, to start by
    hand one after the other; () = none was measured.

    Raises:
        RunDirError: the artefact is not readable.
    """
    artefact = artefacts.load(run, FILE, LinkBaselineArtefact)
    if artefact is None:
        return ()
    texts = []
    for (client, server), interfaces in zip(artefact.pairs, artefact.interfaces, strict=True):
        for rail, name in enumerate(interfaces):
            port = FIRST_PORT + rail
            lines = [f"# link baseline of {name} between {client} and {server}"]
            if artefact.tool is LinkTool.PERFTEST:
                test = f"ib_write_bw -d {name} -p {port} -F --report_gbits -D {SECONDS}"
                lines += [f"# on {server}: {test}", f"# on {client}: {test} {server}"]
            elif artefact.tool is LinkTool.IPERF3:
                test = f"iperf3 -c ADDRESS_OF_{name} -p {port} -t {SECONDS} -P {STREAMS} -J"
                lines += [
                    f"# on {server}: iperf3 -s -B ADDRESS_OF_{name} -p {port}",
                    f"# on {client}: {test}   # and once more with -R",
                ]
            texts.append("\n".join(lines) + "\n")
    return tuple(texts)


def clients(run: RunDir) -> tuple[tuple[str, str], ...]:
    """(artefact, the node that asked and printed it) of each pair that was measured.

    Raises:
        RunDirError: the artefact is not readable.
    """
    artefact = artefacts.load(run, FILE, LinkBaselineArtefact)
    if artefact is None:
        return ()
    measured = zip(artefact.paths, artefact.pairs, strict=True)
    return tuple((path, client) for path, (client, _) in measured if path)


def load(run: RunDir, samples: tuple[GroupSample, ...]) -> tuple[RailLink, ...]:
    """Every rail of the measured pairs with what the survey got over it; () = no link baseline was
    measured.

    Raises:
        RunDirError: the artefact is not readable.
    """
    artefact = artefacts.load(run, FILE, LinkBaselineArtefact)
    if artefact is None:
        return ()
    links: list[RailLink] = []
    for test in pair_tests(run, artefact):
        pair, interfaces, path, problem = test.pair, test.interfaces, test.path, test.problem
        rates = test.rates
        for rail in range(len(interfaces)):
            busbw = pair_busbw(samples, pair, rail if len(interfaces) > 1 else None)
            of_rail = [rate for rate in rates if rate.rail == rail]
            links.append(_rail_link(pair, of_rail, busbw, path, problem))
    return tuple(links)


@dataclass(frozen=True, slots=True)
class PairTest:
    """One pair of the artefact, read."""

    pair: tuple[str, str]
    interfaces: tuple[str, ...]
    path: str | None
    problem: str
    rates: tuple[LinkRate, ...]
    """Of every rail in each direction that was to be measured."""
    latencies: Mapping[str, float]
    """{interface: µs}."""
    round: int
    """0 = of a layer breakdown."""
    at_fault: str
    memory: str = "host"
    """`host` or `gpu`."""


def pair_tests(run: RunDir, artefact: LinkBaselineArtefact) -> tuple[PairTest, ...]:
    """Every pair with its rates."""
    found = []
    for number, (pair, interfaces, path, problem) in enumerate(
        zip(artefact.pairs, artefact.interfaces, artefact.paths, artefact.problems, strict=True)
    ):
        text = decoded(run.kept(path))
        rates, latencies = parse(text, interfaces, artefact.tool), latencies_us(text)
        if artefact.reverse_paths:
            swapped = decoded(run.kept(artefact.reverse_paths[number]))
            other = parse(swapped, interfaces, artefact.tool)
            rates += tuple(dataclasses.replace(rate, reverse=True) for rate in other)
            latencies = latencies_us(swapped) | latencies
        found.append(
            PairTest(
                pair,
                interfaces,
                path,
                problem,
                rates,
                latencies,
                artefact.rounds[number] if artefact.rounds else 0,
                artefact.at_fault[number] if artefact.at_fault else "",
                artefact.memories[number] if artefact.memories else artefact.memory,
            )
        )
    return tuple(found)


def _rail_link(
    pair: tuple[str, str],
    rates: list[LinkRate],
    busbw_gb_s: float | None,
    path: str | None,
    problem: str,
) -> RailLink:
    directions = tuple(rate.gbit_s / 8 for rate in rates if rate.gbit_s is not None)
    # Where nothing was measured at all, the reason for that says more than «not measured».
    problems = (problem if path is None else "", *(rate.problem for rate in rates), problem)
    return RailLink(
        pair,
        rates[0].rail,
        rates[0].tool,
        min(directions) if directions and len(directions) == len(rates) else None,
        busbw_gb_s,
        path or f"raw/{FILE}",
        next(filter(None, problems), ""),
        directions,
    )
