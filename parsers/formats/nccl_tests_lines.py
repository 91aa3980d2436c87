"""The lines of nccl-tests output that are not rows: what each looks like and what it says.

>>> rank_line("#  Rank  0 Group  0 Pid  41011 on     node-a device  0 [0000:18:00] NVIDIA H200").bus_id
'0000:18:00'
>>> program_of("mpirun -np 16 ./build/all_reduce_perf -b 8 -e 8G")
'all_reduce'
"""

from __future__ import annotations

import re

from busbw.records.benchmark import RankLine

_END = r"[\s\"'`,;\\|]*$"
"""Quotes may follow, but not words: those make it a sentence about such a line."""
OUT_OF_BOUNDS = re.compile(rf"Out of bounds values\s*:\s*(\d{{1,18}})\s*(OK|FAILED)?{_END}")
AVERAGE = re.compile(rf"Avg bus bandwidth\s*:\s*(-?(?:\d+(?:\.\d*)?(?:e[+-]?\d{{1,4}})?|nan|inf))(\s*)(?:GB/s)?(OK|FAILED)?{_END}")
TESTS_VERSION = re.compile(
    r"nccl-tests version (\S+)(?:\s+nccl-headers=(\d{1,9}))?(?:\s+nccl-library=(\d{1,9}))?|rccl-tests: Version (\S+)"
)
NCCL_VERSION = re.compile(r"\b[NR]CCL version ?:? ?(\d\S*)")
REDUCED = re.compile(r"Reducing maxBytes to (\d{1,18})")
FAILURE = re.compile(
    r"Test (?:NCCL|CUDA) failure|Test failure \S+:\d+|Test timeout|Invalid number of GPUs: \d|Incompatible NCCL versions"
    r"|invalid sizes? (?:for|specified)"
)
NOTE = re.compile(
    r"invalid (?:type|op) \S+, defaulting to|[Oo]ption -\w .*(?:not supported|requires)|\(-\w\) .*Disabling\.|skipping json output"
)
"""What was asked for and not done."""
NRANKS = re.compile(r"\bnranks ([1-9]\d{0,8})")
HEADER_PART = re.compile(r"\b(?:size|bytes)\b.*\b(?:count|N)\b.*\btype\b")
LOG_HOST = re.compile(r"^([A-Za-z0-9][\w.-]*):\d+:\d+ ")
_RANK = re.compile(
    r"Rank\s+(?P<rank>\d{1,9})\s+(?:Group\s+(?P<group>\d{1,9})\s+)?Pid\s+(?P<pid>\d{1,9})\s+on\s+(?P<host>\S.{0,255}?)\s+device\s+(?P<device>\d{1,9})\s+"
    r"\[(?P<bus>[0-9a-fA-Fx:.]+)\]\s*(?P<name>.{0,255})"
)
_PROGRAM = re.compile(
    r"(?<![a-z_])(all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|reduce|sendrecv|scatter|gather|hypercube)(?:_perf|\.cu:\d)"
)


def rank_line(text: str) -> RankLine | None:
    """One entry of the device table; None = the line is none."""
    match = _RANK.search(text)
    if match is None:
        return None
    return RankLine(
        rank=int(match["rank"]),
        host=match["host"],
        device=int(match["device"]),
        device_name=match["name"].strip(" `\"',\t"),
        pid=int(match["pid"]),
        group=int(match["group"]) if match["group"] is not None else None,
        bus_id=match["bus"],
    )


def program_of(text: str) -> str | None:
    """The collective whose program (or source file) a line names; None = none."""
    match = _PROGRAM.search(text)
    return match[1] if match else None
