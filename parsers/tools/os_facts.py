"""Facts of the operating system from busbw's own section: `name=value` lines out of /proc and /sys,
and the limits of the shell."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from ipaddress import ip_interface

from busbw.parsers.tools import Tool, one
from busbw.text import whole_number

# Rate and MTU of network interfaces from busbw's own section: `link NAME SPEED MTU` out of
# /sys/class/net, in Mb/s and bytes.

_SPEED_LINE = re.compile(r"^link (\S+) (-?\d+|-) (\d+|-)$", re.M)


@dataclass(frozen=True, slots=True)
class InterfaceSpeed:
    """One interface with hardware below it."""

    name: str
    rate_gbit_s: float | None
    """None = the driver does not say (-1: most virtual machines; no link)."""
    mtu: int | None


def parse_link_speeds(text: str) -> tuple[InterfaceSpeed, ...]:
    """The interfaces, in the order of the text; () = none.

    >>> parse_link_speeds("link eth0 25000 9000\\nlink ens5 -1 1460\\n")[1]
    InterfaceSpeed(name='ens5', rate_gbit_s=None, mtu=1460)
    """
    return tuple(
        InterfaceSpeed(
            name,
            number / 1000 if (number := whole_number(speed)) else None,
            whole_number(mtu),
        )
        for name, speed, mtu in _SPEED_LINE.findall(text)
    )


# Network interfaces of RDMA devices from busbw's own loop over sysfs and /proc/sys: one `rdmanet
# DEV IF key value …` line each.

_NETDEV_LINE = re.compile(r"^rdmanet (\S+) (\S+) (.*)$", re.M)
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
    """Priorities on which the receiver answers marks with notifications; None = not in sysfs (newer
    drivers keep it in the firmware)."""
    ecn_rp: tuple[int, ...] | None
    """Priorities on which the sender slows down when notified."""


def parse_netdevs(text: str) -> tuple[RdmaNetdev, ...]:
    """The interfaces; () = none.

    >>> parse_netdevs("rdmanet mlx5_0 ens1np0 mtu 9000 rp_filter 2 arp_ignore 1 arp_announce 2 ecn_np 00010000 ecn_rp -\\n")[0].ecn_np
    (3,)
    """
    netdevs = []
    for device, name, rest in _NETDEV_LINE.findall(text):
        cells = rest.split()
        fields = dict(zip(cells[::2], cells[1::2], strict=False))
        values = ((key, whole_number(value)) for key, value in fields.items())
        numbers = {key: value for key, value in values if value is not None}
        netdevs.append(
            RdmaNetdev(
                device=device,
                name=name,
                mtu=numbers.get("mtu"),
                rp_filter=numbers.get("rp_filter"),
                arp_ignore=numbers.get("arp_ignore"),
                arp_announce=numbers.get("arp_announce"),
                ecn_np=_priorities(fields.get("ecn_np", "-")),
                ecn_rp=_priorities(fields.get("ecn_rp", "-")),
            )
        )
    return tuple(netdevs)


def networks(text: str) -> tuple[tuple[str, str], ...]:
    """(interface, IPv4 network) of every address that `ip -o addr show` lists, in order.

    >>> networks("2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\\n")
    (('eth0', '10.0.0.0/24'),)
    """
    return tuple(
        (name, str(ip_interface(address).network))
        for name, address in _ADDRESS.findall(text)
        if _is_address(address)
    )


def _is_address(text: str) -> bool:
    return (
        re.fullmatch(
            r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)/(?:[12]?\d|3[0-2])",
            text,
        )
        is not None
    )


def _priorities(bits: str) -> tuple[int, ...] | None:
    return (
        tuple(i for i, bit in enumerate(bits) if bit == "1")
        if re.fullmatch(r"[01]{8}", bits)
        else None
    )


# What `ldconfig -p` lists: shared libraries known to the linker, one `name (kind) => path` per
# line.

_LIBRARY_LINE = re.compile(r"^\s+(\S+) \([^)]*\) => (\S+)$", re.M)
_HEAD = re.compile(r"^\d+ libs found in ", re.M)


def parse_libraries(text: str) -> tuple[str, ...] | None:
    """Names of the libraries, each once, sorted; None = the text is not of `ldconfig -p`.

    >>> parse_libraries("812 libs found in cache `/etc/ld.so.cache'\\n\\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2\\n")
    ('libnccl.so.2',)
    >>> parse_libraries("ldconfig: Can't open cache file") is None
    True
    """
    names = tuple(sorted({name for name, _ in _LIBRARY_LINE.findall(text)}))
    return names if names or _HEAD.search(text) else None


def majors(names: tuple[str, ...], stem: str) -> tuple[int, ...]:
    """The major versions of one library, each once, ascending.

    >>> majors(("libcudart.so.11.0", "libcudart.so.12", "libm.so.6"), "libcudart")
    (11, 12)
    """
    versions = {
        int(match[1])
        for name in names
        if (match := re.match(rf"{re.escape(stem)}\.so\.(\d+)", name))
    }
    return tuple(sorted(versions))


# What `ls /dev/infiniband` lists: the device nodes that user space opens.

_NODE = re.compile(r"\b(uverbs\d+|umad\d+|issm\d+|rdma_cm)\b")


@dataclass(frozen=True, slots=True)
class RdmaNodes:
    """The nodes listed, sorted."""

    names: tuple[str, ...]

    @property
    def uverbs(self) -> int:
        """Devices that can be opened."""
        return sum(name.startswith("uverbs") for name in self.names)


def parse_device_nodes(text: str) -> RdmaNodes | None:
    """The nodes; None = the text lists none.

    >>> parse_device_nodes("rdma_cm  uverbs0  uverbs1\\n").uverbs
    2
    """
    names = tuple(sorted(set(_NODE.findall(text))))
    return RdmaNodes(names) if names else None


_LINE = re.compile(r"^([a-z_0-9]+)=(.*)$", re.M)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class OsFacts:
    """Every value as printed, one line each and nothing else between."""

    values: tuple[tuple[str, str], ...]

    def text(self, name: str) -> str | None:
        """The value; None = the node did not say."""
        return next((value for given, value in self.values if given == name and value), None)

    def line_no(self, name: str) -> int | None:
        """The line that tells it, from 1; None = the node did not say."""
        return next(
            (
                number
                for number, (given, value) in enumerate(self.values, 1)
                if given == name and value
            ),
            None,
        )

    def number(self, name: str) -> float | None:
        """The value as a number; None = there is none."""
        value = self.text(name)
        return float(value) if value is not None and _NUMBER.fullmatch(value) else None


@functools.lru_cache(maxsize=16)
def parse(text: str) -> OsFacts:
    """The facts.

    >>> parse("kernel=6.1.0\\nnuma_balancing=\\n").text("numa_balancing") is None
    True
    """
    return OsFacts(tuple((name, value.strip()) for name, value in _LINE.findall(text)))


def count_of(listed: str) -> int | None:
    """How many a list of the kernel names; None = it is no such list.

    >>> count_of("0-47,96-143"), count_of("3"), count_of("")
    (96, 1, None)
    """
    if not re.fullmatch(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*", listed):
        return None
    ends = (
        (int(first), int(last or first))
        for first, _, last in (part.partition("-") for part in listed.split(","))
    )
    return sum(last - first + 1 for first, last in ends)


TOOL = Tool(
    name="/dev/infiniband",
    marks=("/dev/infiniband",),
    parse=one(parse_device_nodes),
    lines=lambda nodes: (", ".join(nodes.names),),
)
