"""What `nvidia-smi nvlink -s` (status) and `-e` (error counters) print, per GPU and link (drivers 450 to
580)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact
from busbw.parsers.tools.blocks import blocks
from busbw.parsers.tools.numbers import RowForm

_NVLINK_GPU = re.compile(r"^GPU (\d+): (.+?)(?: \(UUID: \S+\))?[ \t\r]*$", re.M)
_STATUS = re.compile(r"^[ \t]+Link (\d+):\s+(?:<inactive>|inactive|(\d+(?:\.\d+)?) GB/s)", re.M)
_ERRORS = re.compile(
    r"^[ \t]+Link (\d+): (Replay|Recovery|CRC)(?: FLIT| Data)? Errors: (\d+)", re.M
)


@dataclass(frozen=True, slots=True)
class NvlinkErrors:
    """The counters of one link since the driver was loaded; None = not printed."""

    link: int
    replay: int | None
    recovery: int | None
    crc: int | None


@dataclass(frozen=True, slots=True)
class NvlinkGpu:
    """The links of one GPU."""

    index: int
    model: str
    rates_gb_s: tuple[tuple[int, float | None], ...]
    """(link, GB/s one way; None = inactive); () = the text has no status."""
    errors: tuple[NvlinkErrors, ...]
    """() = the text has no counters."""

    @property
    def inactive(self) -> tuple[int, ...]:
        """Links that are down."""
        return tuple(link for link, rate in self.rates_gb_s if rate is None)


def parse(text: str) -> tuple[NvlinkGpu, ...]:
    """The GPUs with what is said of their links; () = the text is not of `nvidia-smi nvlink`.

    >>> parse("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\\n\\t Link 0: 26.562 GB/s\\n\\t Link 1: <inactive>\\n")[0].inactive
    (1,)
    """
    gpus = [
        NvlinkGpu(int(head[1]), head[2], *_links(block))
        for head, block in blocks(_NVLINK_GPU, text)
    ]
    return tuple(gpu for gpu in gpus if gpu.rates_gb_s or gpu.errors)


def _links(block: str) -> tuple[tuple[tuple[int, float | None], ...], tuple[NvlinkErrors, ...]]:
    """(rates, errors) of one GPU."""
    return tuple(
        (int(link), float(rate) if rate else None) for link, rate in _STATUS.findall(block)
    ), _errors(block)


def _errors(block: str) -> tuple[NvlinkErrors, ...]:
    counts: dict[int, dict[str, int]] = {}
    for link, kind, number in _ERRORS.findall(block):
        counts.setdefault(int(link), {})[kind] = int(number)
    return tuple(
        NvlinkErrors(link, c.get("Replay"), c.get("Recovery"), c.get("CRC"))
        for link, c in sorted(counts.items())
    )


def _nvlink_line(gpu: NvlinkGpu) -> str:
    parts = []
    if gpu.rates_gb_s:
        up = len(gpu.rates_gb_s) - len(gpu.inactive)
        parts.append(f"{up} of {len(gpu.rates_gb_s)} links up")
    for link in gpu.errors:
        counts = f"replay {link.replay} recovery {link.recovery} CRC {link.crc}"
        parts.append(f"link {link.link} {counts}")
    return f"GPU {gpu.index} {gpu.model}: {'; '.join(parts)}"


def _nvlink_facts(gpus: tuple[NvlinkGpu, ...]) -> Iterator[ToolFact]:
    """Inactive links beside active ones: a GPU that is not bridged has none active. And errors."""
    for gpu in gpus:
        subject = f"GPU {gpu.index}"
        inactive = len(gpu.inactive)
        if inactive < len(gpu.rates_gb_s):
            values = (("inactive_links", float(inactive)),)
            yield ToolFact("gpu.nvlink_status", values, subject)
        if gpu.errors:
            recovered = sum(link.recovery or 0 for link in gpu.errors)
            yield ToolFact("gpu.nvlink_errors", (("recovery", float(recovered)),), subject)


TOOL = Tool(
    name="nvidia-smi nvlink",
    marks=("Link 0: ",),
    parse=parse,
    lines=lambda gpu: (_nvlink_line(gpu),),
    facts=_nvlink_facts,
    rows=(RowForm(re.compile(r"^[ \t]+Link \d+:[ \t]+-?[\dn][^:\n]*$", re.M), _STATUS),),
)
