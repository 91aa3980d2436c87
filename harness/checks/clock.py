"""Whether a node's clock shows another time than this machine's, and than the other nodes'.

The node tells its time while it is asked, and this machine knows when it asked and when it had the
answer: what lies outside these two is a difference, whatever the node's own NTP says of itself.
"""

from __future__ import annotations

import math

from busbw.checks import Check, CheckFamily, NodeAnswer, Section, evidence_of, unknown
from busbw.model import CheckResult, Status
from busbw.text import whole_number
from busbw.units import format_duration

FAR_S = 5.0
"""Lines of two nodes' logs are then in the wrong order for certain. Munge and Kerberos refuse
tickets from 300 s on (munge(7); `clockskew` in krb5.conf(5))."""
_ID = "cross.clock"
_COMMAND = "date +%s"
_EXPECTED = f"within {FAR_S:g} s of this machine's clock"
_LONGEST = 12
"""Digits of a time: 30,000 years."""


def _compared(answers: tuple[NodeAnswer, ...]) -> tuple[CheckResult, ...]:
    offsets = {
        each.node.name: offset for each in answers if (offset := _offset_s(each)) is not None
    }
    far = sum(abs(offset) > FAR_S for offset in offsets.values())
    return tuple(_result(each, offsets, far) for each in answers)


def _result(answer: NodeAnswer, offsets: dict[str, float], far: int) -> CheckResult:
    """`far`: how many nodes' clocks differ from this machine's."""
    node = answer.node.name
    blocked = unknown(answer, _ID, "clock", _EXPECTED, _COMMAND)
    if blocked is not None:
        return blocked
    offset, evidence = offsets.get(node), evidence_of(answer, answer.sections["clock"])
    if offset is None:
        why = (
            "the run does not record when the node was asked"
            if answer.span_s is None
            else "the node does not print its time in seconds since 1970"
        )
        return CheckResult(
            _ID, node, Status.UNKNOWN, "not shown", _EXPECTED, _COMMAND, why, evidence
        )
    status, seen, why = Status.PASS, f"within {FAR_S:g} s", ""
    if abs(offset) > FAR_S:
        status = Status.WARN
        seen = f"{_span(offset)} {'ahead of' if offset > 0 else 'behind'} this machine"
        if 1 < len(offsets) == far:
            why = f"all {far} nodes differ: it may be this machine's clock that is wrong"
        elif len(offsets) > 1:
            why = f"{len(offsets) - far} of {len(offsets)} nodes agree with this machine"
    values = (("offset_s", round(abs(offset), 1)),)
    return CheckResult(_ID, node, status, seen, _EXPECTED, _COMMAND, why, evidence, values=values)


def _offset_s(answer: NodeAnswer) -> float | None:
    """Node minus this machine, at least; 0 = none that can be seen. None = not known."""
    output = answer.section("clock")
    text = output.stdout.strip() if output is not None else ""
    now = whole_number(text) if len(text) <= _LONGEST else None
    if now is None or answer.span_s is None or not all(map(math.isfinite, answer.span_s)):
        return None
    sent_s, answered_s = answer.span_s
    # A whole second is shown until the next.
    return max(now - answered_s, 0.0) or min(now + 1 - sent_s, 0.0)


def _span(seconds: float) -> str:
    """
    >>> _span(-31_536_000.0), _span(7_300.0), _span(6.2)
    ('365 days', '2 h 01 m', '6.2 s')
    """
    days = abs(seconds) / 86_400
    return f"{days:.0f} days" if days >= 2 else format_duration(abs(seconds))


CHECK = CheckFamily(
    name="clock",
    checks=(
        Check(
            _ID,
            _COMMAND,
            f"more than {FAR_S:g} s off this machine's clock, after allowing for the round trip:"
            " WARN",
        ),
    ),
    sections=(Section("clock", _COMMAND, serves=(_ID,)),),
    judge=lambda answer: (),
    compare=_compared,
)
