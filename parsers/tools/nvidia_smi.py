"""What `nvidia-smi` prints as the plain table, and with `-L` (drivers 450 to 580)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact, one
from busbw.text import whole_number
from busbw.units import counted

_HEAD = re.compile(r"NVIDIA-SMI\s+(\S+)\s+Driver Version:\s*(\S+)\s+CUDA Version:\s*(\S+)")
_FIRST = re.compile(
    r"^\|\s+(\d+)\s+(\S.*?)\s+(On|Off|N/A|WDDM|TCC|MCDM)\s+\|\s+([0-9A-Fa-f:.]+)\s+\S+\s+\|\s+(\S+)\s+\|"
)
_SECOND = re.compile(
    r"^\|\s*\S+\s+(\S+)\s+P\d+\s+(\d+)W\s*/\s*(\d+)W\s+\|\s+(\d+)MiB\s*/\s*(\d+)MiB\s+\|"
)
_MIG = re.compile(r"\|\s+(Enabled|Disabled|N/A)\*?\s+\|\s*$")
_PROCESS = re.compile(r"^\|\s+\d+\s+\S+\s+\S+\s+(\d+)\s+[CGM+]+\s", re.M)
_LISTED = re.compile(r"^GPU (\d+): (.+?) \(UUID: (\S+)\)[ \t\r]*$", re.M)


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
    return SmiTable(
        head[2],
        head[3],
        tuple(gpus),
        tuple(int(pid) for pid in _PROCESS.findall(text)) if listed else None,
    )


def _table_gpu(
    first: re.Match[str], second: re.Match[str] | None, third: re.Match[str] | None
) -> TableGpu:
    numbers: tuple[int | None, ...] = (
        tuple(int(second[i]) for i in (2, 3, 4, 5)) if second else (None,) * 4
    )
    return TableGpu(
        index=int(first[1]),
        model=first[2],
        bus_id=first[4],
        persistence={"On": True, "Off": False}.get(first[3]),
        ecc_uncorrected_volatile=whole_number(first[5]),
        mig={"Enabled": True, "Disabled": False}.get(third[1]) if third else None,
        power_w=numbers[0],
        power_cap_w=numbers[1],
        memory_used_mib=numbers[2],
        memory_total_mib=numbers[3],
    )


def _table_line(table: SmiTable) -> str:
    models = ", ".join(dict.fromkeys(gpu.model for gpu in table.gpus)) or "none"
    return f"driver {table.driver}, CUDA {table.cuda}, {counted(len(table.gpus), 'GPU')}: {models}"


def _table_facts(tables: tuple[SmiTable, ...]) -> Iterator[ToolFact]:
    (table,) = tables
    modes = {True: "Enabled", False: "Disabled"}
    yield ToolFact("gpu.driver", (("version", table.driver),))
    for gpu in table.gpus:
        if gpu.persistence is not None:
            yield ToolFact("gpu.persistence", (("mode", modes[gpu.persistence]),), gpu.bus_id)
        if gpu.mig is not None:
            yield ToolFact("gpu.mig", (("mode", modes[gpu.mig]),), gpu.bus_id)
        if gpu.ecc_uncorrected_volatile is not None:
            errors = float(gpu.ecc_uncorrected_volatile)
            yield ToolFact("gpu.ecc", (("uncorrected_volatile", errors),), gpu.bus_id)


TOOL = (
    Tool(
        name="nvidia-smi",
        marks=("NVIDIA-SMI",),
        parse=one(parse_table),
        lines=lambda table: (_table_line(table),),
        facts=_table_facts,
        gaps=lambda table: () if table.gpus else ("nvidia-smi: no row of a GPU below the head",),
    ),
    Tool(
        name="nvidia-smi -L",
        marks=("GPU 0: ",),
        # The heads of `nvidia-smi nvlink` are the same lines.
        parse=lambda text: () if "Link 0: " in text else parse_list(text),
        lines=lambda gpu: (f"GPU {gpu.index}: {gpu.model}",),
    ),
)
