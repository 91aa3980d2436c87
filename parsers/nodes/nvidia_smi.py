"""What `nvidia-smi` prints: the plain table (drivers 450 to 580), `-L`, and `-q` as far as the fabric and temperatures go."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from busbw.parsers.nodes.blocks import blocks

_HEAD = re.compile(r"NVIDIA-SMI\s+(\S+)\s+Driver Version:\s*(\S+)\s+CUDA Version:\s*(\S+)")
_FIRST = re.compile(r"^\|\s+(\d+)\s+(\S.*?)\s+(On|Off|N/A)\s+\|\s+([0-9A-Fa-f:.]+)\s+\S+\s+\|\s+(\S+)\s+\|")
_SECOND = re.compile(r"^\|\s*\S+\s+(\S+)\s+P\d+\s+(\d+)W\s*/\s*(\d+)W\s+\|\s+(\d+)MiB\s*/\s*(\d+)MiB\s+\|")
_MIG = re.compile(r"\|\s+(Enabled|Disabled|N/A)\*?\s+\|\s*$")
_PROCESS = re.compile(r"^\|\s+\d+\s+\S+\s+\S+\s+(\d+)\s+[CGM+]+\s", re.M)
_HEAD_CHARACTERS = 4096
"""The head of `nvidia-smi -q` has ten lines; what follows has thousands."""
_LISTED = re.compile(r"^GPU (\d+): (.+?) \(UUID: (\S+)\)[ \t\r]*$", re.M)
_CUDA = re.compile(r"^CUDA Version\s*:\s*(\d+\.\d+)", re.M)
_DEEPER = re.compile(r"(?:\n {8}.*)*")
_BLOCK = re.compile(r"\nGPU ([0-9A-Fa-f:.]+)[ \t]*(?=\n)")
"""A literal start: the search skips the lines between."""


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """One line of `nvidia-smi -L`."""

    index: int
    model: str
    uuid: str


@dataclass(frozen=True, slots=True)
class TableGpu:
    """One GPU of the plain table; None = the table shows N/A or cut the line."""

    index: int
    model: str
    bus_id: str
    persistence: bool | None
    ecc_uncorrected_volatile: int | None
    mig: bool | None
    power_w: int | None
    power_cap_w: int | None
    memory_used_mib: int | None
    memory_total_mib: int | None


@dataclass(frozen=True, slots=True)
class SmiTable:
    """The plain table."""

    driver: str
    cuda: str
    """The highest CUDA version that the driver supports."""
    gpus: tuple[TableGpu, ...]
    processes: tuple[int, ...] | None
    """Process ids; None = the table of processes is not in the text."""


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


def parse_list(text: str) -> tuple[ListedGpu, ...]:
    """The GPUs of `nvidia-smi -L`; () = none in the text.

    >>> parse_list("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-4b1c)\\n")
    (ListedGpu(index=0, model='NVIDIA H100 80GB HBM3', uuid='GPU-4b1c'),)
    """
    return tuple(ListedGpu(int(index), model, uuid) for index, model, uuid in _LISTED.findall(text))


def parse_table(text: str) -> SmiTable | None:
    """The plain table; None = the text has no such head.

    >>> parse_table('''| NVIDIA-SMI 550.54.14              Driver Version: 550.54.14      CUDA Version: 12.4     |
    ... |   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
    ... | N/A   38C    P0             70W /  700W |       1MiB /  81559MiB |      0%      Default |
    ... |                                         |                        |             Disabled |
    ... ''').gpus[0].persistence
    True
    """
    head = _HEAD.search(text)
    if head is None:
        return None
    lines = text.splitlines()
    gpus = []
    for number, line in enumerate(lines):
        if first := _FIRST.match(line):
            second = _SECOND.match(lines[number + 1]) if number + 1 < len(lines) else None
            third = _MIG.search(lines[number + 2]) if number + 2 < len(lines) else None
            gpus.append(_table_gpu(first, second, third))
    listed = "No running processes found" in text or "Processes:" in text
    return SmiTable(head[2], head[3], tuple(gpus), tuple(int(pid) for pid in _PROCESS.findall(text)) if listed else None)


def _table_gpu(first: re.Match[str], second: re.Match[str] | None, third: re.Match[str] | None) -> TableGpu:
    numbers: tuple[int | None, ...] = tuple(int(second[i]) for i in (2, 3, 4, 5)) if second else (None,) * 4
    return TableGpu(
        index=int(first[1]),
        model=first[2],
        bus_id=first[4],
        persistence={"On": True, "Off": False}.get(first[3]),
        ecc_uncorrected_volatile=int(first[5]) if first[5].isdigit() else None,
        mig={"Enabled": True, "Disabled": False}.get(third[1]) if third else None,
        power_w=numbers[0],
        power_cap_w=numbers[1],
        memory_used_mib=numbers[2],
        memory_total_mib=numbers[3],
    )


def parse_cuda(text: str) -> str | None:
    """The highest CUDA version that the driver supports, from the head of `nvidia-smi -q`; None = not printed.

    >>> parse_cuda("Driver Version                            : 550.54.14\\nCUDA Version                              : 12.4\\n")
    '12.4'
    """
    match = _CUDA.search(text, 0, _HEAD_CHARACTERS)
    return match[1] if match else None


@functools.lru_cache(maxsize=16)
def parse_details(text: str) -> tuple[GpuDetails, ...]:
    """The GPUs of `nvidia-smi -q`; () = none in the text.

    >>> (gpu,) = parse_details('''GPU 00000000:19:00.0
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
        temperature_c=_degrees(heat.get("GPU Current Temp")),
        slowdown_c=_degrees(heat.get("GPU Slowdown Temp")),
        headroom_c=_degrees(heat.get("GPU T.Limit Temp")),
    )


def _group(title: str, text: str) -> dict[str, str]:
    """The values of one group: the lines behind its title that are indented deeper. A GPU has 250 lines of which these are ten."""
    # The word alone is what a search skips fastest to; that it is a title is seen from what stands before it.
    start = text.find(title)
    while start >= 0 and not text.startswith("\n    ", start - 5):
        start = text.find(title, start + 1)
    if start < 0:
        return {}
    lines = _DEEPER.match(text, text.find("\n", start))
    pairs = (line.partition(":") for line in lines[0].split("\n")) if lines else ()
    return {label.strip(): said for label, _, value in pairs if (said := value.strip()) and said != "N/A"}


def _degrees(text: str | None) -> int | None:
    match = re.fullmatch(r"(-?\d+) C", text or "")
    return int(match[1]) if match else None
