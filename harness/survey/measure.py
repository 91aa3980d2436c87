"""The survey: round after round of disjoint groups, each chosen by what the rounds before left
open, until it is answered or time is spent.

A launch measures all pairs of a round at once, rail by rail where nodes have rails: ranks go round
the nodes, so that `DIV 2` makes two ranks of the same rail a group. A ring all-reduce is forced:
NCCL's default for two NVLink nodes is a tree, capped by NVLink and blind to a NIC that lost a third
(physical-model.md section 4).
"""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass, field, replace

from busbw import assess
from busbw.assess import fabric as grouping
from busbw.assess import launches
from busbw.assess.contract import REST
from busbw.fabrics.fabric import LinkTool
from busbw.launch.choose import choose as choose_launcher
from busbw.model import BenchmarkCase, Blame, Collective, Invocation, Sizes, Status
from busbw.parsers.blame import blame
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.confirm import CASE, WHOLE
from busbw.parsers.blame.layer_breakdown import NETWORK
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests import groups, proof
from busbw.run.context import Context
from busbw.run.launching import Place, make
from busbw.run.measure import Launch, measure, measure_together
from busbw.store import artefacts
from busbw.store.artefacts import CaseArtefact
from busbw.store.plan import RunPlan
from busbw.survey import earlier, layer_breakdown, link_baseline
from busbw.survey.adapt import Wanted, again_alone, choose
from busbw.survey.confirm import MOST_NODES, Confirming, confirming
from busbw.survey.link_baseline import LinkBaselineArtefact
from busbw.survey.places import rails_of
from busbw.survey.schedule import Round, alone, shards
from busbw.text import decoded
from busbw.units import format_duration

# Rounds of groups for binaries that cannot measure several groups in one launch: one launcher for
# each group, all at once from the head node.
#
# They are one job: started, watched, looked at and ended together. Every line that they print
# says which group it belongs to.

_STEP = 1 << 12
"""Between the sizes of the rows, which every version prints: five rows are nearly the same size,
and five values."""
_ONE = """\
one() { k=$1; shift; { "$@"; echo "exit $?"; } | { r=1; while IFS= read -r l; do
case $l in "exit "*) r=${l#exit } ;; esac; printf '@%s %s\\n' "$k" "$l"; done; exit "$r"; }; }
s=0; pids=
"""
_ALL = 'for p in $pids; do wait "$p" || s=$?; done\nexit $s\n'


def why_one_by_one(context: Context, place: Place) -> str:
    """Why groups must be launched one by one: what the binary says of itself in the launches
    before; empty = they need not be."""
    for launch in launches.load(context.run, place.known):
        path = launch.artefact.stdout
        if launch.artefact.groups or not launch.results or path is None:
            continue
        version = launch.results[-1].tests_version or proof.dialect_of(
            decoded(context.run.read_raw(path.removeprefix("raw/")))
        )
        if groups.too_old(version):
            needed = ".".join(map(str, groups.SINCE))
            told = f"is nccl-tests {version}" if version else "prints no version of nccl-tests"
            return (
                f"the binary {told}, and only from {needed} on does one launch time all its groups"
            )
        return ""
    return ""


def case_of(case: BenchmarkCase) -> BenchmarkCase:
    """The same round with what every version has: no split, no times of iterations, a few rows in
    their place."""
    least = case.sizes.minimum_bytes
    return dataclasses.replace(
        case,
        sizes=Sizes(least, least + (groups.ROWS - 1) * _STEP, None, _STEP),
        iterations=max(1, -(-case.iterations // groups.ROWS)),
        blocking=0,
        per_iteration=False,
        json=False,
        split=None,
        by_rail=False,
    )


def launch(
    context: Context, place: Place, case: BenchmarkCase, number: Round, *, order: int
) -> Launch:
    """All groups of a round, each by a launcher of its own.

    Raises:
        LaunchError: the head node has no usable mpirun.
        UsageError: the launcher cannot express the case.
    """
    single = [
        make(context.plan, place, case, group, order=order, groups=(group,))
        for group in number.groups
    ]
    starts = [
        f'one {k} {shlex.join(each.invocation.argv)} & pids="$pids $!"\n'
        for k, each in enumerate(single)
    ]
    first = single[0]
    invocation = Invocation(
        case_id=case.id,
        argv=("sh", "-c", "".join((_ONE, *starts, _ALL))),
        env=first.invocation.env,
        nodes=number.order(),
        timeout_s=first.invocation.timeout_s,
        nranks=sum(each.invocation.nranks for each in single),
    )
    return dataclasses.replace(
        first, invocation=invocation, nodes=number.order(), groups=number.groups
    )


def possible(context: Context) -> bool:
    """The launcher starts by itself wherever it is told to, so that several run side by side."""
    return choose_launcher(context.plan.cluster.launcher).concurrent


# After a failed contract: what failed, once more on the nodes that nothing accuses. Whether it
# then holds is the acceptance's to say.

LAST = 1000
"""Order of the first of these launches: after everything else."""


def suspects(blames: tuple[Blame, ...], nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Nodes to leave out: accused ones, those whose part is accused, and of a path its first
    end."""
    found = []
    for one in blames:
        named = [node for node in nodes if node in one.component.nodes]
        found += named[:1]
    return tuple(dict.fromkeys(found))


def measure_rest(context: Context, place: Place, nodes: tuple[str, ...]) -> None:
    """Each case with a failed criterion, without the suspects; nothing where nothing failed, nobody
    is accused, or fewer than two are left."""
    result = assess.derive(context.run)
    if result.acceptance is None:
        return
    failed = {each.case_id for each in result.acceptance.criteria if each.status is Status.FAIL}
    out = suspects(result.blame, nodes)
    rest = tuple(node for node in nodes if node not in out)
    if not failed or not out or len(rest) < 2:
        return
    context.say("rest", f"once more without {', '.join(out)}")
    cases = [case for case in context.plan.playbook.cases if case.id in failed]
    for position, case in enumerate(cases):
        again = dataclasses.replace(case, id=f"{REST}{case.id}", required=False)
        launch = make(context.plan, place, again, rest, order=LAST + position)
        if measure(context, launch).state != "ended":
            return


# The layers below a survey: the link baseline of each rail between an accused node and a good one, and
# between two good ones to compare with.
#
# The servers run where nothing else does, bounded in time; nothing is left behind. Two pairs at
# most: this tells what kind of fault it is, not where.


def link_tool(plan: RunPlan) -> LinkTool:
    """What measures the link baseline: as the fabric says; emulated nodes have only TCP."""
    return LinkTool.IPERF3 if plan.cluster.emulated else plan.profile.link_tool


def measure_link_baseline(context: Context, outcome: BlameOutcome, nodes: tuple[str, ...]) -> None:
    """Measure the raw links of two pairs, and keep what the tools say."""
    cluster = context.plan.cluster
    tool = link_tool(context.plan)
    chosen = pairs(outcome, nodes)
    paths: list[str | None] = []
    problems: list[str] = []
    for first, second in chosen:
        context.say(
            "layer breakdown", f"the link baseline of each rail between {first} and {second}"
        )
        path, problem = _measured_link(context, first, second, tool)
        paths.append(path)
        problems.append(problem)
    links = tuple(cluster.node(first).data_interfaces for first, _ in chosen)
    artefacts.keep(
        context.run,
        link_baseline.FILE,
        LinkBaselineArtefact(chosen, links, tuple(paths), tuple(problems), tool),
    )


def pairs(outcome: BlameOutcome, nodes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The slowest explained pair, and a pair that nothing explains or suspects; pairs that the
    survey measured, so that both can be compared."""
    explained = [level for level in outcome.explained if len(level.sample.nodes) == 2]
    named = {name for part in outcome.flagged for name in part.names} | {
        name for found in outcome.open for name in found.account.part.names
    }
    good = [
        level
        for level in outcome.levels
        if len(level.sample.nodes) == 2 and not named & set(level.sample.nodes)
    ]
    good = good or [
        level
        for level in outcome.levels
        if len(level.sample.nodes) == 2 and all(level is not other for other in explained)
    ]
    picked = (
        [min(explained, key=lambda level: (level.ratio, level.sample.nodes))] if explained else []
    )
    picked += [max(good, key=lambda level: (level.ratio, level.sample.nodes))] if good else []
    found = [(level.sample.nodes[0], level.sample.nodes[1]) for level in picked]
    return tuple(pair for pair in dict.fromkeys(found) if set(pair) <= set(nodes))


def _measured_link(
    context: Context, first: str, second: str, tool: LinkTool
) -> tuple[str | None, str]:
    """(path of what the tools said, why there is none)."""
    if tool is LinkTool.NONE:
        return None, f"no tool measures a single link of {context.plan.profile.title}"
    client, server = context.plan.cluster.node(first), context.plan.cluster.node(second)
    sessions = context.fleet.sessions
    if not client.data_interfaces or client.data_interfaces != server.data_interfaces:
        return None, "the inventory does not name the rails of both nodes alike"
    if first not in sessions or second not in sessions:
        return None, "one of the nodes no longer answers"
    served = sessions[second].run(
        link_baseline.serve(server.data_interfaces, tool, address=server.address or server.name)
    )
    store = f"link-baseline/{first}-{second}.txt"
    asked = sessions[first].run(link_baseline.ask(decoded(served.stdout), tool, store=store))
    problem = served.problem or asked.problem or ""
    return (f"raw/{store}" if asked.stdout else None), problem


BREAKDOWN_LAUNCHES = 2
"""Launches that taking a run apart takes at least, beyond those of the confirmation: the network
alone, and about as long for the raw links."""
MOST_SIDE_BY_SIDE = 32
"""Launches at once: each is a launcher on the head node, with a connection to every node of its
shard."""
_NETWORK_ALONE = (("NCCL_P2P_DISABLE", "1"), ("NCCL_SHM_DISABLE", "1"))
"""Every hop of the ring is one of the network then; a diagnosis, never a setting."""


@dataclass(slots=True)
class _Progress:
    """Where a survey is. Time is the sum of what its commands took, so that a replay decides as the
    run did."""

    order: int
    spent_s: float = 0.0
    launches: int = 0
    ended: set[str] = field(default_factory=set)
    """Rounds whose launch ended well."""

    def next_s(self) -> float:
        """What the next launch will take: as long as the ones before, on average."""
        return self.spent_s / self.launches if self.launches else 0.0


@dataclass(frozen=True, slots=True)
class Shape:
    """What a launch of this survey is made of."""

    ranks_per_node: int
    by_rail: bool
    apart: bool = False
    """Each group is launched by itself, all at once: the binary cannot measure several."""


def shape(plan: RunPlan, nodes: tuple[str, ...], ranks_per_node: int) -> Shape:
    """One rank a rail on emulated nodes, else one a GPU; without several ranks or rails a pair of
    nodes is measured as a whole.

    With one emulated rank a node the two directions of a pair share nothing but the links, and one
    rank's noise is the node's: at least two then. Two ranks never share a GPU: NCCL refuses them.
    """
    rails = rails_of(plan.cluster, nodes)
    if plan.cluster.emulated and rails > 1:
        return Shape(rails, by_rail=True)
    least = 2 if plan.cluster.emulated else 1
    return Shape(
        max(ranks_per_node, least),
        by_rail=rails != 1 and ranks_per_node > 1 and not plan.cluster.emulated,
    )


def round_case(plan: RunPlan, number: Round, made: Shape) -> BenchmarkCase:
    """The launch of one round: all groups at once, the times of every process and iteration."""
    wanted = plan.playbook.survey
    width = len(number.groups[0])
    by_rail = made.by_rail and width == 2
    split = (
        f"DIV {width if by_rail else width * made.ranks_per_node}"
        if len(number.groups) > 1 or by_rail
        else None
    )
    case = BenchmarkCase(
        id=CASE + number.id,
        collective=Collective.ALL_REDUCE,
        sizes=Sizes(wanted.size_bytes, wanted.size_bytes),
        ranks_per_node=made.ranks_per_node,
        iterations=wanted.iterations,
        warmup=2,
        check=0,
        blocking=3,
        per_iteration=True,
        split=split,
        by_rail=by_rail,
        env=(("NCCL_ALGO", "Ring"), *(_NETWORK_ALONE if number.id == NETWORK else ())),
        timeout_s=max(60.0, wanted.budget_s),
        stall_s=plan.playbook.cases[0].stall_s if plan.playbook.cases else 120.0,
        required=True,
        purpose="diagnosis",
    )
    return case_of(case) if made.apart else case


def survey(
    context: Context, place: Place, nodes: tuple[str, ...], ranks_per_node: int, order: int
) -> None:
    """Measure until nothing is open, the budget is spent, or a launch hangs; then the accused
    against the rest. What was left out is told."""
    plan = context.plan
    made, progress = shape(plan, nodes, ranks_per_node), _Progress(order)
    if why := why_one_by_one(context, place):
        if not possible(context):
            context.say(
                "survey",
                f"not made: {why}; and {plan.cluster.launcher} starts no launches side by side"
                " here",
            )
            return
        context.say("survey", f"each group is a launch of its own: {why}")
        made = replace(made, apart=True)
    wanted, fabric = plan.playbook.survey, grouping.fabric(context.run, plan)
    groups = wanted.groups
    if "alone" in groups and not _every(
        context, place, shards(alone(nodes), wanted.shard_nodes), made, progress
    ):
        return
    if "pairs" in groups and not _pairs(context, place, nodes, fabric, made, progress):
        return
    if "alone" in groups and not _insides(context, place, nodes, made, progress):
        return
    planned = confirming(nodes, fabric, seen(context, place))
    _confirm(context, place, planned, made, progress)
    _break_down(context, place, planned, nodes, made, progress)


def _pairs(
    context: Context,
    place: Place,
    nodes: tuple[str, ...],
    fabric: Fabric,
    made: Shape,
    progress: _Progress,
) -> bool:
    """Round after round of pairs until nothing is open or the budget is spent. False = a launch
    hung."""
    history: tuple[Round, ...] = ()
    outcome: BlameOutcome | None = None
    while number := choose(nodes, fabric, history, outcome, Wanted()):
        kept_back = len(confirming(nodes, fabric, outcome).rounds) if outcome is not None else 0
        if (
            outcome is not None
            and outcome.flagged
            and context.plan.playbook.survey.layer_breakdown != "never"
        ):
            kept_back += BREAKDOWN_LAUNCHES
        if not _affordable(context, progress, 1 + kept_back):
            budget = format_duration(context.plan.playbook.survey.budget_s)
            kept = f", {kept_back} launches kept for what is accused" if kept_back else ""
            told = (
                f"budget of {budget} spent after {len(history)} rounds{kept}; next would have been"
                f" {number.id}: {number.why}"
            )
            context.say("survey", told)
            break
        if not _every(
            context, place, shards(number, context.plan.playbook.survey.shard_nodes), made, progress
        ):
            return False
        history += (number,)
        outcome = seen(context, place)
    return True


def _insides(
    context: Context, place: Place, nodes: tuple[str, ...], made: Shape, progress: _Progress
) -> bool:
    """The nodes by themselves again, until no inside is suspected that is not accused. False = a
    launch failed."""
    launched = 1
    while number := again_alone(nodes, seen(context, place), launched):
        if not _affordable(context, progress, 1):
            context.say("survey", f"no budget left for {number.why}")
            return True
        if not _every(
            context, place, shards(number, context.plan.playbook.survey.shard_nodes), made, progress
        ):
            return False
        launched += 1
    return True


def _affordable(context: Context, progress: _Progress, launches: int) -> bool:
    """So many more launches fit into the budget, as far as those before tell."""
    return progress.spent_s + launches * progress.next_s() <= context.plan.playbook.survey.budget_s


def seen(context: Context, place: Place) -> BlameOutcome:
    """What the launches so far say."""
    measured = tuple(
        sample for launch in launches.load(context.run, place.known) for sample in launch.samples
    )
    samples = (*earlier.load(context.run), *measured)
    return blame.solve(samples, grouping.fabric(context.run, context.plan))


def _confirm(
    context: Context, place: Place, planned: Confirming, made: Shape, progress: _Progress
) -> None:
    """What is accused against the same without it. What cannot be confirmed, and what the budget
    leaves out, is told."""
    for part, why in planned.cannot:
        context.say("survey", f"{part.label} stays unconfirmed: {why}")
    for number in planned.rounds:
        if not _affordable(context, progress, 1):
            context.say(
                "survey",
                f"no budget left to confirm: next would have been {number.id}: {number.why}",
            )
            return
        if not _measured(context, place, number, made, progress):
            return


def _break_down(
    context: Context,
    place: Place,
    planned: Confirming,
    nodes: tuple[str, ...],
    made: Shape,
    progress: _Progress,
) -> None:
    """Where a case falls short: each layer by itself, as far as the budget allows. What it leaves
    out is told."""
    result = assess.derive(context.run)
    if not layer_breakdown.requested(context.plan.playbook, result.comparisons, result.blame):
        return
    ring = next(
        (number.groups[0] for number in planned.rounds if number.id == WHOLE), nodes[:MOST_NODES]
    )
    wanted = [
        Round(WHOLE, (ring,), why="everything together"),
        Round(NETWORK, (ring,), why="the network alone, no P2P and no shared memory"),
    ]
    if made.ranks_per_node > 1 and not context.plan.cluster.emulated:
        wanted.append(alone(ring))
    for number in wanted:
        if number.id in progress.ended:
            continue
        if not _affordable(context, progress, 1):
            context.say("layer breakdown", f"no budget left for {number.why}")
        elif not _measured(context, place, number, made, progress):
            return
    if not _affordable(context, progress, 1):
        context.say("layer breakdown", "no budget left for the link baseline")
        return
    measure_link_baseline(context, seen(context, place), nodes)


def _measured(
    context: Context, place: Place, number: Round, made: Shape, progress: _Progress
) -> bool:
    """One launch; one that fails is made again in halves, so that what is broken is cornered. False
    = it hung, or no longer can be halved."""
    return _every(context, place, (number,), made, progress)


def _every(
    context: Context, place: Place, parts: tuple[Round, ...], made: Shape, progress: _Progress
) -> bool:
    """All shards of a round, side by side as far as the launcher allows; one that fails is halved
    after the others were measured."""
    width = MOST_SIDE_BY_SIDE if possible(context) else 1
    fine = []
    for first in range(0, len(parts), width):
        wave = parts[first : first + width]
        now = tuple(
            _prepared(context, place, part, made, progress.order + i) for i, part in enumerate(wave)
        )
        if len(wave) > 1:
            now = tuple((number, replace(launch, beside=wave[0].id)) for number, launch in now)
        progress.order += len(now)
        for number, launch in now:
            context.say(launch.case.id, f"{number.why}: " + _told(number))
        artefacts = measure_together(context, tuple(launch for _, launch in now))
        progress.spent_s += max(artefact.seconds for artefact in artefacts)
        progress.launches += 1
        for (number, _), artefact in zip(now, artefacts, strict=True):
            fine.append(
                _went_well(context, number, artefact, progress)
                or _halved(context, place, number, artefact, made, progress)
            )
    return all(fine)


def _prepared(
    context: Context, place: Place, number: Round, made: Shape, order: int
) -> tuple[Round, Launch]:
    case = round_case(context.plan, number, made)
    # The head's group first: rank 0 is then on the node whose files are at hand.
    groups = tuple(sorted(number.groups, key=lambda group: place.head not in group))
    groups = (tuple(sorted(groups[0], key=lambda node: node != place.head)), *groups[1:])
    number = replace(number, groups=groups)
    if made.apart:
        return number, launch(context, place, case, number, order=order)
    return number, make(
        context.plan, place, case, number.order(), order=order, groups=number.groups
    )


def _went_well(
    context: Context, number: Round, artefact: CaseArtefact, progress: _Progress
) -> bool:
    if artefact.state == "ended" and artefact.exit_status == 0:
        progress.ended.add(number.id)
        return True
    context.say(artefact.case.id, _how(artefact))
    return False


def _halved(
    context: Context,
    place: Place,
    number: Round,
    artefact: CaseArtefact,
    made: Shape,
    progress: _Progress,
) -> bool:
    """The halves of a launch that failed, one after the other; what hung is not tried again."""
    if artefact.state != "ended" or len(number.groups) < 2:
        return False
    middle = (len(number.groups) + 1) // 2
    halves = (
        Round(f"{number.id}-1", number.groups[:middle], why=number.why),
        Round(f"{number.id}-2", number.groups[middle:], why=number.why),
    )
    first, second = (_measured(context, place, half, made, progress) for half in halves)
    return first or second


def _told(number: Round) -> str:
    shown = " | ".join(" + ".join(group) for group in number.groups[:6])
    return shown + (f" | {len(number.groups) - 6} more" if len(number.groups) > 6 else "")


def _how(artefact: CaseArtefact) -> str:
    how = f"exit status {artefact.exit_status}" if artefact.state == "ended" else artefact.state
    return f"{how} after {format_duration(artefact.seconds)} {artefact.problem}".rstrip()


def falls_short(context: Context) -> bool:
    """Some case did not reach what its gates ask for, or could not be compared."""
    return any(
        comparison.status.value in ("FAIL", "UNKNOWN", "WARN")
        for comparison in assess.derive(context.run).comparisons
    )
