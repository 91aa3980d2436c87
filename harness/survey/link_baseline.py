"""The link baseline: the bandwidth between two nodes, rail by rail, without NCCL. iperf3 over TCP
interfaces, ib_write_bw over RDMA devices, as the fabric's profile says.

Written against iperf3 3.9 and later and perftest 4.5 and later. One node serves, each server bounded
in time and gone after its tests; the other one is the client, rail after rail, so that rails do not
share a CPU. TCP is measured in both directions: each can be slow by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.fabrics.fabric import LinkTool
from busbw.model import Command
from busbw.parsers.blame.layer_breakdown import RailLink, pair_busbw
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.parsers.tools import iperf3, perftest
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
command -v iperf3 >/dev/null 2>&1 || { echo 'no iperf3'; exit 0; }
while read -r i p; do
a=$(ip -o -4 addr show dev "$i" 2>/dev/null | awk '{split($4, x, "/"); print x[1]; exit}')
[ -n "$a" ] || { echo "$i - $p"; continue; }
(for n in 1 2; do timeout LIMIT iperf3 -s -1 -B "$a" -p "$p"; done) >/dev/null 2>&1 </dev/null &
echo "$i $a $p"; done
"""
_ASK_IPERF3 = """\
LC_ALL=C; export LC_ALL
command -v iperf3 >/dev/null 2>&1 || { echo 'no iperf3'; exit 0; }
while read -r i a p; do for way in '' -R; do n=0
while :; do
out=$(timeout 30 iperf3 -c "$a" -p "$p" -t SECONDS -P STREAMS -J $way 2>&1 </dev/null)
case $out in *'unable to connect'*|*'server is busy'*|*'control '[ms]*) n=$((n + 1)); [ $n -lt 25 ] && sleep 0.2 && continue;; esac
break; done
echo "@@ $i tcp$way"; printf '%s\\n' "$out"; done; done
"""
# A server that ends resets who connected too early to be the next one's client: asked again.
_SERVE_PERFTEST = """\
command -v ib_write_bw >/dev/null 2>&1 || { echo 'no ib_write_bw'; exit 0; }
while read -r i p; do timeout LIMIT ib_write_bw -d "$i" -p "$p" -F --report_gbits -D SECONDS >/dev/null 2>&1 </dev/null &
echo "$i SERVER $p"; done
"""
_ASK_PERFTEST = """\
command -v ib_write_bw >/dev/null 2>&1 || { echo 'no ib_write_bw'; exit 0; }
while read -r i a p; do n=0
while :; do
out=$(timeout 30 ib_write_bw -d "$i" -p "$p" -F --report_gbits -D SECONDS "$a" 2>&1 </dev/null)
case $out in *"Couldn't connect"*) n=$((n + 1)); [ $n -lt 25 ] && sleep 0.2 && continue;; esac
break; done
echo "@@ $i rdma"; printf '%s\\n' "$out"; done
"""


PROGRAMS = {LinkTool.PERFTEST: "ib_write_bw", LinkTool.IPERF3: "iperf3"}
_SERVE = {LinkTool.PERFTEST: _SERVE_PERFTEST, LinkTool.IPERF3: _SERVE_IPERF3}
_ASK = {LinkTool.PERFTEST: _ASK_PERFTEST, LinkTool.IPERF3: _ASK_IPERF3}


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


FILE = "link-baseline.json"


def serve(interfaces: tuple[str, ...], tool: LinkTool, *, address: str) -> Command:
    """Serve every rail once (perftest) or once in each direction (iperf3); its output is the input
    of the client. `address`: where perftest's client connects to."""
    limit_s = 10 + _client_s(len(interfaces))
    script = _filled(_SERVE[tool], LIMIT=str(limit_s), SERVER=address, SECONDS=str(SECONDS))
    lines = "".join(f"{name} {FIRST_PORT + rail}\n" for rail, name in enumerate(interfaces))
    return Command(
        ("sh", "-c", script, "busbw-link-baseline"),
        stdin=lines.encode(),
        timeout_s=20,
        label="link-baseline",
    )


def ask(served: str, tool: LinkTool, *, store: str) -> Command:
    """Measure every rail that is served. `served`: the output of `serve`."""
    lines = [
        line
        for line in served.splitlines()
        if re.fullmatch(r"[\w.@:-]+ [\w.:-]+ \d+", line) and line.split()[1] != "-"
    ]
    script = _filled(_ASK[tool], SECONDS=str(SECONDS), STREAMS=str(STREAMS))
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


def _filled(script: str, **values: str) -> str:
    for name, value in values.items():
        script = script.replace(name, value)
    return script


def parse(text: str, interfaces: tuple[str, ...], tool: LinkTool) -> tuple[LinkRate, ...]:
    """Every rail in each direction, in rail order; a rail that is not in the text was not measured,
    and says so.

    >>> parse("no iperf3\\n", ("eth0",), LinkTool.IPERF3)[0].problem
    'no iperf3'
    """
    program = PROGRAMS.get(tool, tool.value)
    parts = re.split(r"^@@ (\S+) (tcp|tcp-R|rdma)$", text, flags=re.M)
    outputs = {
        (parts[i], parts[i + 1] == "tcp-R"): parts[i + 2] for i in range(1, len(parts) - 2, 3)
    }
    absent = "not measured"
    if parts[0].strip() == f"no {program}":
        absent = f"no {program}"
    directions = (False, True) if tool is LinkTool.IPERF3 else (False,)
    rates = []
    for rail, name in enumerate(interfaces):
        for reverse in directions:
            output = outputs.get((name, reverse))
            rate, problem = (None, absent) if output is None else _rate(output, tool)
            rates.append(LinkRate(rail, name, program, reverse, rate, problem))
    return tuple(rates)


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
    for pair, interfaces, path, problem in zip(
        artefact.pairs, artefact.interfaces, artefact.paths, artefact.problems, strict=True
    ):
        content = run.read_raw(path.removeprefix("raw/")) if path else None
        rates = parse(decoded(content), interfaces, artefact.tool)
        for rail in range(len(interfaces)):
            busbw = pair_busbw(samples, pair, rail if len(interfaces) > 1 else None)
            of_rail = [rate for rate in rates if rate.rail == rail]
            links.append(_rail_link(pair, of_rail, busbw, path, problem))
    return tuple(links)


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
