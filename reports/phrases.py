"""The words every report uses for a state, a share, a bandwidth and a set of nodes: one wording on
all pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from busbw.inventory.hostlist import LEGAL_NAME, fold
from busbw.model import Confidence, Evidence, Finding, Fix, Status
from busbw.parsers.findings import catalogue
from busbw.reports.safe import one_line
from busbw.units import (
    format_bandwidth,
    format_link_rate,
    format_share,
    format_size,
    format_time_us,
    format_with_interval,
)

if TYPE_CHECKING:
    from busbw.model import Comparison, CriterionResult, Reference

T = TypeVar("T")

SIGNS = {
    Status.PASS: "✓",
    Status.WARN: "▲",
    Status.FAIL: "✖",
    Status.UNKNOWN: "?",
    Status.SKIPPED: "–",
}
LABELS = {
    Status.PASS: "pass",
    Status.WARN: "warning",
    Status.FAIL: "fail",
    Status.UNKNOWN: "unknown",
    Status.SKIPPED: "skipped",
}
SEVERITY = {Status.FAIL: 0, Status.UNKNOWN: 1, Status.WARN: 2, Status.PASS: 3, Status.SKIPPED: 4}
"""For sorting: the worst first."""

_REFERENCES = {
    "contract": "contract",
    "accepted-run": "accepted run",
    "peers": "peers",
    "published": "published",
    "physics": "physical limit",
    "playbook": "playbook",
    "none": "no reference",
}

CONFIRM = "To confirm"
"""Before what shows whether a suspect is the one: nothing is changed by it."""
AFTER = "After the fix"
"""Before what shows that the fault is gone."""

_TOGETHER = " + "
"""Between nodes that were measured as one group: their number does not say which of them it is."""
_SURE_OF = 3
"""Places that are named beside how sure a finding is; all of them stand below it."""
_PROSE = re.compile(
    r"(a|an|the|and|or|of|with|for|again|between|is|are|than|in|on|shows|lists|same|its|other|to|no|more|this"
    r"|completes|stops|<)[,:;]?\Z"
)
_DETAIL = re.compile(r": | \(")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")


def nodes(names: Iterable[str]) -> str:
    """Names folded to a host list, `gpu-[001-004,006]`; a name that cannot be a host stays as it
    is, its odd characters marked.

    >>> nodes(("gpu-001", "gpu-002", "gpu-004"))
    'gpu-[001-002,004]'
    """
    return one_line(fold(names))


def where(names: tuple[str, ...], most: int = 12) -> str:
    """What a finding names: host names are folded, other components (`gpu-001 rail 3`) are listed,
    at most `most` of them."""
    hosts = [name for name in names if LEGAL_NAME.match(name)]
    parts = [one_line(name) for name in names if name not in hosts]
    if hosts:
        parts.insert(0, nodes(hosts))
    more = f" and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more


def narrowest(places: Iterable[str]) -> tuple[str, ...]:
    """Without a node of which a rail or an interface is named.

    >>> narrowest(("gpu-005", "gpu-005 rail 3", "gpu-007"))
    ('gpu-005 rail 3', 'gpu-007')
    """
    every = tuple(places)
    whole = {place.partition(" ")[0] for place in every if " " in place}
    return tuple(place for place in every if place not in whole)


_OF_PATHS = frozenset({"slow-pair", "stall-network-silent"})


def path(finding: Finding, names: Sequence[str]) -> str:
    """What a finding about a path means by two nodes, neither of which is to blame by itself; empty =
    it is about something else.

    >>> path(Finding("slow-pair", Status.FAIL, "", (), ()), ("node1", "node4"))
    'the path between node1 and node4'
    """
    is_path = finding.id in _OF_PATHS and len(names) == 2
    return f"the path between {names[0]} and {names[1]}" if is_path else ""


def sure(finding: Finding) -> str:
    """How sure a finding is, and of what: of the place that it names, else of the cause that it
    states. An advisory warning is sure of no more than what it says, and one that is only possible
    may be no fault at all. Of a failure that was seen only its cause can be in doubt, and a number that
    fell short proves none.

    >>> from dataclasses import replace
    >>> slow = Finding("slow-node", Status.FAIL, "node3 is slow", ("node3",), (), confidence=Confidence.LIKELY)
    >>> sure(slow)
    'likely that it is node3'
    >>> sure(replace(slow, id="sharp-init-failure", where=()))
    'likely that this is the cause'
    >>> sure(replace(slow, confidence=Confidence.POSSIBLE))
    'failure certain; possible that it is node3'
    >>> sure(replace(slow, status=Status.WARN, confidence=Confidence.POSSIBLE))
    'possible fault'
    >>> sure(replace(slow, id="slower-than-accepted", where=(), confidence=Confidence.CERTAIN))
    'failure certain; cause not proven'
    >>> sure(replace(slow, id="slower-than-accepted", where=(), confidence=Confidence.LIKELY))
    'failure likely; cause not proven'
    >>> sure(replace(slow, id="ssh.connect", status=Status.UNKNOWN, confidence=Confidence.POSSIBLE))
    'not checked on node3'
    """
    names = narrowest(finding.where)
    word, place = finding.confidence.value, path(finding, names) or where(names, _SURE_OF)
    if finding.confidence is Confidence.POSSIBLE:
        if finding.status is Status.WARN:
            return f"{word} fault"
        if finding.status is Status.FAIL:
            word = f"failure certain; {word}"
        # Only checks have dotted ids.
        if finding.status is Status.UNKNOWN and place and "." in finding.id:
            return f"not checked on {place}"
    if finding.status is Status.WARN and not finding.required:
        return word
    if _TOGETHER in place:
        return f"{word}; not located"
    if place:
        return f"{word} that it is {place}"
    is_unknown = finding.status is Status.UNKNOWN
    is_likely = finding.confidence is Confidence.LIKELY and finding.status is Status.FAIL
    is_stated = finding.confidence is Confidence.CERTAIN or is_likely
    if not is_unknown and is_stated and _is_result(finding.id):
        return f"failure {word}; cause not proven"
    return f"{word} that this is {'why it is unknown' if is_unknown else 'the cause'}"


def _is_result(finding_id: str) -> bool:
    """A measurement of busbw reports it: that it is so is certain, and why is another question."""
    entry = catalogue.load().by_id.get(finding_id)
    return entry is not None and entry.role is catalogue.Role.FINDING


def title(finding: Finding) -> str:
    """What it says, without its own id before it: that stands beside it.

    >>> title(Finding("os.psi", Status.WARN, "os.psi: waiting for cpu", ("n1",), ()))
    'waiting for cpu'
    """
    return finding.title.removeprefix(f"{finding.id}: ")


def limits(sensitivity: Iterable[str]) -> tuple[str, ...]:
    """The detection limits in a line for what is detected and one for what is not; by which number
    each was found stands in the report.

    >>> detected = ("detects: a port at half rate (leaves 50%): pairs: 50%", "detects: a node under 93% (6 groups)")
    >>> limits((*detected, "does not detect: a loss under 7% of one node"))
    ('detects: a port at half rate; a node under 93%', 'does not detect: a loss under 7% of one node')
    """
    texts: dict[str, list[str]] = {}
    for line in sensitivity:
        verb, _, what = line.partition(": ")
        texts.setdefault(verb, []).append(_DETAIL.split(what)[0])
    return tuple(f"{verb}: {'; '.join(dict.fromkeys(known))}" for verb, known in texts.items())


def to_confirm(finding: Finding) -> tuple[str, ...]:
    """What would confirm it, without the commands that are a step of its fix."""
    steps = {command.partition("   #")[0] for fix in finding.fixes for command in fix.commands}
    return tuple(s for s in finding.would_settle if s.partition("   #")[0] not in steps)


def place(finding: Finding) -> str:
    """Where it is, unless `sure` says that already; empty = it does, or no place is named."""
    if where(narrowest(finding.where)) in sure(finding):
        return ""
    return where(finding.where)


def entry(text: str) -> str:
    """What stands in a list of causes or consequences, for people: the title of a catalogue's entry
    with its id, by which `busbw why ID` tells more; any other text as it is.

    >>> entry("duplicate-gpu"), entry("node1 rail 2 is slow")
    ('Two ranks use the same GPU [duplicate-gpu]', 'node1 rail 2 is slow')
    """
    known = catalogue.load().by_id.get(text)
    return text if known is None else f"{known.title} [{text}]"


def other_causes(finding: Finding) -> tuple[str, ...]:
    """The causes of a finding that its own text does not give already, as `entry` shows them."""
    by_id = catalogue.load().by_id
    known = ((name, by_id.get(name)) for name in finding.also)
    return tuple(entry(name) for name, of in known if of is None or of.cause not in finding.cause)


def percent(ratio: float | None) -> str:
    """A share for people, or `not known`."""
    return "not known" if ratio is None else format_share(ratio)


def number(value: float) -> str:
    """A figure with as many digits as tell something: three significant ones, none after the point
    from 100 on.

    >>> number(371.6), number(23.94), number(0.02391), number(0.0)
    ('372', '23.9', '0.0239', '0')
    """
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def shown(value: T | None, text: Callable[[T], str] = str, missing: str = "–") -> str:
    """A value by its own formatter, or what stands for a missing one.

    >>> shown(3), shown(None), shown(0.5, percent, "not known")
    ('3', '–', '50%')
    """
    return missing if value is None else text(value)


def bandwidth(gb_s: float | None) -> str:
    """A bandwidth with its unit, or `not measured`."""
    return format_bandwidth(gb_s)


def reference(of: Reference) -> str:
    """The kind of a reference, in words."""
    return _REFERENCES.get(of.kind, one_line(of.kind))


def against(comparison: Comparison) -> str:
    """Measured against expected, short enough for a line that is grepped: `192/372 GB/s (52%)`."""
    measured = shown(comparison.measured_gb_s, number, "?")
    expected = comparison.reference.busbw_gb_s
    if expected is None:
        return f"{measured} GB/s (no reference)"
    text = f"{measured}/{number(expected)} GB/s"
    return text if comparison.ratio is None else f"{text} ({percent(comparison.ratio)})"


def measured_number(comparison: Comparison) -> str:
    """The number, and from two launches on its interval and how many there were."""
    text = bandwidth(comparison.measured_gb_s)
    if comparison.launches < 2 or comparison.half_interval_gb_s is None:
        return text
    value = comparison.measured_gb_s or 0.0
    text = format_with_interval(text, value, comparison.half_interval_gb_s)
    return f"{text} (n={comparison.launches})"


def state(status: Status) -> str:
    """A state as sign and word: `✖ fail`."""
    return f"{SIGNS[status]} {LABELS[status]}"


def location(evidence: Evidence) -> str:
    """Where evidence is: `raw/nodes/gpu-005/ibstat:61`."""
    if evidence.line_no is None:
        return evidence.artefact
    return f"{evidence.artefact}:{evidence.line_no}"


def right(needs: str) -> str:
    """The right or person that a fix needs, for people."""
    return "on-site hands" if needs == "datacenter-hands" else needs


def fix_step(number: int, fix: Fix) -> str:
    """`2  Retrain the link   # needs root, disrupts running jobs`."""
    notes = []
    if fix.needs != "user":
        notes.append(f"needs {right(fix.needs)}")
    if fix.disruptive:
        notes.append("disrupts running jobs")
    note = f"   # {', '.join(notes)}" if notes else ""
    return f"{number}  {fix.summary}{note}"


def labelled(label: str, texts: Iterable[str]) -> list[str]:
    """Lines under one label, which stands before the first."""
    return [f"  {'' if number else label:<8}  {text}" for number, text in enumerate(texts)]


def labelled_text(label: str, text: str | None) -> list[str]:
    """One line under its label; none for an empty text."""
    return labelled(label, [text]) if text else []


def steps(fixes: tuple[Fix, ...]) -> list[str]:
    """The fixes, numbered, each with its commands."""
    lines = []
    for number, fix in enumerate(fixes, 1):
        lines += [fix_step(number, fix), *(f"   {command}" for command in fix.commands)]
    return labelled("fix", lines)


def cut(text: str, most: int) -> str:
    """At most `most` characters, the middle left out and said so."""
    if len(text) <= most:
        return text
    half = (most - 40) // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters left out … {text[-half:]}"


def is_command(text: str) -> bool:
    """Whether a step is a command line to copy, or a sentence: tables hold both under one name.

    >>> is_command("busbw run --survey"), is_command("run the same case again"), is_command("MPI hello program")
    (True, False, False)
    >>> is_command("ssh gpu-005 'dmesg | grep -i the'"), is_command("for n in a b; do ssh $n true; done")
    (True, True)
    >>> is_command("busbw run --survey   # once no other work uses the CPUs"), is_command("more trials")
    (True, False)
    """
    parts = _QUOTED.sub("", text).partition("   # ")[0].split()
    if not parts or "; do" in text:
        return bool(parts)
    capital = parts[0][:1].isupper() and "=" not in parts[0]
    if capital or parts[0].endswith((":", ",")):
        return False
    return not any(_PROSE.match(word) for word in parts)


_QUANTILES = {0.0: "worst launch", 1.0: "best launch"}


def criterion(of: CriterionResult) -> str:
    """What a criterion measures, with its case where that says more than the collective (a ring),
    and the launch that counts where that is not the median."""
    text = f"{of.collective} {format_size(of.size_bytes)}"
    named = [] if of.case_id.replace("-", "_") == of.collective else [of.case_id]
    if of.quantile != 0.5:
        named.append(_QUANTILES.get(of.quantile, f"{of.quantile:.0%} quantile"))
    return f"{text} ({', '.join(named)})" if named else text


def open_criterion(of: CriterionResult) -> str:
    """What a criterion is that is neither met nor missed."""
    return "not measured" if of.measured is None else "undecided"


def limit(of: CriterionResult) -> str:
    """What a contract asks for: bandwidth at least, time at most."""
    return f"{'≥' if of.unit == 'GB/s' else '≤'} {_valued(of, of.limit)}"


def measured(of: CriterionResult) -> str:
    """What a criterion's launches gave, with the interval of their mean; `–` = it was not
    measured."""
    if of.measured is None:
        return "–"
    text = _valued(of, of.measured)
    if of.half_interval is not None:
        text = format_with_interval(text, of.measured, of.half_interval)
    return text


def _valued(of: CriterionResult, value: float) -> str:
    return format_bandwidth(value) if of.unit == "GB/s" else format_time_us(value)


def link_rate(gbit_s: float | None) -> str:
    """A measured rate of a link, to three digits.

    >>> link_rate(0.0593), link_rate(392.61), link_rate(None)
    ('59.3 Mb/s', '393 Gb/s', '–')
    """
    return "–" if gbit_s is None else format_link_rate(float(f"{1e9 * gbit_s:.3g}"))
