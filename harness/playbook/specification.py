"""The `specification:` block of an inventory, a playbook or a contract: what every node must have, exactly or
at least, and the table of what can be demanded.

    specification:
      gpus: 8
      gpu_model: NVIDIA H100 80GB HBM3
      nics: 8
      nic_rate: 400
      nic_firmware: ">= 28.39.1002"

A row of `FIELDS` is everything about a key: a new one is one row.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from busbw import versions
from busbw.codec import unknown
from busbw.model import Requirement
from busbw.parsers.tools import (
    gpus,
    ibverbs,
    nvidia_smi_details,
    nvidia_smi_nvlink,
    ofed,
    os_facts,
    pci,
    rdma_sysfs,
)
from busbw.parsers.tools.nvidia_smi_query import QueryRow
from busbw.parsers.tools.os_facts import InterfaceSpeed
from busbw.parsers.tools.pci import PciDevice
from busbw.parsers.tools.rdma_sysfs import SysfsDevice, SysfsPort

Texts = Mapping[str, str]
"""Section of the checks → what a node printed there."""
Readings = tuple[tuple[str, str | None], ...]
"""(device, value) of each part of a node; "" = the node itself; None = not shown."""


class Kind(StrEnum):
    """How a value is compared."""

    NUMBER = "number"
    VERSION = "version"
    """Number by number: 28.39.1002 is less than 28.40.1000."""
    TEXT = "text"
    """Every word of it must be in what was seen; no `>=`."""


@dataclass(frozen=True, slots=True)
class Field:
    """One key that a `specification:` block may have."""

    key: str
    group: str
    """The check that judges it: `spec.GROUP`."""
    kind: Kind
    sections: tuple[str, ...]
    """Sections of the checks that show it."""
    command: str
    """What answers it, as a person would type it."""
    read: Callable[[Texts, tuple[str, ...]], Readings]
    """What a node has; its second argument are the rails that the inventory names."""
    unit: str = ""


# What each section shows, by part. Devices are those that carry data: the rails of the inventory,
# else the fastest, which leaves out the NICs for storage and management.


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def _gpu_count(texts: Texts, rails: tuple[str, ...]) -> Readings:
    rows = gpus.rows(texts["gpu_query"])
    return () if rows is None else (("", str(len(rows))),)


def _of_gpu(name: str) -> Callable[[Texts, tuple[str, ...]], Readings]:
    def read(texts: Texts, rails: tuple[str, ...]) -> Readings:
        rows = gpus.rows(texts["gpu_query"]) or ()
        return tuple((_gpu(row), row.text(name)) for row in rows)

    return read


def _gpu(row: QueryRow) -> str:
    return f"gpu{row.text('index') or ''}"


def _gpu_generation(texts: Texts, rails: tuple[str, ...]) -> Readings:
    # An idle GPU runs its link at a lower generation: `Max` is what GPU and slot give together.
    generations = nvidia_smi_details.parse_pcie_generations(texts["gpu_details"])
    return tuple((f"gpu{index}", _number(value)) for index, value in enumerate(generations))


def _nvlinks(texts: Texts, rails: tuple[str, ...]) -> Readings:
    return tuple(
        (f"gpu{gpu.index}", str(len(gpu.rates_gb_s) - len(gpu.inactive)))
        for gpu in nvidia_smi_nvlink.parse(texts["gpu_nvlink"])
    )


@functools.lru_cache(maxsize=16)
def _ports(text: str, rails: tuple[str, ...]) -> tuple[tuple[SysfsDevice, SysfsPort], ...]:
    """The active RDMA ports that carry data."""
    active = tuple(
        (device, port)
        for device in rdma_sysfs.parse(text)
        for port in device.ports
        if port.state == "ACTIVE"
    )
    named = tuple(each for each in active if each[0].name in rails)
    if named:
        return named
    best = max((port.rate_gbit_s or 0.0 for _, port in active), default=0.0)
    return tuple(each for each in active if (each[1].rate_gbit_s or 0.0) == best)


def _nic_count(texts: Texts, rails: tuple[str, ...]) -> Readings:
    return (("", str(len(_ports(texts["rdma_sysfs"], rails)))),)


def _of_port(
    value: Callable[[SysfsDevice, SysfsPort], str | None],
) -> Callable[[Texts, tuple[str, ...]], Readings]:
    def read(texts: Texts, rails: tuple[str, ...]) -> Readings:
        return tuple(
            (device.name, value(device, port))
            for device, port in _ports(texts["rdma_sysfs"], rails)
        )

    return read


def _lanes(device: SysfsDevice, port: SysfsPort) -> str | None:
    match = re.match(r"(\d+)X", port.lanes or "")
    return match[1] if match else None


def _rdma_mtu(texts: Texts, rails: tuple[str, ...]) -> Readings:
    carrying = {device.name for device, _ in _ports(texts["rdma_sysfs"], rails)}
    return tuple(
        (info.name, _number(port.active_mtu))
        for info in ibverbs.parse_devinfo(texts["ibv_devinfo"])
        if info.name in carrying
        for port in info.ports
    )


_PCIE_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""Of the transfer rate of a lane in GT/s: PCI Express Base Specification."""


def _adapters(texts: Texts) -> tuple[PciDevice, ...]:
    """The network adapters with the widest link that they could have."""
    known = [each for each in pci.parse_devices(texts["pci"]) if each.device_class[:4] == "0x02"]

    def reach(device: PciDevice) -> float:
        return (device.max_width or 0) * (device.max_speed_gt_s or 0.0)

    best = max(map(reach, known), default=0.0)
    return tuple(each for each in known if reach(each) == best)


def _nic_width(texts: Texts, rails: tuple[str, ...]) -> Readings:
    return tuple((each.address, _number(each.width)) for each in _adapters(texts))


def _nic_generation(texts: Texts, rails: tuple[str, ...]) -> Readings:
    return tuple(
        (each.address, _number(_PCIE_GENERATION.get(each.speed_gt_s or 0.0)))
        for each in _adapters(texts)
    )


def _interfaces(texts: Texts, rails: tuple[str, ...]) -> tuple[InterfaceSpeed, ...]:
    known = os_facts.parse_link_speeds(texts["link_speed"])
    named = tuple(each for each in known if each.name in rails)
    best = max((each.rate_gbit_s or 0.0 for each in known), default=0.0)
    return named or tuple(each for each in known if (each.rate_gbit_s or 0.0) == best)


def _interface_rate(texts: Texts, rails: tuple[str, ...]) -> Readings:
    return tuple((each.name, _number(each.rate_gbit_s)) for each in _interfaces(texts, rails))


def _interface_mtu(texts: Texts, rails: tuple[str, ...]) -> Readings:
    return tuple((each.name, _number(each.mtu)) for each in _interfaces(texts, rails))


def _package(texts: Texts, rails: tuple[str, ...]) -> Readings:
    release = ofed.parse_release(texts["ofed_info"])
    return () if release is None else (("", release.version),)


def _libraries(texts: Texts, rails: tuple[str, ...]) -> Readings:
    listed = re.findall(r"^nccl \S*?libnccl\.so\.([\d.]+)$", texts["nccl_library"], re.M)
    return tuple(("", version) for version in dict.fromkeys(listed))


def _of_system(name: str) -> Callable[[Texts, tuple[str, ...]], Readings]:
    def read(texts: Texts, rails: tuple[str, ...]) -> Readings:
        return (("", os_facts.parse(texts["system"]).text(name)),)

    return read


_QUERY = (
    "nvidia-smi --query-gpu=name,pcie.link.width.current,vbios_version,driver_version --format=csv"
)
_SYSFS = "cat /sys/class/infiniband/*/ports/*/*"
_PCI = "cat /sys/bus/pci/devices/*/current_link_{width,speed}"
_SPEED = "cat /sys/class/net/*/{speed,mtu}"
NUMBER, VERSION, TEXT = Kind.NUMBER, Kind.VERSION, Kind.TEXT

FIELDS = (
    Field("gpus", "gpu", NUMBER, ("gpu_query",), _QUERY, _gpu_count),
    Field("gpu_model", "gpu", TEXT, ("gpu_query",), _QUERY, _of_gpu("name")),
    Field("nvlinks", "gpu", NUMBER, ("gpu_nvlink",), "nvidia-smi nvlink -s", _nvlinks),
    Field(
        "gpu_pcie_width", "gpu", NUMBER, ("gpu_query",), _QUERY, _of_gpu("pcie.link.width.current")
    ),
    Field("gpu_pcie_generation", "gpu", NUMBER, ("gpu_details",), "nvidia-smi -q", _gpu_generation),
    Field("nics", "nic", NUMBER, ("rdma_sysfs",), _SYSFS, _nic_count),
    Field(
        "nic_rate",
        "nic",
        NUMBER,
        ("rdma_sysfs",),
        _SYSFS,
        _of_port(lambda device, port: _number(port.rate_gbit_s)),
        "Gb/s",
    ),
    Field("nic_lanes", "nic", NUMBER, ("rdma_sysfs",), _SYSFS, _of_port(_lanes)),
    Field(
        "link_layer",
        "nic",
        TEXT,
        ("rdma_sysfs",),
        _SYSFS,
        _of_port(lambda device, port: port.link_layer),
    ),
    Field("rdma_mtu", "nic", NUMBER, ("rdma_sysfs", "ibv_devinfo"), "ibv_devinfo", _rdma_mtu, "B"),
    Field("nic_pcie_width", "nic", NUMBER, ("pci",), _PCI, _nic_width),
    Field("nic_pcie_generation", "nic", NUMBER, ("pci",), _PCI, _nic_generation),
    Field("interface_rate", "nic", NUMBER, ("link_speed",), _SPEED, _interface_rate, "Gb/s"),
    Field("interface_mtu", "nic", NUMBER, ("link_speed",), _SPEED, _interface_mtu, "B"),
    Field(
        "nic_firmware",
        "version",
        VERSION,
        ("rdma_sysfs",),
        "cat /sys/class/infiniband/*/fw_ver",
        _of_port(lambda device, port: device.firmware),
    ),
    Field("vbios", "version", VERSION, ("gpu_query",), _QUERY, _of_gpu("vbios_version")),
    Field("driver", "version", VERSION, ("gpu_query",), _QUERY, _of_gpu("driver_version")),
    Field("ofed", "version", VERSION, ("ofed_info",), "ofed_info -s", _package),
    Field("nccl", "version", VERSION, ("nccl_library",), "ls libnccl.so.2.*", _libraries),
    Field("kernel", "version", VERSION, ("system",), "uname -r", _of_system("kernel")),
    Field(
        "bios",
        "version",
        VERSION,
        ("system",),
        "cat /sys/class/dmi/id/bios_version",
        _of_system("bios"),
    ),
)
BY_KEY = {each.key: each for each in FIELDS}

_WRITTEN = re.compile(r"\s*(>=)?\s*(.*?)\s*", re.S)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_COUNT = re.compile(r"0*[1-9]\d*")
_OTHER_RELATIONS = tuple("<>=!~")


def problems(block: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(key, what is wrong) of a `specification:` block."""
    for key, text in block.items():
        known = BY_KEY.get(key)
        if known is None:
            yield key, unknown("key", key, BY_KEY)
            continue
        match = _WRITTEN.fullmatch(text)
        relation, value = (match[1], match[2]) if match else (None, "")
        if value[:1] in _OTHER_RELATIONS:
            yield key, f"the only relation is >=, found {text!r}"
        elif known.kind is Kind.TEXT and relation:
            yield key, f"{key} is compared word by word: no >="
        elif known.kind is Kind.NUMBER and not known.unit and not _COUNT.fullmatch(value):
            yield key, f"expected a whole number above 0, or >= and one, found {text!r}"
        elif known.kind is Kind.NUMBER and not (_NUMBER.fullmatch(value) and float(value) > 0):
            yield key, f"expected a number above 0, or >= and a number, found {text!r}"
        elif known.kind is Kind.VERSION and not versions.numbers(value):
            yield key, f"expected a version, or >= and a version, found {text!r}"
        elif not value:
            yield key, "expected a value, found nothing"


def requirements(block: Mapping[str, str], source: str) -> tuple[Requirement, ...]:
    """A block in which `problems` finds nothing, in the order of the table."""
    found = []
    for each in FIELDS:
        match = _WRITTEN.fullmatch(block[each.key]) if each.key in block else None
        if match:
            found.append(Requirement(each.key, match[2], match[1] is not None, source))
    return tuple(found)


def merged(*blocks: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """One requirement a key; a later block decides over an earlier one."""
    by_key = {each.key: each for block in blocks for each in block}
    return tuple(by_key[each.key] for each in FIELDS if each.key in by_key)


def met(requirement: Requirement, value: str) -> bool:
    """Whether one part has what is demanded.

    >>> met(Requirement("nic_firmware", "28.39.1002", True, "inventory"), "28.40.1000")
    True
    >>> met(Requirement("gpu_model", "H100 80GB", False, "inventory"), "NVIDIA H100 80GB HBM3")
    True
    """
    kind = BY_KEY[requirement.key].kind
    if kind is Kind.TEXT:
        words = set(requirement.value.casefold().split())
        return words <= set(value.casefold().split())
    if kind is Kind.NUMBER:
        seen = float(value)
        return seen >= requirement.number if requirement.at_least else seen == requirement.number
    if requirement.at_least:
        return versions.numbers(value) >= versions.numbers(requirement.value)
    return value.casefold() == requirement.value.casefold()


def shown(requirement: Requirement) -> str:
    """A requirement for people.

    >>> shown(Requirement("nic_rate", "400", True, "inventory"))
    'nic_rate >= 400 Gb/s'
    """
    relation = ">= " if requirement.at_least else ""
    unit = BY_KEY[requirement.key].unit
    return f"{requirement.key} {relation}{requirement.value}" + (f" {unit}" if unit else "")
