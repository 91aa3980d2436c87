"""Outputs of a node's own tools in a text: nvidia-smi, ibstat, ibv_devinfo, rdma link, ethtool,
lspci, dmesg, fi_info, perftest and their like, as `parsers.tools` declares them.

>>> document = read([b"CA 'mlx5_0'\\n\\tCA type: MT4129\\n\\tPort 1:\\n\\t\\tState: Active\\n\\t\\tPhysical state: LinkUp\\n\\t\\tRate: 400\\n"])
>>> document.kind, document.summary
('node-tools', (('ibstat', 'mlx5_0 MT4129: port 1 Active, LinkUp, 400 Gb/s'),))
"""

from __future__ import annotations

from collections.abc import Iterable

from busbw.errors import UnknownLayout
from busbw.parsers import tools
from busbw.parsers.logs import Document, Format
from busbw.parsers.logs.scan_literals import Marks
from busbw.text import decoded

KIND = "node-tools"
MOST_BYTES = 1 << 20
"""The output of a tool is smaller; of a longer text the beginning is read."""

_STAND_ALONE = (
    (('"pg_config"', '"profiling_name"'), "a flight recorder's dump"),
    (('"inPlace"', '"busBw"'), "rccl-tests' records"),
    (('"ranksPerNode"', '"busBw"', '"kernel"'), "mscclpp-test's records"),
)
"""What is read only where a text begins with it, and its marks."""
_MARKS = tuple(dict.fromkeys(mark for marks, _ in _STAND_ALONE for mark in marks))
_ANY_MARK = Marks(_MARKS)
_LOOK_BYTES = 65536
"""So much is looked at for the first line, which errors quote."""


def read(chunks: Iterable[bytes]) -> Document:
    """Read what such tools printed.

    Raises:
        UnknownLayout: nothing of the kind is in the beginning of the text.
    """
    data, cut = _beginning(chunks)
    readings = tools.read(data)
    if not readings:
        begin, _, _ = decoded(data[:_LOOK_BYTES]).lstrip().partition("\n")
        first_line = "".join(begin.splitlines()[:1])
        raise UnknownLayout(
            "no output of a node's tools in it",
            seen=first_line.strip()[:200],
            next_step=(
                "known are nvidia-smi, ibstat, ibv_devinfo, rdma link, ethtool, lspci, dmesg and"
                " their like: docs/read.md lists them"
            ),
        )
    errors = tuple(dict.fromkeys(error for each in readings for error in each.errors))
    gaps = list(dict.fromkeys(gap for each in readings for gap in each.gaps))
    marks_here = {_MARKS[number] for number in _ANY_MARK.numbers_in(data)}
    gaps += (
        f"{name} behind another output not read: give it as a file of its own"
        for marks, name in _STAND_ALONE
        if marks_here.issuperset(marks)
    )
    if cut:
        gaps.append(f"outputs of tools were looked for in the first {MOST_BYTES} bytes only")
    return Document(
        kind=KIND,
        records=tuple(record for each in readings for record in each.records),
        summary=tuple((each.tool, line) for each in readings for line in each.lines),
        complete=not gaps,
        problems=(*errors, *gaps),
        faults=errors,
    )


def _beginning(chunks: Iterable[bytes]) -> tuple[bytes, bool]:
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size > MOST_BYTES:
            data = b"".join(pieces)
            return data[: data.rfind(b"\n", 0, MOST_BYTES) + 1 or MOST_BYTES], True
    return b"".join(pieces), False


def _looks_like(head: bytes) -> float:
    if not tools.is_marked(head):
        return 0.0
    return 0.1 if b"NCCL " in head else 0.4


FORMAT = Format(KIND, "output of a node's tools", _looks_like, read, embedded=True)
