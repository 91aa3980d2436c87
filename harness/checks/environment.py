"""Settings that were left on a node: NCCL's configuration files and variables of the login session."""

from __future__ import annotations

import re

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


@once
def _files(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule("sw.env_file", "no NCCL configuration file (its lines are used by every job)")
    lines = [
        line.strip()
        for line in output.stdout.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        return (rule.passed("none"),)
    return (rule.warned("; ".join(sorted(lines))[:300]).with_values(lines=len(lines)),)


@once
def _variables(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule("sw.env_leftovers", "no NCCL, UCX, libfabric or MPI variable in the login session")
    names = sorted({line.partition("=")[0] for line in output.stdout.splitlines() if "=" in line})
    if not names:
        return (rule.passed("none"),)
    switches = re.findall(
        r"^(RDMAV_FORK_SAFE|FI_EFA_ENABLE_SHM_TRANSFER)=(\d+)$", output.stdout, re.M
    )
    result = rule.warned(", ".join(names))
    # Only switches are told with their value: others may hold what is nobody's business.
    return (
        result.with_values(count=len(names), **{name: float(value) for name, value in switches}),
    )


CHECK = CheckFamily(
    name="environment",
    checks=(
        Check("sw.env_file", "cat /etc/nccl.conf ~/.nccl.conf", "any line: WARN"),
        Check("sw.env_leftovers", "env", "an NCCL, FI, RDMAV, UCX or OMPI_MCA variable: WARN"),
    ),
    sections=(
        Section(
            "nccl_conf",
            small=True,
        ),
        # Only the names that matter leave the node: the whole environment may hold secrets, and a
        # name among these that looks like one.
        Section(
            "environment",
            "env | grep -E '^(NCCL|FI|RDMAV|UCX|OMPI_MCA)_[A-Za-z0-9_]*=' | "
            "grep -Eiv"
            " '^[^=]*(TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY)'; :",
            small=True,
        ),
    ),
    judge=lambda answer: (
        *results_of(
            answer, "nccl_conf", "cat /etc/nccl.conf ~/.nccl.conf", ("sw.env_file",), _files
        ),
        *results_of(answer, "environment", "env", ("sw.env_leftovers",), _variables),
    ),
)
