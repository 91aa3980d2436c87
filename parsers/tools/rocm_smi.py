"""What `rocm-smi` prints of each AMD GPU, whatever was asked for: names and values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool

_MARK = "ROCm System Management Interface"
_LINE = re.compile(
    r"^[ \t]*GPU\[(\d{1,4})\][ \t]*:[ \t]*([^:\n]{1,100}?)[ \t]*:[ \t]*([^\n]*)$", re.M
)
_SHOWN = ("Card Series", "Card series", "GFX Version", "Temperature (Sensor junction) (C)")


@dataclass(frozen=True, slots=True)
class RocmGpu:
    """What is said of one GPU."""

    number: int
    values: tuple[tuple[str, str], ...]
    """(name, value) as printed, in order."""


def parse(text: str) -> tuple[RocmGpu, ...]:
    """The GPUs in a text, by number; () = it is not of `rocm-smi`.

    >>> (gpu,) = parse('''============ ROCm System Management Interface ============
    ... GPU[0]		: Card Series: 		AMD Instinct MI300X VF
    ... GPU[0]		: GFX Version: 		gfx942
    ... ''')
    >>> gpu.values
    (('Card Series', 'AMD Instinct MI300X VF'), ('GFX Version', 'gfx942'))
    """
    if _MARK not in text:
        return ()
    gpus: dict[int, list[tuple[str, str]]] = {}
    for match in _LINE.finditer(text):
        gpus.setdefault(int(match[1]), []).append((match[2], match[3][:300].strip()))
    return tuple(RocmGpu(number, tuple(values)) for number, values in sorted(gpus.items()))


def _lines(gpu: RocmGpu) -> Iterator[str]:
    known = dict(gpu.values)
    shown = [known[name] for name in _SHOWN if name in known]
    yield f"GPU {gpu.number}: {', '.join(shown) or f'{len(gpu.values)} values'}"


TOOL = Tool(name="rocm-smi", marks=(_MARK,), parse=parse, lines=_lines)
