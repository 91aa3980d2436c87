"""Which nodes a result is sure enough of to take them out of service, and why in one line.

Never because a node could not be reached, shows another host key, is not resolved or refuses a
login: that says nothing about the node's hardware, and may be the fault of this machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from busbw.model import CheckResult, Finding, RunResult, Status
from busbw.reports import phrases

_NEVER = ("ssh", "sw")
"""Groups of checks: how a node is reached, and what busbw's own run finds there."""
_NEVER_IDS = frozenset(
    ("cross.host_name", "cross.tcp_ports", "gpu.procs", "os.cpu_load", "os.hosts")
)
"""Names, ports, and other people's work."""
MEASURED = ("slow-intra-node", "slow-node", "slow-rail")
"""What the survey flags within one node. A pair, a leaf and an uplink are no node's fault."""
BROKEN_PARTS = (
    "gpu-ecc-uncorrectable",
    "gpu-fell-off-bus",
    "gpu-row-remap-failure",
    "gpu-xid-reset-required",
    "host-hardware-error",
    "nvlink-error-xid",
)
"""Hardware that a launch's log or the kernel reports as broken."""
_MOST_PARTS = 3
_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Suspect:
    """One node that may be taken out of service."""

    node: str
    diagnosis: str
    """One line."""
    ids: tuple[str, ...]
    """Ids of the checks and findings behind it."""
    measured: bool
    """True = a measurement or a log named it, so that checks alone cannot show that it is well
    again."""


def of_checks(checks: Iterable[CheckResult]) -> tuple[Suspect, ...]:
    """Nodes on which a required check failed, in the order of the checks. Where nodes differ and
    none has the majority, nothing says which of them is wrong.

    >>> of_checks([CheckResult("ssh.connect", "n1", Status.FAIL, "timed out", "", "")])
    ()
    >>> of_checks([CheckResult("gpu.count", "n1", Status.FAIL, "7 x H100", "8 x H100", "")])[0].diagnosis
    'gpu.count 7 x H100'
    """
    by_node: dict[str, list[CheckResult]] = {}
    for check in checks:
        failed = check.required and check.status is Status.FAIL and not check.is_tie
        if failed and _of_hardware(check.check_id):
            by_node.setdefault(check.node, []).append(check)
    return tuple(_failed(node, failed) for node, failed in by_node.items())


def _failed(node: str, checks: list[CheckResult]) -> Suspect:
    """What a node shows by itself comes before how it differs from the others."""
    checks = sorted(checks, key=lambda check: check.check_id.startswith("cross."))
    diagnosis = _joined(f"{check.check_id} {check.seen}" for check in checks)
    return Suspect(node, diagnosis, tuple(check.check_id for check in checks), measured=False)


def of_run(result: RunResult) -> tuple[Suspect, ...]:
    """Nodes that a run's findings name, at least likely, and those that failed its checks; by
    name."""
    suspects = {each.node: each for each in of_checks(result.checks)}
    unreachable = {each.node for each in result.unreachable}
    for finding in result.findings:
        node = _one_node(finding, result.nodes)
        if node is None or not _is_enough(finding):
            continue
        known = suspects.get(node)
        suspects[node] = Suspect(
            node,
            _joined((finding.title, *((known.diagnosis,) if known else ()))),
            (finding.id, *(known.ids if known else ())),
            measured=True,
        )
    return tuple(suspects[node] for node in sorted(suspects) if node not in unreachable)


def _of_hardware(check_id: str) -> bool:
    return check_id.partition(".")[0] not in _NEVER and check_id not in _NEVER_IDS


def _is_enough(finding: Finding) -> bool:
    return (
        finding.id in (*MEASURED, *BROKEN_PARTS)
        and finding.status is Status.FAIL
        and finding.required
        and finding.at_least_likely
    )


def _one_node(finding: Finding, nodes: tuple[str, ...]) -> str | None:
    """The node that a finding names; None = none, or more than one."""
    named = {place.partition(" ")[0] for place in finding.where}
    return next(iter(named)) if len(named) == 1 and named <= set(nodes) else None


def _joined(parts: Iterable[str]) -> str:
    every = list(dict.fromkeys(parts))
    more = f"; and {len(every) - _MOST_PARTS} more" if len(every) > _MOST_PARTS else ""
    return phrases.cut("; ".join(every[:_MOST_PARTS]), _LENGTH) + more
