"""What `iperf3 --json` and `--json-stream` print (iperf 3.9 to 3.21), on either side: bytes, rates and
retransmits of one TCP or UDP test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.logs.json_values import flag, items, mapping, number, text_of, values, whole
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
            yield _test({}, "not whole JSON: it is cut off or damaged")
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
        streams=whole(options, "num_streams"),
        seconds=number(sent, "seconds"),
        reverse=bool(flag(options, "reverse")),
        sent_gbit_s=sent_gbit_s,
        received_gbit_s=None if error else received_gbit_s,
        sent_bytes=whole(sent, "bytes"),
        retransmits=whole(sent, "retransmits"),
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
    return ", ".join(shown) or "no rates"


TOOL = Tool(
    name="iperf3",
    marks=('"iperf', '{"event":"'),
    parse=parse_all,
    lines=lambda test: (_line(test),),
    errors=lambda test: (test.problem,) if test.failed else (),
    gaps=lambda test: (test.problem,) if test.problem and not test.failed else (),
)
