"""What the kernel log says of GPUs, NVSwitches, RDMA adapters, PCIe and links (`dmesg -T`,
`journalctl -k`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.logs.scan_literals import Marks
from busbw.parsers.tools import Tool
from busbw.text import decoded

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+),? ?(.*)")
_SXID = re.compile(r"nvidia-nvswitch\d+: SXid \(PCI:([0-9a-fA-F:.]+)\): (\d+),? ?(.*)")
_OTHERS = (
    (
        "mlx5",
        re.compile(
            r"mlx5_core ([0-9a-f:.]+).*(?:health|poll_health|tx timeout|CQE error|syndrome|firmware"
            r" version.*failed|high temperature).*",
            re.I,
        ),
    ),
    (
        "aer",
        re.compile(
            r"(?:AER: |pcieport ([0-9a-f:.]+): AER).*(?:Uncorrected|Uncorrectable|Fatal|Corrected"
            r" error).*",
            re.I,
        ),
    ),
    (
        "link-down",
        re.compile(
            r"(?:(?:mlx5_core|bnxt_en|ionic) [0-9a-f:.]+ )?(\S+): (?:Link down|NIC Link is Down)"
        ),
    ),
    (
        "amdgpu",
        re.compile(
            r"amdgpu ([0-9a-f:.]+): .*(?:uncorrectable hardware error|GPU reset begin"
            r"|device lost from bus|ring \S+ timeout).*"
        ),
    ),
    ("hung-task", re.compile(r"task (\S+?):\d+ blocked for more than \d+ seconds")),
    ("oom", re.compile(r"Out of memory: Killed process (\d+)")),
    ("mce", re.compile(r"mce: .*(Hardware Error|Machine check).*")),
)
_NEEDS = (
    r"Xid \(",
    (
        r"mlx5_core [0-9a-fA-F:.]+.*"
        r"(?i:health|tx timeout|CQE error|syndrome|firmware version|high temperature)"
    ),
    "amdgpu",
    r"AER.*(?i:corrected error|uncorrect|fatal)",
    "[Ll]ink (?:is )?[Dd]own",
    "blocked for more",
    "Out of memory",
    "mce:",
)
"""No telling line is without one of these. Most lines of mlx5_core tell nothing."""
_TELLING = Marks(_NEEDS)
_OTHER_ENDS = Marks((r"[\x0b\x0c\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]",))
"""What ends a line of Python's and no line of the kernel's."""

_NOISE = re.compile(r"ACCESS_REG\(0x[\da-f]+\).*bad resource state")
"""mlx5 asks for registers that a function may not read: nothing is broken."""
_LONGEST_LINE = 2048
"""Characters; the kernel's own are below 1,024. Some of the expressions above take quadratic time
on a line."""


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """One telling line."""

    kind: str
    """`xid`, `sxid`, `mlx5`, `amdgpu`, `aer`, `link-down`, `hung-task`, `oom` or `mce`."""
    number: int | None
    """Of an Xid or SXid."""
    device: str | None
    """PCI address, interface or process that the line names."""
    text: str
    line_no: int


def parse(text: str) -> tuple[KernelEvent, ...]:
    """The telling lines, in order; () = none.

    >>> parse("[Mon Nov 16 03:02:01 2026] NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.\\n")[0].number
    79
    """
    return parse_data(text.encode("utf-8", "replace"))


def parse_data(data: bytes) -> tuple[KernelEvent, ...]:
    """The same of a text that is not decoded: in a long log, few lines are the kernel's."""
    lines = ((line_no, line[:_LONGEST_LINE]) for line_no, line in _telling_lines(data))
    events = tuple(event for line_no, line in lines if (event := _event(line, line_no)))
    return tuple(event for event in events if not _is_boot(event, data))


def _telling_lines(data: bytes) -> Iterator[tuple[int, str]]:
    """Number and text of the lines with one of `_TELLING`."""
    lines = _TELLING.lines_in(data)
    if lines and _OTHER_ENDS.stand_in(data):
        for line_no, line in enumerate(decoded(data).splitlines(), 1):
            if _TELLING.stand_in(line.encode("utf-8", "replace")):
                yield line_no, line
        return
    line_no, counted = 1, 0
    for each in lines:
        line_no += _line_ends(data, counted, each.start)
        counted = each.start
        states = data[each.start : each.end].removesuffix(b"\r")
        for number, piece in enumerate(
            states.split(b"\r"), line_no
        ):  # a progress bar's states are lines
            if _TELLING.stand_in(piece):
                yield number, decoded(piece)


def _line_ends(data: bytes, start: int, end: int) -> int:
    """How many `\n`, `\r` and `\r\n` stand there. Few lines of a log have a `\r`: to look behind each
    is faster than to count `\r\n`."""
    count = data.count(b"\n", start, end)
    at = data.find(b"\r", start, end)
    while at >= 0:
        count += not data.startswith(b"\n", at + 1)
        at = data.find(b"\r", at + 1, end)
    return count


def _is_boot(event: KernelEvent, data: bytes) -> bool:
    """A link that is down until the driver first brings it up."""
    if event.kind != "link-down" or event.device is None:
        return False
    device = re.escape(event.device).encode("utf-8", "replace")
    up = re.search(device + rb": (?:NIC )?Link (?:is )?up", data, re.I)
    return up is not None and data.count(b"\n", 0, up.start()) + 1 > event.line_no


def _event(line: str, line_no: int) -> KernelEvent | None:
    for kind, pattern in (("xid", _XID), ("sxid", _SXID)):
        if match := pattern.search(line):
            return KernelEvent(kind, int(match[2]), match[1], line.strip(), line_no)
    for kind, pattern in _OTHERS:
        if match := pattern.search(line):
            return KernelEvent(
                kind, None, match[1] if match.groups() else None, line.strip(), line_no
            )
    return None


def _errors(event: KernelEvent) -> tuple[str, ...]:
    text = event.text.lower()
    corrected = "corrected error" in text and "uncorrected" not in text
    if corrected or _NOISE.search(event.text):
        return ()
    return (f"line {event.line_no}: {event.text}",)


TOOL = Tool(
    name="kernel log",
    marks=(
        "NVRM: Xid",
        "SXid",
        "mlx5_core ",
        "AER: ",
        "Link is Down",
        "blocked for more than",
        "Out of memory: Killed",
        "mce: ",
    ),
    needs=_NEEDS,
    parse=parse,
    parse_data=parse_data,
    lines=lambda event: (event.text,),
    errors=_errors,
)
