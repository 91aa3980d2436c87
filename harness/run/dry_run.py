"""Every command line that a run would start, as shell text, before any node is contacted. What only
the nodes can tell is assumed, and the assumption is printed."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.building.recipe import Benchmark
from busbw.checks import CheckFamily, Section
from busbw.checks.frame import families
from busbw.checks.software import NodeFacts
from busbw.compare.ab import with_setting
from busbw.errors import UsageError
from busbw.fabrics import profiles
from busbw.fabrics.profile import UNDETECTED, LinkTool
from busbw.inventory.hostlist import fold
from busbw.launch import SlurmFacts, env, pml
from busbw.launch.choose import choose as choose_launcher
from busbw.launch.render import render
from busbw.model import BenchmarkCase
from busbw.parsers.tools.open_mpi import MpiVersion
from busbw.run import launching
from busbw.run.launching import Place
from busbw.run.measure import Launch
from busbw.run.planning import cautions, profile_note
from busbw.store.plan import RunPlan
from busbw.survey import link_commands
from busbw.survey import measure as survey
from busbw.survey.adapt import SurveyLimits, choose
from busbw.survey.measure_links import link_tool
from busbw.survey.places import fabric_of, nvlink_domains
from busbw.survey.schedule import Round, alone, nvlink_rounds, shards
from busbw.units import counted, format_size

ASSUMED_GPUS = 8
"""GPUs per node where the inventory does not say."""
ROUNDS = 2
"""Rounds of pairs that are shown; which come after them depends on what these measure."""


def dry_run(plan: RunPlan, benchmark: Benchmark, *, verbose: bool = False) -> str:
    """The whole run in its order: probes, build, launches, the survey's first rounds, the link
    baseline. `verbose` adds the probes' and the baseline's scripts.

    Raises:
        UsageError: no fabric is named, or the launcher cannot express a case.
    """
    if plan.profile.name == UNDETECTED:
        raise UsageError(
            "a dry run contacts no node, so the fabric must be named",
            seen="no -p, and neither the inventory nor the playbook names one",
            next_step=f"-p NAME, one of: {', '.join(profiles.names())}",
        )
    nodes = tuple(node.name for node in plan.cluster.nodes)
    place = _place(plan, benchmark, nodes)
    lines = [
        f"# {plan.playbook.name} on {counted(len(nodes), 'node')} from {plan.cluster.source};"
        f" {profile_note(plan)}; nothing was contacted",
        f"# assumed: {'; '.join(_assumed(plan))}",
        "",
        *_measures(plan),
        *_probes(verbose=verbose),
        *_build(plan, benchmark),
    ]
    lines += [f"# {text}" for text in plan.cluster.notes]
    lines += [f"# in your shell, ignored: {item.partition('=')[0]}" for item in plan.stray]
    lines += [f"# caution: {text}" for text in cautions(plan)]
    facts = launching.fabric_facts(plan, nodes, place.known, "JOB.nccl")
    lines += [f"# {text}" for text in env.excluded(plan.profile, facts)]
    launches = [
        launching.make(plan, place, case, nodes, order=order)
        for order, case in enumerate(plan.playbook.cases)
    ]
    lines += [f"# {text}" for text in _trials(plan, launches)]
    for launch in launches:
        lines += ["", _rendered(plan, launch)]
    ranks_per_node = launches[-1].ranks_per_node if launches else 0
    lines += _interleaved(plan, place, nodes)
    lines += _survey(plan, place, nodes, ranks_per_node, verbose=verbose)
    return "\n".join(lines) + "\n"


def _assumed(plan: RunPlan) -> Iterator[str]:
    """What only the nodes can tell."""
    yield f"{choose_launcher(plan.cluster.launcher).mpi} 4.1 on the head"
    yield "no interface names"
    yield "paths relative to the home directory"
    if any(node.gpus is None for node in plan.cluster.nodes) and plan.ranks_per_node is None:
        yield f"{ASSUMED_GPUS} GPUs per node where the inventory does not say"


def _trials(plan: RunPlan, launches: list[Launch]) -> Iterator[str]:
    """What the profile holds worth a try on some sites, and no launch sets."""
    own = {var.name for launch in launches for var in launch.invocation.env}
    for trial in (each for each in plan.profile.trials if each.name not in own):
        yield f"may help, not set: {trial.name}={trial.value}: {trial.when}; {trial.why}"


def _place(plan: RunPlan, benchmark: Benchmark, nodes: tuple[str, ...]) -> Place:
    mpi = MpiVersion(choose_launcher(plan.cluster.launcher).mpi, "4.1.0", 4)
    user_id = 0 if plan.cluster.emulated else None
    known = {
        name: NodeFacts(name, name, None, user_id, "mpirun", mpi, None, (), ASSUMED_GPUS, None)
        for name in nodes
    }
    slurm = SlurmFacts(plan.slurm_job or "SLURM_JOB_ID", nodes, plan.mpi_plugin or "pmix")
    return Place(
        head=plan.head,
        directory=".cache/busbw",
        binaries=benchmark.directory or "nccl-tests/build",
        known=known,
        slurm=slurm,
    )


def _measures(plan: RunPlan) -> Iterator[str]:
    """The cases in a line each, the launches of one together."""
    cases = plan.playbook.cases
    yield "# measures"
    for case in cases:
        if case.repeats is not None:
            continue
        launches = [each for each in cases if each.family == case.id]
        low, high = map(format_size, (case.sizes.minimum_bytes, case.sizes.maximum_bytes))
        sizes = low if low == high else f"{low} to {high}"
        times = f", {len(launches)} launches" if len(launches) > 1 else ""
        yield f"#   {case.id}: {case.collective.value} {sizes}{times}"
    yield ""


def _probes(*, verbose: bool) -> Iterator[str]:
    known = families()
    sections = [(family, section) for family in known for section in family.sections]
    names = ", ".join(section.name for _, section in sections)
    yield f"# check: one script on each node, {len(sections)} probes: {names}"
    if not verbose:
        yield "#   --dry-run -v prints what each is for, and its commands"
        return
    for family, section in sections:
        yield f"#   {section.name} (at most {section.timeout_s} s): {_purpose(family, section)}"
        yield from (f"#     {line}" for line in section.shell.splitlines())


def _purpose(family: CheckFamily, section: Section) -> str:
    return f"for {', '.join(section.serves or family.ids) or family.purpose}"


def _build(plan: RunPlan, benchmark: Benchmark) -> Iterator[str]:
    if benchmark.sources is None:
        return
    yield ""
    yield (
        f"# sources: {benchmark.origin or 'the host-memory payload'}; this machine fetches an"
        " address, once"
    )
    yield f"# build, on {plan.head}, then copied to the others"
    yield f"make -C nccl-tests {' '.join(('MPI=1', *benchmark.make_args))}"


def _interleaved(plan: RunPlan, place: Place, nodes: tuple[str, ...]) -> Iterator[str]:
    """The launches of the first round of a sweep, treatment nodes or a soak."""
    planned = plan.interleaving
    if planned is None:
        return
    control = tuple(node for node in nodes if node not in planned.treatment)
    yield ""
    if planned.soak_s is not None:
        yield f"# soak: these launches again and again for {planned.soak_s:g} s"
    else:
        yield f"# interleaved: {planned.least} to {planned.most} rounds of these launches"
    for case in planned.cases:
        for variables in planned.settings or ((),):
            own = with_setting(case, variables)
            for group in (control, planned.treatment) if planned.treatment else (nodes,):
                yield ""
                yield _launched(plan, place, own, group)


def _survey(
    plan: RunPlan, place: Place, nodes: tuple[str, ...], ranks_per_node: int, *, verbose: bool
) -> Iterator[str]:
    book = plan.playbook.survey
    if book.when == "never" or len(nodes) < 2 or not ranks_per_node:
        return
    when = "in any case" if book.when == "always" else "if a case falls short"
    yield ""
    yield (
        f"# survey, {when}, within {book.budget_s:g} s: its first rounds; later ones depend on"
        " what these measure"
    )
    launch_shape = survey.shape(plan, nodes, ranks_per_node)
    for number in _rounds(plan, nodes):
        case = survey.round_case(plan, number, launch_shape)
        yield ""
        why = number.why or f"{len(number.groups)} groups at once"
        yield f"# {number.id}: {why}; measures: {case.medium}"
        yield _launched(plan, place, case, number.order(), groups=number.groups)
    if book.layer_breakdown != "never":
        yield from _link_commands(plan, nodes, verbose=verbose)


def _rounds(plan: RunPlan, nodes: tuple[str, ...]) -> Iterator[Round]:
    book = plan.playbook.survey
    if "alone" in book.groups:
        yield from shards(alone(nodes), book.shard_nodes)
    if "pairs" not in book.groups:
        return
    history: tuple[Round, ...] = ()
    leaves = fabric_of(plan.cluster, plan.profile.flow_hashing)
    while len(history) < ROUNDS:
        number = choose(nodes, leaves, history, None, SurveyLimits())
        if number is None:
            break
        yield from shards(number, book.shard_nodes)
        history += (number,)
    for number in nvlink_rounds(nvlink_domains(plan.cluster, nodes, ())):
        yield from shards(number, book.shard_nodes)


def _link_commands(plan: RunPlan, nodes: tuple[str, ...], *, verbose: bool) -> Iterator[str]:
    tool = link_tool(plan)
    yield ""
    if tool is LinkTool.NONE:
        yield "# link baseline: no tool measures a single link of this fabric"
        return
    rails = plan.cluster.node(nodes[0]).data_interfaces or ("RAIL",)
    program = "ib_write_bw" if tool is LinkTool.PERFTEST else "iperf3"
    yield (
        f"# link baseline, if the survey flags a node: {program} over {fold(rails)}, rail by rail,"
        f" {link_commands.SECONDS} s each; a server on one node, the client on the other"
    )
    if not verbose:
        return
    serve = link_commands.serve(rails, tool, address="SERVER")
    served = "".join(
        f"{rail} ADDRESS {link_commands.FIRST_PORT + number}\n" for number, rail in enumerate(rails)
    )
    ask = link_commands.ask(served, tool, store="")
    for command in (serve, ask):
        yield from (f"#   {line}" for line in command.argv[2].splitlines())


def _launched(
    plan: RunPlan,
    place: Place,
    case: BenchmarkCase,
    nodes: tuple[str, ...],
    *,
    groups: tuple[tuple[str, ...], ...] = (),
) -> str:
    return _rendered(plan, launching.make(plan, place, case, nodes, order=0, groups=groups))


def _rendered(plan: RunPlan, launch: Launch) -> str:
    return render(launch.invocation, pml.options(plan.pml, plan.profile.mpi)).rstrip("\n")
