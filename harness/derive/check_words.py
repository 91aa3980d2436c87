"""The one sentence of a run that only checks: which nodes are not as they should be."""

from __future__ import annotations

from busbw.inventory import fold
from busbw.records import CheckResult, Status


def headline(checks: tuple[CheckResult, ...], nodes: tuple[str, ...], profile: str) -> str:
    """By the worst of what is required; advisory results are not part of it.

    >>> headline((CheckResult("gpu.count", "n2", Status.FAIL, "7", "8", "nvidia-smi -L"),), ("n1", "n2"), "tcp")
    '1 of 2 nodes not as required: n2; profile tcp'
    """
    count = f"{len(nodes):,} {'node' if len(nodes) == 1 else 'nodes'}"
    required = [check for check in checks if check.required and check.status is not Status.SKIPPED]
    if not required:
        return f"nothing was checked on {count}, profile {profile}"
    for status, words in ((Status.FAIL, "not as required"), (Status.UNKNOWN, "could not be checked")):
        bad = {check.node for check in required if check.status is status}
        if bad:
            return f"{len(bad):,} of {count} {words}: {fold(bad)}; profile {profile}"
    return f"{count} as required by profile {profile}"
