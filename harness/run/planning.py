"""From the options of `busbw run` to a plan and what carries it out. No node is contacted here."""

from __future__ import annotations

import argparse
import dataclasses
import os
import textwrap
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import resources

import busbw
from busbw import assess, inventory, playbook
from busbw.building import recipe, sources
from busbw.building.recipe import Benchmark
from busbw.checks import Section
from busbw.checks.frame import families
from busbw.checks.software import NodeFacts
from busbw.compare import earlier
from busbw.compare import plan as interleaving_plan
from busbw.errors import PlaybookError, UsageError
from busbw.fabrics import fabric as profile
from busbw.fabrics.fabric import Profile
from busbw.inventory import fold
from busbw.inventory.hostlist import expand
from busbw.lab import enter
from busbw.launch import FabricFacts, SlurmFacts, env
from busbw.launch.choose import choose as choose_launcher
from busbw.launch.render import render
from busbw.model import Cluster
from busbw.parsers.tools.open_mpi import MpiVersion
from busbw.playbook import Playbook, contract
from busbw.run import launching
from busbw.run.launching import Place
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import ReachArtefact
from busbw.store.plan import SCHEMA, Interleaving, RunPlan
from busbw.store.run_directory import RunDir
from busbw.transport import Transport
from busbw.units import parse_duration

ASSUMED_GPUS = 8
"""GPUs per node in a dry run where the inventory does not say."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything `pipeline.execute` needs."""

    run: RunDir
    plan: RunPlan
    transport: Transport
    benchmark: Benchmark
    notes: tuple[str, ...]
    """What the user should know before it starts."""


def prepare(args: argparse.Namespace, started: str, kept: ExitStack) -> Prepared:
    """A new run, a run to go on with, or a recording to run again. Until `kept` is closed no other
    process works on its directory.

    Raises:
        BusbwError: an option, the inventory, the playbook or the run directory is wrong.
    """
    from busbw.transport.choose import make
    from busbw.transport.replay import ReplayTransport

    if args.replay:
        recording = run_directory.open_existing(args.replay)
        plan = assess.load_plan(recording)
        run = run_directory.create(args.out, started, f"{plan.playbook.name}-replay")
        run.write_raw("plan.json", recording.read_raw("plan.json") or b"")
        if (held_against := recording.read_raw(earlier.FILE)) is not None:
            run.write_raw(earlier.FILE, held_against)
        reach = artefacts.load(recording, "reach.json", ReachArtefact)
        transport: Transport = ReplayTransport(recording, reach.unreachable if reach else ())
        made = sources.kept(recording) or benchmark(args, plan)
        sources.keep(run, made)
        return Prepared(
            run, plan, transport, made, (f"replay of {recording.run_id}: no node is contacted",)
        )
    if args.resume:
        run = run_directory.open_existing(args.resume)
        plan = assess.load_plan(run)
        enter_lab(plan)
        kept.enter_context(run_directory.held(run))
        made = _begun_with(run, args, plan)
        set_aside_unfinished(run)
        plan = dataclasses.replace(
            plan, force=plan.force or args.force, slurm_job=_slurm_job(os.environ)
        )
    else:
        plan = new_plan(args, started=started)
        made = benchmark(args, plan)
        run = run_directory.create(args.out, started, plan.playbook.name)
        kept.enter_context(run_directory.held(run))
        sources.keep(run, made)
        plan = dataclasses.replace(plan, run_id=run.run_id)
        artefacts.keep(run, "plan.json", plan)
        if held := earlier.collect(args.out, plan):
            artefacts.keep(run, earlier.FILE, held)
    transport = make(
        plan.transport,
        ssh_config=plan.cluster.ssh_config,
        accept_new_host_keys=args.accept_new_host_keys,
    )
    notes = [
        (
            f"{fold(node.name for node in plan.cluster.nodes)} from {plan.cluster.source}; head"
            f" {plan.head}; {_profile_told(plan)}"
        ),
        *plan.cluster.notes,
        *_benchmark_told(made),
    ]
    notes += [
        f"found in your shell, ignored: {item.partition('=')[0]}; pass it with --env"
        for item in plan.stray
    ]
    notes += cautions(plan)
    return Prepared(run, plan, transport, made, tuple(notes))


def enter_lab(plan: RunPlan) -> None:
    """Where the run is one in the lab: start this command over inside it. Does not return then."""
    if plan.cluster.emulated:
        enter.become_inside("lab:" + plan.cluster.source.removeprefix("lab ").partition(" ")[0])


def new_plan(args: argparse.Namespace, *, started: str = "") -> RunPlan:
    """The plan that the options, the inventory, the playbook and the profile make together.

    Raises:
        UsageError: one of them is wrong; nothing was contacted.
    """
    cluster = _with_launcher(
        inventory.resolve(args.inventory, args.nodes, args.exclude, os.environ),
        getattr(args, "launcher", None),
    )
    fabric, book, interleaving = _what(args, cluster)
    return RunPlan(
        schema=SCHEMA,
        tool_version=busbw.__version__,
        run_id="dry-run",
        started=started,
        cluster=cluster,
        playbook=book,
        profile=fabric,
        transport=args.transport,
        overrides=env.parse_overrides(args.env),
        stray=env.stray(os.environ),
        ranks_per_node=args.ranks_per_node,
        forks=args.forks,
        connect_timeout_s=args.connect_timeout,
        temporary_keys=args.temporary_keys,
        force=getattr(args, "force", False),
        slurm_job=_slurm_job(os.environ),
        salloc=salloc_options(args),
        mpi_plugin=getattr(args, "mpi", None),
        pml=getattr(args, "pml", None),
        interleaving=interleaving,
    )


def _what(
    args: argparse.Namespace, cluster: Cluster
) -> tuple[Profile, Playbook, Interleaving | None]:
    """The fabric, the playbook, and what of it is interleaved."""
    book = _book(args, emulated=cluster.emulated)
    fabric = _fabric(args.profile or book.fabric or cluster.fabric)
    # `busbw check` has none of these options: it measures nothing.
    wanted = interleaving_plan.settings(getattr(args, "sweep", None) or ())
    interleaving_plan.refuse_unsafe(wanted, fabric)
    treatment = expand(args.treatment) if getattr(args, "treatment", None) else ()
    duration = getattr(args, "duration", None)
    soak_s = _seconds("--duration", duration) if duration is not None else None
    book, interleaving = interleaving_plan.interleave(
        book, tuple(node.name for node in cluster.nodes), wanted, treatment, soak_s
    )
    return fabric, book, interleaving


def salloc_options(args: argparse.Namespace) -> tuple[str, ...]:
    """The options of salloc that the user asked for; () = none, so no allocation either."""
    named = (("partition", getattr(args, "partition", None)), ("time", getattr(args, "time", None)))
    return (*(f"--{name}={value}" for name, value in named if value), *getattr(args, "salloc", ()))


def _slurm_job(environ: Mapping[str, str]) -> str | None:
    return environ.get("SLURM_JOB_ID") or None


def _with_launcher(cluster: Cluster, name: str | None) -> Cluster:
    """The cluster with the launcher that was asked for, over the inventory's.

    Raises:
        UsageError: there is no such launcher.
    """
    launcher = name or cluster.launcher
    choose_launcher(launcher)
    return dataclasses.replace(cluster, launcher=launcher)


def _fabric(name: str | None) -> Profile:
    """The fabric profile; None = the nodes will tell."""
    return profile.undetected() if name is None else profile.load(name)


def _book(args: argparse.Namespace, *, emulated: bool) -> Playbook:
    """The playbook, with the contract of --contract in it.

    Raises:
        PlaybookError: one of them is wrong, or the playbook is about a contract and there is none.
    """
    book = playbook.load(args.playbook, emulated=emulated)
    given = getattr(args, "contract", None)
    if given is not None:
        book = dataclasses.replace(
            book,
            contract=contract.load(
                given, frozenset(case.id for case in book.cases if not case.repeats)
            ),
        )
    # `busbw check` has neither option: it measures nothing.
    budget = getattr(args, "budget", None)
    if getattr(args, "survey", False) or budget is not None:
        budget_s = book.survey.budget_s if budget is None else _seconds("--budget", budget)
        book = dataclasses.replace(
            book, survey=dataclasses.replace(book.survey, when="always", budget_s=budget_s)
        )
    if book.needs_contract and book.contract is None:
        raise PlaybookError(
            f"playbook {book.name} needs the numbers of a contract",
            seen="no --contract, and no contract: block in the playbook",
            next_step=(
                "busbw expect --contract-template > contract.yaml, fill it in, then --contract"
                " contract.yaml"
            ),
        )
    return book


def _seconds(option: str, text: str) -> float:
    """`20m` of that option in seconds.

    Raises:
        UsageError: it is no duration, or none at all.
    """
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageError(
            f"{option} {text}: not a duration", seen=str(error), next_step="such as 90s or 20m"
        ) from error
    if seconds <= 0:
        raise UsageError(f"{option} {text}: no time to measure in", next_step="such as 90s or 20m")
    return seconds


def _profile_told(plan: RunPlan) -> str:
    if plan.profile.name == profile.UNDETECTED:
        return "the fabric profile is detected from the nodes' answers"
    return f"profile {plan.profile.name}"


def cautions(plan: RunPlan) -> list[str]:
    """What is known against values that the playbook, a case or --env sets; each once."""
    facts = FabricFacts()
    found = [
        text
        for case in plan.playbook.cases
        for text in env.cautions(
            plan.profile, env.resolve_env(plan.profile, plan.playbook, case, plan.overrides, facts)
        )
    ]
    return list(dict.fromkeys(found))


def set_aside_unfinished(run: RunDir) -> None:
    """Make room for the steps that an earlier try could not finish; what is finished stays and is
    not repeated."""
    from busbw.store.artefacts import CaseArtefact

    names = run.raw_names()
    for name in names:
        if name.startswith("failure-"):
            run.set_aside(name)
    for name in names:
        if name.startswith("cases/") and name.endswith("/outcome.json"):
            outcome = artefacts.load(run, name, CaseArtefact)
            if outcome is not None and not (outcome.state == "ended" and outcome.exit_status == 0):
                run.set_aside(name.removesuffix("/outcome.json"))
    # Output that came while its step was not finished is made again, and would be other bytes.
    # Counters are their stage's own to judge.
    finished = {name.rpartition("/")[0] for name in names if name.endswith("/outcome.json")}
    for name in names:
        of_case = (
            name.startswith("cases/")
            and "/".join(name.split("/")[:2]) not in finished
            and "/counters-" not in name
        )
        if of_case or (name.startswith("preflight/") and "preflight.json" not in names):
            run.set_aside(name)


def benchmark(args: argparse.Namespace, plan: RunPlan, *, fetch: bool = True) -> Benchmark:
    """Where the binaries come from: --nccl-tests, else the host-memory payload where the playbook
    asks for it. `fetch` = False asks no address.

    Raises:
        UsageError: the playbook wants nccl-tests and none was given, or what was given is not
        nccl-tests.
        BuildError: the address does not give it.
    """
    if args.nccl_tests:
        made = sources.take(args.nccl_tests, fetch=fetch)
        # Where no GPU is, what stands in for CUDA's runtime and NCCL is built beside it.
        return (
            sources.with_files(made, _packaged("shim", "busbw-shim/"))
            if made.cuda and plan.cluster.emulated
            else made
        )
    if plan.playbook.payload == "lab":
        return Benchmark(recipe.archive(_packaged("payload", "")))
    raise UsageError(
        f"playbook {plan.playbook.name} measures with nccl-tests, and none was given",
        seen="no --nccl-tests",
        next_step=(
            "--nccl-tests PATH: its source folder or archive here, or an absolute folder of"
            " binaries that is on every node"
        ),
    )


def _packaged(folder: str, below: str) -> dict[str, bytes]:
    return {
        f"{below}{entry.name}": entry.read_bytes()
        for entry in (resources.files("busbw.lab") / folder).iterdir()
        if entry.is_file()
    }


def _begun_with(run: RunDir, args: argparse.Namespace, plan: RunPlan) -> Benchmark:
    """What a run that goes on measures with: what it was begun with.

    Raises:
        UsageError: --nccl-tests names something else.
    """
    first = sources.kept(run)
    if first is None:
        made = benchmark(args, plan)
        sources.keep(run, made)
        return made
    if args.nccl_tests and args.nccl_tests != first.origin:
        made = benchmark(args, plan)
        if (made.sources, made.directory) != (first.sources, first.directory):
            raise UsageError(
                f"--nccl-tests {args.nccl_tests} is not what {run.run_id} was begun with",
                seen=f"begun with {first.origin or 'the host-memory payload'}",
                next_step=(
                    "--resume without --nccl-tests; what is measured with another build is"
                    " another run"
                ),
            )
    return first


def _benchmark_told(made: Benchmark) -> list[str]:
    """Which nccl-tests was taken, with what pins it."""
    if made.sources is None or not made.origin:
        return []
    pins = [
        f"{name} {value}"
        for name, value in (("commit", made.commit), ("SHA-256", made.sha256))
        if value
    ]
    return [
        f"nccl-tests {made.version or 'of an unknown version'} from {made.origin}"
        + (f" ({', '.join(pins)})" if pins else "")
    ]


def dry_run(plan: RunPlan, args: argparse.Namespace) -> str:
    """Every command line of the run as shell text. What only the nodes can tell is assumed, and the
    assumption is said."""
    if plan.profile.name == profile.UNDETECTED:
        raise UsageError(
            "which fabric the nodes have is not known, and a dry run asks no node",
            seen="no -p, and neither the inventory nor the playbook names one",
            next_step=f"-p NAME, one of: {', '.join(profile.names())}",
        )
    nodes = tuple(node.name for node in plan.cluster.nodes)
    assumed = MpiVersion(choose_launcher(plan.cluster.launcher).mpi, "4.1.0", 4)
    known = {
        name: NodeFacts(
            name,
            name,
            None,
            0 if plan.cluster.emulated else None,
            "mpirun",
            assumed,
            None,
            (),
            ASSUMED_GPUS,
            None,
        )
        for name in nodes
    }
    made = benchmark(args, plan, fetch=False)
    binaries = made.directory or "nccl-tests/build"
    slurm = SlurmFacts(plan.slurm_job or "SLURM_JOB_ID", nodes, plan.mpi_plugin or "pmix")
    place = Place(
        head=plan.head, directory=".cache/busbw", binaries=binaries, known=known, slurm=slurm
    )
    lines = [
        (
            f"# {plan.playbook.name} on {len(nodes)} nodes from {plan.cluster.source}; profile"
            f" {plan.profile.name}; nothing was contacted"
        ),
        (
            "# assumed until the nodes have said: Open MPI 4.1 on the head; no interface names;"
            f" paths relative to the home directory; {ASSUMED_GPUS} GPUs per node where the"
            " inventory does not say"
        ),
        "",
        (
            "# check: each node once, through one script on standard input"
            f" ({sum(len(f.sections) for f in families())} sections)"
        ),
    ]
    lines += [
        f"#   {section.name} (at most {section.timeout_s} s): {_commented(section)}"
        for family in families()
        for section in family.sections
    ]
    if made.sources is not None:
        lines += [
            "",
            (
                f"# sources: {made.origin or 'the host-memory payload'}; an address is fetched by"
                " this machine, once"
            ),
        ]
        lines += [
            f"# build, on {plan.head}, then copied to the others",
            f"make -C nccl-tests {' '.join(('MPI=1', *made.make_args))}",
        ]
    lines += [f"# found in your shell, ignored: {item.partition('=')[0]}" for item in plan.stray]
    lines += [f"# caution: {text}" for text in cautions(plan)]
    lines += [
        f"# {text}"
        for text in env.excluded(
            plan.profile, launching.fabric_facts(plan, nodes, known, "JOB.nccl")
        )
    ]
    for order, case in enumerate(plan.playbook.cases):
        launch = launching.make(plan, place, case, nodes, order=order)
        lines += [
            "",
            render(launch.invocation, env.options(plan.pml, plan.profile.mpi)).rstrip("\n"),
        ]
    return "\n".join(lines) + "\n"


def _commented(section: Section) -> str:
    """A command, or a program in lines of comment."""
    return section.command or "\n" + textwrap.indent(section.shell.rstrip("\n"), "#     ")
