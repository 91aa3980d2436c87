"""Families of checks: what each asks of a node and how the answer is judged.

A family is one module with a `CHECK`. All sections of all families travel to a node as one POSIX sh script on standard input (`script`), so
that a node is asked once; the answers come back framed by markers, each with its own time limit and exit status. Judging is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from busbw.records import CheckResult, Evidence, Node, Status


@dataclass(frozen=True, slots=True)
class Section:
    """One command of the script. `shell` is a fixed text of ours: nothing from outside is ever spliced into it."""

    name: str
    shell: str
    timeout_s: int = 10


@dataclass(frozen=True, slots=True)
class SectionOutput:
    """What one section printed."""

    name: str
    stdout: str
    stderr: str
    exit_status: int | None
    """None = the node stopped answering inside this section."""
    line_no: int
    """Line of its first output line in the node's whole standard output, from 1."""

    @property
    def timed_out(self) -> bool:
        """Ended by its own time limit: 124 from `timeout`, 137 when it had to be killed."""
        return self.exit_status in (124, 137)

    @property
    def missing(self) -> bool:
        """The tool is not there, or may not be run."""
        return self.exit_status in (126, 127)


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """All sections of one node."""

    node: Node
    sections: Mapping[str, SectionOutput]
    artefact: str
    """Where its standard output is kept, inside the run directory."""
    problem: str | None
    """Why sections are missing: timed out, connection lost, script not run; None = all are there."""

    def section(self, name: str) -> SectionOutput | None:
        """The output of a section; None = the node did not get that far."""
        return self.sections.get(name)


@dataclass(frozen=True, slots=True)
class Demand:
    """What the profile and the playbook ask for."""

    profile: str
    required: tuple[str, ...]
    """Dotted ids or globs."""
    advisory: tuple[str, ...]

    def standing(self, check_id: str) -> bool | None:
        """True = required, False = advisory, None = not applicable to this profile."""
        if any(fnmatchcase(check_id, pattern) for pattern in self.required):
            return True
        return False if any(fnmatchcase(check_id, pattern) for pattern in self.advisory) else None


@dataclass(frozen=True, slots=True)
class CheckFamily:
    """One family of checks."""

    name: str
    ids: tuple[str, ...]
    """The ids it can give."""
    sections: tuple[Section, ...]
    judge: Callable[[NodeAnswer], tuple[CheckResult, ...]]
    """One node by itself. It gives a result for each of its ids; `apply_demand` sets what is required."""
    compare: Callable[[tuple[NodeAnswer, ...]], tuple[CheckResult, ...]] = lambda answers: ()
    """All nodes against each other."""


def unknown(answer: NodeAnswer, check_id: str, section: str, expected: str, command: str) -> CheckResult | None:
    """The result of a check whose section cannot be judged: not reached, timed out, tool missing. None = it can be judged."""
    output = answer.section(section)
    if output is None or output.exit_status is None:
        why = answer.problem or "the node's answer has no such section"
        return CheckResult(check_id, answer.node.name, Status.UNKNOWN, "no answer", expected, command, reason=why)
    evidence = Evidence(
        answer.artefact, output.line_no, (output.stderr or output.stdout).strip()[:400] or f"exit status {output.exit_status}"
    )
    if output.timed_out:
        why = f"{command} did not end within its time limit"
        return CheckResult(check_id, answer.node.name, Status.UNKNOWN, "timed out", expected, command, why, evidence)
    if output.missing:
        why = f"{command.split()[0]} is not installed on the node or not on PATH"
        return CheckResult(check_id, answer.node.name, Status.UNKNOWN, "tool missing", expected, command, why, evidence)
    return None
