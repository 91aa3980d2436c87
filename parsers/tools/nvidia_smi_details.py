"""What `nvidia-smi -q` prints (drivers 450 to 580), as far as the fabric, temperatures, PCIe and the
counters go: times for which clocks were held back, and memory errors."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from busbw.parsers.tools.blocks import blocks
from busbw.text import whole_number

_HEAD_CHARACTERS = 4096
"""The head of `nvidia-smi -q` has ten lines; what follows has thousands."""
_CUDA = re.compile(r"^CUDA Version\s*:\s*(\d+\.\d+)", re.M)
_DEEPER = re.compile(r"(?:\n {8}.*)*")
_BLOCK = re.compile(r"\nGPU ([0-9A-Fa-f:.]+)[ \t]*(?=\n)")
"""A literal start: the search skips the lines between."""
_PCIE = re.compile(r"PCIe Generation\s*\n\s*Max\s*:\s*(\S+)")
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
class GpuDetails:
    """What `nvidia-smi -q` adds for one GPU; None = not printed (older driver) or N/A."""

    bus_id: str
    fabric_state: str | None
    """`Completed`, `In Progress`, `Not Started`…; None on cards without NVSwitch."""
    fabric_status: str | None
    temperature_c: int | None
    slowdown_c: int | None
    """Temperature at which the GPU slows itself down."""
    headroom_c: int | None
    """Newer drivers give the distance to the limit instead (`GPU T.Limit Temp`)."""
    fabric_clique: str = ""
    """The NVLink partition that several nodes share; empty = none, or not printed."""
    fabric_health: str = ""
    """`Healthy`, `Unhealthy`, `Limited Capacity`; empty = not printed, or not supported."""


@dataclass(frozen=True, slots=True)
class GpuCounter:
    """One counter of one GPU, in the order of the text."""

    index: int
    """Position in the text, from 0: nvidia-smi lists GPUs by index."""
    counter: str
    value: int
    """Microseconds for `throttle_*_us`, errors since the driver was loaded for `ecc_*`."""
    line_no: int


def parse_cuda(text: str) -> str | None:
    """The highest CUDA version that the driver supports, from the head of `nvidia-smi -q`; None =
    not printed.

    >>> parse_cuda("Driver Version                            : 550.54.14\\nCUDA Version                              : 12.4\\n")
    '12.4'
    """
    match = _CUDA.search(text, 0, _HEAD_CHARACTERS)
    return match[1] if match else None


def parse_pcie_generations(text: str) -> tuple[int | None, ...]:
    """The PCIe generation that each GPU and its slot give together, from `nvidia-smi -q`; None = not
    shown.

    >>> parse_pcie_generations('''GPU 00000000:19:00.0
    ...     PCI
    ...         GPU Link Info
    ...             PCIe Generation
    ...                 Max                       : 5
    ...                 Current                   : 1
    ... ''')
    (5,)
    """
    found = (_PCIE.search(body) for _, body in blocks(_BLOCK, f"\n{text}"))
    return tuple(whole_number(each[1]) if each else None for each in found)


@functools.lru_cache(maxsize=16)
def parse(text: str) -> tuple[GpuDetails, ...]:
    """The GPUs of `nvidia-smi -q`; () = none in the text.

    >>> (gpu,) = parse('''GPU 00000000:19:00.0
    ...     Fabric
    ...         State                             : In Progress
    ...         Status                            : N/A
    ...     Temperature
    ...         GPU Current Temp                  : 31 C
    ... ''')
    >>> gpu.fabric_state, gpu.fabric_status, gpu.temperature_c
    ('In Progress', None, 31)
    """
    return tuple(_details(head[1], body) for head, body in blocks(_BLOCK, f"\n{text}"))


def _details(bus_id: str, text: str) -> GpuDetails:
    fabric = _group("Fabric", text)
    heat = _group("Temperature", text)
    return GpuDetails(
        bus_id=bus_id,
        fabric_state=fabric.get("State"),
        fabric_status=fabric.get("Status"),
        fabric_clique=_clique(fabric),
        fabric_health=fabric.get("Summary", "").replace("Not Supported", ""),
        temperature_c=_degrees(heat.get("GPU Current Temp")),
        slowdown_c=_degrees(heat.get("GPU Slowdown Temp")),
        headroom_c=_degrees(heat.get("GPU T.Limit Temp")),
    )


def _clique(fabric: dict[str, str]) -> str:
    """The NVLink partition, as NCCL tells nodes of one domain: the cluster's UUID and the clique.
    A UUID of zeros belongs to the NVSwitches of one node.

    >>> _clique({"ClusterUUID": "d2a3c6b1-0000-4000-8000-000000000001", "CliqueId": "32766"})
    'd2a3c6b1-0000-4000-8000-000000000001.32766'
    >>> _clique({"ClusterUUID": "00000000-0000-0000-0000-000000000000", "CliqueId": "0"})
    ''
    """
    uuid, clique = fabric.get("ClusterUUID") or "", fabric.get("CliqueId") or ""
    return f"{uuid}.{clique}" if uuid.strip("0-") and clique else ""


def _group(title: str, text: str) -> dict[str, str]:
    """The values of one group: the lines behind its title that are indented deeper. A GPU has 250
    lines of which these are ten."""
    # The word alone is what a search skips fastest to; that it is a title is seen from what stands
    # before it.
    start = text.find(title)
    while start >= 0 and not text.startswith("\n    ", start - 5):
        start = text.find(title, start + 1)
    if start < 0:
        return {}
    lines = _DEEPER.match(text, text.find("\n", start))
    pairs = (line.partition(":") for line in lines[0].split("\n")) if lines else ()
    return {
        label.strip(): value.strip()
        for label, _, value in pairs
        if value.strip() not in ("", "N/A")
    }


def _degrees(text: str | None) -> int | None:
    match = re.fullmatch(r"(-?\d+) C", text or "")
    return int(match[1]) if match else None


def parse_performance(text: str) -> tuple[GpuCounter, ...]:
    """The counters of `nvidia-smi -q -d PERFORMANCE,ECC`; () = the text has none: an older driver, or no
    GPU.

    >>> [c.counter for c in parse_performance('''GPU 00000000:18:00.0
    ...     Clocks Event Reasons Counters
    ...         SW Power Capping                  : 12 us
    ... ''')]
    ['throttle_sw_power_us']
    """
    counters = []
    for index, (head, block) in enumerate(blocks(_GPU, text)):
        first = text.count("\n", 0, head.end()) + 1
        counters += _counters(index, first, block)
    return tuple(counters)


def _counters(index: int, first: int, block: str) -> list[GpuCounter]:
    counters: list[GpuCounter] = []
    totals: dict[str, int] = {}
    path: list[tuple[int, str]] = []
    for line_no, line in enumerate(block.splitlines(), first):
        text = line.lstrip(" ")
        depth = len(line) - len(text)
        title, colon, value = text.partition(":")
        title = title.rstrip(" ")
        if not depth or not title or (colon and value[:1] != " "):
            continue
        path = [(d, title) for d, title in path if d < depth]
        titles = [title for _, title in path]
        number = re.match(r"(\d{1,19})(?: us)?$", value[1:])
        if not colon:
            path.append((depth, title))
        elif number and titles[-1:] and titles[-1] in _COUNTERS and title in _HELD:
            counters.append(GpuCounter(index, _HELD[title], int(number[1]), line_no))
        elif number and "Volatile" in titles and (kind := _kind(title)):
            if kind not in totals:
                totals[kind] = 0
                counters.append(GpuCounter(index, kind, 0, line_no))
            totals[kind] += int(number[1])
    return [
        GpuCounter(c.index, c.counter, totals.get(c.counter, c.value), c.line_no) for c in counters
    ]


def _kind(title: str) -> str | None:
    if "Uncorrectable" in title:
        return "ecc_uncorrected_volatile"
    return "ecc_corrected_volatile" if "Correctable" in title else None
