"""What `nvidia-smi -q -d PERFORMANCE,ECC` says that counts up: times for which clocks were held back, and memory errors (drivers 450 to 580)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.parsers.nodes.blocks import blocks

_GPU = re.compile(r"^GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:\S+$", re.M)
_HELD = {
    "SW Power Capping": "throttle_sw_power_us",
    "Sync Boost": "throttle_sync_boost_us",
    "SW Thermal Slowdown": "throttle_sw_thermal_us",
    "HW Thermal Slowdown": "throttle_hw_thermal_us",
    "HW Power Braking": "throttle_hw_power_brake_us",
}
_COUNTERS = ("Clocks Event Reasons Counters", "Clocks Throttle Reasons Counters")


@dataclass(frozen=True, slots=True)
class GpuCounter:
    """One counter of one GPU, in the order of the text."""

    index: int
    """Position in the text, from 0: nvidia-smi lists GPUs by index."""
    counter: str
    value: int
    """Microseconds for `throttle_*_us`, errors since the driver was loaded for `ecc_*`."""
    line_no: int


def parse(text: str) -> tuple[GpuCounter, ...]:
    """The counters; () = the text has none: an older driver, or no GPU.

    >>> [c.counter for c in parse('''GPU 00000000:18:00.0
    ...     Clocks Event Reasons Counters
    ...         SW Power Capping                  : 12 us
    ... ''')]
    ['throttle_sw_power_us']
    """
    found = []
    for index, (head, block) in enumerate(blocks(_GPU, text)):
        first = text.count("\n", 0, head.end()) + 1
        found += _counters(index, first, block)
    return tuple(found)


def _counters(index: int, first: int, block: str) -> list[GpuCounter]:
    found: list[GpuCounter] = []
    totals: dict[str, int] = {}
    path: list[tuple[int, str]] = []
    for line_no, line in enumerate(block.splitlines(), first):
        said = line.lstrip(" ")
        depth = len(line) - len(said)
        title, colon, value = said.partition(":")
        title = title.rstrip(" ")
        if not depth or not title or (colon and value[:1] != " "):
            continue
        path = [(d, title) for d, title in path if d < depth]
        titles = [title for _, title in path]
        number = re.match(r"(\d{1,19})(?: us)?$", value[1:])
        if not colon:
            path.append((depth, title))
        elif number and titles[-1:] and titles[-1] in _COUNTERS and title in _HELD:
            found.append(GpuCounter(index, _HELD[title], int(number[1]), line_no))
        elif number and "Volatile" in titles and (kind := _kind(title)):
            if kind not in totals:
                totals[kind] = 0
                found.append(GpuCounter(index, kind, 0, line_no))
            totals[kind] += int(number[1])
    return [GpuCounter(c.index, c.counter, totals.get(c.counter, c.value), c.line_no) for c in found]


def _kind(title: str) -> str | None:
    if "Uncorrectable" in title:
        return "ecc_uncorrected_volatile"
    return "ecc_corrected_volatile" if "Correctable" in title else None
