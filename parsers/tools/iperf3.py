"""What iperf3 (3.0 to 3.21; as text, `--json` and `--json-stream`) and iperf (2.0 to 2.2) print, on either
side: bytes, rates and retransmits of one TCP or UDP test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from busbw.parsers.logs.json_values import flag, integer, items, mapping, number, text_of, values
from busbw.parsers.tools import Tool

_NO_END = "the test has no end"
_EVENTS = ("start", "error", "server_output_json", "end")
"""Of `--json-stream`; the intervals between them are not needed."""


@dataclass(frozen=True, slots=True)
class Iperf3:
    """One test."""

    local: str | None
    """Address of the client's end; None = it never connected."""
    remote: str | None
    protocol: str | None
    """`TCP` or `UDP`."""
    streams: int | None
    seconds: float | None
    reverse: bool
    """True = the server sent."""
    sent_gbit_s: float | None
    received_gbit_s: float | None
    """What arrived; None = the test did not end well."""
    sent_bytes: int | None
    retransmits: int | None
    """TCP segments sent again; None = UDP, or a sender that cannot tell."""
    interval_gbit_s: tuple[float, ...]
    """Of all streams together, second by second."""
    cpu_local_percent: float | None
    cpu_remote_percent: float | None
    problem: str
    """Why there is no result; "" = it ended well."""
    failed: bool = False
    """iperf3 reports the problem; False = the text ends before its result."""
    back_sent_gbit_s: float | None = None
    """Of the other direction, of a test in both at once (`--bidir`)."""
    back_received_gbit_s: float | None = None
    lost_percent: float | None = None
    """Of the UDP packets."""


def parse_all(text: str) -> tuple[Iperf3, ...]:
    """Every test in a text, also documents one after another, and streams of events."""
    return tuple(_tests(text))


def parse(text: str) -> Iperf3 | None:
    """The first test in a text; None = it is not of `iperf3 --json`.

    >>> parse('{"start": {"version": "iperf 3.12", "connected": []}, "end": {}, "error": "unable to connect to server: Connection refused"}').problem
    'unable to connect to server: Connection refused'
    """
    return next(iter(parse_all(text)), None)


def _tests(text: str) -> Iterator[Iperf3]:
    events: dict[str, object] = {}
    for value in values(text):
        if value.tree is None and '"iperf' in text[value.begin : value.end]:
            yield _test({}, "incomplete JSON: it is truncated or damaged")
        members = value.tree if isinstance(value.tree, list) else [value.tree]
        for document in map(mapping, members):
            event = text_of(document, "event")
            if event in _EVENTS and "data" in document:
                if event == "start" and _is_of_iperf3(events):
                    yield _test(events, _NO_END)
                if event == "start":
                    events = {}
                events[event] = document["data"]
                if event == "end" and _is_of_iperf3(events):
                    yield _test(events, _NO_END)
                if event == "end":
                    events = {}
            elif event is None and "start" in document and _is_of_iperf3(document):
                yield _test(document, _NO_END)
    if _is_of_iperf3(events):
        yield _test(events, _NO_END)


def _is_of_iperf3(document: dict[str, object]) -> bool:
    """Whether a document, or the events of one test, name the program. Without a connection, events
    are an error and an empty end."""
    version = text_of(mapping(document.get("start")), "version") or ""
    refused = set(document) == {"error", "end"} and document["end"] == {}
    return version.startswith("iperf") or (refused and isinstance(document["error"], str))


def _test(document: dict[str, object], without_result: str) -> Iperf3:
    start, end = mapping(document.get("start")), mapping(document.get("end"))
    ends = [mapping(each) for each in items(start, "connected")]
    options = mapping(start.get("test_start"))
    # Before 3.17 one sum of UDP served both directions.
    sent = mapping(end.get("sum_sent")) or mapping(end.get("sum"))
    received = mapping(end.get("sum_received")) or mapping(end.get("sum"))
    sums = [mapping(mapping(each).get("sum")) for each in items(document, "intervals")]
    rates = [rate for each in sums if (rate := _gbit_s(each)) is not None]
    cpu = mapping(end.get("cpu_utilization_percent"))
    errors = (document, mapping(document.get("server_output_json")))
    error = next(filter(None, (text_of(each, "error") for each in errors)), "")
    sent_gbit_s, received_gbit_s = _gbit_s(sent), _gbit_s(received)
    has_result = sent_gbit_s is not None and received_gbit_s is not None
    if not error and has_result and not received_gbit_s:
        # The server does not know what arrived at a client.
        error = "" if "accepted_connection" in start else "nothing arrived at the receiver"
    return Iperf3(
        local=text_of(ends[0], "local_host") if ends else None,
        remote=text_of(ends[0], "remote_host") if ends else None,
        protocol=text_of(options, "protocol"),
        streams=integer(options, "num_streams"),
        seconds=number(sent, "seconds"),
        reverse=bool(flag(options, "reverse")),
        sent_gbit_s=sent_gbit_s,
        received_gbit_s=None if error else received_gbit_s,
        sent_bytes=integer(sent, "bytes"),
        retransmits=integer(sent, "retransmits"),
        interval_gbit_s=tuple(rates),
        cpu_local_percent=number(cpu, "host_total"),
        cpu_remote_percent=number(cpu, "remote_total"),
        problem=error or ("" if has_result else without_result),
        failed=bool(error),
        back_sent_gbit_s=_gbit_s(mapping(end.get("sum_sent_bidir_reverse"))),
        back_received_gbit_s=_gbit_s(mapping(end.get("sum_received_bidir_reverse"))),
        lost_percent=number(received, "lost_percent"),
    )


def _gbit_s(values: dict[str, object]) -> float | None:
    rate = number(values, "bits_per_second")
    return None if rate is None else rate / 1e9


def _line(test: Iperf3) -> str:
    rates = (
        ("sent", test.sent_gbit_s),
        ("received", test.received_gbit_s),
        ("back sent", test.back_sent_gbit_s),
        ("back received", test.back_received_gbit_s),
    )
    shown = [f"{name} {rate:g} Gb/s" for name, rate in rates if rate]
    if test.lost_percent:
        shown.append(f"{test.lost_percent:g} % of the packets lost")
    if test.retransmits:
        shown.append(f"{test.retransmits} segments sent again")
    still = test.interval_gbit_s.count(0)
    if still:
        shown.append(f"nothing in {still} of {len(test.interval_gbit_s)} intervals")
    return ", ".join(shown) or "no rates"


# The text for people: src/iperf_locale.c of iperf 3.21, include/Locale.c of iperf 2.2.

_TIME = r"^(?:\w{3} \w{3} [ \d]\d [\d:]{8} \d{4} ?)?"
"""Of --timestamps."""
_BEGIN = re.compile(
    _TIME
    + r"(?:Connecting to host (\S+), port |Server listening on |Client connecting to ([^\s,]+),)",
    re.M,
)
_ACCEPTED = re.compile(_TIME + "Accepted connection from ", re.M)
_ENDS = re.compile(
    _TIME + r"\[ *(\d+)\] local (\S+) port \d+ connected (?:to|with) (\S+) port", re.M
)
_INTERVAL = re.compile(
    _TIME + r"\[ *(SUM|\*?\d{1,6})\](?:\[([TR]X)-[CS]\])? +(\d{1,7}\.\d+)- *(\d{1,7}\.\d+) +sec"
    r" +(\d+(?:\.\d+)?) ([KMGT]?)Bytes +(\d+(?:\.\d+)?) ([KMGT]?)(bits|Bytes)/sec([^\n]{0,120})$",
    re.M,
)
_LOST = re.compile(r"(\d{1,18})/ *(\d{1,18}) \(")
_RETRIES = re.compile(r"^ +(\d{1,9})\b(?!\.|/)")
_REPORTED = re.compile(
    _TIME
    + r"(?:iperf3?: ((?:(?:parameter )?error|interrupt) - .{1,200}|the (?:client|server) has .{1,80}"
    r"|(?:unable|failed) .{1,200})"
    r"|(?:\[ *\d+\] )?((?:\w{1,12} )?(?:connect|bind|listen|read|write|recv\w*|send\w*)\d? failed: .{1,120})"
    r"|(?:\[ *\d+\] )?WARNING: (did not receive ack of last datagram))",
    re.M,
)
_UNKNOWN_END = re.compile(r"statistics not available\)")
_BITS = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}
"""Gb/s of one unit. Units of bytes count in 1024, units of bits in 1000."""
_SHORT_S = 1.5
"""A row of iperf that is no longer may be the first interval of a longer test."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a test: an interval, or a whole test of one stream or of all."""

    stream: str
    back: bool
    """True = the other direction of `--bidir`."""
    begin_s: float
    end_s: float
    sent_bytes: float
    gbit_s: float
    end: str
    """`sender` or `receiver` in a summary of iperf3; "" = an interval, or of iperf."""
    retransmits: int | None
    packets: tuple[int, int] | None
    """UDP's: lost, all."""


def parse_text(text: str) -> tuple[Iperf3, ...]:
    """Every test in a text for people.

    >>> (test,) = parse_text('''Connecting to host node-b, port 5201
    ... [  5]   0.00-10.00  sec  27.4 GBytes  23.5 Gbits/sec   12             sender
    ... [  5]   0.00-10.00  sec  27.4 GBytes  23.5 Gbits/sec                  receiver
    ...
    ... iperf Done.
    ... ''')
    >>> test.received_gbit_s, test.retransmits, test.problem
    (23.5, 12, '')
    """
    # What --get-server-output repeats is of the same test.
    text = re.sub(r"(?ms)^Server output:$.*?(?=^iperf Done|\Z)", "", text)
    begins = [match.start() for match in _BEGIN.finditer(text)]
    starts = [0, *(begin for begin in begins if begin)]
    is_named = bool(begins) or "iperf" in text
    tests = (_text_test(text[begin:end], is_named) for begin, end in pairwise([*starts, len(text)]))
    return tuple(test for test in tests if test is not None)


def _text_test(text: str, is_named: bool) -> Iperf3 | None:
    """The test in one part of a text; `is_named` = the text as a whole names the program."""
    rows = [_row(match) for match in _INTERVAL.finditer(text)]
    begin, ends, report = _BEGIN.search(text), _ENDS.search(text), _REPORTED.search(text)
    error = next(filter(None, report.groups()), "") if report and (is_named or rows) else ""
    if not rows and not error and not ends:
        return None
    accepted = _ACCEPTED.search(text) is not None
    sums = _summary(rows)
    forth, back = ([row for row in sums if row.back is way] for way in (False, True))
    sent, received = _of_all(forth, "sender"), _of_all(forth, "receiver")
    if received and not received.gbit_s and not error and not accepted:
        error = "nothing arrived at the receiver"
    connected = (
        set() if begin is None or begin[2] is None else {each[1] for each in _ENDS.finditer(text)}
    )
    of_a_client = begin is not None and begin[1] is not None
    is_whole = all(
        _is_whole(rows, sums, way, connected) for way in {row.back for row in rows}
    ) and (
        received is not None
        or bool(_UNKNOWN_END.search(text))
        or (sent is not None and not of_a_client)
    )
    intervals = [row for row in rows if row not in sums and not row.back]
    packets = received.packets if received else None
    back_sent, back_received = _of_all(back, "sender"), _of_all(back, "receiver")
    return Iperf3(
        local=ends[2] if ends else None,
        remote=ends[3] if ends else (begin[1] or begin[2]) if begin else None,
        protocol="UDP" if any(row.packets for row in rows) else "TCP",
        streams=len({row.stream for row in rows if row.stream != "SUM"}) or None,
        seconds=(sent or received or rows[-1]).end_s if rows else None,
        reverse="Reverse mode, " in text,
        sent_gbit_s=sent.gbit_s if sent else None,
        received_gbit_s=received.gbit_s if received and not error else None,
        sent_bytes=round(sent.sent_bytes) if sent else None,
        retransmits=sent.retransmits if sent else None,
        interval_gbit_s=tuple(row.gbit_s for row in intervals if row.stream == _whole(intervals)),
        cpu_local_percent=None,
        cpu_remote_percent=None,
        problem=error or ("" if is_whole else _NO_END),
        failed=bool(error),
        back_sent_gbit_s=back_sent.gbit_s if back_sent else None,
        back_received_gbit_s=back_received.gbit_s if back_received else None,
        lost_percent=100 * packets[0] / packets[1] if packets and packets[1] else None,
    )


def _is_whole(rows: list[_Row], sums: list[_Row], back: bool, connected: set[str]) -> bool:
    """Whether a direction has its summary: with several streams that is the row of their sum.
    `connected`: the streams that a client of iperf opened, which all send the same way."""
    streams = {row.stream for row in rows if row.back is back} | connected
    ends = {
        row.end: {each.stream for each in sums if (each.back, each.end) == (back, row.end)}
        for row in sums
        if row.back is back
    }
    return bool(ends) and all(
        "SUM" in names or len(streams - {"SUM"}) == 1 for names in ends.values()
    )


def _row(match: re.Match[str]) -> _Row:
    tail = match[10].strip()
    lost, retries = _LOST.search(tail), _RETRIES.match(match[10])
    bits = 8 * (1.024 ** "_KMGT".index(match[8] or "_")) if match[9] == "Bytes" else 1
    return _Row(
        stream=match[1],
        back=match[2] == "RX",
        begin_s=float(match[3]),
        end_s=float(match[4]),
        sent_bytes=float(match[5]) * 1024 ** "_KMGT".index(match[6] or "_"),
        gbit_s=float(match[7]) * _BITS[match[8]] * bits,
        end=next((end for end in ("sender", "receiver") if tail.endswith(end)), ""),
        retransmits=int(retries[1]) if retries and not lost else None,
        packets=(int(lost[1]), int(lost[2])) if lost else None,
    )


def _summary(rows: list[_Row]) -> list[_Row]:
    """The rows of the whole test. Those of iperf have no name: they begin at 0 behind the intervals."""
    named = [row for row in rows if row.end]
    if named:
        return named
    longest = max((row.end_s - row.begin_s for row in rows), default=0.0)
    is_over = longest > _SHORT_S and rows[-1].begin_s == 0
    return (
        [row for row in rows if row.begin_s == 0 and row.end_s >= longest * 0.9] if is_over else []
    )


def _whole(rows: list[_Row]) -> str:
    """The stream that stands for all: their sum, or the only one."""
    return "SUM" if any(row.stream == "SUM" for row in rows) else rows[0].stream if rows else ""


def _of_all(summary: list[_Row], end: str) -> _Row | None:
    """The sum of the streams at that end, as printed or added up; None = no row. Rows of iperf are of
    the end that printed them."""
    rows = [row for row in summary if row.end in (end, "")]
    printed = next((row for row in rows if row.stream == "SUM"), None)
    if printed is not None or not rows:
        return printed
    first = rows[0]
    tries = [row.retransmits for row in rows if row.retransmits is not None]
    packets = [row.packets for row in rows if row.packets is not None]
    return _Row(
        stream="SUM",
        back=first.back,
        begin_s=first.begin_s,
        end_s=first.end_s,
        sent_bytes=sum(row.sent_bytes for row in rows),
        gbit_s=sum(row.gbit_s for row in rows),
        end=first.end,
        retransmits=sum(tries) if tries else None,
        packets=(sum(lost for lost, _ in packets), sum(all_ for _, all_ in packets))
        if packets
        else None,
    )


def _errors(test: Iperf3) -> Iterator[str]:
    if test.failed:
        yield test.problem


def _gaps(test: Iperf3) -> Iterator[str]:
    if test.problem and not test.failed:
        yield test.problem


TOOL = (
    Tool(
        name="iperf3",
        marks=('"iperf', '{"event":"'),
        parse=parse_all,
        lines=lambda test: (_line(test),),
        errors=_errors,
        gaps=_gaps,
    ),
    Tool(
        name="iperf",
        marks=(
            "bits/sec",
            "Bytes/sec",
            "iperf3: ",
            "iperf: ",
            "Client connecting to ",
            "Connecting to host ",
        ),
        parse=parse_text,
        lines=lambda test: (_line(test),),
        errors=_errors,
        gaps=_gaps,
    ),
)
