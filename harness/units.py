"""Bytes, GB/s, Gb/s and µs: parsing and formatting, here and nowhere else.

Message sizes are powers of two (KiB, MiB, GiB; nccl-tests' own `8G` means GiB), bandwidth is
decimal (GB/s = 10^9 B/s), links are in Gb/s.
"""

from __future__ import annotations

import math
import re

_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgtKMGT]?)(?:i?[bB])?\s*$")
_RATE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgtKMGT]?)bit(?:/s)?\s*$")
_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|min|h|d)?\s*$")
_BINARY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DECIMAL = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


def parse_size(text: str) -> int:
    """A message size as nccl-tests reads it, in bytes: `8`, `64K`, `8G`, `1MiB`; every unit is a
    power of two.

    >>> parse_size("8G"), parse_size("64KiB"), parse_size("12")
    (8589934592, 65536, 12)

    Raises:
        ValueError: the text is not a number with an optional K, M, G or T.
    """
    match = _SIZE.match(text)
    if not match:
        raise ValueError(f"expected a size such as 8, 64K or 8G, found {text!r}")
    return int(float(match[1]) * _BINARY[match[2].lower()])


def format_size(size_bytes: int) -> str:
    """A message size for people, exact or with two digits after the point.

    >>> format_size(8 << 30), format_size(1536), format_size(1_000_000), format_size(12)
    ('8 GiB', '1.5 KiB', '976.56 KiB', '12 B')
    """
    for shift, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if abs(size_bytes) >= 1 << shift:
            return f"{size_bytes / (1 << shift):.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{size_bytes} B"


def size_option(size_bytes: int) -> str:
    """A message size as nccl-tests' options take it: the largest unit that is exact.

    >>> size_option(8 << 30), size_option(1536), size_option(12)
    ('8G', '1536', '12')
    """
    for shift, unit in ((30, "G"), (20, "M"), (10, "K")):
        if size_bytes and size_bytes % (1 << shift) == 0:
            return f"{size_bytes >> shift}{unit}"
    return str(size_bytes)


def parse_link_rate(text: str) -> float:
    """A link rate in bits per second, in `tc`'s spelling: `200mbit`, `1.5gbit`.

    >>> parse_link_rate("200mbit")
    200000000.0

    Raises:
        ValueError: the text is not a number with kbit, mbit or gbit.
    """
    match = _RATE.match(text)
    if not match:
        raise ValueError(f"expected a link rate such as 200mbit or 1gbit, found {text!r}")
    return float(match[1]) * _DECIMAL[match[2].lower()]


def format_link_rate(rate_bit_s: float) -> str:
    """A link rate for people.

    >>> format_link_rate(2e8), format_link_rate(4e11)
    ('200 Mb/s', '400 Gb/s')
    """
    for factor, unit in ((1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s")):
        if rate_bit_s >= factor:
            return f"{rate_bit_s / factor:g} {unit}"
    return f"{rate_bit_s:g} b/s"


def parse_duration(text: str) -> float:
    """A duration in seconds: `90`, `90s`, `20m`, `1.5h`, `250ms`.

    >>> parse_duration("20m"), parse_duration("250ms")
    (1200.0, 0.25)

    Raises:
        ValueError: the text is not a number with an optional us, ms, s, m, h or d.
    """
    match = _DURATION.match(text)
    if not match:
        raise ValueError(f"expected a duration such as 30s, 20m or 1h, found {text!r}")
    return float(match[1]) * _SECONDS[match[2] or ""]


def format_duration(seconds: float) -> str:
    """A duration for people.

    >>> format_duration(0.25), format_duration(12.3), format_duration(191), format_duration(7300)
    ('250 ms', '12.3 s', '3 m 11 s', '2 h 01 m')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} m"


def format_share(ratio: float) -> str:
    """A share for people: whole below 90 %, one digit above, so that 98.7 % of a limit does not
    read as 99 %.

    >>> format_share(0.516), format_share(0.9871), format_share(1.0)
    ('52%', '98.7%', '100%')
    """
    if ratio < 0.9:
        return f"{ratio * 100:.0f}%"
    return f"{ratio * 100:.1f}".removesuffix(".0") + "%"


def format_bandwidth(gb_s: float | None) -> str:
    """A bandwidth in GB/s with digits that fit its size; `not measured` for None.

    >>> format_bandwidth(369.4), format_bandwidth(0.0239), format_bandwidth(None)
    ('369.4 GB/s', '0.0239 GB/s', 'not measured')
    >>> format_bandwidth(0.00006), format_bandwidth(0.0)
    ('0.00006 GB/s', '0 GB/s')
    """
    if gb_s is None:
        return "not measured"
    if gb_s >= 100:
        return f"{gb_s:.1f} GB/s"
    if gb_s >= 1:
        return f"{gb_s:.2f} GB/s"
    if 0 < gb_s < 1e-4:
        # An interval in a lab; three digits would be written as a power of ten.
        return f"{gb_s:.7f}".rstrip("0") + " GB/s"
    return f"{gb_s:.3g} GB/s"


def format_with_interval(shown: str, value: float, half: float) -> str:
    """A value as `shown` with half its interval, both in one unit and with the same digits; the half is
    rounded up, so that it never reads as none.

    >>> format_with_interval("0.0246 GB/s", 0.0246, 0.0000394), format_with_interval("361.0 GB/s", 361.0, 2.48)
    ('0.0246 ± 0.0001 GB/s', '361.0 ± 2.5 GB/s')
    >>> format_with_interval("63.9 ms", 63896.0, 412.0), format_with_interval("0 GB/s", 0.0, 0.1)
    ('63.9 ± 0.5 ms', '0 GB/s')
    """
    number, _, unit = shown.partition(" ")
    if not value:
        return shown
    decimals = len(number.partition(".")[2])
    # The unit's share of the value, to a power of ten: the number beside it is rounded.
    scale = 10 ** round(math.log10(float(number) / value))
    up = math.ceil(half * scale * 10**decimals - 1e-6) / 10**decimals
    return f"{number} ± {up:.{decimals}f} {unit}"


def format_time_us(time_us: float) -> str:
    """A time given in µs, for people.

    >>> format_time_us(12.91), format_time_us(63896.0), format_time_us(2.5e6)
    ('12.9 µs', '63.9 ms', '2.50 s')
    """
    if time_us < 1000:
        return f"{time_us:.1f} µs"
    if time_us < 1e6:
        return f"{time_us / 1e3:.1f} ms"
    return f"{time_us / 1e6:.2f} s"


def counted(many: int, thing: str, things: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "node"), counted(1200, "node"), counted(2, "process", "processes")
    ('1 node', '1,200 nodes', '2 processes')
    """
    return f"{many:,} {thing if many == 1 else (things or thing + 's')}"
