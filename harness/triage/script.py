"""The script that collects the evidence of a stalled job on one node: POSIX sh, read-only, in the
order in which evidence dies.

It looks twice (processes, sockets, ports, GPUs, NCCL's RAS), and between the looks at what keeps
longer: kernel log, memory, dumps, logs, disks. It writes no file, sends no signal and starts
nothing that stays. Only `--stacks` touches a process: the tools that read stacks pause it.

Framing is that of the preflight script; the first line names the boundary, so that an answer that a
site collected by its own means can be taken apart as well.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model import Command
from busbw.triage import shell

INTERVAL_S = 5
"""Between the two looks: a healthy job's collectives take milliseconds to seconds."""
MAGIC = "busbw-live 1"
"""First words of every answer."""


@dataclass(frozen=True, slots=True)
class Asking:
    """What differs between askings."""

    interval_s: int = INTERVAL_S
    """Between the looks."""
    ras: bool = True
    """Ask NCCL's RAS here: it collects over the whole job, so a few nodes of a job are enough."""
    stacks: bool = False
    """Read stacks, which pauses every rank for a moment: only where the job's owner agrees."""


@dataclass(frozen=True, slots=True)
class Part:
    """One section of the answer."""

    name: str
    shell: str
    limit_s: int = 0
    """0 = it cannot hang, or limits itself, and runs in the script's own shell."""
    words: str = ""
    """Arguments of a part with a limit, as the script's shell writes them."""
    before: str = ""
    """What the script's shell does first, to have those arguments."""
    where: str = ""
    """A condition of the script's shell; where it does not hold, the section is empty with status
    127."""
    given: str = ""
    """What a part with a limit reads on its standard input, as a command of the script's shell."""


def parts(asking: Asking) -> tuple[Part, ...]:
    """What is asked, in the order in which evidence dies."""
    smi = "command -v nvidia-smi >/dev/null"
    # A tool that hung once would hang again and cost its time again.
    answers = smi + ' && [ -z "$HUNG" ]'

    def ras(name: str, before: str = "") -> Part:
        if not asking.ras:
            return Part(name, shell.LISTENS, before=before)
        patience_s = 4 if name == "ras-1" else 2
        return Part(
            name,
            shell.RAS,
            14,
            f'"${{address%:*}}" "${{address##*:}}" "$FOREIGN" "${{FIRST:-self}}" {patience_s}',
            before,
        )

    stacks = (Part("stacks", shell.STACKS, 60, "$PIDS"),) if asking.stacks else ()
    return (
        Part("self", shell.SELF),
        Part("ranks", "printf '%s\\n' \"$RANKS\""),
        Part("look-1", shell.LOOK),
        ras("ras-1", shell.PLACES),
        Part("gpu-1", shell.GPU, 8, where=smi),
        Part("gpu-apps", shell.GPU_APPS, 8, where=answers),
        Part("kernel", shell.KERNEL),
        Part("dumps", shell.DUMPS, 10, '"$@"', shell.DUMP_FILES, "[ $# -gt 0 ]"),
        Part("logs", shell.LOGS, 8, '"$@"', shell.LOG_FILES, "[ $# -gt 0 ]"),
        Part("host", shell.HOST),
        Part("disks", shell.DISKS, 4, '"$@"', shell.DISK_FILES, given="printf '%s\\n' \"$files\""),
        Part("qps", shell.QUEUE_PAIRS, 4, where='[ -n "$HCAS" ] && command -v rdma >/dev/null'),
        *stacks,
        Part("wait", shell.WAIT),
        Part("look-2", shell.LOOK),
        ras("ras-2"),
        Part("gpu-2", shell.GPU, 8, where=answers),
        Part("self-2", shell.SELF_AGAIN),
    )


def spread(names: Sequence[str]) -> tuple[str, ...]:
    """The nodes whose RAS is asked: the first, the last and one in the middle. A job on some of
    these nodes has one of them, mostly."""
    return tuple(names) if len(names) < 4 else (names[0], names[len(names) // 2], names[-1])


def command(asking: Asking, boundary: str, *, store: str | None = None) -> Command:
    """The script as one command; standard output is kept as `raw/<store>`."""
    at_most_s = 40.0 + asking.interval_s + sum(part.limit_s + 1 for part in parts(asking))
    return Command(
        ("sh", "-s"),
        text(asking, boundary).encode(),
        timeout_s=at_most_s,
        label="live",
        store=store,
    )


def text(asking: Asking, boundary: str) -> str:
    """The script itself: runs as it stands with `sh`, on any node, and prints its answer on
    standard output.

    It is one function, called in the last line: of a script that came only in part nothing runs,
    and nothing that it starts reads its text.
    """
    constants = {
        "B": boundary,
        "INTERVAL": str(asking.interval_s),
        "NAMES": shell.RANK_NAMES,
        "KEPT": shell.KEPT,
        "COUNTERS": shell.COUNTERS,
        "READ_RANKS": shell.READ_RANKS.strip(),
        "STATES": shell.STATES.strip(),
        "HELD": shell.HELD.strip(),
    }
    lines = [
        (
            "# Collects the evidence of a stalled job on this node. Reads only. Output: one text;"
            " keep it as NODE.txt, then: busbw why DIRECTORY"
        ),
        "main() {",
        f'echo "{MAGIC} $B"',
        shell.FIND.strip(),
        *map(_part, parts(asking)),
        "mark done",
        "}",
        *(f"{name}={shlex.quote(value)}" for name, value in constants.items()),
        "export NAMES KEPT",
        shell.PROLOGUE.strip(),
        "main </dev/null",
    ]
    return "\n".join(lines) + "\n"


def _part(part: Part) -> str:
    before = f"{part.before.strip()}\n" if part.before else ""
    if part.limit_s:
        given = f"{part.given} | " if part.given else ""
        does = f"{given}ask {part.name} {part.limit_s} {shlex.quote(part.shell.strip())} {part.words}".rstrip()
        does += " || HUNG=yes" if part.name.startswith("gpu") else ""
    else:
        does = f"mark begin {part.name}\n{part.shell.strip()}\nmark end {part.name} 0"
    if part.where:
        does = (
            f"if {part.where}; then\n{does}\nelse mark begin {part.name}; mark end {part.name}"
            " 127; fi"
        )
    return f"{before}{does}"
