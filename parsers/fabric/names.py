"""How the fabric's tools write nodes, adapters, GUIDs and lane speeds."""

from __future__ import annotations

import re

_ADAPTER = re.compile(
    r"^'?(?P<host>[A-Za-z0-9][\w.-]*)\s+(?P<device>(?:mlx|hfi|bnxt|ib|roce|rdma|irdma)\w*|HCA-\d+)'?$"
)
_SWITCH = re.compile(r"^MF0;(?P<name>[^:;]+)(?::(?P<model>[^/]+))?(?:/U\d+)?$")
_LANES_GBIT_S = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
"""Data rate of one lane in Gb/s (InfiniBand Trade Association, roadmap)."""
_SIGNALLED = {
    "2.5": "SDR",
    "5.0": "DDR",
    "5": "DDR",
    "10.0": "QDR",
    "10": "QDR",
    "14.0625": "FDR",
    "25.78125": "EDR",
    "53.125": "HDR",
    "106.25": "NDR",
    "212.5": "XDR",
}
"""Signalling rate of one lane as infiniband-diags prints it, in Gb/s, to its name."""


def adapter(description: str) -> tuple[str, str] | None:
    """(host, device) of the node description that the kernel gives an adapter; None = a switch's,
    or a factory's.

    >>> adapter("gpu-001 mlx5_3"), adapter("gpu-001 HCA-1"), adapter("MT4129 ConnectX7   Mellanox Technologies")
    (('gpu-001', 'mlx5_3'), ('gpu-001', 'HCA-1'), None)
    """
    match = _ADAPTER.match(description.strip())
    # A machine that does not know its own name says localhost, as many others do.
    return (match["host"], match["device"]) if match and match["host"] != "localhost" else None


def switch(description: str) -> str:
    """The name of a switch for people: a managed one's host name out of its node description.

    >>> switch("MF0;leaf01:MQM9700/U1"), switch("Quantum Mellanox Technologies")
    ('leaf01', 'Quantum Mellanox Technologies')
    """
    match = _SWITCH.match(description.strip())
    return match["name"] if match else description.strip()


def guid(text: str) -> str | None:
    """A GUID as 16 lower-case digits; None = there is none.

    >>> guid("0x2c90300a1b2c0"), guid("S-0002c90300a1b2c0"), guid("fc6a:1c03:00ab:cdef"), guid("")
    ('0002c90300a1b2c0', '0002c90300a1b2c0', 'fc6a1c0300abcdef', None)
    """
    digits = re.sub(r"^(?:0x|[a-z?]-)", "", text.strip().replace(":", "").lower())
    return (
        digits.zfill(16) if re.fullmatch(r"[0-9a-f]{1,16}", digits) and digits.strip("0") else None
    )


def speed(text: str) -> str | None:
    """The name of a lane speed, from a name or a signalling rate; None = neither.

    >>> speed("106.25 Gbps"), speed("NDR"), speed("10.0 Gbps (FDR10)"), speed("???")
    ('NDR', 'NDR', 'FDR10', None)
    """
    if "FDR10" in text:
        return "FDR10"
    word = text.split()[0] if text.split() else ""
    return word.upper() if word.upper() in _LANES_GBIT_S else _SIGNALLED.get(word)


def width(text: str) -> str | None:
    """A width as `4X`; None = it is none.

    >>> width("4x"), width("IB_LINK_WIDTH_ACTIVE_4X"), width("4"), width("None")
    ('4X', '4X', None, None)
    """
    match = re.search(r"(?:^|_)(\d+)[xX]$", text.strip())
    return f"{match[1]}X" if match else None


def rate_gbit_s(lanes: str | None, lane_speed: str | None) -> float | None:
    """The data rate of a link in Gb/s; None = one of both is not known.

    >>> rate_gbit_s("4X", "NDR"), rate_gbit_s("1X", "HDR"), rate_gbit_s(None, "HDR")
    (400.0, 50.0, None)
    """
    if lanes is None or lane_speed is None:
        return None
    return int(lanes[:-1]) * _LANES_GBIT_S[lane_speed]
