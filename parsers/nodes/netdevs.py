"""Network interfaces of RDMA devices from busbw's own loop over sysfs and /proc/sys: one `rdmanet DEV IF key value …` line each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_interface

_LINE = re.compile(r"^rdmanet (\S+) (\S+) (.*)$", re.M)
_ADDRESS = re.compile(r"^\d+:\s+([^\s@]+)(?:@\S+)?\s+inet (\S+)", re.M)


@dataclass(frozen=True, slots=True)
class RdmaNetdev:
    """One interface; None = the kernel does not show it."""

    device: str
    name: str
    mtu: int | None
    rp_filter: int | None
    arp_ignore: int | None
    arp_announce: int | None
    ecn_np: tuple[int, ...] | None
    """Priorities on which the receiver answers marks with notifications; None = not in sysfs (newer drivers keep it in the firmware)."""
    ecn_rp: tuple[int, ...] | None
    """Priorities on which the sender slows down when notified."""


def parse(text: str) -> tuple[RdmaNetdev, ...]:
    """The interfaces; () = none.

    >>> parse("rdmanet mlx5_0 ens1np0 mtu 9000 rp_filter 2 arp_ignore 1 arp_announce 2 ecn_np 00010000 ecn_rp -\\n")[0].ecn_np
    (3,)
    """
    found = []
    for device, name, rest in _LINE.findall(text):
        words = rest.split()
        said = dict(zip(words[::2], words[1::2], strict=False))
        numbers = {key: int(value) for key, value in said.items() if value.isdigit()}
        found.append(
            RdmaNetdev(
                device=device,
                name=name,
                mtu=numbers.get("mtu"),
                rp_filter=numbers.get("rp_filter"),
                arp_ignore=numbers.get("arp_ignore"),
                arp_announce=numbers.get("arp_announce"),
                ecn_np=_priorities(said.get("ecn_np", "-")),
                ecn_rp=_priorities(said.get("ecn_rp", "-")),
            )
        )
    return tuple(found)


def networks(text: str) -> tuple[tuple[str, str], ...]:
    """(interface, IPv4 network) of every address that `ip -o addr show` lists, in order.

    >>> networks("2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\\n")
    (('eth0', '10.0.0.0/24'),)
    """
    return tuple((name, str(ip_interface(address).network)) for name, address in _ADDRESS.findall(text) if _is_address(address))


def _is_address(text: str) -> bool:
    return re.fullmatch(r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)/(?:[12]?\d|3[0-2])", text) is not None


def _priorities(bits: str) -> tuple[int, ...] | None:
    return tuple(i for i, bit in enumerate(bits) if bit == "1") if re.fullmatch(r"[01]{8}", bits) else None
