"""The text of a ticket about a run, for each of those who may have to act: NVIDIA, the vendor of the
hardware, the provider of the machines; and who should get it first.

Everything comes from the records of the findings: what was measured, the lines that show it, what
was ruled out. A redacted result gives redacted texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from busbw.model import Finding, Fix, RunResult
from busbw.reports import lead, phrases
from busbw.reports.safe import one_line
from busbw.units import counted


class Recipient(StrEnum):
    """Who may have to act."""

    NVIDIA = "nvidia"
    VENDOR = "vendor"
    PROVIDER = "provider"
    OWN_TEAM = "own-team"
    """No outsider is needed, as far as the findings say: no ticket is written for it."""


NAMES = {
    Recipient.NVIDIA: "NVIDIA support (driver, NCCL, GPU, NVLink)",
    Recipient.VENDOR: "the vendor of the servers, adapters, cables or switches",
    Recipient.PROVIDER: "the provider, or whoever runs the machines and the fabric",
    Recipient.OWN_TEAM: "your own team: the fixes need nobody else's rights",
}
_BY_RIGHT = {
    "datacenter-hands": Recipient.VENDOR,
    "cloud-admin": Recipient.PROVIDER,
    "fabric-admin": Recipient.PROVIDER,
    "switch-admin": Recipient.PROVIDER,
}
"""What the first such right among a finding's fixes says."""
_BY_ID = (
    ("slow-leaf", Recipient.PROVIDER),
    ("slow-uplink", Recipient.PROVIDER),
    ("slow-rail-plane", Recipient.PROVIDER),
    ("slow-pair", Recipient.PROVIDER),
    ("slow-", Recipient.VENDOR),
    ("gpu-", Recipient.NVIDIA),
    ("gpu.", Recipient.NVIDIA),
    ("nvlink", Recipient.NVIDIA),
    ("nvls", Recipient.NVIDIA),
    ("nvswitch", Recipient.NVIDIA),
    ("fabricmanager", Recipient.NVIDIA),
    ("imex", Recipient.NVIDIA),
    ("sdc-gpu", Recipient.NVIDIA),
    ("wrong-data", Recipient.NVIDIA),
)
"""Where no right says it: the part that the finding is about."""
_ASKS = {
    Recipient.NVIDIA: (
        "Is this a known problem of the versions in this text, and which versions fix it?",
        "Do you need more? We can send nvidia-bug-report.sh of the nodes named above, and a log"
        " with NCCL_DEBUG=INFO.",
    ),
    Recipient.VENDOR: (
        "Please inspect or replace the part named above, or say which measurement you need first.",
        "Is there a firmware that fixes this? The versions seen are in this text.",
    ),
    Recipient.PROVIDER: (
        "Please take the nodes named above out of service, and give us others, until this is fixed.",
        "Please look at the link or switch port named above from your side: rate, errors, load.",
        "Please tell us the cause; we will measure again with the same commands.",
    ),
}
_EVIDENCE = 8
_OTHERS = 5


@dataclass(frozen=True, slots=True)
class Ticket:
    """One text to paste."""

    recipient: Recipient
    text: str


def recipient(finding: Finding | None) -> Recipient | None:
    """Who should hear of a finding first; None = there is nothing to report."""
    if finding is None:
        return None
    by_right = (_BY_RIGHT[fix.needs] for fix in finding.fixes if fix.needs in _BY_RIGHT)
    by_id = (who for prefix, who in _BY_ID if finding.id.startswith(prefix))
    return next(by_right, next(by_id, Recipient.OWN_TEAM))


def tickets(result: RunResult) -> tuple[Ticket, ...]:
    """One for each who may have to act; () = there is nothing to report."""
    finding = lead.deciding(result)
    if finding is None:
        return ()
    return tuple(Ticket(who, _text(result, finding, who)) for who in _ASKS)


def live_tickets(title: str, incident: str) -> tuple[Ticket, ...]:
    """Those of a job that hangs; `incident` is the text of its own ticket."""
    return tuple(
        Ticket(who, _joined(_head(title, who), incident.splitlines(), _requests(who)))
        for who in _ASKS
    )


def _text(result: RunResult, finding: Finding, who: Recipient) -> str:
    return _joined(
        _head(lead.title(result), who),
        _section("What is wrong", _wrong(result, finding)),
        _section("What was measured", _measured(result)),
        _section("Evidence", _evidence(finding)),
        _section("Ruled out", finding.ruled_out),
        _section("Other possible causes", phrases.other_causes(finding)),
        _section("Tried or proposed", (_fix(fix) for fix in finding.fixes)),
        _section("Also seen", _others(result, finding)),
        _section("Versions", (f"{name}: {text}" for name, text in result.versions)),
        _requests(who),
        _section(
            "To measure again", (*finding.verify, "every launch, as it ran: report/commands.sh")
        ),
    )


def _joined(*parts: list[str]) -> str:
    return "\n\n".join("\n".join(map(one_line, part)) for part in parts if part) + "\n"


def _head(title: str, who: Recipient) -> list[str]:
    return [f"Subject: {title}", f"To: {NAMES[who]}"]


def _requests(who: Recipient) -> list[str]:
    return _section("We ask", _ASKS[who])


def _section(title: str, lines: Iterator[str] | tuple[str, ...] | list[str]) -> list[str]:
    """A heading and its lines; [] where there are none."""
    listed = [f"- {line}" for line in lines]
    return [title, *listed] if listed else []


def _wrong(result: RunResult, finding: Finding) -> list[str]:
    place = f" at {phrases.where(finding.where)}" if finding.where else ""
    lines = [f"{finding.title} [{finding.id}, {finding.confidence.value}]{place}"]
    lines += [text for text in (finding.cause, finding.cost) if text]
    blamed = [blame for blame in result.blame if blame.frequency]
    lines += [f"{blame.component.label}: {blame.frequency}" for blame in blamed]
    return [*lines, result.emulated] if result.emulated else lines


def _measured(result: RunResult) -> list[str]:
    compared = lead.lead(result)
    nodes = f"{counted(len(result.nodes), 'node')} {phrases.nodes(result.nodes)}"
    lines = [f"{result.verdict.value}: {result.headline}"]
    if compared is not None:
        reference = f"{phrases.reference(compared.reference)}: {compared.reference.source}"
        name = lead.collective(result, compared)
        lines.append(f"{name} {phrases.against(compared)}; compared with {reference}")
    lines.append(f"run {result.run_id}, {result.started} to {result.finished or 'not ended'}")
    return [*lines, f"{nodes}, fabric profile {result.profile}, playbook {result.playbook}"]


def _evidence(finding: Finding) -> list[str]:
    return [
        f"{phrases.location(each)}: {phrases.cut(each.text.strip(), 300)}"
        for each in finding.evidence[:_EVIDENCE]
    ]


def _fix(fix: Fix) -> str:
    return f"{fix.summary} (needs {phrases.right(fix.needs)})"


def _others(result: RunResult, finding: Finding) -> list[str]:
    others = [each for each in lead.ordered_findings(result) if each is not finding]
    return [f"{each.status.value} {each.id}: {each.title}" for each in others[:_OTHERS]]
