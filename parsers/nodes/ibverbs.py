"""What `ibv_devices` prints (rdma-core 44 and MLNX_OFED 5/23/24 agree in the layout).

No HCA has several texts: only the two header lines (exit status 0); `No IB devices found`; `Failed to get IB devices list: Function
not implemented` (kernel without the verbs class, exit status 1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ROW = re.compile(r"^\s+(\S+)\s+([0-9a-f]{16})\s*$", re.M)
_NONE = re.compile(r"No IB devices found|Failed to get IB devices list.*", re.I)


@dataclass(frozen=True, slots=True)
class VerbsDevice:
    """One device of the list."""

    name: str
    node_guid: str
    """16 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class VerbsDevices:
    """The list, and what was said when it is empty."""

    devices: tuple[VerbsDevice, ...]
    empty_text: str | None
    """The tool's own words for «none»; None = it listed some, or printed only its header."""


def parse_devices(stdout: str, stderr: str) -> VerbsDevices | None:
    """The devices listed; None = the text is not of `ibv_devices`.

    >>> parse_devices('''    device          \\t   node GUID
    ...     ------          \\t----------------
    ...     mlx5_0          \\tb83fd20300aa0010
    ... ''', "")
    VerbsDevices(devices=(VerbsDevice(name='mlx5_0', node_guid='b83fd20300aa0010'),), empty_text=None)
    >>> parse_devices("", "Failed to get IB devices list: Function not implemented")
    VerbsDevices(devices=(), empty_text='Failed to get IB devices list: Function not implemented')
    """
    devices = tuple(VerbsDevice(name, guid) for name, guid in _ROW.findall(stdout))
    if devices:
        return VerbsDevices(devices, None)
    none = _NONE.search(stdout) or _NONE.search(stderr)
    if none:
        return VerbsDevices((), none[0].strip())
    if "node GUID" in stdout:
        return VerbsDevices((), None)
    return None
