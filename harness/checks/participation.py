"""What one node must not have, or it breaks a launch for all others: no room to write (`sw.room`), a
name of another (`cross.host_name`)."""

from __future__ import annotations

import re

from busbw.checks import (
    Check,
    CheckFamily,
    NodeAnswer,
    RuleResult,
    Section,
    SectionOutput,
    once,
    results_of,
)
from busbw.checks.software import facts
from busbw.inventory.hostlist import LEGAL_NAME
from busbw.model import CheckResult, Evidence, Status

_ROOM_MIB = 32
"""The benchmark and Open MPI's session directory take less; what else is written there stays on the
head node."""
_COMMAND = 'df -Pk "$HOME" "${TMPDIR:-/tmp}"'
_ROW = re.compile(r"^\S.*?\s+\d+\s+\d+\s+(-?\d+)\s+\d+%\s+(/.*)$")
_CLOSED = re.compile(r"^closed (/.*)$")


@once
def _room(output: SectionOutput) -> tuple[RuleResult, ...]:
    expected = f"$HOME and /tmp can be written, {_ROOM_MIB} MiB at least"
    closed, full, answered = [], [], False
    for line in output.stdout.splitlines():
        if (shut := _CLOSED.match(line)) is not None:
            closed.append(shut[1])
        elif (row := _ROW.match(line)) is not None:
            answered = True
            if int(row[1]) < _ROOM_MIB << 10:
                full.append(row[2])
    if closed or full:
        problem = "cannot be written" if closed else "no room"
        places = ", ".join(dict.fromkeys(closed or full))
        return (RuleResult("sw.room", Status.FAIL, f"{problem}: {places}", expected),)
    return (RuleResult("sw.room", Status.PASS, "room", expected),) if answered else ()


def _names(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    """Ranks are told apart by the names their hosts give themselves: of nodes with one name only
    one can take part.

    It is the one that the inventory calls so, else the first. Where all have one name they are one
    machine's emulated nodes.
    """
    own = {
        answer.node.name: (facts(answer).host_name or "").partition(".")[0] for answer in answers
    }
    nodes_by_name: dict[str, list[str]] = {}
    for node, name in own.items():
        nodes_by_name.setdefault(name, []).append(node)
    answered = len(own) - len(nodes_by_name.get("", ()))
    results = []
    for answer in answers:
        name = own[answer.node.name]
        if not name:
            why = answer.problem or "the node did not report it"
            results.append(_name_result(answer, Status.UNKNOWN, "not shown", reason=why))
        elif not LEGAL_NAME.match(name):
            results.append(_illegal_name(answer, name))
        else:
            same = nodes_by_name[name]
            results.append(_legal_name(answer, name, same, all_alike=len(same) == answered))
    return tuple(results)


def _illegal_name(answer: NodeAnswer, name: str) -> CheckResult:
    """Launchers and shells would take it for something else."""
    evidence = Evidence(answer.artefact, answer.sections["identity"].line_no, f"host={name}"[:400])
    return _name_result(answer, Status.FAIL, f"{name[:64]!r} is no host name", evidence=evidence)


def _legal_name(answer: NodeAnswer, name: str, same: list[str], *, all_alike: bool) -> CheckResult:
    """`same`: the nodes of that name; `all_alike`: they are all that answered."""
    holder = next((node for node in same if node.partition(".")[0] == name), same[0])
    keeps_it = all_alike or holder == answer.node.name
    identity = answer.sections["identity"]
    lines = enumerate(identity.stdout.splitlines())
    line_no = identity.line_no + next((n for n, line in lines if line.startswith("host=")), 0)
    # All nodes in order get one text, so that they fold into one line; the evidence has the names.
    return _name_result(
        answer,
        Status.PASS if keeps_it else Status.FAIL,
        "its own" if keeps_it else f"{name}, the name of {holder}",
        evidence=Evidence(answer.artefact, line_no, f"host={name}"),
    )


def _name_result(
    answer: NodeAnswer,
    status: Status,
    seen: str,
    *,
    reason: str = "",
    evidence: Evidence | None = None,
) -> CheckResult:
    return CheckResult(
        "cross.host_name",
        answer.node.name,
        status,
        seen,
        "a host name of its own",
        "uname -n",
        reason,
        evidence,
    )


CHECK = CheckFamily(
    name="partaking",
    checks=(
        Check(
            "sw.room",
            _COMMAND,
            "a folder cannot be written, or has less than 32 MiB left: FAIL",
        ),
        Check("cross.host_name", "uname -n", "another node has the same host name: FAIL"),
    ),
    sections=(
        # Only the rights and the numbers are looked at: to try would be to write.
        Section("room", serves=("sw.room",)),
    ),
    judge=lambda answer: results_of(answer, "room", _COMMAND, ("sw.room",), _room),
    compare=_names,
)
