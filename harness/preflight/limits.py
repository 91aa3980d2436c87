"""Limits of the login session: `os.limits.memlock`."""

from __future__ import annotations

from busbw.preflight import CheckFamily, NodeAnswer, Section, unknown
from busbw.records import CheckResult, Evidence, Status


def _memlock(answer: NodeAnswer) -> CheckResult:
    expected = "unlimited locked memory (RDMA registers what it sends)"
    result = unknown(answer, "os.limits.memlock", "memlock", expected, "ulimit -l")
    if result:
        return result
    output = answer.sections["memlock"]
    words = output.stdout.split()
    value = words[0] if words else ""
    evidence = Evidence(answer.artefact, output.line_no, output.stdout.strip() or "(nothing printed)")
    if value == "unlimited":
        return CheckResult("os.limits.memlock", answer.node.name, Status.PASS, value, expected, "ulimit -l", evidence=evidence)
    if value.isdigit():
        found = f"{value} KiB"
        return CheckResult("os.limits.memlock", answer.node.name, Status.FAIL, found, expected, "ulimit -l", evidence=evidence)
    why = f"exit status {output.exit_status}; neither a number nor `unlimited`"
    return CheckResult("os.limits.memlock", answer.node.name, Status.UNKNOWN, "unreadable", expected, "ulimit -l", why, evidence)


CHECK = CheckFamily(
    name="limits",
    ids=("os.limits.memlock",),
    # `ulimit -l` is no POSIX option of sh (dash has it, a strict one may not); /proc is the fallback, in bytes.
    sections=(
        Section(
            "memlock",
            "ulimit -l 2>/dev/null || "
            "awk '/^Max locked memory/ {if ($4 == \"unlimited\") print $4; else print int($4 / 1024)}' /proc/self/limits",
        ),
    ),
    judge=lambda answer: (_memlock(answer),),
)
