"""Facts about RDMA ports, whichever tool printed them.

Nobody says here which ports a job uses: a port that is down counts where ports like it are up, or
where no port is up at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import ToolFact, Value

_STATES = {"INITIALIZING": "INIT"}
"""Names of a state that differ from the kernel's."""
_ALIKE = 3
"""Active ports of one kind, from which on another of that kind should be active too."""


@dataclass(frozen=True, slots=True)
class PrintedPort:
    """One port; None = not printed."""

    device: str
    kind: str
    """Model of the adapter, as the tool names it."""
    state: str | None
    """`Active`, `DOWN`, `PORT_INIT`…"""
    link_layer: str | None
    physical_state: str | None = None
    active_mtu: int | None = None
    rate_gbit_s: float | None = None
    """In Gb/s."""


def port_facts(ports: tuple[PrintedPort, ...]) -> Iterator[ToolFact]:
    """State and MTU of each port.

    >>> (fact,) = port_facts((PrintedPort("mlx5_0", "MT4129", "Initializing", None),))
    >>> fact.check_id, fact.values[0], fact.subject
    ('rdma.port_state', ('state', 'INIT'), 'mlx5_0')
    """
    active = [port for port in ports if _state(port) == "ACTIVE"]
    for port in ports:
        alike = [
            other
            for other in active
            if (other.kind, other.link_layer) == (port.kind, port.link_layer)
        ]
        values: list[tuple[str, Value]] = [
            ("state", _state(port)),
            ("active_ports", float(len(active))),
            ("most_alike_active", len(alike) >= _ALIKE),
        ]
        if port.physical_state is not None:
            values.append(("phys_state", port.physical_state))
        if port.link_layer is not None:
            values.append(("link_layer", port.link_layer))
        yield ToolFact("rdma.port_state", tuple(values), port.device)
        if port in active and port.active_mtu is not None and port.link_layer is not None:
            mtu = (("active_mtu", float(port.active_mtu)), ("link_layer", port.link_layer))
            yield ToolFact("rdma.mtu", mtu, port.device)
        most = slower_than(port, alike)
        if most is not None and port.rate_gbit_s is not None and port in active:
            rates = (("rate_gbps", port.rate_gbit_s), ("expected_gbps", most))
            yield ToolFact("rdma.rate", rates, port.device)


def slower_than(port: PrintedPort, alike: list[PrintedPort]) -> float | None:
    """The rate of the active ports like it in Gb/s, where this one alone is slower; None = it is not.
    Two ports at a lower rate are a node's storage network as often as a fault.

    >>> ports = [PrintedPort(f"mlx5_{n}", "MT4129", "Active", None, rate_gbit_s=400) for n in range(3)]
    >>> slow = PrintedPort("mlx5_3", "MT4129", "Active", None, rate_gbit_s=200)
    >>> slower_than(slow, [*ports, slow]), slower_than(slow, [*ports, slow, slow])
    (400, None)
    """
    counts = Counter(other.rate_gbit_s for other in alike if other.rate_gbit_s is not None)
    if port.rate_gbit_s is None or counts[port.rate_gbit_s] != 1:
        return None
    most, count = counts.most_common(1)[0]
    return most if count >= _ALIKE and port.rate_gbit_s < most else None


def _state(port: PrintedPort) -> str:
    name = (port.state or "unknown").removeprefix("PORT_").upper()
    return _STATES.get(name, name)
