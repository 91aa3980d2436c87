"""Network interfaces and RDMA ports with their counters, as `grep -H ''` over /sys/class/net and
/sys/class/infiniband prints them.

>>> text = "eth0/operstate:up\\neth0/carrier:1\\neth0/statistics/rx_bytes:70\\n"
>>> text += "mlx5_0/ports/1/state:4: ACTIVE\\nmlx5_0/ports/1/counters/port_rcv_data:9\\n"
>>> [(port.name, port.has_link, port.received_bytes) for port in parse(text)]
[('eth0', True, 70), ('mlx5_0/1', True, 36)]
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.text import whole_number

_NET = re.compile(r"^([^/\s:]+)/(?:statistics/)?(\w+):(.*)$")
_RDMA = re.compile(r"^([^/\s:]+)/ports/(\d+)/(?:\w+/)?(\w+):(.*)$")
_WORDS = 4
"""Octets per count of port_xmit_data and port_rcv_data."""
_FAULTS = (
    "rx_errors",
    "tx_errors",
    "carrier_changes",
    "link_downed",
    "symbol_error",
    "port_rcv_errors",
    "port_xmit_discards",
    "link_error_recovery",
    "local_ack_timeout_err",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "req_cqe_error",
    "resp_cqe_error",
    "roce_adp_retrans",
)


@dataclass(frozen=True, slots=True)
class Port:
    """One interface or RDMA port in one look."""

    name: str
    """`eth0`, `mlx5_0/1`."""
    rdma: bool
    state: str
    """`up`, `down`, `lowerlayerdown`, `ACTIVE`, `DOWN`…; empty = not reported."""
    has_link: bool | None
    """None = the kernel does not say: an interface that is administratively down."""
    sent_bytes: int | None
    received_bytes: int | None
    faults: tuple[tuple[str, int], ...]
    """Counters of which every rise means trouble, by name."""
    line_no: int


def parse(text: str) -> tuple[Port, ...]:
    """The ports in a look, by name; () = none is listed."""
    values: dict[tuple[str, bool], dict[str, str]] = {}
    lines: dict[tuple[str, bool], int] = {}
    for line_no, line in enumerate(text.splitlines(), 1):
        if (m := _RDMA.match(line)) is not None:
            key, name, value = (f"{m[1]}/{m[2]}", True), m[3], m[4]
        elif (m := _NET.match(line)) is not None and m[1] != "lo":
            key, name, value = (m[1], False), m[2], m[3]
        else:
            continue
        values.setdefault(key, {})[name] = value.strip()
        if name in ("operstate", "state") or key not in lines:
            lines[key] = line_no
    return tuple(_port(key, values[key], lines[key]) for key in sorted(values))


def _port(key: tuple[str, bool], fields: dict[str, str], line_no: int) -> Port:
    name, rdma = key
    faults = tuple(
        (fault, number) for fault in _FAULTS if (number := _number(fields, fault)) is not None
    )
    if rdma:
        state = fields.get("state", "").partition(":")[2].strip()
        link = None if not state else state == "ACTIVE"
        sent, received = (
            None if (n := _number(fields, c)) is None else n * _WORDS
            for c in ("port_xmit_data", "port_rcv_data")
        )
        return Port(name, True, state, link, sent, received, faults, line_no)
    state, carrier = (
        fields.get("operstate", ""),
        {"1": True, "0": False}.get(fields.get("carrier", "")),
    )
    link = carrier and state not in ("down", "lowerlayerdown") if carrier is not None else None
    return Port(
        name,
        False,
        state,
        link,
        _number(fields, "tx_bytes"),
        _number(fields, "rx_bytes"),
        faults,
        line_no,
    )


def _number(fields: dict[str, str], name: str) -> int | None:
    text = fields.get(name, "")
    return whole_number(text)
