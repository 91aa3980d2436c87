"""The layers below a survey: the raw link of each rail between an accused node and a good one, and between two good ones to compare with.

The servers run where nothing else does, bounded in time; nothing is left behind. Two pairs at most: this tells what kind of fault it is, not where.
"""

from __future__ import annotations

from busbw import artefacts
from busbw.derive.layers import LayersArtefact
from busbw.outside import decoded
from busbw.parsers.judge.blame import BlameOutcome
from busbw.stages.context import Context
from busbw.survey import raw_link

RDMA = ("infiniband", "roce")
"""Families of fabrics whose raw link is measured by perftest."""


def measure_layers(context: Context, outcome: BlameOutcome, nodes: tuple[str, ...]) -> None:
    """Measure the raw links of two pairs, and keep what the tools say."""
    cluster = context.plan.cluster
    rdma = context.plan.profile.family in RDMA and not cluster.emulated
    chosen = pairs(outcome, nodes)
    paths: list[str | None] = []
    problems: list[str] = []
    for first, second in chosen:
        context.say("layers", f"the raw link of each rail between {first} and {second}")
        path, problem = _measured(context, first, second, rdma=rdma)
        paths.append(path)
        problems.append(problem)
    links = tuple(cluster.node(first).carriers for first, _ in chosen)
    artefacts.keep(context.run, "layers.json", LayersArtefact(chosen, links, tuple(paths), tuple(problems), rdma))


def pairs(outcome: BlameOutcome, nodes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The slowest explained pair, and a pair that nothing explains or suspects; pairs that the survey measured, so that both can be compared."""
    explained = [level for level in outcome.explained if len(level.sample.nodes) == 2]
    named = {name for part in outcome.accused for name in part.names} | {
        name for found in outcome.open for name in found.account.part.names
    }
    good = [level for level in outcome.levels if len(level.sample.nodes) == 2 and not named & set(level.sample.nodes)]
    good = good or [level for level in outcome.levels if len(level.sample.nodes) == 2 and all(level is not other for other in explained)]
    picked = [min(explained, key=lambda level: (level.ratio, level.sample.nodes))] if explained else []
    picked += [max(good, key=lambda level: (level.ratio, level.sample.nodes))] if good else []
    found = [(level.sample.nodes[0], level.sample.nodes[1]) for level in picked]
    return tuple(pair for pair in dict.fromkeys(found) if set(pair) <= set(nodes))


def _measured(context: Context, first: str, second: str, *, rdma: bool) -> tuple[str | None, str]:
    """(path of what the tools said, why there is none)."""
    client, server = context.plan.cluster.node(first), context.plan.cluster.node(second)
    sessions = context.fleet.sessions
    if not client.carriers or client.carriers != server.carriers:
        return None, "the inventory does not name the rails of both nodes alike"
    if first not in sessions or second not in sessions:
        return None, "one of the nodes no longer answers"
    served = sessions[second].run(raw_link.serve(server.carriers, rdma=rdma, address=server.address or server.name))
    store = f"layers/{first}-{second}.txt"
    asked = sessions[first].run(raw_link.ask(decoded(served.stdout), rdma=rdma, store=store))
    problem = served.problem or asked.problem or ""
    return (f"raw/{store}" if asked.stdout else None), problem
