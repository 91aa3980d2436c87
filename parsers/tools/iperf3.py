"""What iperf3 (3.0 to 3.21; as text, `--json` and `--json-stream`) and iperf (2.0 to 2.2) print, on either
side: bytes, rates and retransmits of one TCP or UDP test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from busbw.parsers.logs.json_values import flag, integer, items, mapping, number, text_of, values
from busbw.parsers.tools import Tool
from busbw.parsers.tools.iperf_rows import ROW, TIME, Row, contradiction, rows_in

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
        problem=error or (_contradiction(document) if has_result else without_result),
        failed=bool(error),
        back_sent_gbit_s=_gbit_s(mapping(end.get("sum_sent_bidir_reverse"))),
        back_received_gbit_s=_gbit_s(mapping(end.get("sum_received_bidir_reverse"))),
        lost_percent=number(received, "lost_percent"),
    )


def _contradiction(document: dict[str, object]) -> str:
    """What of the sums of a document does not go together. Before 3.17 one sum of UDP served both
    directions: where there are two, none is looked at."""
    if flag(mapping(mapping(document.get("start")).get("test_start")), "bidirectional"):
        return ""
    end = mapping(document.get("end"))
    sums = [(mapping(mapping(each).get("sum")), "") for each in items(document, "intervals")]
    sums += [
        (mapping(end.get(f"sum_{way}")) or mapping(end.get("sum")), name)
        for way, name in (("sent", "sender"), ("received", "receiver"))
    ]
    rows = (_row(each, name) for each, name in sums if not flag(each, "omitted"))
    return contradiction([row for row in rows if row is not None])


def _row(values: dict[str, object], end: str) -> Row | None:
    begin_s, end_s, sent = (number(values, key) for key in ("start", "end", "bytes"))
    rate = _gbit_s(values)
    if begin_s is None or end_s is None or sent is None or rate is None:
        return None
    return Row("SUM", False, begin_s, end_s, sent, rate, end)


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


# The text for people.

_BEGIN = re.compile(
    TIME
    + r"(?:Connecting to host (\S+), port |Server listening on |Client connecting to ([^\s,]+),)",
    re.M,
)
_ACCEPTED = re.compile(TIME + "Accepted connection from ", re.M)
_ENDS = re.compile(
    TIME + r"\[ *(\d+)\] local (\S+) port \d+ connected (?:to|with) (\S+) port", re.M
)
_REPORTED = re.compile(
    TIME
    + r"(?:iperf3?: ((?:(?:parameter )?error|interrupt) - .{1,200}|the (?:client|server) has .{1,80}"
    r"|(?:unable|failed) .{1,200})"
    r"|(?:\[ *\d+\] )?((?:\w{1,12} )?(?:connect|bind|listen|read|write|recv\w*|send\w*)\d? failed: .{1,120})"
    r"|(?:\[ *\d+\] )?WARNING: (did not receive ack of last datagram))",
    re.M,
)
_UNKNOWN_END = re.compile(r"statistics not available\)")
_BOTH_ENDS = {"sender", "receiver"}
_SHORT_S = 1.5
"""A row of iperf that is no longer may be the first interval of a longer test."""


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
    rows = rows_in(text)
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
        problem=error or _gap(text, rows, sums),
        failed=bool(error),
        back_sent_gbit_s=back_sent.gbit_s if back_sent else None,
        back_received_gbit_s=back_received.gbit_s if back_received else None,
        lost_percent=100 * packets[0] / packets[1] if packets and packets[1] else None,
    )


def _gap(text: str, rows: list[Row], sums: list[Row]) -> str:
    """Why the rows of a test are not all of it, or not of one test; "" = they are."""
    begin = _BEGIN.search(text)
    is_of_iperf = begin is not None and begin[2] is not None
    connected = {each[1] for each in _ENDS.finditer(text)} if is_of_iperf else set()
    # A server and a client that was told nothing know one end.
    knows_both = begin is not None and begin[1] is not None and not _UNKNOWN_END.search(text)
    for way in {row.back for row in rows} or {False}:
        ends = {row.end for row in sums if row.back is way}
        if not _is_whole(rows, sums, way, connected) or (knows_both and not ends >= _BOTH_ENDS):
            return _NO_END
    return contradiction(rows)


def _is_whole(rows: list[Row], sums: list[Row], back: bool, connected: set[str]) -> bool:
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


def _summary(rows: list[Row]) -> list[Row]:
    """The rows of the whole test. Those of iperf have no name: they begin at 0 behind the intervals."""
    named = [row for row in rows if row.end]
    if named:
        return named
    longest = max((row.end_s - row.begin_s for row in rows), default=0.0)
    is_over = longest > _SHORT_S and rows[-1].begin_s == 0
    return (
        [row for row in rows if row.begin_s == 0 and row.end_s >= longest * 0.9] if is_over else []
    )


def _whole(rows: list[Row]) -> str:
    """The stream that stands for all: their sum, or the only one."""
    return "SUM" if any(row.stream == "SUM" for row in rows) else rows[0].stream if rows else ""


def _of_all(summary: list[Row], end: str) -> Row | None:
    """The sum of the streams at that end, as printed or added up; None = no row. Rows of iperf are of
    the end that printed them."""
    rows = [row for row in summary if row.end in (end, "")]
    printed = next((row for row in rows if row.stream == "SUM"), None)
    if printed is not None or not rows:
        return printed
    first = rows[0]
    tries = [row.retransmits for row in rows if row.retransmits is not None]
    packets = [row.packets for row in rows if row.packets is not None]
    return Row(
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
        rows=(ROW,),
    ),
)
