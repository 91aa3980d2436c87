"""The raw links that a survey measured, beside what the benchmark got over them, and all layers of
a run in one table."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.assess.expectation import Hardware
from busbw.fabrics.fabric import LinkTool
from busbw.model import Blame, Comparison, Finding, Status, Uncovered
from busbw.parsers.blame import layers
from busbw.parsers.blame.confirm import CASE
from busbw.parsers.blame.layers import Layer, everything
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.playbook import Playbook
from busbw.store import artefacts
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.survey import link_baseline
from busbw.text import decoded


@dataclass(frozen=True, slots=True)
class LayersArtefact:
    """`raw/layers.json`: which raw links were measured, and where the tools' words are."""

    pairs: tuple[tuple[str, str], ...]
    interfaces: tuple[tuple[str, ...], ...]
    """Of the pairs, in rail order."""
    paths: tuple[str | None, ...]
    """Inside the run directory; None = nothing could be asked, see `problems`."""
    problems: tuple[str, ...]
    tool: LinkTool


def load(run: RunDir, samples: tuple[GroupSample, ...]) -> tuple[Layer, ...]:
    """Every rail of the pairs that were measured, beside what the survey got over it; () = no raw
    link was measured.

    Raises:
        RunDirError: the artefact is not readable.
    """
    kept = artefacts.load(run, "layers.json", LayersArtefact)
    if kept is None:
        return ()
    found = []
    for nodes, interfaces, path, problem in zip(
        kept.pairs, kept.interfaces, kept.paths, kept.problems, strict=True
    ):
        content = run.read_raw(path.removeprefix("raw/")) if path else None
        links = link_baseline.parse(decoded(content), interfaces, kept.tool)
        for rail in range(len(interfaces)):
            mine = [link for link in links if link.rail == rail]
            rates = [link.gbit_s / 8 for link in mine if link.gbit_s is not None]
            # Where nothing was measured at all, the reason for that is more than «not measured».
            problems = (problem if path is None else "", *(link.problem for link in mine), problem)
            why = next(filter(None, problems), "")
            slowest = min(rates) if rates and len(rates) == len(mine) else None
            gets = everything(samples, nodes, rail if len(interfaces) > 1 else None)
            layer = Layer(
                nodes,
                rail,
                mine[0].tool,
                slowest,
                gets,
                path or "raw/layers.json",
                why,
                tuple(rates),
            )
            found.append(layer)
    return tuple(found)


def wanted(book: Playbook, comparisons: tuple[Comparison, ...], blames: tuple[Blame, ...]) -> bool:
    """The run is to be taken apart into its layers: always, or because a case of the playbook falls
    short or something is accused."""
    when = book.survey.decompose
    families = {case.family for case in book.cases}
    short = any(
        c.case_id in families and c.status in (Status.FAIL, Status.WARN) for c in comparisons
    )
    return (
        "layers" in book.survey.groups
        or when == "always"
        or (when == "on-shortfall" and (short or bool(blames)))
    )


def finding(
    plan: RunPlan, samples: tuple[GroupSample, ...], links: tuple[Layer, ...], hardware: Hardware
) -> tuple[Finding, ...]:
    """The table of the layers with the sentence that it allows; () = nothing of it was measured."""
    if not links and not any(s.launch == CASE + layers.NETWORK for s in samples):
        return ()
    nics = hardware.nics or hardware.sockets
    # An emulated cluster describes no hardware, whatever its nodes say they are.
    line = nics.rate_gbit_s / 8 if nics is not None and not plan.cluster.emulated else None
    problem = next((link.problem for link in links if link.problem), "")
    missing: tuple[tuple[str, str], ...] = (
        (("raw link", f"not measured: {problem}"),) if problem else ()
    )
    if plan.cluster.emulated or all(s.ranks_per_node == 1 for s in samples):
        missing += (
            (
                "NVLink alone",
                (
                    "an emulated node has none"
                    if plan.cluster.emulated
                    else "one rank a node uses none"
                ),
            ),
        )
    found = layers.decomposed(samples, links, line, missing, emulated=plan.cluster.emulated)
    return (layers.finding(found),)


def uncovered(
    book: Playbook,
    comparisons: tuple[Comparison, ...],
    blames: tuple[Blame, ...],
    findings: tuple[Finding, ...],
) -> tuple[Uncovered, ...]:
    """That a run which falls short was not taken apart, or not wholly."""
    if not wanted(book, comparisons, blames):
        return ()
    told = next((f for f in findings if f.id == layers.ID), None)
    absent = (
        tuple(e.text.partition(":")[0] for e in told.evidence if ": not measured" in e.text)
        if told
        else ("all of them",)
    )
    if not absent:
        return ()
    why = (
        "; ".join(e.text for e in told.evidence if ": not measured" in e.text)
        if told
        else "no budget was left, or their launches failed"
    )
    return (
        Uncovered(
            f"which layer is slow: {', '.join(absent)}", why, "busbw run --survey --budget 20m"
        ),
    )
