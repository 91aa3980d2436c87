"""Settings that were left on a node: NCCL's configuration files and variables of the login session."""

from __future__ import annotations

import re

from busbw.preflight import CheckFamily, Ruling, Section, SectionOutput, ruled
from busbw.preflight.alike import once
from busbw.records import Status


@once
def _files(output: SectionOutput) -> tuple[Ruling, ...]:
    expected = "no NCCL configuration file (its lines are used by every job)"
    lines = [line.strip() for line in output.stdout.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        return (Ruling("sw.env_file", Status.PASS, "none", expected),)
    return (Ruling("sw.env_file", Status.WARN, "; ".join(sorted(lines))[:300], expected).with_values(lines=len(lines)),)


@once
def _variables(output: SectionOutput) -> tuple[Ruling, ...]:
    expected = "no NCCL, UCX, libfabric or MPI variable in the login session"
    names = sorted({line.partition("=")[0] for line in output.stdout.splitlines() if "=" in line})
    if not names:
        return (Ruling("sw.env_leftovers", Status.PASS, "none", expected),)
    said = re.findall(r"^(RDMAV_FORK_SAFE|FI_EFA_ENABLE_SHM_TRANSFER)=(\d+)$", output.stdout, re.M)
    ruling = Ruling("sw.env_leftovers", Status.WARN, ", ".join(names), expected)
    # Only switches are told with their value: others may hold what is nobody's business.
    return (ruling.with_values(count=len(names), **{name: float(value) for name, value in said}),)


CHECK = CheckFamily(
    name="environment",
    ids=("sw.env_file", "sw.env_leftovers"),
    sections=(
        Section(
            "nccl_conf",
            'for f in /etc/nccl.conf "$HOME/.nccl.conf" "$NCCL_CONF_FILE"; do n=0; [ -r "$f" ] && '
            'while read -r l && [ $n -lt 200 ]; do echo "$l"; n=$((n + 1)); done <"$f"; done; :',
            small=True,
        ),
        # Only the names that matter leave the node: the whole environment may hold secrets, and a name among these that looks like one.
        Section(
            "environment",
            "env | grep -E '^(NCCL|FI|RDMAV|UCX|OMPI_MCA)_[A-Za-z0-9_]*=' | "
            "grep -Eiv '^[^=]*(TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY)'; :",
            small=True,
        ),
    ),
    judge=lambda answer: (
        *ruled(answer, "nccl_conf", "cat /etc/nccl.conf ~/.nccl.conf", ("sw.env_file",), _files),
        *ruled(answer, "environment", "env", ("sw.env_leftovers",), _variables),
    ),
)
