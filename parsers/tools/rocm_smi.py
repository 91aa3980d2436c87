"""What `rocm-smi` prints of each AMD GPU, whatever was asked for: names and values; and its errors
(python_smi_tools/rocm_smi.py of ROCm 6.4 and 7)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool
from busbw.text import whole_number

_MARK = "ROCm System Management Interface"
_END = "End of ROCm SMI Log"
_LINE = re.compile(
    r"^[ \t]*GPU\[(\d{1,4})\][ \t]*:[ \t]*([^:\n]{1,100}?)[ \t]*:[ \t]*([^\n]*)$", re.M
)
_NO_DRIVER = "Driver not initialized"
_ERROR = re.compile(
    rf"^[ \t]*(?:ERROR: ?(?:root:)?)(GPU\[\d{{1,4}}\][ \t]*: [^\n]{{1,300}}|{_NO_DRIVER}[^\n]{{0,200}})", re.M
)  # fmt: skip
_UNSUPPORTED = "not supported"
"""What a GPU cannot say is no failure of it."""
_CONCISE = re.compile(r"^(?:GPU|Device)[ \t]+[^\n]*\bPwrCap\b[^\n]*\n(?:[^\d\n][^\n]*\n)*((?:\d[^\n]*\n)+)", re.M)  # fmt: skip
"""The table that is printed where nothing was asked for."""
_CONCISE_NAME = "Concise Info"
_SHOWN = (
    _CONCISE_NAME,
    "Card Series",
    "Card series",
    "GFX Version",
    "Temperature (Sensor junction) (C)",
)
_XGMI_ERRORS = "XGMI Error count"


@dataclass(frozen=True, slots=True)
class RocmGpu:
    """What is said of one GPU."""

    number: int | None
    """None = of none: an error of the tool."""
    values: tuple[tuple[str, str], ...]
    """(name, value) as printed, in order."""
    errors: tuple[str, ...] = ()
    """Its own words where something could not be read, and links with errors."""
    gap: str = ""
    """Of the last GPU: that the text has no end."""


def parse(text: str) -> tuple[RocmGpu, ...]:
    """The GPUs in a text, by number; () = it is not of `rocm-smi`.

    >>> (gpu,) = parse('''============ ROCm System Management Interface ============
    ... GPU[0]		: Card Series: 		AMD Instinct MI300X VF
    ... GPU[0]		: GFX Version: 		gfx942
    ... ==================== End of ROCm SMI Log =================
    ... ''')
    >>> gpu.values
    (('Card Series', 'AMD Instinct MI300X VF'), ('GFX Version', 'gfx942'))
    """
    reported = (each[1].strip() for each in _ERROR.finditer(text))
    errors = tuple(f"rocm-smi: {error}" for error in reported if _UNSUPPORTED not in error.lower())
    if _MARK not in text:
        return (RocmGpu(None, (), errors),) if _NO_DRIVER in " ".join(errors) else ()
    gpus: dict[int, list[tuple[str, str]]] = {}
    for match in _LINE.finditer(text):
        gpus.setdefault(int(match[1]), []).append((match[2], match[3][:300].strip()))
    for table in _CONCISE.finditer(text):
        for number, *cells in map(str.split, table[1].splitlines()):
            index = whole_number(number)
            if index is not None:
                gpus.setdefault(index, []).append((_CONCISE_NAME, " ".join(cells)[:300]))
    gap = ""
    if not gpus and not errors:
        gap = "rocm-smi: nothing of a GPU is in it"
    if text.count(_MARK) > text.count(_END):
        gap = f"rocm-smi: the text is truncated before {_END!r}"
    return (
        *(RocmGpu(number, tuple(values), tuple(_links(number, values))) for number, values in sorted(gpus.items())),
        *((RocmGpu(None, (), errors, gap),) if errors or gap else ()),
    )  # fmt: skip


def _links(number: int, values: list[tuple[str, str]]) -> Iterator[str]:
    """Errors of the links of one GPU: `0 (No errors detected since last read)`, `1 (Single …`,
    `2 (Multiple …`."""
    for name, value in values:
        if name == _XGMI_ERRORS and value[:1] in ("1", "2"):
            yield f"rocm-smi: GPU {number}: {name}: {value}"


def _lines(gpu: RocmGpu) -> Iterator[str]:
    if gpu.number is None:
        return
    known = dict(gpu.values)
    shown = [known[name] for name in _SHOWN if name in known]
    yield f"GPU {gpu.number}: {', '.join(shown) or f'{len(gpu.values)} values'}"


TOOL = Tool(
    name="rocm-smi",
    marks=(_MARK, _NO_DRIVER),
    parse=parse,
    lines=_lines,
    errors=lambda gpu: gpu.errors,
    gaps=lambda gpu: (gpu.gap,) if gpu.gap else (),
)
