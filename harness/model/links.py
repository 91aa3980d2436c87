"""The fleet's link test: every rail of every node, without NCCL."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.model.evidence import Status


@dataclass(frozen=True, slots=True)
class PortFacts:
    """What a port and its cable say of themselves; None = not shown."""

    fec: str | None = None
    raw_ber: float | None = None
    """Bit errors before correction, per bit."""
    effective_ber: float | None = None
    """Bit errors that the correction left, per bit."""
    rx_dbm: tuple[float, ...] = ()
    """Optical power received, a value a lane; () = a copper cable, or not shown."""
    tx_dbm: tuple[float, ...] = ()
    temperature_c: float | None = None
    part: str | None = None
    serial: str | None = None
    """Of the cable or transceiver."""
    problem: str = ""
    """Why nothing was read: the tool is missing, or asks for root."""


@dataclass(frozen=True, slots=True)
class LinkRow:
    """One rail of one node over all rounds."""

    node: str
    rail: int
    interface: str
    sent_gbit_s: float | None
    """Median over its tests; None = not measured."""
    received_gbit_s: float | None
    latency_us: float | None
    """Median over its tests: of a round trip (ping), or one way (ib_write_lat)."""
    tests: int
    """Partners with which both directions were measured."""
    share: float | None
    """Its slower direction over the median of all nodes' on this rail."""
    status: Status
    why: str
    """Why it is not PASS."""
    port: PortFacts
    artefact: str
    """Output of its first test; empty = none."""
    memory: str = "host"
    """`host` or `gpu`: where the buffers of its tests lay."""
    together: float | None = None
    """What it carries while all rails of the pair are busy, over what it carries by itself: the
    median over the partners, the slower direction of each; None = one rail, or not measured."""


@dataclass(frozen=True, slots=True)
class LinkTable:
    """The link test of a run."""

    tool: str
    """`ib_write_bw` or `iperf3`."""
    memory: str
    """`host`, `gpu`, or `both`: a row for each."""
    rounds: int
    seconds: float
    """That the rounds took."""
    visible_loss: float
    """Loss of a node, as a share, that the noise of these tests does not hide."""
    rows: tuple[LinkRow, ...]
    """By memory, then node, then rail."""
