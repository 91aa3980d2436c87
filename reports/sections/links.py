"""The fleet's link test: a row a node and rail, with what its port and cable say of themselves."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.model import Status
from busbw.model.links import LinkRow, LinkTable, PortFacts
from busbw.reports import phrases
from busbw.reports.charts import axes, strip
from busbw.reports.charts.svg import Drawing
from busbw.reports.input import ReportInput
from busbw.units import counted, format_duration

_SHOWN = 60
"""Rows of the table at most, the worst first; links.json and run.json have all."""
_MEMORIES = {
    "host": "host memories",
    "gpu": "GPU memories",
    "both": "host memories, then GPU memories",
}
_ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS)


@dataclass(frozen=True, slots=True)
class Row:
    """One rail of one node."""

    status: Status
    node: str
    rail: str
    sent: str
    received: str
    share: str
    together: str
    """Of its rate alone, while all rails are busy."""
    latency: str
    memory: str
    port: str
    why: str
    artefact: str


@dataclass(frozen=True, slots=True)
class Links:
    """The section."""

    conclusion: str
    how: str
    picture: Drawing | None
    rows: tuple[Row, ...]
    more: int


def view(report: ReportInput) -> Links | None:
    """None = the run made no link test."""
    links = report.result.links
    if links is None:
        return None
    rows = sorted(links.rows, key=lambda row: (_ORDER.index(row.status), row.share or 0.0))
    return Links(
        _conclusion(links),
        f"{links.tool} between {_MEMORIES[links.memory]}, {counted(links.rounds, 'round')} of"
        f" disjoint pairs in {format_duration(links.seconds)}; without NCCL, so that it is ruled out."
        " Each number is the median over the partners; a share is the slower direction over the"
        " median of the same rail of all nodes. All busy: what is left of its own rate while all"
        " rails of the pair are busy; less is what the rails share, such as a PCIe switch, a NUMA"
        " link or an uplink.",
        _picture(links),
        tuple(_row(row) for row in rows[:_SHOWN]),
        max(0, len(rows) - _SHOWN),
    )


def _conclusion(links: LinkTable) -> str:
    slow = [f"{row.node} {row.interface}" for row in links.rows if row.status is Status.FAIL]
    unknown = [row for row in links.rows if row.status is Status.UNKNOWN]
    parts = []
    if slow:
        more = f" and {len(slow) - 6} more" if len(slow) > 6 else ""
        parts.append(f"Slow: {', '.join(slow[:6])}{more}.")
    warned = [f"{row.node} {row.interface}: {row.why}" for row in links.rows if _warned(row)]
    if warned:
        more = f" and {len(warned) - 6} more" if len(warned) > 6 else ""
        parts.append(f"Noted: {', '.join(warned[:6])}{more}.")
    if unknown:
        count = counted(len(unknown), "rail")
        parts.append(
            f"Not judged: {count} of {phrases.nodes(tuple(dict.fromkeys(r.node for r in unknown)))}."
        )
    if not parts:
        parts.append(f"All {len(links.rows)} rails are alike.")
    return " ".join(parts)


def _warned(row: LinkRow) -> bool:
    return row.status is Status.WARN


def _row(row: LinkRow) -> Row:
    return Row(
        row.status,
        row.node,
        row.interface or f"rail {row.rail}",
        phrases.link_rate(row.sent_gbit_s),
        phrases.link_rate(row.received_gbit_s),
        phrases.percent(row.share),
        phrases.percent(row.together) if row.together is not None else "–",
        f"{row.latency_us:.3g} µs" if row.latency_us is not None else "–",
        row.memory,
        port_text(row.port),
        row.why,
        row.artefact,
    )


def port_text(port: PortFacts) -> str:
    """What the port and its cable say, in one line.

    >>> port_text(PortFacts(fec="RS", raw_ber=2e-9, rx_dbm=(1.5, -9.8), serial="MT1"))
    'FEC RS, raw BER 2e-09, receives -9.8 to 1.5 dBm, cable MT1'
    """
    parts = [
        f"FEC {port.fec}" if port.fec else "",
        f"raw BER {port.raw_ber:g}" if port.raw_ber is not None else "",
        f"effective BER {port.effective_ber:g}" if port.effective_ber is not None else "",
        f"receives {min(port.rx_dbm):g} to {max(port.rx_dbm):g} dBm" if port.rx_dbm else "",
        f"{port.temperature_c:g} °C" if port.temperature_c is not None else "",
        f"cable {' '.join(filter(None, (port.part, port.serial)))}"
        if port.part or port.serial
        else "",
    ]
    return ", ".join(filter(None, parts)) or f"not read: {port.problem or 'nothing shown'}"


def _picture(links: LinkTable) -> Drawing | None:
    """A mark a rail: its slower direction, from the slowest to the fastest of its tests."""
    known = [row for row in links.rows if row.sent_gbit_s is not None and row.received_gbit_s]
    if len(known) < 2:
        return None
    marks = []
    for row in known:
        low, high = sorted((row.sent_gbit_s or 0.0, row.received_gbit_s or 0.0))
        slow = row.status is Status.FAIL
        marks.append(strip.Mark(low, low, high, slow, f"{row.node} {row.interface}", slow))
    middle = statistics.median(mark.value for mark in marks)
    picture = strip.Strip(
        key="links",
        title="Each rail's slower direction",
        description=f"{sum(m.outlier for m in marks)} of {len(marks)} rails are flagged",
        y=axes.linear(1.05 * max(mark.high for mark in marks)),
        y_label="Gb/s",
        marks=tuple(marks),
        first=marks[0].name,
        last=marks[-1].name,
        rules=(strip.Rule(middle, f"median {phrases.link_rate(middle)}"),),
    )
    return strip.draw(picture)
