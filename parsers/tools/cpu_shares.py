"""What a node's processes had of its CPUs: what a limit of their control group did to them, and who else
runs there. From the section `cpu` of what the script of `busbw.checks.counters` prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CPU_STAT = re.compile(r"^(/.*/cpu\.stat):(nr_periods|nr_throttled) (\d+)$")
_TASKS = re.compile(r"^tasks (\d+) own (\d+) cpus (\d+)$", re.M)


@dataclass(frozen=True, slots=True)
class Throttling:
    """What a limit of the CPU time did to a node's processes between two snapshots: `nr_periods` and
    `nr_throttled` of a control group's cpu.stat (Linux, Documentation/scheduler/sched-bwc.rst)."""

    group: str
    """Path of the cpu.stat."""
    periods: int
    """Of the scheduler, in which they ran under the limit; a tenth of a second each unless set
    otherwise."""
    throttled: int
    """Those in which the time was used up, and everything stopped until the next one."""
    line_no: int
    """Of the later text."""

    @property
    def share(self) -> float:
        """Of the periods, those in which everything stopped."""
        return self.throttled / self.periods


def throttling(before: str, after: str) -> Throttling | None:
    """Of the control group whose limit stopped most; None = none has a limit, or the texts do not
    say.

    >>> first = "== cpu\\n/sys/fs/cgroup/cpu.stat:nr_periods 10\\n/sys/fs/cgroup/cpu.stat:nr_throttled 2\\n== end\\n"
    >>> throttling(first, first.replace(" 10", " 110").replace(" 2", " 52"))
    Throttling(group='/sys/fs/cgroup/cpu.stat', periods=100, throttled=50, line_no=3)
    """
    old, new = _cpu_stats(before), _cpu_stats(after)
    most: Throttling | None = None
    for (group, name), (throttled, line_no) in new.items():
        periods, _ = new.get((group, "nr_periods"), (0, 0))
        was = old.get((group, name)), old.get((group, "nr_periods"))
        if name != "nr_throttled" or was[0] is None or was[1] is None:
            continue
        found = Throttling(group, periods - was[1][0], throttled - was[0][0], line_no)
        if found.periods > 0 and 0 <= found.throttled <= found.periods:
            most = found if most is None or found.throttled > most.throttled else most
    return most


@dataclass(frozen=True, slots=True)
class Tasks:
    """Who runs or waits for a CPU of a node at one moment."""

    machine: int
    """Of the whole machine, threads of their own included."""
    own: int
    """Processes that the node sees: in a container, and in a lab, those of its own. What counts them is
    one of them, in both."""
    cpus: int
    line_no: int


def tasks(text: str) -> Tasks | None:
    """Of one snapshot; None = it does not say.

    >>> tasks("== cpu\\ntasks 12 own 5 cpus 2\\n== end\\n")
    Tasks(machine=12, own=5, cpus=2, line_no=2)
    """
    match = _TASKS.search(text)
    if match is None or not int(match[3]):
        return None
    line_no = text.count("\n", 0, match.start()) + 1
    return Tasks(int(match[1]), int(match[2]), int(match[3]), line_no)


def _cpu_stats(text: str) -> dict[tuple[str, str], tuple[int, int]]:
    """(cpu.stat, counter) → (value, line number)."""
    start = text.find("== cpu\n")
    if start < 0:
        return {}
    first = text.count("\n", 0, start) + 2
    body = text[start:].partition("\n")[2].partition("== ")[0]
    stats = {}
    for line_no, line in enumerate(body.split("\n"), first):
        match = _CPU_STAT.match(line)
        if match:
            stats[match[1], match[2]] = (int(match[3]), line_no)
    return stats
