"""Counters of a node at two moments, and what changed between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CounterReading:
    """One counter of one device at one moment."""

    device: str
    """`mlx5_0` (its port 2: `mlx5_0:2`), `eth0`, `GPU 3`, a PCI address, or `tcp` for the whole
    node."""
    counter: str
    """As the kernel or the tool writes it: `port_xmit_data`, `rx_prio3_pause`, `TcpRetransSegs`."""
    value: int
    line_no: int
    """Line of the recorded text that holds it, from 1."""


@dataclass(frozen=True, slots=True)
class NicPort:
    """One port that carries data, as far as it tells what it is."""

    device: str
    """Name as in the readings."""
    link_layer: str | None = None
    """`InfiniBand` or `Ethernet`; None = a network interface, or not said."""
    interface: str | None = None
    """The network interface over the same port; None = none is known."""


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """All counters of one node at one moment."""

    node: str
    at_s: float | None
    """Seconds since the node started; None = it did not say. Two snapshots of a node are compared
    by it, never by another clock."""
    readings: tuple[CounterReading, ...]
    ports: tuple[NicPort, ...] = ()
    sparse: tuple[str, ...] = ()
    """Devices of which only what is not 0 was printed, although all was read: what they lack is
    0."""
    problems: tuple[str, ...] = ()
    """What could not be read and why: a missing counter is unknown, not 0."""
    artefact: str = ""
    """Where the text is kept, inside the run directory."""


@dataclass(frozen=True, slots=True)
class CounterDelta:
    """What one counter did between two snapshots of its node."""

    node: str
    device: str
    counter: str
    before: int | None
    """None = it was not there, or not readable."""
    after: int | None
    delta: int | None
    """None = not known: see `note`."""
    reset: bool = False
    """True = it is lower than before: the driver was loaded again, or somebody reset it."""
    note: str = ""
    """Why the delta is not known, or how it was found: `wrapped at 2^32`."""
    seconds: float | None = None
    """Between the two; None = the node did not report its time."""
    line_no: int | None = None
    """Line of the later text, from 1; None = it is not there."""


@dataclass(frozen=True, slots=True)
class RailBytes:
    """What one port of a node sent and received between two snapshots."""

    node: str
    device: str
    """An RDMA device (`mlx5_0`) or a network interface (`eth0`)."""
    sent_bytes: int | None
    """None = not known: see `note`."""
    received_bytes: int | None
    interface: str | None = None
    """Of an RDMA device: the network interface over the same port, whose own bytes do not count
    RDMA."""
    note: str = ""
