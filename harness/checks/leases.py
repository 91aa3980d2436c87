"""Which busbw runs use a node: each has a lease there, a link in /tmp whose text names the run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

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
from busbw.text import whole_number
from busbw.units import format_duration

STALE_S = 1800
"""Restic's limit for its locks, which are renewed as often. A build, meanwhile nothing is renewed,
ends after 900 s."""
_LINE = re.compile(r"^lease (\S+) (\d{1,20}) (\d{1,20}) (yes|no) (\S+) ?(\S*)$", re.M)
_LATEST = 253_402_300_800
"""The year 10000, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A run's hold on a node."""

    node: str
    account: str
    """Who owns it on the node."""
    path: str
    run_id: str
    """Empty = the text is none of a lease."""
    by: str
    """Account and host of the process, as it says itself."""
    pid: int | None
    at: str
    since: int | None
    """Seconds since 1970, by the node's clock."""
    age_s: int
    """Since it was renewed."""
    running: bool
    """A process of that run is on the node."""

    @property
    def holder(self) -> str:
        """In a few words."""
        if not self.run_id:
            return f"{self.path} of {self.account}, which is no lease"
        text = f"run {self.run_id} of {self.by} (process {self.pid}) since {self._since}"
        if self.by.partition("@")[0] != self.account:
            text += f", account {self.account} on the node"
        return text

    @property
    def _since(self) -> str:
        if not self.since or self.since >= _LATEST:
            return "?"
        return datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M UTC")

    @property
    def stale(self) -> bool:
        """Whether its run is known to have ended by what the node says alone."""
        return bool(self.run_id) and self.age_s > STALE_S and not self.running


def parse(node: str, text: str) -> tuple[Lease, ...]:
    """The leases that a node lists.

    >>> parse("n1", "lease ana 100 160 no /tmp/busbw-lease.7 run=r1,by=ana@login1,pid=41,at=ab.9,since=90\\n")
    (Lease(node='n1', account='ana', path='/tmp/busbw-lease.7', run_id='r1', by='ana@login1', pid=41, at='ab.9', since=90, age_s=60, running=False),)
    """
    return tuple(_lease(node, *match) for match in _LINE.findall(text))


def _lease(
    node: str, account: str, renewed: str, now: str, running: str, path: str, text: str
) -> Lease:
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    return Lease(
        node=node,
        account=account,
        path=path,
        run_id=fields.get("run", ""),
        by=fields.get("by", "?"),
        pid=whole_number(fields.get("pid", "")),
        at=fields.get("at", ""),
        since=whole_number(fields.get("since", "")),
        age_s=max(0, int(now) - int(renewed)),
        running=running == "yes",
    )


@once
def _judge(output: SectionOutput) -> tuple[RuleResult, ...]:
    rule = Rule("sw.lease", "no busbw run uses the node")
    if output.exit_status != 0:
        return ()
    leases = parse("", output.stdout)
    holders = [_state(lease) for lease in leases if not lease.stale]
    if holders:
        return (rule.warned("; ".join(holders)),)
    ended = "; ".join(f"{lease.holder}: {_renewal(lease)}, it has ended" for lease in leases)
    return (rule.passed(ended or "free"),)


def _state(lease: Lease) -> str:
    """Minutes, not seconds: nodes that one run holds give one answer."""
    if not lease.run_id:
        return lease.holder
    here = "its processes are there" if lease.running else "none of its processes is there"
    return f"{lease.holder}, {_renewal(lease)}; {here}"


def _renewal(lease: Lease) -> str:
    if lease.stale:
        return f"not renewed for {format_duration(lease.age_s)}"
    return f"renewed at most {lease.age_s // 60 + 1} min ago"


_COMMAND = "readlink /tmp/busbw-lease.*"

CHECK = CheckFamily(
    name="leases",
    checks=(
        Check(
            "sw.lease",
            _COMMAND,
            "a busbw run holds the node: WARN, with its id, account, process and start",
        ),
    ),
    sections=(Section("leases", library="lease", small=True, serves=("sw.lease",)),),
    judge=lambda answer: results_of(answer, "leases", _COMMAND, ("sw.lease",), _judge),
)
