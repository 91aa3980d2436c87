"""Whether NCCL's RoCE packets are in the class for which the adapters have flow control: the traffic
class of the launches beside `mlnx_qos` of every node.

The upper six bits of NCCL_IB_TC are the DSCP of the packets, 0 where it is not set (NCCL user
guide); `mlnx_qos` prints which priority a DSCP belongs to, and on which there is flow control.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from busbw.checks import NodeAnswer
from busbw.fabrics.profile import DataPath, Profile, Wire
from busbw.inventory.hostlist import fold
from busbw.parsers.tools import mlnx_qos
from busbw.parsers.tools.mlnx_qos import Qos
from busbw.store.artefacts import SetupArtefact
from busbw.text import whole_number

_VARIABLE = "NCCL_IB_TC"
_TIMEOUT, _RETRIES = "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT"
_STANDARD = {_TIMEOUT: 20, _RETRIES: 7}
"""NCCL's defaults since 2.23 (`src/transport/net_ib`); before it waited a quarter as long."""
_TICK_US = 4.096
"""A queue pair waits this long times 2^value (InfiniBand Architecture Specification, 9.7.6.1.3)."""
_USUAL = 26
"""The DSCP that most sites use for RDMA: proposed where it belongs to the lossless priority."""
_ECN = 2
"""ECN-capable, the lower two bits."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Nodes whose packets are in a class without flow control."""

    nodes: tuple[str, ...]
    text: str


def mismatches(
    profile: Profile,
    settings: Mapping[str, str],
    setup: SetupArtefact | None,
    answers: tuple[NodeAnswer, ...],
) -> tuple[Mismatch, ...]:
    """Nodes with one and the same mismatch together; () = none, or no node reported its classes."""
    roce = profile.carrier is not None and profile.carrier.wire is Wire.ROCE
    if not roce or profile.family is None or profile.family.data_path is not DataPath.VERBS:
        return ()
    nodes_by_text: dict[tuple[str, str], list[str]] = {}
    for answer in answers:
        value = _value(_VARIABLE, answer, settings, setup)
        waits = _waits(answer, settings, setup)
        for text in dict.fromkeys(_texts(value, _classes(answer))):
            nodes_by_text.setdefault((text, waits), []).append(answer.node.name)
    return tuple(
        Mismatch(tuple(nodes), f"{text} on {fold(nodes)}; {waits}")
        for (text, waits), nodes in nodes_by_text.items()
    )


def _waits(answer: NodeAnswer, settings: Mapping[str, str], setup: SetupArtefact | None) -> str:
    """What a dropped packet costs with the time-out and the retries of the node's ranks."""
    numbers = {
        name: number
        if (number := whole_number(_value(name, answer, settings, setup))) is not None
        else usual
        for name, usual in _STANDARD.items()
    }
    wait_s = _TICK_US * 2 ** min(numbers[_TIMEOUT], 31) / 1e6
    retries = min(numbers[_RETRIES], 7)
    return (
        f"a packet dropped there is missed for up to {wait_s:.3g} s, and {retries + 1} such waits"
        f" end the job ({_TIMEOUT}={numbers[_TIMEOUT]}, {_RETRIES}={numbers[_RETRIES]})"
    )


def _value(
    name: str, answer: NodeAnswer, settings: Mapping[str, str], setup: SetupArtefact | None
) -> str | None:
    """As the node's ranks have it: of the launch, the setup script or nccl.conf; None = not set."""
    if name in settings:
        return settings[name]
    for node in setup.nodes if setup is not None else ():
        if node.node == answer.node.name and name in dict(node.variables):
            return dict(node.variables)[name]
    section = answer.section("nccl_conf")
    match = re.search(rf"^{name}\s*=\s*(\d+)", section.stdout, re.M) if section else None
    return match[1] if match else None


def _classes(answer: NodeAnswer) -> Iterator[Qos]:
    """Of every interface that has flow control by DSCP: the others are `eth.qos`'s."""
    section = answer.section("mlnx_qos")
    parts = re.split(r"^== \S+$", section.stdout, flags=re.M) if section else []
    for part in parts:
        qos = mlnx_qos.parse(part)
        if qos is not None and qos.trust == "dscp" and qos.pfc_priorities:
            yield qos


def _texts(value: str | None, classes: Iterator[Qos]) -> Iterator[str]:
    number = whole_number(value or "0")
    if number is None:
        return
    dscp = number >> 2
    written = f"{_VARIABLE}={number}" if value is not None else f"{_VARIABLE} is not set, so 0"
    for qos in classes:
        lossless = qos.pfc_priorities or ()
        priority = _priority(qos, dscp)
        if priority in lossless:
            continue
        flow = ", ".join(map(str, lossless))
        yield (
            f"{written} (DSCP {dscp}, priority {priority}), and flow control is on priority"
            f" {flow}{_proposal(qos, lossless)}"
        )


def _priority(qos: Qos, dscp: int) -> int:
    """The adapter's own map, else its default: the upper three bits."""
    return dict(qos.dscp_priorities).get(dscp, dscp >> 3)


def _proposal(qos: Qos, lossless: tuple[int, ...]) -> str:
    fitting = [dscp for dscp in range(64) if _priority(qos, dscp) in lossless]
    if not fitting:
        return ""
    dscp = _USUAL if _USUAL in fitting else fitting[0]
    return f" ({_VARIABLE}={dscp * 4 + _ECN} would be in it)"
