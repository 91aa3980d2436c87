"""Limits of the login session: locked memory, open files, stack."""

from __future__ import annotations

from busbw.checks import (
    Check,
    CheckFamily,
    Rule,
    RuleResult,
    Section,
    SectionOutput,
    once,
    results_of,
)
from busbw.model import Status
from busbw.parsers.tools import os_facts
from busbw.text import whole_number

_FILES = 65536
"""A rank opens sockets and files for every peer; 1024 end a job of some hundred ranks."""


@once
def _memlock(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule("os.limits.memlock", "unlimited locked memory (RDMA registers what it sends)")
    cells = output.stdout.split()
    value = cells[0] if cells else ""
    if value == "unlimited":
        return (rule.passed(value).with_values(kb=value),)
    kib = whole_number(value)
    return () if kib is None else (rule.failed(f"{value} KiB").with_values(kb=float(kib)),)


@once
def _others(output: SectionOutput) -> tuple[RuleResult, ...]:
    facts = os_facts.parse(output.stdout)
    files, stack = facts.text("nofile"), facts.text("stack")
    results = []
    number = whole_number(files)
    if files is not None and (files == "unlimited" or number is not None):
        low = number is not None and number < _FILES
        open_files = RuleResult(
            "os.limits.nofile",
            Status.WARN if low else Status.PASS,
            files,
            f"at least {_FILES} open files",
            line_no=1,
        )
        results.append(open_files.with_values(value=None if number is None else float(number)))
    if stack is not None:
        status = Status.WARN if stack == "unlimited" else Status.PASS
        size = RuleResult(
            "os.limits.stack",
            status,
            stack,
            "a stack limit (without one some libraries map memory badly)",
        )
        results.append(size.with_values(value=stack))
    return tuple(results)


CHECK = CheckFamily(
    name="limits",
    checks=(
        Check("os.limits.memlock", "ulimit -l", "not unlimited: FAIL"),
        Check("os.limits.nofile", "ulimit -n", "below 65536: WARN"),
        Check("os.limits.stack", "ulimit -s", "unlimited: WARN"),
    ),
    # `ulimit -l` is no POSIX option of sh (dash has it, a strict one may not); /proc is the
    # fallback, in bytes.
    sections=(
        Section(
            "memlock",
            'ulimit -l 2>/dev/null || awk \'/^Max locked memory/ {if ($4 == "unlimited") print $4;'
            " else print int($4 / 1024)}' /proc/self/limits",
            small=True,
            serves=("os.limits.memlock", "cross.limits"),
        ),
        Section(
            "limits",
            "printf nofile=; ulimit -n; printf stack=; ulimit -s",
            small=True,
            serves=("os.limits.nofile", "os.limits.stack"),
        ),
    ),
    judge=lambda answer: (
        *results_of(answer, "memlock", "ulimit -l", ("os.limits.memlock",), _memlock),
        *results_of(
            answer,
            "limits",
            "ulimit -n; ulimit -s",
            ("os.limits.nofile", "os.limits.stack"),
            _others,
        ),
    ),
)
