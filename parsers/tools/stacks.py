"""Stacks of processes as `py-spy dump` (0.3, 0.4), `gdb -batch -ex 'thread apply all bt'` (10 to
15) and /proc/PID/stack print them.

>>> text = "stack 41\\nProcess 41: python train.py\\n\\nThread 41 (idle): \\"MainThread\\"\\n"
>>> text += "    all_reduce (torch/c10d.py:9)\\n    main (train.py:3)\\n"
>>> (one,) = parse(text)
>>> one.pid, one.threads[0].name, one.threads[0].frames
(41, 'MainThread', ('all_reduce (torch/c10d.py:9)', 'main (train.py:3)'))
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(r"^stack (\d+)$")
_PY_SPY = re.compile(r'^Thread \S+ \((.*?)\)(?:: "(.*)")?$')
_GDB = re.compile(r'^Thread (\d+) \((?:Thread|LWP|process) (?:[^"]*"(.*)"|.*)\):$')
_GDB_FRAME = re.compile(r"^#\d+\s+(?:0x[0-9a-f]+ in )?(.*)$")
_KERNEL = re.compile(r"^\[<[0-9a-fx]+>\] (.+)$")
_MOST = 40


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread of a process."""

    name: str
    """As the tool calls it: `MainThread`, `python3`; `kernel` = the kernel's own stack of the
    process."""
    frames: tuple[str, ...]
    """Innermost first: `wait (threading.py:320)`, `ncclAllReduce from /usr/lib/libnccl.so.2`,
    `ep_poll+0x3a/0x90`."""
    line_no: int


@dataclass(frozen=True, slots=True)
class ProcessStack:
    """One process."""

    pid: int
    threads: tuple[Thread, ...]
    """() = nothing was readable (`message`)."""
    message: str
    """What the tool printed instead; empty = it printed stacks."""
    line_no: int

    @property
    def main(self) -> Thread | None:
        """The thread that runs the program: py-spy names it, gdb lists it last."""
        return next(
            (t for t in self.threads if t.name == "MainThread"),
            self.threads[-1] if self.threads else None,
        )


def parse(text: str) -> tuple[ProcessStack, ...]:
    """The stacks, in order of the script's `stack PID` lines."""
    stacks: list[ProcessStack] = []
    lines = text.splitlines()
    heads = [(n, int(m[1])) for n, line in enumerate(lines) if (m := _HEAD.match(line))]
    for place, (start, pid) in enumerate(heads):
        end = heads[place + 1][0] if place + 1 < len(heads) else len(lines)
        body = lines[start + 1 : end]
        threads = _threads(body, start + 2)
        problem = "" if threads else " ".join(" ".join(body).split())[:200]
        stacks.append(ProcessStack(pid, threads, problem, start + 1))
    return tuple(stacks)


def _threads(body: list[str], first_line_no: int) -> tuple[Thread, ...]:
    threads: list[tuple[str, list[str], int]] = []
    for number, line in enumerate(body, first_line_no):
        if (m := _GDB.match(line)) is not None:
            threads.append((m[2] or f"thread {m[1]}", [], number))
        elif (m := _PY_SPY.match(line)) is not None:
            threads.append((m[2] or "thread", [], number))
        elif (m := _KERNEL.match(line)) is not None:
            if not threads or threads[-1][0] != "kernel":
                threads.append(("kernel", [], number))
            threads[-1][1].append(m[1])
        elif threads and (m := _GDB_FRAME.match(line)) is not None:
            threads[-1][1].append(_plain(m[1]))
        elif threads and line.startswith("    ") and line.strip():
            threads[-1][1].append(line.strip())
    return tuple(
        Thread(name, tuple(frames[:_MOST]), number) for name, frames, number in threads if frames
    )


def _plain(frame: str) -> str:
    """A frame of gdb without the values of its arguments, which may be anything.

    >>> _plain("ncclAllReduce (sendbuff=0x7f, count=<optimized out>) at collectives.cc:88")
    'ncclAllReduce at collectives.cc:88'
    """
    m = re.match(r"(\S+) \(.*\) ((?:at|from) \S+)$", frame)
    return f"{m[1]} {m[2]}" if m else frame.partition(" (")[0]
