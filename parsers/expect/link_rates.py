"""What one link can carry: network payload after headers, PCIe after framing, NVLink per GPU. GB/s,
one direction.

Long messages only. Header sizes: InfiniBand Architecture Specification (LRH 8, BTH 12, ICRC 4, VCRC
2), its annex A17 for RoCEv2, IEEE 802.3, RFC 791, RFC 768, RFC 9293; line codes of PCIe: the base
specifications.
"""

from __future__ import annotations

from busbw.model import Limit
from busbw.parsers.expect.hardware import Gpu

INFINIBAND_HEADER_BYTES = 26
"""LRH 8, BTH 12, ICRC 4, VCRC 2."""
ROCE_HEADER_BYTES = 82
"""Preamble 8, gap 12, Ethernet 14, FCS 4, IPv4 20, UDP 8, BTH 12, ICRC 4; 4 more with a VLAN tag,
RETH 16 on the first packet of a write."""
TCP_WIRE_BYTES = 38
"""Preamble 8, gap 12, Ethernet 14, FCS 4 around each IP packet."""
TCP_HEADER_BYTES = 52
"""IPv4 20, TCP 20, timestamps 12, inside the MTU."""
_RDMA_MTUS = (256, 512, 1024, 2048, 4096)
_ROCE_RESERVED_BYTES = 96
"""What Linux sets aside of the device's MTU: GRH 40, UDP 8, BTH 12, XRC 4, AtomicETH 28, ICRC 4
(`iboe_get_mtu`, include/rdma/ib_addr.h)."""

_PCIE_RAW_GB_S = {
    3: 16.0 * 128 / 130,
    4: 32.0 * 128 / 130,
    5: 64.0 * 128 / 130,
    6: 128.0 * 236 / 256,
}
_PCIE_TLP_EFFICIENCY = 256 / (256 + 24)
"""Payload of 256 bytes under 24 of framing, header and its share of acknowledgements: 0.914, as
measured (54.8-56.6 of 63 on Gen5)."""
_PCIE_FLIT_EFFICIENCY = 115 / 118
"""Gen6 carries its framing in the FLIT; what is left to lose is small. About 115 GB/s usable is an
estimate, nobody published one."""


def rounded(value_gb_s: float) -> str:
    """A bandwidth as the inputs of a limit show it."""
    return f"{value_gb_s:.5g} GB/s"


def rdma_mtu(device_mtu: int) -> int:
    """The RDMA MTU that RoCE uses on a device of that MTU: the largest of 256 … 4096 that fits with
    its headers.

    >>> rdma_mtu(1500), rdma_mtu(2200), rdma_mtu(4200), rdma_mtu(9000)
    (1024, 2048, 4096, 4096)

    Raises:
        ValueError: not even 256 bytes fit.
    """
    fitting = [mtu for mtu in _RDMA_MTUS if mtu + _ROCE_RESERVED_BYTES <= device_mtu]
    if not fitting:
        raise ValueError(
            f"RoCE needs a device MTU of at least {_RDMA_MTUS[0] + _ROCE_RESERVED_BYTES}, found"
            f" {device_mtu}"
        )
    return fitting[-1]


def line_rate(line_gb_s: float) -> Limit:
    """The data rate of a link with headers counted in: the physical ceiling, whatever the
    transport."""
    return Limit(line_gb_s, "line rate after encoding", (("line", rounded(line_gb_s)),))


def infiniband_payload(line_gb_s: float, mtu: int = 4096) -> Limit:
    """Payload of InfiniBand for the data rate `line_gb_s` and the RDMA MTU `mtu`."""
    return _payload(line_gb_s, mtu, INFINIBAND_HEADER_BYTES, "InfiniBand")


def roce_payload(line_gb_s: float, device_mtu: int = 9000, *, vlan: bool = False) -> Limit:
    """Payload of RoCEv2 for the data rate `line_gb_s` and the MTU of the network device.

    Raises:
        ValueError: no RDMA MTU fits into `device_mtu`.
    """
    return _payload(
        line_gb_s, rdma_mtu(device_mtu), ROCE_HEADER_BYTES + (4 if vlan else 0), "RoCEv2"
    )


def tcp_payload(line_gb_s: float, device_mtu: int = 9000) -> Limit:
    """Payload of TCP with timestamps; NCCL's sockets reach far less (one published case 4.5-5.2 of
    12.5 GB/s).

    Raises:
        ValueError: the MTU has no room for the headers.
    """
    if device_mtu <= TCP_HEADER_BYTES:
        raise ValueError(f"TCP needs a device MTU above {TCP_HEADER_BYTES}, found {device_mtu}")
    return _payload(
        line_gb_s, device_mtu - TCP_HEADER_BYTES, TCP_HEADER_BYTES + TCP_WIRE_BYTES, "TCP"
    )


def _payload(line_gb_s: float, payload_bytes: int, overhead_bytes: int, transport: str) -> Limit:
    value = line_gb_s * payload_bytes / (payload_bytes + overhead_bytes)
    inputs = (
        ("line", rounded(line_gb_s)),
        ("payload", f"{payload_bytes} B"),
        ("overhead", f"{overhead_bytes} B"),
    )
    return Limit(value, f"{transport}: line x payload / (payload + overhead)", inputs)


def pcie(generation: int, lanes: int = 16) -> Limit:
    """A PCIe link after its line code, framing not yet off: the physical ceiling.

    Raises:
        ValueError: a generation before 3 or after 6.
    """
    if generation not in _PCIE_RAW_GB_S:
        raise ValueError(f"known PCIe generations: 3, 4, 5, 6; found {generation}")
    value = _PCIE_RAW_GB_S[generation] * lanes / 16
    return Limit(
        value, "PCIe after line code", (("generation", str(generation)), ("lanes", str(lanes)))
    )


def pcie_usable(generation: int, lanes: int = 16) -> Limit:
    """A PCIe link as DMA with payloads of 256 bytes uses it.

    Raises:
        ValueError: as `pcie`.
    """
    raw = pcie(generation, lanes)
    efficiency = _PCIE_FLIT_EFFICIENCY if generation == 6 else _PCIE_TLP_EFFICIENCY
    return Limit(
        raw.value_gb_s * efficiency,
        "PCIe after line code x TLP efficiency",
        (*raw.inputs, ("efficiency", f"{efficiency:.3f}")),
    )


def nic_behind_pcie(line_gb_s: float, generation: int, lanes: int = 16) -> Limit:
    """One adapter, all its ports together, behind its host link: two ports of 400 Gb/s on one Gen5
    x16 do not carry 800."""
    host = pcie(generation, lanes)
    return Limit(
        min(line_gb_s, host.value_gb_s),
        "min(line, PCIe)",
        (("line", rounded(line_gb_s)), ("PCIe", rounded(host.value_gb_s))),
    )


def nvlink(gpu: Gpu) -> Limit | None:
    """All NVLinks or xGMI links of one GPU by specification; None = it has none."""
    if gpu.nvlink_gb_s is None:
        return None
    return Limit(
        gpu.nvlink_gb_s, "links x rate of one", (("GPU", gpu.name), ("source", gpu.source))
    )


def oversubscribed(network_gb_s: float, ratio: float) -> Limit:
    """What of a node's network leaves the leaf where `ratio` bytes of ports to nodes stand against
    one of uplinks.

    Raises:
        ValueError: a ratio below 1.
    """
    if ratio < 1:
        raise ValueError(f"an oversubscription ratio is 1 or more, found {ratio:g}")
    return Limit(network_gb_s / ratio, "W / o", (("W", rounded(network_gb_s)), ("o", f"{ratio:g}")))
