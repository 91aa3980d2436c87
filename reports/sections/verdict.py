"""The head of the page: the verdict, the cause that explains it, and the figures it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from busbw.model import Comparison, RunResult, Status
from busbw.reports import lead, phrases
from busbw.reports.input import ReportInput
from busbw.reports.sections import findings
from busbw.reports.sections.findings import Entry
from busbw.units import counted, format_duration, format_size


@dataclass(frozen=True, slots=True)
class Tile:
    """One large figure."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of what was run, where and when."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The head of the page."""

    tiles: tuple[Tile, ...]
    tiles_of: str
    """What the figures are of: `all_reduce, 8 GiB, GB/s`; empty = there are none."""
    word: str
    """The verdict, or what the contract's criteria come to: for a manager it is the answer."""
    headline: str
    first: Entry | None
    """The finding to act on first, which decided the verdict; None = no finding did."""
    title: str
    """What the title of that finding says beyond the headline."""
    whole: bool
    """It is shown here whole; on a page that is signed the criteria stand first."""
    others: int
    """How many findings there are beside it."""
    facts: tuple[Fact, ...]
    caught: tuple[str, ...]
    """The detection limits of a verdict that lets the cluster pass; () = it does not."""


def view(report: ReportInput) -> Verdict:
    """The head of the page."""
    result = report.result
    compared = lead.lead(result)
    of = ""
    if compared is not None and compared.measured_gb_s is not None:
        of = f"{lead.collective(result, compared)} at {format_size(compared.size_bytes)}"
        if compared.nodes and len(compared.nodes) < len(result.nodes):
            of += f" on {phrases.nodes(compared.nodes)}"
        of += ", bus bandwidth in GB/s"
    tiles = _tiles(compared) if _agrees(result, compared) else ()
    passed = result.verdict in (Status.PASS, Status.WARN)
    caught = phrases.limits(result.sensitivity) if passed else ()
    decided = lead.deciding(result)
    entries = findings.entries(report)
    first = next((entry for entry in entries if entry.finding is decided), None)
    word = result.acceptance.word if result.acceptance else result.verdict.value
    headline = result.headline.removeprefix(f"{word}: ")
    return Verdict(
        tiles=tiles,
        tiles_of=of if tiles else "",
        word=word,
        headline=headline,
        first=first,
        title=_beyond(headline, phrases.title(first.finding).removeprefix(f"{word}: "))
        if first
        else "",
        whole=result.acceptance is None,
        others=len(entries) - (first is not None),
        facts=_facts(result),
        caught=caught,
    )


def _agrees(result: RunResult, compared: Comparison | None) -> bool:
    """Whether the figures are no contradiction of the verdict: a good number in large digits above
    a FAIL that has another reason is one."""
    passed = result.verdict in (Status.PASS, Status.WARN)
    return passed or (compared is not None and compared.status is result.verdict)


def _beyond(headline: str, title: str) -> str:
    """What a title says that the headline does not."""
    if title in headline:
        return ""
    return title.removeprefix(headline).strip(" ,;:")


def _tiles(compared: Comparison | None) -> tuple[Tile, ...]:
    if compared is None or compared.measured_gb_s is None:
        return ()
    tiles = [Tile(phrases.number(compared.measured_gb_s), "this run")]
    if compared.reference.busbw_gb_s is not None:
        label = phrases.reference(compared.reference)
        tiles.append(Tile(phrases.number(compared.reference.busbw_gb_s), label))
    if compared.limit is not None:
        tiles.append(Tile(phrases.number(compared.limit.value_gb_s), "physical limit"))
    return tuple(tiles)


def _facts(result: RunResult) -> tuple[Fact, ...]:
    nodes = f"{counted(len(result.nodes), 'node')} {phrases.nodes(result.nodes)}"
    facts = [
        Fact("nodes", nodes.strip()),
        Fact("run", result.run_id),
        Fact("playbook", f"{result.playbook}, profile {result.profile}"),
        Fact("started", result.started + _took(result)),
    ]
    versions = [_version(name, version) for name, version in result.versions if name != "build"]
    if versions:
        facts.append(Fact("with", ", ".join(versions)))
    return tuple(facts)


def _version(name: str, version: str) -> str:
    """`NCCL 2.28.3`; without the name where the version begins with a product of its own (`Open MPI
    4.1.4`) or is the device."""
    if name == "device" or (name == "MPI" and version[:1].isalpha()):
        return version
    return f"{name} {version}"


def _took(result: RunResult) -> str:
    if result.finished is None:
        return ", did not finish"
    try:
        begin, end = map(datetime.fromisoformat, (result.started, result.finished))
        return f", took {format_duration((end - begin).total_seconds())}"
    except (ValueError, TypeError):
        return f", ended {result.finished}"
