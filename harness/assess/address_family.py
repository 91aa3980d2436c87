"""Whether NCCL looks for the kind of address that the RoCE ports have: it takes the GID of an IPv4
address unless NCCL_IB_ADDR_FAMILY says AF_INET6 (NCCL user guide, since 2.21)."""

from __future__ import annotations

from collections.abc import Mapping

from busbw.checks import NodeAnswer
from busbw.fabrics.profile import DataPath, Profile
from busbw.parsers.tools import rdma_sysfs

_FAMILY, _INDEX = "NCCL_IB_ADDR_FAMILY", "NCCL_IB_GID_INDEX"


def without_ipv4(answers: tuple[NodeAnswer, ...]) -> tuple[str, ...]:
    """Nodes whose active RoCE ports have global IPv6 addresses and no IPv4 address."""
    return tuple(answer.node.name for answer in answers if _only_ipv6(answer))


def _only_ipv6(answer: NodeAnswer) -> bool:
    section = answer.section("rdma_sysfs")
    ports = [
        port
        for device in (rdma_sysfs.parse(section.stdout) if section is not None else ())
        if not answer.node.rails or device.name in answer.node.rails
        for port in device.ports
        if port.state == "ACTIVE" and port.link_layer == "Ethernet"
    ]
    return bool(ports) and all(port.rocev2_ipv6 and not port.rocev2_ipv4 for port in ports)


def unasked(
    profile: Profile, settings: Mapping[str, str], answers: tuple[NodeAnswer, ...]
) -> tuple[str, ...]:
    """Nodes with IPv6 addresses alone, where the launches' variables let NCCL look for IPv4; () =
    none."""
    verbs = profile.family is not None and profile.family.data_path is DataPath.VERBS
    if not verbs or settings.get(_FAMILY) == "AF_INET6" or _INDEX in settings:
        return ()
    return without_ipv4(answers)
