"""PCI configuration space of invented devices, as the real `lspci` reads it from sysfs.

Written against the PCI Express Base Specification 5.0 (capability layouts, chapters 7.5 and
7.7) and pciutils 3.9.
"""

from __future__ import annotations

import struct

_EXPRESS = 0x60
"""Where the PCI Express capability is put."""
_ACS_ID = 0x000D
_ACS_ALL = 0x5F
"""Source validation, translation blocking, request and completion redirect, upstream forwarding,
direct translated: what switches offer."""
_ACS_ON = 0x1D
"""What a kernel with an IOMMU switches on."""
_ENDPOINT, _DOWNSTREAM = 0x0, 0x6
SPEEDS = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe", 6: "64.0 GT/s PCIe"}
"""By PCI Express generation, as the kernel writes them."""


def endpoint(
    vendor: int,
    device: int,
    device_class: int,
    generation: int,
    width: int,
    *,
    read_request_bytes: int = 4096,
    relaxed: bool = True,
) -> bytes:
    """A device with a PCI Express link of 16 lanes, `width` of which are up."""
    space = _header(vendor, device, device_class, 0)
    control = (0x10 if relaxed else 0) | (read_request_bytes.bit_length() - 8) << 12
    _express(space, _ENDPOINT, generation, width, control)
    return bytes(space)


def bridge(bus: int, generation: int, width: int, *, acs: bool) -> bytes:
    """A downstream port of a switch with one bus behind it, with access control services."""
    space = _header(0x1000, 0xC030, 0x060400, 1)
    struct.pack_into("<BBB", space, 0x18, bus - 1, bus, bus)
    _express(space, _DOWNSTREAM, generation, width, 0)
    struct.pack_into("<IHH", space, 0x100, _ACS_ID | 1 << 16, _ACS_ALL, _ACS_ON if acs else 0)
    return bytes(space)


def _header(vendor: int, device: int, device_class: int, kind: int) -> bytearray:
    space = bytearray(4096)
    # Command: memory, bus master, parity and system errors. Status: there is a capability list.
    struct.pack_into("<HHHH", space, 0, vendor, device, 0x0146, 0x0010)
    space[9:12] = device_class.to_bytes(3, "little")
    space[0x0E] = kind
    space[0x34] = _EXPRESS
    return space


def _express(space: bytearray, port: int, generation: int, width: int, control: int) -> None:
    struct.pack_into("<BBH", space, _EXPRESS, 0x10, 0, 2 | port << 4)
    struct.pack_into("<IH", space, _EXPRESS + 0x04, 0x8000 | 2, control | 2 << 5)
    struct.pack_into(
        "<IHH", space, _EXPRESS + 0x0C, generation | 16 << 4, 0, generation | width << 4
    )
    struct.pack_into("<I", space, _EXPRESS + 0x2C, (1 << generation) - 1 << 1)
    struct.pack_into("<H", space, _EXPRESS + 0x30, generation)
