"""Limits of the login session: locked memory, open files, stack."""

from __future__ import annotations

from busbw.parsers.nodes import os_facts
from busbw.preflight import CheckFamily, Ruling, Section, SectionOutput, ruled
from busbw.preflight.alike import once
from busbw.records import Status

_FILES = 65536
"""A rank opens sockets and files for every peer; 1024 end a job of some hundred ranks."""


@once
def _memlock(output: SectionOutput) -> tuple[Ruling, ...]:
    expected = "unlimited locked memory (RDMA registers what it sends)"
    words = output.stdout.split()
    value = words[0] if words else ""
    if value == "unlimited":
        return (Ruling("os.limits.memlock", Status.PASS, value, expected).with_values(kb=value),)
    return (Ruling("os.limits.memlock", Status.FAIL, f"{value} KiB", expected).with_values(kb=float(value)),) if value.isdigit() else ()


@once
def _others(output: SectionOutput) -> tuple[Ruling, ...]:
    facts = os_facts.parse(output.stdout)
    files, stack = facts.text("nofile"), facts.text("stack")
    found = []
    if files is not None and (files == "unlimited" or files.isdigit()):
        low = files.isdigit() and int(files) < _FILES
        open_files = Ruling("os.limits.nofile", Status.WARN if low else Status.PASS, files, f"at least {_FILES} open files", line_no=1)
        found.append(open_files.with_values(value=float(files) if files.isdigit() else None))
    if stack is not None:
        status = Status.WARN if stack == "unlimited" else Status.PASS
        size = Ruling("os.limits.stack", status, stack, "a stack limit (without one some libraries map memory badly)")
        found.append(size.with_values(value=stack))
    return tuple(found)


CHECK = CheckFamily(
    name="limits",
    ids=("os.limits.memlock", "os.limits.nofile", "os.limits.stack"),
    # `ulimit -l` is no POSIX option of sh (dash has it, a strict one may not); /proc is the fallback, in bytes.
    sections=(
        Section(
            "memlock",
            "ulimit -l 2>/dev/null || "
            "awk '/^Max locked memory/ {if ($4 == \"unlimited\") print $4; else print int($4 / 1024)}' /proc/self/limits",
            small=True,
            serves=("os.limits.memlock", "cross.limits"),
        ),
        Section(
            "limits", "printf nofile=; ulimit -n; printf stack=; ulimit -s", small=True, serves=("os.limits.nofile", "os.limits.stack")
        ),
    ),
    judge=lambda answer: (
        *ruled(answer, "memlock", "ulimit -l", ("os.limits.memlock",), _memlock),
        *ruled(answer, "limits", "ulimit -n; ulimit -s", ("os.limits.nofile", "os.limits.stack"), _others),
    ),
)
