"""What one node must not have, or it breaks a launch for all others: no room to write (`sw.room`), a name of another (`cross.host_name`)."""

from __future__ import annotations

import re

from busbw.inventory.hostlist import LEGAL_NAME
from busbw.preflight import CheckFamily, NodeAnswer, Ruling, Section, SectionOutput, ruled
from busbw.preflight.alike import once
from busbw.preflight.software import facts
from busbw.records import CheckResult, Evidence, Status

_ROOM_MIB = 32
"""The benchmark and Open MPI's session directory take less; what else is written there stays on the head node."""
_COMMAND = 'df -Pk "$HOME" "${TMPDIR:-/tmp}"'
_PLACES = 'h=$HOME; for d in .cache .cache/busbw; do [ -d "$HOME/$d" ] && h=$HOME/$d; done; t=${TMPDIR:-/tmp}'
"""Where busbw and the launcher write; what lies below the home directory may be a file system of its own."""
_OWN = "a host name of its own"
_ROW = re.compile(r"^\S.*?\s+\d+\s+\d+\s+(-?\d+)\s+\d+%\s+(/.*)$")
_CLOSED = re.compile(r"^closed (/.*)$")


@once
def _room(output: SectionOutput) -> tuple[Ruling, ...]:
    expected = f"$HOME and /tmp can be written, {_ROOM_MIB} MiB at least"
    closed, full, seen = [], [], False
    for line in output.stdout.splitlines():
        if (shut := _CLOSED.match(line)) is not None:
            closed.append(shut[1])
        elif (row := _ROW.match(line)) is not None:
            seen = True
            if int(row[1]) < _ROOM_MIB << 10:
                full.append(row[2])
    if closed:
        return (Ruling("sw.room", Status.FAIL, f"cannot be written: {', '.join(dict.fromkeys(closed))}", expected),)
    if full:
        return (Ruling("sw.room", Status.FAIL, f"no room: {', '.join(dict.fromkeys(full))}", expected),)
    return (Ruling("sw.room", Status.PASS, "room", expected),) if seen else ()


def _names(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    """Ranks are told apart by the names their hosts give themselves: of nodes with one name only one can take part.

    It is the one that the inventory calls so, else the first. Where all have one name they are one machine's emulated nodes.
    """
    own = {answer.node.name: (facts(answer).host_name or "").partition(".")[0] for answer in answers}
    by_name: dict[str, list[str]] = {}
    for node, name in own.items():
        by_name.setdefault(name, []).append(node)
    said = len(own) - len(by_name.get("", ()))
    results = []
    for answer in answers:
        name = own[answer.node.name]
        if not name:
            why = answer.problem or "the node does not say"
            results.append(CheckResult("cross.host_name", answer.node.name, Status.UNKNOWN, "not shown", _OWN, "uname -n", reason=why))
            continue
        if not LEGAL_NAME.match(name):
            results.append(_no_name(answer, name))
            continue
        same = by_name[name]
        holder = next((node for node in same if node.partition(".")[0] == name), same[0])
        alone = holder == answer.node.name or len(same) == said
        status = Status.PASS if alone else Status.FAIL
        # What is well is said alike of all, so that it is one line; the names are in the evidence.
        found = "its own" if alone else f"{name}, the name of {holder}"
        identity = answer.sections["identity"]
        line_no = next((n for n, line in enumerate(identity.stdout.splitlines()) if line.startswith("host=")), 0)
        evidence = Evidence(answer.artefact, identity.line_no + line_no, f"host={name}")
        results.append(CheckResult("cross.host_name", answer.node.name, status, found, _OWN, "uname -n", evidence=evidence))
    return tuple(results)


def _no_name(answer: NodeAnswer, name: str) -> CheckResult:
    """Launchers and shells would take it for something else."""
    evidence = Evidence(answer.artefact, answer.sections["identity"].line_no, f"host={name}"[:400])
    found = f"{name[:64]!r} is no host name"
    return CheckResult("cross.host_name", answer.node.name, Status.FAIL, found, _OWN, "uname -n", evidence=evidence)


CHECK = CheckFamily(
    name="partaking",
    ids=("sw.room", "cross.host_name"),
    sections=(
        # Only the rights and the numbers are looked at: to try would be to write.
        Section(
            "room",
            f'{_PLACES}; for d in "$h" "$t"; do [ -w "$d" ] || echo "closed $d"; done; df -Pk "$h" "$t"',
            serves=("sw.room",),
        ),
    ),
    judge=lambda answer: ruled(answer, "room", _COMMAND, ("sw.room",), _room),
    compare=_names,
)
