"""The link baseline: the bandwidth between two nodes, rail by rail, without NCCL: what was measured,
and what the outputs of the tools say (`link_commands` has what printed them).

Two users: a run's layer breakdown measures two pairs, `busbw check --links` every node in rounds.
Both leave one artefact.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from busbw.codec import parse_json
from busbw.errors import RunDirError
from busbw.fabrics.profile import LinkTool
from busbw.model.links import PortFacts
from busbw.parsers.blame.layer_breakdown import RailLink, pair_busbw
from busbw.parsers.logs.json_values import items, loaded, mapping
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.parsers.tools import ethtool, ethtool_module, iperf3, mlxlink, perftest
from busbw.store.run_directory import RunDir
from busbw.survey.link_commands import FIRST_PORT, NO_CUDA, PROGRAMS, SECONDS, STREAMS
from busbw.text import decoded


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
class PairOutput:
    """Where the output of the tools for one pair of nodes is."""

    pair: tuple[str, str]
    interfaces: tuple[str, ...]
    """In rail order."""
    path: str | None
    """Inside the run directory; None = nothing was measured, see `problem`."""
    problem: str = ""
    at_fault: str = ""
    """The node that the problem is of; empty = it may be either's, or there is none."""
    reverse_path: str | None = None
    """Of the other direction, where it is a test of its own."""
    round: int = 0
    """0 = of a layer breakdown."""
    memory: str = "host"
    """`host` or `gpu`."""


@dataclass(frozen=True, slots=True)
class LinkBaselineArtefact:
    """`raw/link-baseline.json`: which pairs were measured, and with what."""

    outputs: tuple[PairOutput, ...]
    tool: LinkTool
    swapped: bool = False
    """The other direction is a test of its own, in which the nodes change places."""
    memory: str = "host"
    """`host`, `gpu`, or `both`."""
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
_COLUMNS = {
    "pairs": "pair",
    "interfaces": "interfaces",
    "paths": "path",
    "problems": "problem",
    "at_fault": "at_fault",
    "reverse_paths": "reverse_path",
    "rounds": "round",
    "memories": "memory",
}
"""The lists, one for each field, in which the artefact had its pairs until 27 November 2026."""


def kept(run: RunDir) -> LinkBaselineArtefact | None:
    """The artefact of a run; None = it measured no link baseline.

    Raises:
        RunDirError: the artefact is not readable.
    """
    content = run.read_raw(FILE)
    if content is None:
        return None
    return parse_json(_of_records(content), LinkBaselineArtefact, f"raw/{FILE}", error=RunDirError)


def _of_records(content: bytes) -> bytes:
    """The artefact with a record for each pair, however it was stored.

    Raises:
        RunDirError: a list is shorter than the others.
    """
    try:
        tree = mapping(loaded(content))
    except ValueError:
        return content
    if "pairs" not in tree:
        return content
    columns = {new: items(tree, old) for old, new in _COLUMNS.items() if tree.get(old)}
    if len({len(column) for column in columns.values()}) > 1:
        raise RunDirError(
            f"raw/{FILE} does not have the same number of pairs in each list",
            next_step="measure the links again",
        )
    rows = zip(*columns.values(), strict=True)
    today = {name: value for name, value in tree.items() if name not in _COLUMNS}
    today["swapped"] = "reverse_path" in columns
    today["outputs"] = [dict(zip(columns, row, strict=True)) for row in rows]
    return json.dumps(today).encode()


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
    artefact = kept(run)
    if artefact is None:
        return ()
    texts = []
    for output in artefact.outputs:
        client, server = output.pair
        for rail, name in enumerate(output.interfaces):
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
    artefact = kept(run)
    outputs = artefact.outputs if artefact is not None else ()
    return tuple((output.path, output.pair[0]) for output in outputs if output.path)


def load(run: RunDir, samples: tuple[GroupSample, ...]) -> tuple[RailLink, ...]:
    """Every rail of the measured pairs with what the survey got over it; () = no link baseline was
    measured.

    Raises:
        RunDirError: the artefact is not readable.
    """
    artefact = kept(run)
    if artefact is None:
        return ()
    links: list[RailLink] = []
    for test in pair_tests(run, artefact):
        rails = len(test.output.interfaces)
        for rail in range(rails):
            busbw = pair_busbw(samples, test.output.pair, rail if rails > 1 else None)
            of_rail = [rate for rate in test.rates if rate.rail == rail]
            links.append(_rail_link(test.output, of_rail, busbw))
    return tuple(links)


@dataclass(frozen=True, slots=True)
class PairTest:
    """What the output of one pair says."""

    output: PairOutput
    rates: tuple[LinkRate, ...]
    """Of every rail in each direction that was to be measured."""
    latencies: Mapping[str, float]
    """{interface: µs}."""


def pair_tests(run: RunDir, artefact: LinkBaselineArtefact) -> tuple[PairTest, ...]:
    """Every pair with its rates."""
    found = []
    for output in artefact.outputs:
        text = decoded(run.kept(output.path))
        rates, latencies = parse(text, output.interfaces, artefact.tool), latencies_us(text)
        if artefact.swapped:
            back = decoded(run.kept(output.reverse_path))
            other = parse(back, output.interfaces, artefact.tool)
            rates += tuple(dataclasses.replace(rate, reverse=True) for rate in other)
            latencies = latencies_us(back) | latencies
        found.append(PairTest(output, rates, latencies))
    return tuple(found)


def _rail_link(output: PairOutput, rates: list[LinkRate], busbw_gb_s: float | None) -> RailLink:
    directions = tuple(rate.gbit_s / 8 for rate in rates if rate.gbit_s is not None)
    # Where nothing was measured at all, the reason for that says more than «not measured».
    first = output.problem if output.path is None else ""
    problems = (first, *(rate.problem for rate in rates), output.problem)
    return RailLink(
        output.pair,
        rates[0].rail,
        rates[0].tool,
        min(directions) if directions and len(directions) == len(rates) else None,
        busbw_gb_s,
        output.path or f"raw/{FILE}",
        next(filter(None, problems), ""),
        directions,
    )
