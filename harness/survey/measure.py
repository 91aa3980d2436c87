"""The survey: round after round of disjoint groups, each chosen by what the rounds before left
open, until nothing is open or the time budget is spent.

A launch measures all pairs of a round at once, rail by rail where nodes have rails: ranks go round
the nodes, so that `DIV 2` makes two ranks of the same rail a group. A ring all-reduce is forced:
NCCL's default for two NVLink nodes is a tree, capped by NVLink and blind to a NIC that lost a third
(physical-model.md section 4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from busbw import assess
from busbw.assess import launches, layout
from busbw.model import BenchmarkCase, Collective, LaunchRole, Medium, Sizes, Status
from busbw.parsers.blame import blame
from busbw.parsers.blame.blame import BlameOutcome
from busbw.run.context import Context
from busbw.run.launching import Place, make
from busbw.run.measure import Launch, measure_together, wait_until_quiet
from busbw.store.artefacts import CaseArtefact
from busbw.store.plan import RunPlan
from busbw.survey import earlier, held_back, layer_breakdown, separate_launches
from busbw.survey.adapt import (
    MOST_WHEN_FREE,
    SurveyLimits,
    again_alone,
    again_slow,
    again_when_free,
    choose,
    kept_alone,
)
from busbw.survey.confirm import MOST_NODES, Confirming, confirming
from busbw.survey.measure_links import measure_links
from busbw.survey.places import nvlink_domains, rails_of
from busbw.survey.schedule import Round, alone, nvlink_rounds, shards
from busbw.units import format_duration

BREAKDOWN_LAUNCHES = 2
"""Launches that a layer breakdown takes at least, beyond those of the confirmation: the network
alone, and about as long for the link baseline."""
MOST_CONCURRENT = 32
"""Launches at once: each is a launcher on the head node, with a connection to every node of its
shard."""
_NETWORK_ALONE = (("NCCL_P2P_DISABLE", "1"), ("NCCL_SHM_DISABLE", "1"))
"""Every hop of the ring is one of the network then; a diagnosis, never a setting."""
_NVLINK_BETWEEN_NODES = "NCCL_MNNVL_ENABLE"
"""Since NCCL 2.21: 0 = never, 1 = always, and an error where it cannot be; unset = where it is
there. A NIC of nodes that NVLink joins carries nothing then (NCCL user guide, environment
variables). Versions before it have no NVLink between nodes, and ignore the name."""
_SHOWN_GROUPS = 6


def falls_short(context: Context) -> bool:
    """Some case did not reach its gates, or could not be compared."""
    short = (Status.FAIL, Status.UNKNOWN, Status.WARN)
    return any(each.status in short for each in assess.derive(context.run).comparisons)


def survey(
    context: Context, place: Place, nodes: tuple[str, ...], ranks_per_node: int, order: int
) -> None:
    """Measure until nothing is open, the budget is spent, or a launch hangs; then confirm the
    suspects. What could not be measured is reported."""
    why = separate_launches.required_because(context, place)
    if why and not separate_launches.possible(context):
        launcher = context.plan.cluster.launcher
        context.progress(
            "survey", f"skipped: {why}; {launcher} cannot run several launches at once"
        )
        return
    if why:
        context.progress("survey", f"one mpirun per group: {why}")
    launch_shape = replace(shape(context.plan, nodes, ranks_per_node), separate=bool(why))
    _Survey(context, place, nodes, launch_shape, order).run()


@dataclass(frozen=True, slots=True)
class Shape:
    """What a launch of a survey is made of."""

    ranks_per_node: int
    by_rail: bool
    """Pairs are measured rail by rail."""
    separate: bool = False
    """One mpirun per group, all at once: the binary cannot time several."""


def shape(plan: RunPlan, nodes: tuple[str, ...], ranks_per_node: int) -> Shape:
    """One rank a rail on emulated nodes, else one a GPU; without several ranks or rails a pair of
    nodes is measured as a whole.

    With one emulated rank a node the two directions of a pair share nothing but the links, and one
    rank's noise is the node's: at least two then. Two ranks never share a GPU: NCCL refuses them.
    """
    rails = rails_of(plan.cluster, nodes)
    if not plan.cluster.emulated:
        return Shape(max(ranks_per_node, 1), by_rail=rails != 1 and ranks_per_node > 1)
    if rails > 1:
        return Shape(rails, by_rail=True)
    return Shape(max(ranks_per_node, 2), by_rail=False)


def round_case(plan: RunPlan, round_: Round, launch_shape: Shape) -> BenchmarkCase:
    """The launch of one round: all groups at once, the times of every process and iteration."""
    settings, cases = plan.playbook.survey, plan.playbook.cases
    width = len(round_.groups[0])
    by_rail = launch_shape.by_rail and width == 2 and round_.role is not LaunchRole.NVLINK
    split = None
    if by_rail:
        split = f"DIV {width}"
    elif len(round_.groups) > 1:
        split = f"DIV {width * launch_shape.ranks_per_node}"
    medium = medium_of(plan, round_)
    case = BenchmarkCase(
        id=f"survey-{round_.id}",
        collective=Collective.ALL_REDUCE,
        sizes=Sizes(settings.size_bytes, settings.size_bytes),
        ranks_per_node=launch_shape.ranks_per_node,
        iterations=settings.iterations,
        warmup=2,
        check=0,
        blocking=3,
        per_iteration=True,
        split=split,
        by_rail=by_rail,
        env=_variables(plan, round_, medium),
        timeout_s=max(60.0, settings.budget_s),
        stall_s=cases[0].stall_s if cases else 120.0,
        required=True,
        purpose="diagnosis",
        role=round_.role,
        medium=medium,
    )
    return separate_launches.case_of(case) if launch_shape.separate else case


def medium_of(plan: RunPlan, round_: Round) -> Medium:
    """What a round measures: the network wherever groups have several nodes, but for rounds of
    NVLink and for clusters that have no network."""
    if max(map(len, round_.groups)) < 2:
        return Medium.INTRA_NODE
    carrier = plan.profile.carrier
    without_network = carrier is not None and not carrier.spans_nodes
    over_nvlink = round_.role is LaunchRole.NVLINK or without_network
    return Medium.NVLINK if over_nvlink else Medium.NETWORK


def _variables(plan: RunPlan, round_: Round, medium: Medium) -> tuple[tuple[str, str], ...]:
    """A ring over that medium and no other. Emulated nodes have no NVLink to switch off."""
    variables = [("NCCL_ALGO", "Ring")]
    if round_.role is LaunchRole.NETWORK:
        variables += _NETWORK_ALONE
    if medium is not Medium.INTRA_NODE and not plan.cluster.emulated:
        variables.append((_NVLINK_BETWEEN_NODES, "1" if medium is Medium.NVLINK else "0"))
    return tuple(variables)


class _Survey:
    """One survey while it runs. Time is the sum of what its commands took, so that a replay decides
    as the run did."""

    def __init__(
        self,
        context: Context,
        place: Place,
        nodes: tuple[str, ...],
        launch_shape: Shape,
        order: int,
    ) -> None:
        self._context, self._place, self._nodes = context, place, nodes
        self._shape = launch_shape
        self._settings = context.plan.playbook.survey
        self._fabric = layout.fabric(context.run, context.plan)
        self._order = order
        self._spent_s = 0.0
        self._launches = 0
        self._last = ""
        """Id of the newest launch's case."""
        self._waits = 0
        """For free CPUs, because of suspects that only launches on busy ones name."""
        self._ended: set[str] = set()
        """Rounds whose launch ended well."""

    def run(self) -> None:
        """Every node alone, pairs, suspect nodes alone again; then confirmation and breakdown."""
        groups = self._settings.groups
        if "alone" in groups and not self._measure_sharded(alone(self._nodes)):
            return
        if "pairs" in groups and not self._measure_pairs():
            return
        if "pairs" in groups and not self._measure_nvlink():
            return
        if "alone" in groups and not self._measure_alone_again():
            return
        planned = confirming(self._nodes, self._fabric, self._outcome())
        self._confirm(planned)
        self._break_down(planned)

    def _outcome(self) -> BlameOutcome:
        """What the launches so far show."""
        run = self._context.run
        samples = list(earlier.load(run))
        plan = self._context.plan
        on_head = launches.on_head_of(plan, self._place.head)
        own = launches.load(run, self._place.known, on_head)
        for launch in own:
            samples += launch.samples
        outcome = blame.solve(tuple(samples), self._fabric)
        return held_back.separated(run, plan, own, outcome, self._fabric)

    def _affords(self, more: int) -> bool:
        """So many more launches fit into the budget, at the average time of those before."""
        each_s = self._spent_s / self._launches if self._launches else 0.0
        return self._spent_s + more * each_s <= self._settings.budget_s

    def _progress(self, text: str, step: str = "survey") -> None:
        self._context.progress(step, text)

    def _measure_pairs(self) -> bool:
        """Round after round of pairs until nothing is open or the budget is spent. False = a launch
        hung."""
        history: tuple[Round, ...] = ()
        outcome: BlameOutcome | None = None
        while round_ := self._next_pairs(history, outcome):
            reserved = self._reserved(outcome)
            if not self._affords(1 + reserved):
                text = f"budget of {format_duration(self._settings.budget_s)} spent"
                text += f" after {len(history)} rounds"
                if reserved:
                    text += f", {reserved} launches reserved for what is suspected"
                self._progress(f"{text}; next would have been {round_.id}: {round_.why}")
                return True
            if not self._measure_sharded(round_):
                return False
            history += (round_,)
            outcome = self._outcome()
        return True

    def _next_pairs(self, history: tuple[Round, ...], outcome: BlameOutcome | None) -> Round | None:
        """What is open first, then what was slow in its only launch; None = neither."""
        round_ = choose(self._nodes, self._fabric, history, outcome, SurveyLimits())
        if round_ is None and outcome is not None:
            round_ = again_slow(self._nodes, history, outcome)
            if round_ is not None:
                self._pause()
        if round_ is None and outcome is not None and self._waits < MOST_WHEN_FREE:
            round_ = again_when_free(self._nodes, history, outcome)
            self._waits += 1
            if round_ is not None and not self._pause():
                self._progress(f"not measured: {round_.why}")
                return None
        return round_

    def _pause(self) -> bool:
        """Before what was slow is measured again: until the machine of the last launch is quiet, for
        a while. Part of the budget. False = it is still busy."""
        wait = wait_until_quiet(self._context, self._place.head, self._last)
        self._spent_s += wait.seconds
        return wait.free

    def _reserved(self, outcome: BlameOutcome | None) -> int:
        """Launches to keep for nodes by themselves, confirmation and layer breakdown."""
        if outcome is None:
            return 0
        count = len(confirming(self._nodes, self._fabric, outcome).rounds)
        if "alone" in self._settings.groups:
            count += kept_alone(self._nodes, outcome)
        if outcome.flagged and self._settings.layer_breakdown != "never":
            count += BREAKDOWN_LAUNCHES
        return count

    def _measure_nvlink(self) -> bool:
        """Pairs of nodes that NVLink joins, over NVLink: twice, since a single launch flags nobody.
        False = a launch failed."""
        run, plan = self._context.run, self._context.plan
        domains = nvlink_domains(plan.cluster, self._nodes, assess.answers(run, plan))
        for round_ in nvlink_rounds(domains):
            if not self._affords(1):
                self._progress(f"no budget left for {round_.why}")
                return True
            if not self._measure_sharded(round_):
                return False
        return True

    def _measure_alone_again(self) -> bool:
        """The nodes alone again, until every intra-node suspicion is settled. False = a launch
        failed."""
        count = 1
        while round_ := again_alone(self._nodes, self._outcome(), count):
            if not self._affords(1):
                self._progress(f"no budget left for {round_.why}")
                return True
            self._pause()
            if not self._measure_sharded(round_):
                return False
            count += 1
        return True

    def _confirm(self, planned: Confirming) -> None:
        """The suspects against the same without them."""
        for part, why in planned.cannot:
            self._progress(f"{part.label} stays unconfirmed: {why}")
        for round_ in planned.rounds:
            if not self._affords(1):
                self._progress(
                    f"no budget left to confirm: next would have been {round_.id}: {round_.why}"
                )
                return
            if not self._measure((round_,)):
                return

    def _break_down(self, planned: Confirming) -> None:
        """Where a case falls short: each layer by itself, as far as the budget allows."""
        plan = self._context.plan
        result = assess.derive(self._context.run)
        if not layer_breakdown.requested(plan.playbook, result.comparisons, result.blame):
            return
        rings = (round_.groups[0] for round_ in planned.rounds if round_.role is LaunchRole.WHOLE)
        ring = next(rings, self._nodes[:MOST_NODES])
        rounds = [
            Round("whole", (ring,), why="everything together", role=LaunchRole.WHOLE),
            Round(
                "network",
                (ring,),
                why="the network alone, no P2P and no shared memory",
                role=LaunchRole.NETWORK,
            ),
        ]
        if self._shape.ranks_per_node > 1 and not plan.cluster.emulated:
            rounds.append(alone(ring))
        for round_ in rounds:
            if round_.id in self._ended:
                continue
            if not self._affords(1):
                self._progress(f"no budget left for {round_.why}", "layer breakdown")
            elif not self._measure((round_,)):
                return
        if not self._affords(1):
            self._progress("no budget left for the link baseline", "layer breakdown")
            return
        measure_links(self._context, self._outcome(), self._nodes)

    def _measure_sharded(self, round_: Round) -> bool:
        return self._measure(shards(round_, self._settings.shard_nodes))

    def _measure(self, rounds: tuple[Round, ...]) -> bool:
        """All shards of a round, at the same time as far as the launcher allows. Shards that fail
        are measured again in halves, to corner what is broken: all halves together, as they cost
        time together. False = one hung, or has no halves."""
        return all(self._measured(rounds))

    def _measured(self, rounds: tuple[Round, ...]) -> list[bool]:
        """For each of them: it ended well, or a half of it did."""
        width = MOST_CONCURRENT if separate_launches.possible(self._context) else 1
        results: list[bool] = []
        halves: list[tuple[int, Round]] = []
        for first in range(0, len(rounds), width):
            wave = [
                self._prepared(round_, self._order + position)
                for position, round_ in enumerate(rounds[first : first + width])
            ]
            self._order += len(wave)
            if len(wave) > 1:
                moment = rounds[first].id
                wave = [
                    (round_, replace(launch, concurrent_with=moment)) for round_, launch in wave
                ]
            for round_, launch in wave:
                medium = f" ({launch.case.medium})" if launch.case.medium is not None else ""
                self._progress(f"{round_.why}{medium}: {_groups_text(round_)}", launch.case.id)
            artefacts = measure_together(self._context, tuple(launch for _, launch in wave))
            self._spent_s += max(artefact.seconds for artefact in artefacts)
            self._launches += 1
            self._last = artefacts[0].case.id
            for (round_, _), artefact in zip(wave, artefacts, strict=True):
                results.append(self._ended_well(round_, artefact))
                if not results[-1]:
                    halves += [(len(results) - 1, half) for half in _halves(round_, artefact)]
        if halves:
            again = self._measured(tuple(half for _, half in halves))
            for (position, _), well in zip(halves, again, strict=True):
                results[position] |= well
        return results

    def _prepared(self, round_: Round, order: int) -> tuple[Round, Launch]:
        case, head = round_case(self._context.plan, round_, self._shape), self._place.head
        # The head's group first: rank 0 is then on the node whose files are at hand.
        groups = tuple(sorted(round_.groups, key=lambda group: head not in group))
        groups = (tuple(sorted(groups[0], key=lambda node: node != head)), *groups[1:])
        round_ = replace(round_, groups=groups)
        if self._shape.separate:
            launch = separate_launches.launch(self._context, self._place, case, round_, order=order)
        else:
            launch = make(
                self._context.plan, self._place, case, round_.order(), order=order, groups=groups
            )
        return round_, launch

    def _ended_well(self, round_: Round, artefact: CaseArtefact) -> bool:
        if artefact.state == "ended" and artefact.exit_status == 0:
            self._ended.add(round_.id)
            return True
        self._progress(_failure_text(artefact), artefact.case.id)
        return False


def _halves(round_: Round, artefact: CaseArtefact) -> tuple[Round, ...]:
    """Of a launch that failed; () = it hung, which is not tried again, or has one group."""
    if artefact.state != "ended":
        return ()
    return round_.halves()


def _groups_text(round_: Round) -> str:
    text = " | ".join(" + ".join(group) for group in round_.groups[:_SHOWN_GROUPS])
    more = len(round_.groups) - _SHOWN_GROUPS
    return f"{text} | {more} more" if more > 0 else text


def _failure_text(artefact: CaseArtefact) -> str:
    end = f"exit status {artefact.exit_status}" if artefact.state == "ended" else artefact.state
    return f"{end} after {format_duration(artefact.seconds)} {artefact.problem}".rstrip()
