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


def sensitivity(checks: tuple[CheckResult, ...]) -> tuple[str, ...]:
    """What the checks would have caught and what they could not see.

    >>> sensitivity((CheckResult("gpu.count", "n1", Status.PASS, "8", "8", "nvidia-smi -L"),))[0]
    'would have caught: another answer than expected to 1 check of gpu, on each of 1 node, at that moment'
    """
    passed = {check.check_id for check in checks if check.status is Status.PASS}
    open_ = sorted({check.check_id for check in checks if check.status is Status.UNKNOWN})
    nodes = len({check.node for check in checks if check.status is Status.PASS})
    families = ", ".join(sorted({name.partition(".")[0] for name in passed}))
    lines = []
    if passed:
        counted = f"{len(passed)} check{'s' if len(passed) > 1 else ''} of {families}"
        lines.append(
            f"would have caught: another answer than expected to {counted}, on each of {nodes:,} node{'s' if nodes > 1 else ''}, at that moment"
        )
    if open_:
        shown = ", ".join(open_[:6]) + (f" and {len(open_) - 6} more" if len(open_) > 6 else "")
        lines.append(f"could not see: what was not checked on some or all nodes ({shown})")
    return (*lines, "could not see: whether data moves, how fast, and what comes and goes: nothing was measured (busbw run)")
