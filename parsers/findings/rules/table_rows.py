"""What the rows of a table of nccl-tests show where nothing else fails: one size far slower than its
neighbours, or a list of devices behind which no row ever comes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.nccl_tests.shape import DIP_DEPTH, DIP_FROM_BYTES

_DEVICE = Watch(
    "device", r"^.{0,40}#\s+Rank\s+\d+\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+\S+ device", keep=4096
)
_TYPE = r"(?:u?int\d*|char|half|float|double|bfloat16|bf16|fp16|fp32|fp64|\w{1,12}_?e\dm\d\w*)"
"""Of any word, hyperscan takes as long as for a thousand other expressions."""
_ROW = Watch(
    "row",
    rf"^.{{0,40}}\s\d+\s+\d+\s+{_TYPE}\s+\w+\s+(?:-?\d+\s+)?[\d.]+\s+[\d.]+\s+[\d.]+\s+(?:[\de+.-]+|N/A)\s",
    keep=256,
)
_ENDED = Watch("ended", r"Avg bus bandwidth|Out of bounds values")
_FAILED = Watch(
    "failed", r"[Ff]ail|[Ee]rror|NCCL WARN|[Aa]bort|[Ss]ignal|[Tt]imed? ?out|[Kk]illed", enough=0
)
_NUMBERS = re.compile(r"\s(\d+)\s+\d+\s+[a-z]\w+\s+\w+\s+(?:-?\d+\s+)?[\d.]+\s+[\d.]+\s+([\d.]+)\s")
_HOST = re.compile(r"Pid\s+\d+ on\s+(\S+) device")


def _judge(view: View) -> Iterator[Clue]:
    rows, devices = view.sightings(_ROW.name), view.sightings(_DEVICE.name)
    yield from _dips(rows)
    if not devices or rows or view.sightings(_ENDED.name) or view.has(_FAILED.name):
        return
    hosts = {host[1] for host in map(_HOST.search, (line.text for line in devices)) if host}
    entries = ("socket-ifname-mismatch", "firewall-blocks-ports")
    if len(hosts) < 2:
        entries = ("pcie-acs-enabled", "iommu-translating")
    for entry in entries:
        yield devices[-1].clue(entry, Weight.WEAK, "nccl-tests", tuple(sorted(hosts)[:4]))


def _dips(rows: tuple[Sighting, ...]) -> Iterator[Clue]:
    """Rows far slower than both neighbours of one table: sizes that rise by the same step."""
    points = []
    for line in rows:
        match = _NUMBERS.search(line.text)
        if match:
            points.append((int(match[1]), float(match[2]), line))
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        rising = before[0] < here[0] < after[0]
        if not rising or here[0] < DIP_FROM_BYTES:
            continue
        if here[1] < (1 - DIP_DEPTH) * min(before[1], after[1]):
            yield here[2].clue("size-dip", Weight.WEAK, "nccl-tests")


def _row(size: int, busbw: float) -> str:
    time_us = size / busbw / 1e3
    return (
        f"   {size}   {size // 4}  float  sum  -1  {time_us:.1f}  {busbw:.2f}  {busbw:.2f}  0"
        f"  {time_us:.1f}  {busbw:.2f}  {busbw:.2f}  0\n"
    )


_DEVICES = (
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid  711 on  node1 device  0 [0x0f] NVIDIA H100\n"
    "#  Rank  1 Group  0 Pid  902 on  {} device  0 [0x0f] NVIDIA H100\n"
)

RULE = Rule(
    name="table-rows",
    conclusion=(
        "One size of a table is far slower than both neighbours. A list of devices without a row"
        " behind it is a start that hangs: the network between hosts, PCIe within one."
    ),
    watches=(_DEVICE, _ROW, _ENDED, _FAILED),
    judge=_judge,
    fires=(
        Fires(_row(1 << 24, 160) + _row(1 << 25, 90) + _row(1 << 26, 290), (("size-dip", "weak"),)),
        Fires(
            _DEVICES.format("node2"),
            (("socket-ifname-mismatch", "weak"), ("firewall-blocks-ports", "weak")),
        ),
        Fires(
            _DEVICES.format("node1"),
            (("pcie-acs-enabled", "weak"), ("iommu-translating", "weak")),
        ),
    ),
    silent=(
        _row(1 << 24, 160) + _row(1 << 25, 180) + _row(1 << 26, 290),
        _row(1 << 14, 10) + _row(1 << 15, 5) + _row(1 << 16, 20),
        _row(1 << 24, 160) + _row(1 << 25, 90) + _row(1 << 20, 290),
        _DEVICES.format("node2") + _row(1 << 24, 160),
        _DEVICES.format("node2") + "node2: Test NCCL failure common.cu:958\n",
    ),
)
