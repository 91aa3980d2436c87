"""Measure the link baseline of two pairs: one with a suspect and one without, to compare with.

The servers run where nothing else does, bounded in time; nothing remains on the nodes. Two pairs at
most: this shows what kind of fault it is, not where.
"""

from __future__ import annotations

from busbw.fabrics.fabric import LinkTool
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.levels import Level
from busbw.run.context import Context
from busbw.store import artefacts
from busbw.store.plan import RunPlan
from busbw.survey import link_baseline
from busbw.survey.link_baseline import LinkBaselineArtefact
from busbw.text import decoded


def measure_links(context: Context, outcome: BlameOutcome, nodes: tuple[str, ...]) -> None:
    """Measure every rail of two pairs, and keep the output of the tools."""
    tool = link_tool(context.plan)
    chosen = pairs(outcome, nodes)
    paths: list[str | None] = []
    problems: list[str] = []
    for first, second in chosen:
        context.progress(
            "layer breakdown", f"the link baseline of each rail between {first} and {second}"
        )
        path, problem = _measured(context, first, second, tool)
        paths.append(path)
        problems.append(problem)
    interfaces = tuple(context.plan.cluster.node(first).data_interfaces for first, _ in chosen)
    artefacts.keep(
        context.run,
        link_baseline.FILE,
        LinkBaselineArtefact(chosen, interfaces, tuple(paths), tuple(problems), tool),
    )


def link_tool(plan: RunPlan) -> LinkTool:
    """What measures the link baseline: as the fabric says; emulated nodes have only TCP."""
    return LinkTool.IPERF3 if plan.cluster.emulated else plan.profile.link_tool


def pairs(outcome: BlameOutcome, nodes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The slowest explained pair, and a pair without any suspect; pairs that the survey measured, so
    that both can be compared."""
    explained = [level for level in outcome.explained if len(level.sample.nodes) == 2]
    flagged = {name for part in outcome.flagged for name in part.names}
    doubtful = {name for doubt in outcome.open for name in doubt.account.part.names}
    others = [level for level in outcome.levels if len(level.sample.nodes) == 2]
    good = [level for level in others if not (flagged | doubtful) & set(level.sample.nodes)]
    if not good:
        good = [level for level in others if not flagged & set(level.sample.nodes)]
    if not good:
        good = [level for level in others if all(level is not each for each in explained)]
    picked = sorted(explained, key=_rank)[:1] + sorted(good, key=_rank)[-1:]
    named = [(level.sample.nodes[0], level.sample.nodes[1]) for level in picked]
    return tuple(pair for pair in dict.fromkeys(named) if set(pair) <= set(nodes))


def _rank(level: Level) -> tuple[float, tuple[str, ...]]:
    return level.ratio, level.sample.nodes


def _measured(context: Context, first: str, second: str, tool: LinkTool) -> tuple[str | None, str]:
    """(path of the output, why there is none)."""
    if tool is LinkTool.NONE:
        return None, f"no tool measures a single link of {context.plan.profile.title}"
    client, server = context.plan.cluster.node(first), context.plan.cluster.node(second)
    sessions = context.fleet.sessions
    if not client.data_interfaces or client.data_interfaces != server.data_interfaces:
        return None, "the inventory does not name the same rails for both nodes"
    if first not in sessions or second not in sessions:
        return None, "one of the nodes no longer answers"
    address = server.address or server.name
    served = sessions[second].run(
        link_baseline.serve(server.data_interfaces, tool, address=address)
    )
    store = f"link-baseline/{first}-{second}.txt"
    answer = sessions[first].run(link_baseline.ask(decoded(served.stdout), tool, store=store))
    return (f"raw/{store}" if answer.stdout else None), served.problem or answer.problem or ""
