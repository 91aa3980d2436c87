"""The lines around a table that are no rows: devices, versions, configuration, what went wrong, the
end; and the command line above it.

>>> rank_line("#  Rank  0 Group  0 Pid  41011 on     node-a device  0 [0000:18:00] NVIDIA H200").bus_id
'0000:18:00'
>>> program_of("mpirun -np 16 ./build/all_reduce_perf -b 8 -e 8G")
'all_reduce'
"""

from __future__ import annotations

import re

from busbw.model.benchmark import RankLine

_END = r"[\s\"'`,;\\|]*$"
"""Quotes may follow, but no words: with those it is a sentence about such a line."""
OUT_OF_BOUNDS = re.compile(rf"Out of bounds values\s*:\s*(\d{{1,18}})\s*(OK|FAILED)?{_END}")
BOUNDS_UNREADABLE = re.compile(r"^#? ?Out of bounds values *:.{0,40}$")
"""The line, whatever stands in it."""
AVERAGE = re.compile(
    r"Avg bus"
    rf" bandwidth\s*:\s*(-?(?:\d+(?:\.\d*)?(?:e[+-]?\d{{1,4}})?|nan|inf))(\s*)(?:GB/s)?(OK|FAILED)?{_END}"
)
TESTS_VERSION = re.compile(
    r"nccl-tests version"
    r" (\S+)(?:\s+nccl-headers=(\d{1,9}))?(?:\s+nccl-library=(\d{1,9}))?|rccl-tests: Version (\S+)"
)
NCCL_VERSION = re.compile(r"\b[NR]CCL version ?:? ?(\d\S*)")
REDUCED = re.compile(r"Reducing maxBytes to (\d{1,18})")
FAILURE = re.compile(
    r"Test (?:NCCL|CUDA) failure|Test failure \S+:\d+|Test timeout|Invalid number of GPUs:"
    r" \d|Incompatible NCCL versions"
    r"|invalid sizes? (?:for|specified)"
)
FAILURE_WORDS = ("Test ", "Invalid number", "Incompatible", "invalid size")
"""Every match has one of them: looking for these first takes a tenth of the time."""
NOTE = re.compile(
    r"invalid (?:type|op) \S+, defaulting to|[Oo]ption -\w .*(?:not supported|requires)|\(-\w\)"
    r" .*Disabling\.|skipping json output"
)
"""What was requested and not done."""
NOTE_WORDS = ("invalid ", "ption -", "Disabling", "skipping json")
"""Every match has one of them."""
NRANKS = re.compile(r"\bnranks ([1-9]\d{0,8})")
LOG_HOST = re.compile(r"^([A-Za-z0-9][\w.-]*):\d+:\d+ ")
_RANK = re.compile(
    r"Rank\s+(?P<rank>\d{1,9})\s+(?:Group\s+(?P<group>\d{1,9})\s+)?Pid\s+(?P<pid>\d{1,9})\s+on\s+(?P<host>\S.{0,255}?)\s+device\s+(?P<device>\d{1,9})\s+"
    r"\[(?P<bus>[0-9a-fA-Fx:.]+)\]\s*(?P<name>.{0,255})"
)
_PROGRAM = re.compile(
    r"(?<![a-z_])(all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|reduce|sendrecv|scatter|gather|hypercube)(?:_perf|\.cu:\d)"
)
CONFIG = re.compile(
    r"(nThread|nGpus|minBytes|maxBytes|step|warmup iters|iters|agg"
    r" iters|validation|graph|unalign):? +(\d{1,18})(\(\w+\))?"
)
"""The configuration line's pairs; the order, the colons and the last names differ by version."""


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
    if "_perf" not in text and ".cu:" not in text:
        return None
    match = _PROGRAM.search(text)
    return match[1] if match else None


_COMMAND = re.compile(
    r"\b(?:mpirun|mpiexec(?:\.\w+)?|orterun|prterun|srun)\s(?P<launcher>.{0,2000}?)_perf\b(?P<options>.{0,1000})"
)
_PROCESSES = re.compile(r"(?:^|\s)(?:-np|-n|--np|--n|--ntasks)[= ]+(\d{1,6})(?=\s)")
_GPUS = re.compile(r"(?:^|\s)(?:-g|--ngpus)[= ]+(\d{1,3})(?=\s|$)")
_THREADS = re.compile(r"(?:^|\s)(?:-t|--nthreads)[= ]+(\d{1,3})(?=\s|$)")


def ranks_of_command(text: str) -> int | None:
    """The ranks that a quoted command line starts: its processes, each with -t threads of -g GPUs;
    None = it is none, or does not say how many processes.

    >>> ranks_of_command("$ mpirun -np 4 -x NCCL_DEBUG=INFO ./build/all_reduce_perf -b 8 -e 8G -f 2 -g 8")
    32
    """
    match = _COMMAND.search(text)
    processes = _PROCESSES.search(match["launcher"]) if match is not None else None
    if match is None or processes is None:
        return None
    gpus, threads = _GPUS.search(match["options"]), _THREADS.search(match["options"])
    return int(processes[1]) * int(gpus[1] if gpus else 1) * int(threads[1] if threads else 1)
