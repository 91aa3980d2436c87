"""Families of checks: what each asks of a node and how the answer is judged.

A family is one module with a `CHECK`. All sections of all families travel to a node as one POSIX sh
script on standard input (`script`), so that a node is asked once; the answers come back framed by
markers, each with its own time limit and exit status. Judging is pure.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TypeVar, TypeVarTuple

from busbw import shell
from busbw.faults import Fault, attempt
from busbw.model import TIMED_OUT, CheckResult, Evidence, Node, Requirement, Status

K = TypeVar("K")

MAX_OUTPUT_BYTES = 256 * 1024
"""Of a section's standard output; an `nvidia-smi -q` of 8 GPUs has about 70 KiB."""
MAX_ERROR_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Section:
    """One probe of the script. Its shell is a fixed text of ours with `arguments`, quoted, as its
    "$@"."""

    name: str
    command: str = ""
    """One command or pipeline; "" = the program `sh/NAME.sh`, or `py/NAME.py` where `python`."""

    timeout_s: int = 10
    after: str = ""
    """Not asked where that section was ended by its limit: a tool that hung once would hang again
    and cost its time again."""
    tool: str = ""
    """Answered at once with 127 where this program is not on PATH; not needed where `command` is
    plain."""
    small: bool = False
    """True = reads a few files with the shell's own means, no tool that could print megabytes or
    hang: these are asked together."""
    serves: tuple[str, ...] = ()
    """The checks that read it: not asked where the profile wants none of them. () = always asked,
    its facts are needed elsewhere."""
    python: bool = False
    library: str = ""
    """A file of `sh/` whose functions the program uses."""
    arguments: Callable[[], tuple[str, ...]] = tuple

    @property
    def shell(self) -> str:
        """What the node runs."""
        program = self.command
        if self.python:
            program = shlex.join(("python3", "-c", shell.load("busbw.checks", f"{self.name}.py")))
        elif not program:
            files = (self.library, self.name) if self.library else (self.name,)
            program = shell.load("busbw.checks", *(f"{name}.sh" for name in files))
        arguments = self.arguments()
        return f"set -- {shlex.join(arguments)}\n{program}" if arguments else program


@dataclass(frozen=True, slots=True)
class SectionOutput:
    """What one section printed."""

    name: str
    stdout: str
    stderr: str
    exit_status: int | None
    """None = the node stopped answering inside this section."""
    line_no: int = field(compare=False)
    """Line of its first output line in the node's whole standard output, from 1. Where it stands is
    no part of what was said: equal answers of different nodes are judged once."""
    seconds: float | None = field(default=None, compare=False)
    """How long it took by the node's own clock, to 0.01 s; None = the node did not say."""

    @property
    def timed_out(self) -> bool:
        """Ended by its own time limit."""
        return self.exit_status in TIMED_OUT

    @property
    def missing(self) -> bool:
        """The tool is not there, or may not be run."""
        return self.exit_status in (126, 127)

    @property
    def cut(self) -> bool:
        """It printed more than is kept: what it would have said after that is not known."""
        length = len(self.stdout)
        return length >= MAX_OUTPUT_BYTES or (
            length >= MAX_OUTPUT_BYTES // 4 and len(self.stdout.encode()) >= MAX_OUTPUT_BYTES
        )


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """All sections of one node."""

    node: Node
    sections: Mapping[str, SectionOutput]
    artefact: str
    """Where its standard output is kept, inside the run directory."""
    problem: str | None
    """Why sections are missing: timed out, connection lost, script not run; None = all are
    there."""
    requirements: tuple[Requirement, ...] = ()
    """What the `specification:` blocks of the plan demand of the node."""
    span_s: tuple[float, float] | None = None
    """When it was asked and when its answer was there, in seconds since 1970 by this machine's
    clock; None = not recorded."""

    def section(self, name: str) -> SectionOutput | None:
        """The output of a section; None = the node did not get that far."""
        return self.sections.get(name)


def unread(answer: NodeAnswer, fault: Fault) -> NodeAnswer:
    """What takes the place of an answer that our readers fail at: none, with the reason."""
    why = f"busbw could not read what the node printed ({fault.text}); it is kept"
    return replace(answer, sections={}, problem=why)


def read_answer(read: Callable[[NodeAnswer], K], answer: NodeAnswer) -> K:
    """What `read` says of an answer; where it fails, what it says of a node without one."""
    outcome = attempt(lambda: read(answer))
    return read(unread(answer, outcome)) if isinstance(outcome, Fault) else outcome


@dataclass(frozen=True, slots=True)
class Policy:
    """What the profile and the playbook ask for."""

    profile: str
    required: tuple[str, ...]
    """Dotted ids or globs."""
    advisory: tuple[str, ...]
    sections: tuple[str, ...] = ()
    """Sections that are asked whichever checks they serve."""

    def is_required(self, check_id: str) -> bool | None:
        """True = required, False = advisory, None = not applicable to this profile."""
        if any(fnmatchcase(check_id, pattern) for pattern in self.required):
            return True
        return False if any(fnmatchcase(check_id, pattern) for pattern in self.advisory) else None


@dataclass(frozen=True, slots=True)
class Check:
    """One check, as docs/checks.md shows it."""

    id: str
    """Dotted: `rdma.devices`."""
    command: str
    """What answers it, as a person would type it."""
    rule: str
    """When it is FAIL or WARN. What it cannot decide is UNKNOWN with the reason."""


CONNECT = Check("ssh.connect", "ssh NODE true", "not reached: UNKNOWN, with the error")
"""Reaching the node, which no family does."""


@dataclass(frozen=True, slots=True)
class CheckFamily:
    """One family of checks."""

    name: str
    checks: tuple[Check, ...]
    """All that it can give."""
    sections: tuple[Section, ...]
    judge: Callable[[NodeAnswer], tuple[CheckResult, ...]]
    """One node by itself. It gives a result for each of its ids; `apply_demand` sets what is
    required."""
    compare: Callable[[tuple[NodeAnswer, ...]], tuple[CheckResult, ...]] = lambda answers: ()
    """All nodes against each other."""
    judge_records: Callable[[tuple[object, ...]], tuple[RuleResult, ...]] = lambda records: ()
    """What its rules say about the records of a text that was handed in (`parsers.tools`)."""
    purpose: str = ""
    """What its sections are for, where it has no check of its own."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its checks."""
        return tuple(check.id for check in self.checks)


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What a rule says of one text, before it is known from which node the text is."""

    check_id: str
    status: Status
    seen: str
    """In a few words that are equal on equal nodes: no temperatures, loads or times that differ
    without meaning anything."""
    expected: str
    reason: str = ""
    """Why it is UNKNOWN or SKIPPED."""
    line_no: int | None = None
    """Line of the section's output that shows it, from 1; None = all of it."""
    values: tuple[tuple[str, float | bool | str], ...] = ()
    """What was measured, by the names that the catalogue's expressions read."""

    def with_values(self, **values: float | bool | str | None) -> RuleResult:
        """The same ruling with these values; None = not known, and left out."""
        known = tuple((name, value) for name, value in values.items() if value is not None)
        # Written out: `dataclasses.replace` takes several times as long, and a thousand nodes give
        # ten thousand rulings.
        return RuleResult(
            self.check_id, self.status, self.seen, self.expected, self.reason, self.line_no, known
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A check and what it expects: each result of its rule begins with both."""

    check_id: str
    expected: str

    def result(
        self, status: Status, seen: str, reason: str = "", line_no: int | None = None
    ) -> RuleResult:
        """What the rule says where the status is worked out."""
        return RuleResult(self.check_id, status, seen, self.expected, reason, line_no)

    def passed(self, seen: str) -> RuleResult:
        """As expected."""
        return self.result(Status.PASS, seen)

    def failed(self, seen: str, reason: str = "") -> RuleResult:
        """Not as expected."""
        return self.result(Status.FAIL, seen, reason)

    def warned(self, seen: str, reason: str = "") -> RuleResult:
        """Not as expected, and a job may live with it."""
        return self.result(Status.WARN, seen, reason)

    def unknown(self, seen: str, reason: str) -> RuleResult:
        """It cannot be judged."""
        return self.result(Status.UNKNOWN, seen, reason)

    def skipped(self, seen: str, reason: str) -> RuleResult:
        """There is nothing to judge."""
        return self.result(Status.SKIPPED, seen, reason)


def of_kind(records: tuple[object, ...], kind: type[K]) -> tuple[K, ...]:
    """The records of one kind, in order."""
    return tuple(record for record in records if isinstance(record, kind))


def unknown(
    answer: NodeAnswer, check_id: str, section: str, expected: str, command: str
) -> CheckResult | None:
    """The result of a check whose section cannot be judged: not reached, timed out, tool missing,
    cut off. None = it can be judged."""
    output = answer.section(section)
    if output is None or output.exit_status is None:
        why = answer.problem or "the node's answer has no such section"
        return CheckResult(
            check_id, answer.node.name, Status.UNKNOWN, "no answer", expected, command, reason=why
        )
    if output.timed_out:
        seen, why = "timed out", f"{command} did not end within its time limit"
    elif output.missing:
        seen, why = (
            "tool missing",
            f"{command.split()[0]} is not installed on the node or not on PATH",
        )
    elif output.cut:
        seen, why = (
            "output truncated",
            f"{command} printed more than {MAX_OUTPUT_BYTES >> 10} KiB; the rest was not read",
        )
    else:
        return None
    return CheckResult(
        check_id,
        answer.node.name,
        Status.UNKNOWN,
        seen,
        expected,
        command,
        why,
        evidence_of(answer, output),
    )


def evidence_of(answer: NodeAnswer, output: SectionOutput, line_no: int | None = None) -> Evidence:
    """Where a section's output stands in the run directory; `line_no` = one line of it, from 1."""
    if line_no is not None:
        text = _element(output.stdout.splitlines(), line_no - 1)[:400]
        return Evidence(answer.artefact, output.line_no + line_no - 1, text)
    text = _start(output.stdout) or _start(output.stderr)
    return Evidence(
        answer.artefact,
        output.line_no,
        text or f"(nothing printed; exit status {output.exit_status})",
    )


_BARE = re.compile(r'\s*(?:"[^"]*"|[\w.+-]+),?\s*\Z')
"""A value of a JSON list that has a line to itself."""
_LIST = re.compile(r'\s*"[^"]*":\s*\[\s*\Z')


def _element(lines: list[str], number: int) -> str:
    """A line; a bare value of a JSON list with its whole list, without which it says nothing.

    >>> _element(['"link_status": [', '"U",', '"D"', '],'], 2)
    '"link_status": ["U", "D"]'
    >>> _element(["state: DOWN", "rate: 100"], 0)
    'state: DOWN'
    """
    first = number
    while first > 0 and _BARE.match(lines[first]):
        first -= 1
    if first == number or not _LIST.match(lines[first]):
        return lines[number].strip()
    last = number
    while last + 1 < len(lines) and _BARE.match(lines[last]):
        last += 1
    values = " ".join(line.strip() for line in lines[first + 1 : last])
    return f"{lines[first].strip()}{values}]"


def _start(text: str) -> str:
    # A section may hold 256 KiB, of which no more than the start is shown: it is not copied to be
    # stripped.
    return text[:800].strip()[:400] or text.strip()[:400]


def results_of(
    answer: NodeAnswer,
    section: str,
    command: str,
    ids: tuple[str, ...],
    rule: Callable[[SectionOutput], tuple[RuleResult, ...]],
) -> tuple[CheckResult, ...]:
    """The results of all checks that read one section: what the rule says, or UNKNOWN for each id
    where there is nothing to judge."""
    first = unknown(answer, ids[0], section, "", command)
    if first is not None:
        return (first, *(replace(first, check_id=check_id) for check_id in ids[1:]))
    output = answer.sections[section]
    by_id = {result.check_id: result for result in rule(output)}
    whole = evidence_of(answer, output)
    results = []
    why = f"exit status {output.exit_status}; not a text that {command} is known to print"
    for check_id in ids:
        judged = by_id.get(check_id) or Rule(check_id, "").unknown("unreadable", why)
        evidence = whole if judged.line_no is None else evidence_of(answer, output, judged.line_no)
        result = CheckResult(
            check_id,
            answer.node.name,
            judged.status,
            judged.seen,
            judged.expected,
            command,
            judged.reason,
            evidence,
            values=judged.values,
        )
        results.append(result)
    return tuple(results)


# Which answers are alike: equal but for the serial numbers of their parts. Most nodes of a
# cluster answer alike and are judged once.

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

_SERIALS = (
    ("GPU-", re.compile(r"GPU-[0-9a-f-]{32,36}"), "GPU-0"),
    (
        "\t",
        re.compile(r"\t(?:[0-9a-f]{16}|(?:[0-9a-f]{4}:){3}[0-9a-f]{4})(?=\n)"),
        "\t0000000000000000",
    ),
    ("port_lid:", re.compile(r"port_lid:\s+\d+"), "port_lid: 0"),
    ("ffff:", re.compile(r"ffff:[0-9a-f]{4}:[0-9a-f]{4}(?= )"), "ffff:0000:0000"),
)
"""(what a text without it need not be searched for, the serial, its stand-in): GPUs, GUIDs of verbs
devices, LIDs, IPv4 addresses in GIDs. Each pattern starts with that literal, which is what a search
is quick at."""
_LONG = 32 * 1024
"""Longer texts (a kernel log, `nvidia-smi -q`) hold times and temperatures and are never alike."""
_KEPT = 128


def once(rule: Callable[[SectionOutput, *Ts], R]) -> Callable[[SectionOutput, *Ts], R]:
    """A function of a section's text that is worked out once for all nodes that answer alike.

    It must read nothing else of the section than both streams and the exit status, and must not
    tell a serial number: the one it sees is made of zeros. Its further arguments are compared as
    they are.
    """

    @functools.lru_cache(maxsize=_KEPT)
    def remembered(name: str, stdout: str, stderr: str, status: int | None, *more: *Ts) -> R:
        return rule(SectionOutput(name, stdout, stderr, status, 1), *more)

    def worked_out(output: SectionOutput, *more: *Ts) -> R:
        if len(output.stdout) > _LONG or len(output.stderr) > _LONG:
            return rule(output, *more)
        return remembered(
            output.name, _without_serials(output.stdout), output.stderr, output.exit_status, *more
        )

    return worked_out


@functools.lru_cache(maxsize=_KEPT)
def _without_serials(text: str) -> str:
    for sign, serial, instead in _SERIALS:
        if sign in text:
            text = serial.sub(instead, text)
    return text
