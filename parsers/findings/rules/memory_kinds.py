"""perftest's rows of GPU memory beside rows of host memory, under headings of the script that ran it.

The same two NICs at the same size reach nearly the same from either memory. Where rows of GPU memory
are far below, the network is good, and the path between the GPU and the NIC is not: an IOMMU that
translates, or ACS that sends peer traffic up to the root complex.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_GPU_WORDS = r"\b(?:GPUs?|CUDA|ROCm|VRAM|HBM|GDR|GPUDirect)\b"
_HOST_WORDS = r"\b(?:HOST|CPU|DRAM|system memory)\b"
_HEADING = Watch(
    "heading", rf"^\s{{0,9}}[#=*-]{{2,}}.{{0,60}}(?:{_GPU_WORDS}|{_HOST_WORDS})", keep=64
)
_ROW = Watch(
    "row",
    r"^\s{0,9}\d{1,12}\s{1,20}\d{1,9}(?:\s{1,30}\d{1,7}\.\d{1,6}){3}\s*$",
    keep=256,
)
_GPU = re.compile(_GPU_WORDS, re.IGNORECASE)
_HOST = re.compile(_HOST_WORDS, re.IGNORECASE)
_BOTH_WAYS = re.compile(r"\bbi-?dir", re.IGNORECASE)
_REACH = 40
"""Lines from a heading to its last row: perftest writes about 25 of its own before a row."""
_FAR_BELOW = 0.7
"""Of host memory, a default of this project: on a good path the two differ by a few per cent."""
_FROM_BYTES = 1 << 16
"""Below it is latency."""


def _judge(view: View) -> Iterator[Clue]:
    best: dict[tuple[str, int, bool], dict[bool, tuple[float, Sighting]]] = {}
    headings = view.sightings(_HEADING.name)
    for row in view.sightings(_ROW.name):
        heading = _heading_of(row, headings)
        if heading is None or _is_gpu(heading) == bool(_HOST.search(heading.text)):
            continue
        size, _, _, average, _ = row.text.split()
        if int(size) < _FROM_BYTES:
            continue
        key = (row.artefact, int(size), bool(_BOTH_WAYS.search(heading.text)))
        of_memory = best.setdefault(key, {})
        before = of_memory.get(_is_gpu(heading))
        if before is None or float(average) > before[0]:
            of_memory[_is_gpu(heading)] = (float(average), row)
    for of_memory in best.values():
        if len(of_memory) == 2 and of_memory[True][0] < _FAR_BELOW * of_memory[False][0]:
            for entry in ("iommu-translating", "pcie-acs-enabled"):
                yield of_memory[True][1].clue(entry, Weight.WEAK, "perftest")


def _heading_of(row: Sighting, headings: tuple[Sighting, ...]) -> Sighting | None:
    """The last heading before a row, near enough to be its own."""
    own = [
        heading
        for heading in headings
        if heading.artefact == row.artefact
        and 0 < row.place.line_no - heading.place.line_no <= _REACH
    ]
    return max(own, key=lambda heading: heading.place.line_no, default=None)


def _is_gpu(heading: Sighting) -> bool:
    return bool(_GPU.search(heading.text))


_GPU_ROW = "===== write_bw, GPU memory =====\n 65536      5000             141.20             140.90             0.268750\n"
_GOOD_ROW = _GPU_ROW.replace("140.90", "386.00")
_HOST_ROW = "===== write_bw, host memory =====\n 65536      5000             391.10             390.80             0.745392\n"

RULE = Rule(
    name="memory-kinds",
    conclusion=(
        "Rows of perftest from GPU memory far below those from host memory, at the same size and"
        " between the same NICs, show the path between GPU and NIC: an IOMMU or ACS."
    ),
    watches=(_HEADING, _ROW),
    judge=_judge,
    fires=(
        Fires(
            _GPU_ROW + _HOST_ROW,
            (("iommu-translating", "weak"), ("pcie-acs-enabled", "weak")),
        ),
    ),
    silent=(
        _GPU_ROW,
        _GOOD_ROW + _HOST_ROW,
        _GPU_ROW + _HOST_ROW.replace("write_bw", "write_bw bidirectional"),
        _GPU_ROW + _HOST_ROW.replace(" 65536 ", " 2 "),
    ),
)
