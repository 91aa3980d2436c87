"""`fi_pingpong` over libfabric's provider, within each node and between pairs: what a network plugin
of a cloud will use, without a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from busbw import shell
from busbw.checks import Check
from busbw.model import TIMED_OUT, CheckResult, Command, Evidence, Status

PINGPONG = Check(
    "efa.pingpong",
    "FI_EFA_ENABLE_SHM_TRANSFER=0 fi_pingpong -e rdm -p efa [PEER]",
    "within the node or to another, no data comes back: FAIL; within it alone it does: the security"
    " group",
)
_TRY_S = 60
_LINE = re.compile(
    r"^pingpong (?P<node>\S+) (?P<address>\S+) status (?P<status>\d+) control (?P<control>yes|no)"
    r" ?(?P<words>.*)$",
    re.M,
)
_SERVER = re.compile(r"^server within (.+)$", re.M)
_OWN = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Try:
    """One run of fi_pingpong as client."""

    node: str
    address: str
    passed: bool
    reached: bool
    """Its TCP connection for control was made: what failed then is the provider's."""
    reason: str
    """Its last words where it failed."""

    @property
    def is_local(self) -> bool:
        """Within the node that ran it."""
        return self.address == _OWN


def attempt(
    node: str, provider: str, ports: tuple[int, int], peer: tuple[str, str, int] | None
) -> Command:
    """Try within the node at the first of its ports, answer at the second, and try the peer (name,
    address, its second port); None = nobody."""
    name, address, port = peer or ("-", "-", 0)
    own, answering = ports
    words = (provider, str(own), name, address, str(port), str(answering))
    return Command(
        ("sh", "-c", shell.load("busbw.checks", "pingpong.sh"), "busbw-pingpong", *words),
        timeout_s=_TRY_S,
        label="pingpong",
        store=f"probe/pingpong/{node}.txt",
    )


def parse(text: str) -> tuple[Try, ...]:
    """What one node tried.

    >>> parse("pingpong b 10.0.0.2 status 124 control yes\\n")[0].reason
    'no data came back'
    """
    server = _SERVER.search(text)
    own_words = server[1] if server is not None else ""
    return tuple(
        Try(
            line["node"],
            line["address"],
            passed=line["status"] == "0",
            reached=line["control"] == "yes",
            reason=_reason(
                int(line["status"]),
                (line["address"] == _OWN and own_words) or line["words"],
            ),
        )
        for line in _LINE.finditer(text)
    )


def _reason(status: int, words: str) -> str:
    message = re.sub(r"\S+\.c: ?\d+ *[:,] *", "", words.removeprefix("[error] ")).strip()
    if message or status == 0:
        return message
    return "no data came back" if status in TIMED_OUT else f"exit status {status}"


def judged(node: str, text: str, problem: str, evidence: Evidence | None) -> CheckResult:
    """What came of it on one node.

    >>> tried = "pingpong a 127.0.0.1 status 0 control yes\\npingpong b 10.0.0.2 status 124 control yes\\n"
    >>> judged("a", tried, "", None).seen
    'within the node: passes; to b (10.0.0.2): no data came back'
    """
    tries = parse(text)
    known = [each for each in tries if each.passed or each.reached]
    failed = [each for each in known if not each.passed]
    reason = ""
    if not known:
        status, seen = Status.UNKNOWN, "not known"
        reason = problem or "fi_pingpong could not connect to its own server by TCP"
    elif failed:
        status, seen = Status.FAIL, _shown(tries)
    elif len(known) < len(tries):
        status, seen = Status.UNKNOWN, _shown(tries)
        reason = "TCP for its control is blocked: see cross.tcp_ports"
    else:
        status, seen = Status.PASS, _shown(tries)
    return CheckResult(
        PINGPONG.id,
        node,
        status,
        seen,
        "messages pass within the node and to another",
        PINGPONG.command,
        reason,
        evidence,
        required=status is not Status.UNKNOWN,
        values=tuple(
            ("local" if each.is_local else "remote", "pass" if each.passed else "fail")
            for each in known
        ),
    )


def _shown(tries: Sequence[Try]) -> str:
    return "; ".join(
        f"{'within the node' if each.is_local else f'to {each.node} ({each.address})'}:"
        f" {'passes' if each.passed else each.reason}"
        for each in tries
    )
