"""Measure the link baseline: of two pairs in a run that falls short, one with a suspect and one
without, which shows what kind of fault it is; of the whole fleet in rounds of disjoint pairs, which
shows where.

The servers run where nothing else does, bounded in time; nothing remains on the nodes. A run takes
over what a fleet's test of the last hour measured of the same pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from busbw.errors import RunDirError
from busbw.fabrics.profile import LinkTool
from busbw.inventory import fold
from busbw.model import Answer, Command, CommandResult
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.levels import Level
from busbw.run.context import Context
from busbw.store import artefacts, run_directory
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.survey import link_baseline, link_commands
from busbw.survey.link_baseline import LinkBaselineArtefact, PairOutput
from busbw.survey.link_commands import Extent
from busbw.survey.schedule import circle
from busbw.text import decoded
from busbw.units import format_duration


def measure_links(context: Context, outcome: BlameOutcome, nodes: tuple[str, ...]) -> None:
    """Measure every rail of two pairs, and keep the output of the tools."""
    tool = link_tool(context.plan)
    chosen = pairs(outcome, nodes)
    known = taken_over(context, chosen, tool)
    if known is not None:
        context.progress("layer breakdown", f"the link baseline of {known.origin} is taken over")
        artefacts.keep(context.run, link_baseline.FILE, known)
        return
    outputs = []
    for first, second in chosen:
        context.progress(
            "layer breakdown", f"the link baseline of each rail between {first} and {second}"
        )
        path, problem = _measured(context, first, second, tool)
        interfaces = context.plan.cluster.node(first).data_interfaces
        outputs.append(PairOutput((first, second), interfaces, path, problem))
    artefacts.keep(context.run, link_baseline.FILE, LinkBaselineArtefact(tuple(outputs), tool))


FRESH_S = 3600.0
"""Age up to which a fleet's test says what the links carry now."""


def taken_over(
    context: Context, chosen: tuple[tuple[str, str], ...], tool: LinkTool
) -> LinkBaselineArtefact | None:
    """What the newest link test beside this run measured of these pairs, with its outputs copied
    into this run's `raw/`; None = there is none of the last hour that measured them all."""
    folders = sorted(context.run.path.parent.glob("*-links-*"), reverse=True)
    for folder in folders[:_LOOKED_AT] if chosen else ():
        try:
            other = run_directory.open_existing(folder)
            plan = artefacts.load(other, "plan.json", RunPlan)
            artefact = link_baseline.kept(other)
        except RunDirError:
            continue  # one that is damaged is measured anew
        if plan is None or artefact is None or artefact.tool is not tool:
            continue
        if not 0 <= _age_s(plan.started, context.plan.started) <= FRESH_S:
            continue
        same = all(
            node in plan.cluster.nodes
            for pair in chosen
            for node in context.plan.cluster.chosen(pair)
        )
        outputs = [_usable(artefact, pair) for pair in chosen]
        if same and None not in outputs:
            return _copied(context, other, artefact, [each for each in outputs if each is not None])
    return None


_LOOKED_AT = 5
"""Link tests, the newest first."""


def _age_s(earlier: str, now: str) -> float:
    """Between two moments as plans write them; -1 = one is not readable."""
    try:
        return (datetime.fromisoformat(now) - datetime.fromisoformat(earlier)).total_seconds()
    except (ValueError, TypeError):
        return -1.0


def _usable(artefact: LinkBaselineArtefact, pair: tuple[str, str]) -> PairOutput | None:
    """The pair's output between host memories; None = there is none without a problem."""
    for output in artefact.outputs:
        usable = output.path and not output.problem and output.memory == "host"
        if set(output.pair) == set(pair) and usable:
            return output
    return None


def _copied(
    context: Context, other: RunDir, artefact: LinkBaselineArtefact, outputs: list[PairOutput]
) -> LinkBaselineArtefact:
    def copy(path: str | None) -> str | None:
        if path is None:
            return None
        name = f"link-baseline/{path.rpartition('/')[2]}"
        context.run.write_raw(name, other.kept(path) or b"")
        return f"raw/{name}"

    copied = (
        replace(each, path=copy(each.path), reverse_path=copy(each.reverse_path), round=0)
        for each in outputs
    )
    return LinkBaselineArtefact(
        tuple(copied), artefact.tool, swapped=artefact.swapped, origin=other.run_id
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
        link_commands.serve(server.data_interfaces, tool, address=address)
    )
    store = f"link-baseline/{first}-{second}.txt"
    answer = sessions[first].run(link_commands.ask(decoded(served.stdout), tool, store=store))
    return (f"raw/{store}" if answer.stdout else None), served.problem or answer.problem or ""


LEAST_ROUNDS = 3
"""A rail is slow with each of its partners; two of them may be slow themselves."""
MOST_ROUNDS = 9
"""Of a small fleet, in which all pairs have met before."""
_FORKS_S = 15.0
"""Beyond the commands' own limits, until a round is given up."""
_ALIVE_S = 10.0
"""Within which a node answers at all."""


@dataclass(slots=True)
class _Measured:
    """The pairs so far."""

    outputs: list[PairOutput] = field(default_factory=list)
    seconds: float = 0.0
    lost: set[str] = field(default_factory=set)
    """Nodes that stopped answering during a test."""


def measure_fleet(
    context: Context,
    budget_s: float,
    *,
    memories: tuple[str, ...],
    sudo: bool,
    settled: Callable[[LinkBaselineArtefact], bool],
) -> None:
    """Measure every rail of every node with other partners in each round, all pairs of a round at
    once, for each of `memories` (`host`, `gpu`); and ask each port what it says of itself.

    Three rounds at least, as far as the budget allows them: the next one begins where it would end
    in time, until nothing is open (`settled`), or all pairs have met and nine rounds were made.
    """
    tool = link_tool(context.plan)
    nodes = tuple(each.name for each in context.plan.cluster.nodes)
    here = tuple(name for name in nodes if name in context.fleet.sessions)
    ports = _ports(context, here, sudo=sudo)
    done = _Measured()
    try:
        _rounds(context, here, tool, done, ports, budget_s, settled, memories=memories)
    finally:
        # What was measured before an interruption is judged, too.
        artefact = _artefact(done, tool, ports, budget_s, memories=memories, sudo=sudo)
        artefacts.keep(context.run, link_baseline.FILE, artefact)


def _rounds(
    context: Context,
    nodes: tuple[str, ...],
    tool: LinkTool,
    done: _Measured,
    ports: tuple[tuple[str, str], ...],
    budget_s: float,
    settled: Callable[[LinkBaselineArtefact], bool],
    *,
    memories: tuple[str, ...],
) -> None:
    if len(nodes) < 2 or tool is LinkTool.NONE:
        return
    longest_s = 0.0
    # With all pairs measured, more rounds tell noise from what is slow in a small fleet.
    rounds = max(len(nodes) - 1 if len(nodes) % 2 == 0 else len(nodes), MOST_ROUNDS)
    for number in range(1, rounds + 1):
        if number > 1 and done.seconds + longest_s > budget_s:
            budget = format_duration(budget_s)
            context.progress("links", f"budget of {budget} spent after {number - 1} rounds")
            return
        every, _ = circle(nodes, number - 1)
        pairs = tuple(pair for pair in every if not done.lost.intersection(pair))
        if not pairs:
            continue
        at_once = f"{len(pairs)} pairs at once" if len(pairs) > 1 else "1 pair"
        context.progress("links", f"round {number}: {at_once}, rail by rail, then all rails")
        # What a node that is gone took is no measure of the next round.
        usual_s = sum(_round(context, number, pairs, tool, done, memory) for memory in memories)
        longest_s = max(longest_s, usual_s)
        artefact = _artefact(done, tool, ports, budget_s, memories=memories)
        if number >= LEAST_ROUNDS and settled(artefact):
            return


def _artefact(
    done: _Measured,
    tool: LinkTool,
    ports: tuple[tuple[str, str], ...],
    budget_s: float,
    *,
    memories: tuple[str, ...],
    sudo: bool = False,
) -> LinkBaselineArtefact:
    return LinkBaselineArtefact(
        outputs=tuple(done.outputs),
        tool=tool,
        swapped=tool is LinkTool.PERFTEST,
        memory=memories[0] if len(memories) == 1 else "both",
        seconds=done.seconds,
        ports=ports,
        budget_s=budget_s,
        sudo=sudo,
    )


def _ports(context: Context, nodes: tuple[str, ...], *, sudo: bool) -> tuple[tuple[str, str], ...]:
    commands = {
        name: link_commands.ask_ports(
            context.plan.cluster.node(name).data_interfaces,
            store=f"links/ports/{name}.txt",
            sudo=sudo,
        )
        for name in nodes
        if context.plan.cluster.node(name).data_interfaces
    }
    if not commands:
        return ()
    context.progress("links", f"ports and cables of {len(commands)} nodes")
    return tuple(
        (answer.node, f"raw/links/ports/{answer.node}.txt")
        for answer in _run(context, commands).values()
        if isinstance(answer, CommandResult) and answer.stdout
    )


def _run(context: Context, commands: dict[str, Command]) -> dict[str, Answer]:
    deadline_s = max(command.timeout_s for command in commands.values()) + _FORKS_S
    return {answer.node: answer for answer in context.fleet.run(commands, deadline_s=deadline_s)}


def _round(
    context: Context,
    number: int,
    pairs: tuple[tuple[str, str], ...],
    tool: LinkTool,
    done: _Measured,
    memory: str,
) -> float:
    """All pairs of a round, each in both directions, between memories of one kind; returns the
    seconds that those took whose nodes both answered."""
    folder = f"links/round-{number}{'' if memory == 'host' else f'-{memory}'}"
    there = _direction(context, folder, pairs, tool, memory)
    back: dict[tuple[str, str], _Answer] = {}
    if tool is LinkTool.PERFTEST:
        swapped = tuple((b, a) for a, b in pairs)
        back = _direction(context, folder, swapped, tool, memory)
    for first, second in pairs:
        answer, other = there[first, second], back.get((second, first))
        problem = answer if answer.problem or other is None else other
        done.outputs.append(
            PairOutput(
                (first, second),
                context.plan.cluster.node(first).data_interfaces,
                answer.path,
                problem.problem,
                problem.at_fault,
                other.path if other else None,
                number,
                memory,
            )
        )
    answers = (*there.values(), *back.values())
    lost = {each.at_fault for each in answers if each.is_lost}
    if lost:
        done.lost |= lost
        context.progress("links", f"{fold(lost)} no longer answers: the other nodes go on")
    halves = 2 if back else 1
    done.seconds += halves * max((each.seconds for each in answers), default=0.0)
    return halves * max((each.seconds for each in answers if not each.is_lost), default=0.0)


@dataclass(frozen=True, slots=True)
class _Answer:
    """One direction, or both of TCP, between two nodes."""

    path: str | None
    problem: str
    at_fault: str
    seconds: float
    is_lost: bool = False
    """Its node at fault stopped answering."""


def _direction(
    context: Context,
    folder: str,
    pairs: tuple[tuple[str, str], ...],
    tool: LinkTool,
    memory: str,
) -> dict[tuple[str, str], _Answer]:
    cluster = context.plan.cluster
    refused = {pair: _refused(context, pair, tool, memory) for pair in pairs}
    asked = [pair for pair in pairs if not refused[pair]]
    extents = {pair: _extent(context, pair[0], memory) for pair in asked}
    servers = {
        second: link_commands.serve(
            cluster.node(second).data_interfaces,
            tool,
            address=cluster.node(second).address or second,
            extent=extents[first, second],
        )
        for first, second in asked
    }
    served = _run(context, servers) if servers else {}
    results = {pair: _Answer(None, text, "", 0.0) for pair, text in refused.items() if text}
    clients: dict[str, Command] = {}
    for first, second in asked:
        reply = served.get(second)
        text = decoded(reply.stdout) if isinstance(reply, CommandResult) else ""
        why = _unserved(reply, text, tool)
        if why:
            results[first, second] = _Answer(None, f"{second}: {why}", second, 0.0)
            continue
        store = f"{folder}/{first}-{second}.txt"
        clients[first] = link_commands.ask(text, tool, store=store, extent=extents[first, second])
    answers = _run(context, clients) if clients else {}
    tried = [pair for pair in asked if pair not in results]
    lost = _lost(context, [pair for pair in tried if not _has_ended(answers.get(pair[0]))])
    for first, second in tried:
        answer = answers.get(first)
        gone = next((node for node in (first, second) if node in lost), None)
        if gone is not None:
            seconds = answer.seconds if isinstance(answer, CommandResult) else 0.0
            why = f"{gone}: no longer answered during the test"
            results[first, second] = _Answer(None, why, gone, seconds, is_lost=True)
            continue
        if not isinstance(answer, CommandResult):
            reason = answer.reason if answer is not None else "it did not answer"
            results[first, second] = _Answer(None, f"{first}: {reason}", first, 0.0)
            continue
        text = decoded(answer.stdout).strip()
        own = text in (f"no {link_commands.PROGRAMS[tool]}", link_commands.NO_CUDA)
        results[first, second] = _Answer(
            f"raw/{folder}/{first}-{second}.txt" if answer.stdout else None,
            f"{first}: {text}" if own else answer.problem or "",
            first if own else "",
            answer.seconds,
        )
    return results


def _has_ended(answer: Answer | None) -> bool:
    """It ended by itself, however."""
    return isinstance(answer, CommandResult) and answer.exit_status is not None


def _lost(context: Context, pairs: list[tuple[str, str]]) -> frozenset[str]:
    """Nodes of these pairs that do not answer at all."""
    asked = {name for pair in pairs for name in pair if name in context.fleet.sessions}
    command = Command(("true",), timeout_s=_ALIVE_S, label="alive")
    answers = _run(context, dict.fromkeys(sorted(asked), command)) if asked else {}
    return frozenset(name for name in asked if not _has_ended(answers.get(name)))


def _unserved(reply: Answer | None, text: str, tool: LinkTool) -> str:
    """Why the server serves nothing; empty = it does."""
    if not isinstance(reply, CommandResult):
        return reply.reason if reply is not None else "it did not answer"
    said = text.strip()
    if said in (f"no {link_commands.PROGRAMS[tool]}", link_commands.NO_CUDA):
        return said
    return "" if said else reply.problem or "it serves no rail"


def _refused(context: Context, pair: tuple[str, str], tool: LinkTool, memory: str) -> str:
    if memory == "gpu" and tool is LinkTool.IPERF3:
        return "iperf3 measures between host memories only"
    client, server = context.plan.cluster.node(pair[0]), context.plan.cluster.node(pair[1])
    if not client.data_interfaces or client.data_interfaces != server.data_interfaces:
        return "the inventory does not name the same rails for both nodes"
    return ""


def _extent(context: Context, node: str, memory: str) -> Extent:
    if memory == "host":
        return Extent(latency=True, together=True)
    known = context.plan.cluster.node(node)
    rails = len(known.data_interfaces)
    gpus_a_rail = max(1, (known.gpus or rails) // max(1, rails))
    return Extent(latency=True, gpus_a_rail=gpus_a_rail, together=True)
