"""Counters that only ever grow: `ethtool -S`, `ip -s link`, `perfquery`, `rdma statistic`.

One output counts since boot or since somebody cleared it: a link that was plugged in has errors and
is well. Its errors are judged by their share of the packets. Two outputs of one port are compared:
only what came between them counts.

Written against ethtool 6.1, perfquery of infiniband-diags 5 and rdma of iproute2 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from busbw.parsers.tools import Tool, ToolFact

MOST_SHARE = 1e-12 * 8 * 4096
"""Packets lost of all: 4 KiB at the bit error ratio that a link may have, 1e-12 (IEEE 802.3, 100 and
200 Gb/s Ethernet; InfiniBand Architecture Specification, volume 2)."""
_WORDS_PER_PACKET = 1024
"""PortXmitData counts words of 4 bytes. With packets of 4 KiB these are the fewest packets."""


@dataclass(frozen=True, slots=True)
class Form:
    """How one tool prints its counters."""

    name: str
    opening: str
    """Starts an output; its group, if it has one, names the port."""
    counter: str
    """Name and value."""
    errors: str
    """Names of the counters of what was lost."""
    packets: str
    """Names of the counters of all packets."""
    loss: str
    """How a packet is lost that they count: `physical` on the link, `transport` on its way."""
    words: str = r"(?!)"
    """Names of the counters of words of 4 bytes, where there are none of packets."""
    prepared: Callable[[str], str] = str
    """Makes of the tool's text lines that `counter` matches."""


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """One counter of errors."""

    port: str
    """"" = not named."""
    name: str
    value: int
    """Since boot, or since it was cleared."""
    packets: int | None
    """Of the same time; None = not printed."""
    rise: int | None
    """Since the output before, of the same port; None = there is none."""
    risen_packets: int | None = None
    """Of the same time; None = not printed."""

    @property
    def is_error(self) -> bool:
        """More than a good link loses. Without packets a rise is an error, and a sum is none."""
        count, packets = self.value, self.packets
        if self.rise is not None:
            count, packets = self.rise, self.risen_packets
        if packets is None:
            return self.rise is not None and count > 0
        return count > packets * MOST_SHARE


@dataclass(frozen=True, slots=True)
class _Output:
    """One output of the tool."""

    port: str
    errors: dict[str, int]
    packets: int | None


def parse(text: str, form: Form) -> tuple[ErrorCount, ...]:
    r"""The counters of errors in a text, with what they rose by.

    >>> first, second = "link a/1 rx_write_requests 900 packet_seq_err 5\n", "link a/1 rx_write_requests 950 packet_seq_err 9\n"
    >>> [(each.rise, each.is_error) for each in parse(first, RDMA)], [(each.rise, each.is_error) for each in parse(first + second, RDMA)]
    ([(None, True)], [(4, True)])
    """
    latest: dict[str, _Output] = {}
    counts: dict[tuple[str, str, int], ErrorCount] = {}
    for number, output in enumerate(_outputs(form.prepared(text), form)):
        before = latest.get(output.port) if output.port else None
        place = 0 if output.port else number
        for name, value in output.errors.items():
            count = ErrorCount(output.port, name, value, output.packets, None)
            if before is not None and value >= before.errors.get(name, value + 1):
                packets = None
                if output.packets is not None and before.packets is not None:
                    packets = max(0, output.packets - before.packets)
                count = ErrorCount(
                    output.port, name, value, output.packets, value - before.errors[name], packets
                )
            counts[output.port, name, place] = count
        latest[output.port] = output
    return tuple(counts.values())


def _outputs(text: str, form: Form) -> Iterator[_Output]:
    starts = list(re.finditer(form.opening, text, re.MULTILINE))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    for start, end in zip(starts, ends, strict=True):
        values = {}
        for match in re.finditer(form.counter, text[start.start() : end], re.MULTILINE):
            values[match[1]] = int(match[2])
        errors = {name: value for name, value in values.items() if re.fullmatch(form.errors, name)}
        if errors:
            yield _Output(start[1] or "", errors, _packets(values, form))


def _packets(values: dict[str, int], form: Form) -> int | None:
    packets = [value for name, value in values.items() if re.fullmatch(form.packets, name)]
    if packets:
        return max(packets)
    words = [value for name, value in values.items() if re.fullmatch(form.words, name)]
    return (max(words) // _WORDS_PER_PACKET or None) if words else None


def _named(text: str) -> str:
    r"""`ip -s link`, whose numbers stand under their names, as lines of a name and a number.

    >>> _named("4: eth0: <UP>\n    RX: bytes packets errors dropped\n    90 7 3 0\n")
    '4: eth0: <UP>\nrx_packets 7\nrx_errors 3\n'
    """
    return _COLUMNS.sub(
        lambda row: f"{row[1].lower()}_packets {row[2]}\n{row[1].lower()}_errors {row[3]}", text
    )


def _line(count: ErrorCount) -> Iterator[str]:
    yield _text(count)


def _text(count: ErrorCount) -> str:
    port = f"{count.port}: " if count.port else ""
    if count.rise is not None:
        among = "" if count.risen_packets is None else f" in {count.risen_packets} packets"
        return f"{port}{count.name} rose by {count.rise} to {count.value}{among}"
    among = "" if count.packets is None else f" in {count.packets} packets"
    return f"{port}{count.name} {count.value}{among} since it began to count"


def _tool(form: Form, *marks: str, needs: tuple[str, ...] = ()) -> Tool[ErrorCount]:
    def reported(count: ErrorCount) -> Iterator[str]:
        if count.is_error:
            yield f"{form.name}: {_text(count)}"

    def facts(counts: tuple[ErrorCount, ...]) -> Iterator[ToolFact]:
        for count in counts:
            if count.is_error:
                values = (("loss", form.loss), ("rose", count.rise is not None))
                yield ToolFact("port.errors", values, count.name)

    return Tool(
        name=form.name,
        marks=marks,
        parse=partial(parse, form=form),
        lines=_line,
        facts=facts,
        errors=reported,
        needs=needs,
    )


ETHTOOL = Form(
    name="ethtool -S",
    opening=r"(?:^.*\bethtool (?:-S|--statistics) (\S+)[^\n]*\n)?^NIC statistics:",
    counter=r"^\s+(\w+): (\d+)\s*$",
    errors=r"rx_crc_errors(?:_phy)?|rx_symbol_err_phy|rx_discards_phy|link_down_events_phy|[rt]x_errors",
    packets=r"[rt]x_packets(?:_phy)?",
    loss="physical",
)
_COLUMNS = re.compile(
    r"^[ \t]+([RT]X): +bytes +packets +errors .*\n[ \t]+\d+ +(\d+) +(\d+) .*$", re.MULTILINE
)
IP_LINK = Form(
    name="ip -s link",
    opening=r"^\d+: ([^\s:@]+)[:@]",
    counter=r"^([rt]x_\w+) (\d+)$",
    errors=r"[rt]x_errors",
    packets=r"[rt]x_packets",
    loss="physical",
    prepared=_named,
)
PERFQUERY = Form(
    name="perfquery",
    opening=r"Port counters: (.*?)(?: \(|$)",
    counter=r"^(\w+):\.*(\d+)\s*$",
    errors=r"SymbolError\w*|LinkErrorRecovery\w*|LinkDowned\w*|PortRcvErrors|LocalLinkIntegrity\w*"
    r"|ExcessiveBufferOverrun\w*|PortXmitDiscards|PortRcvRemotePhysicalErrors",
    packets=r"Port(?:Xmit|Rcv)Pkts",
    loss="physical",
    words=r"Port(?:Xmit|Rcv)Data",
)
RDMA = Form(
    name="rdma statistic",
    opening=r"^link (\S+/\d+) (?=.*\b(?:packet_seq_err|out_of_sequence|local_ack_timeout_err) \d)",
    counter=r"\b([a-z]\w+) (\d+)\b",
    errors=r"packet_seq_err|local_ack_timeout_err|rnr_nak_retry_err|req_cqe_error",
    packets=r"rx_\w+_requests",
    loss="transport",
)

TOOL = (
    _tool(ETHTOOL, "NIC statistics:"),
    _tool(IP_LINK, "RX: ", needs=(r"RX: +bytes +packets",)),
    _tool(PERFQUERY, "Port counters: "),
    _tool(RDMA, " packet_seq_err ", " out_of_sequence ", " local_ack_timeout_err "),
)
