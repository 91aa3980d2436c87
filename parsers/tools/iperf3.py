"""What `iperf3 --json` prints on the client's side (iperf 3.9 to 3.18): bytes, rates and
retransmits of one TCP or UDP test."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.parsers.logs.json_values import flag, items, mapping, number, objects, text_of, whole
from busbw.parsers.tools import Tool


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
    """Its own words where it failed; "" = it ended well."""


def parse_all(text: str) -> tuple[Iperf3, ...]:
    """Every test in a text, also documents one after another."""
    tests = (_test(document) for document in objects(text))
    return tuple(test for test in tests if test is not None)


def parse(text: str) -> Iperf3 | None:
    """The first test in a text; None = it is not of `iperf3 --json`.

    >>> parse('{"start": {"version": "iperf 3.12", "connected": []}, "end": {}, "error": "unable to connect to server: Connection refused"}').problem
    'unable to connect to server: Connection refused'
    """
    return next(iter(parse_all(text)), None)


def _test(document: dict[str, object]) -> Iperf3 | None:
    start, end = mapping(document.get("start")), mapping(document.get("end"))
    if not (text_of(start, "version") or "").startswith("iperf"):
        return None
    ends = [mapping(each) for each in items(start, "connected")]
    options = mapping(start.get("test_start"))
    # One UDP sum serves both directions; what was lost is told in percent.
    sent = mapping(end.get("sum_sent")) or mapping(end.get("sum"))
    received = mapping(end.get("sum_received")) or mapping(end.get("sum"))
    sums = [mapping(mapping(each).get("sum")) for each in items(document, "intervals")]
    rates = [rate for each in sums if (rate := _gbit_s(each)) is not None]
    cpu = mapping(end.get("cpu_utilization_percent"))
    error = text_of(document, "error") or ""
    return Iperf3(
        local=text_of(ends[0], "local_host") if ends else None,
        remote=text_of(ends[0], "remote_host") if ends else None,
        protocol=text_of(options, "protocol"),
        streams=whole(options, "num_streams"),
        seconds=number(sent, "seconds"),
        reverse=bool(flag(options, "reverse")),
        sent_gbit_s=_gbit_s(sent),
        received_gbit_s=None if error else _gbit_s(received),
        sent_bytes=whole(sent, "bytes"),
        retransmits=whole(sent, "retransmits"),
        interval_gbit_s=tuple(rates),
        cpu_local_percent=number(cpu, "host_total"),
        cpu_remote_percent=number(cpu, "remote_total"),
        problem=error or ("" if sent else "the test has no end"),
    )


def _gbit_s(values: dict[str, object]) -> float | None:
    rate = number(values, "bits_per_second")
    return None if rate is None else rate / 1e9


def _line(test: Iperf3) -> str:
    rates = (("sent", test.sent_gbit_s), ("received", test.received_gbit_s))
    return ", ".join(f"{name} {rate:g} Gb/s" for name, rate in rates if rate) or "no rates"


TOOL = Tool(
    name="iperf3",
    marks=('"iperf',),
    parse=parse_all,
    lines=lambda test: (_line(test),),
    errors=lambda test: (test.problem,) if test.problem else (),
)
