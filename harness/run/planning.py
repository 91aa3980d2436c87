"""From the options of `busbw run` to a plan and what carries it out. No node is contacted here."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import busbw
from busbw import assess, inventory, playbook
from busbw.building import sources
from busbw.building.recipe import Benchmark
from busbw.checks import frame
from busbw.codec import unknown
from busbw.compare import earlier
from busbw.compare import plan as interleaving_plan
from busbw.credentials import masked
from busbw.errors import PlaybookError, UsageError
from busbw.fabrics import profiles
from busbw.fabrics.profile import UNDETECTED, ChecksPlan, Profile, undetected
from busbw.inventory import fold
from busbw.inventory.hostlist import expand
from busbw.lab import enter
from busbw.launch import FabricFacts, env
from busbw.launch.choose import choose as choose_launcher
from busbw.model import Cluster
from busbw.playbook import Playbook, contract
from busbw.run import binaries, controller
from busbw.store import artefacts, own_builds, own_plans, run_directory
from busbw.store.artefacts import ReachArtefact
from busbw.store.plan import SCHEMA, Interleaving, RunPlan
from busbw.store.run_directory import RunDir
from busbw.text import whole_number
from busbw.transport import Transport
from busbw.units import parse_duration

ASSUMED_GPUS = 8
"""GPUs per node in a dry run where the inventory does not say."""


_OUT = Path("runs")
"""Where run directories are, if nobody gives another folder."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a person asks of a run; each field is the option of that name of `busbw run`."""

    playbook: str
    inventory: str | None = None
    nodes: str | None = None
    exclude: str | None = None
    here: bool = True
    """False = `busbw.yaml` of the current folder does not count."""
    transport: str = "ssh"
    accept_new_host_keys: bool = False
    temporary_keys: bool = False
    force: bool = False
    forks: int = 64
    connect_timeout_s: float = 10.0
    profile: str | None = None
    ranks_per_node: int | None = None
    env: tuple[str, ...] = ()
    """`NAME=VALUE` each."""
    unset: tuple[str, ...] = ()
    contract: Path | None = None
    nccl_tests: str | None = None
    survey: bool = False
    budget: str | None = None
    """As written: `20m`."""
    sweep: tuple[str, ...] = ()
    """`NAME=A,B` each."""
    treatment: str | None = None
    """A host list."""
    duration: str | None = None
    launcher: str | None = None
    pml: str | None = None
    mpi: str | None = None
    partition: str | None = None
    time: str | None = None
    salloc: tuple[str, ...] = ()
    node_count: int | None = None
    pods: tuple[str, ...] = ()
    """Options with their values that make such workers on Kubernetes again; () = the run makes
    none."""
    out: Path = _OUT
    resume: Path | None = None
    replay: Path | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything `pipeline.execute` needs."""

    run: RunDir
    plan: RunPlan
    transport: Transport
    benchmark: Benchmark
    notes: tuple[str, ...]
    """What the user should know before it starts."""


def prepare(options: RunOptions, started: str, stack: ExitStack) -> Prepared:
    """A new run, a run to go on with, or a recording to run again. Until `stack` is closed no other
    process works on its directory.

    Raises:
        BusbwError: an option, the inventory, the playbook or the run directory is wrong.
    """
    from busbw.transport.choose import make

    if options.replay:
        recording, run, plan, transport = replayed(options.replay, options.out, started)
        payload = sources.kept(recording) or binaries.benchmark(options.nccl_tests, plan)
        sources.keep(run, payload)
        return Prepared(
            run, plan, transport, payload, (f"replay of {recording.run_id}: no node is contacted",)
        )
    if options.resume:
        run, plan, payload = _resumed(options.resume, options, stack)
    else:
        run, plan, payload = _new(options, started, stack)
    transport = make(
        plan.transport,
        ssh_config=plan.cluster.ssh_config,
        accept_new_host_keys=options.accept_new_host_keys,
    )
    return Prepared(run, plan, transport, payload, _notes(plan, payload))


def _resumed(
    folder: Path, options: RunOptions, stack: ExitStack
) -> tuple[RunDir, RunPlan, Benchmark]:
    """The run of that folder, with what ended without a result out of the way."""
    run = run_directory.open_existing(folder)
    plan = assess.load_plan(run)
    enter_lab(plan)
    stack.enter_context(run_directory.locked(run))
    payload = binaries.begun_with(run, options.nccl_tests, plan)
    set_aside_unfinished(run)
    plan = dataclasses.replace(
        plan,
        controller=controller.identity(),
        force=plan.force or options.force,
        slurm_job=_slurm_job(os.environ),
    )
    return run, plan, payload


def _new(options: RunOptions, started: str, stack: ExitStack) -> tuple[RunDir, RunPlan, Benchmark]:
    """A run directory with its plan, its benchmark, and what earlier runs measured."""
    plan = new_plan(options, started=started)
    payload = binaries.benchmark(options.nccl_tests, plan)
    run = run_directory.create(options.out, started, plan.playbook.name)
    stack.enter_context(run_directory.locked(run))
    sources.keep(run, payload)
    plan = dataclasses.replace(plan, run_id=run.run_id)
    artefacts.keep(run, "plan.json", plan)
    own_plans.note(run.read_raw("plan.json") or b"")
    if earlier_runs := earlier.collect(options.out, plan, assess.derive):
        artefacts.keep(run, earlier.FILE, earlier_runs)
    return run, plan, payload


def _notes(plan: RunPlan, payload: Benchmark) -> tuple[str, ...]:
    """What the user should know before the run starts."""
    notes = [
        (
            f"{fold(node.name for node in plan.cluster.nodes)} from {plan.cluster.source}; head"
            f" {plan.head}; {profile_note(plan)}"
        ),
        *plan.cluster.notes,
        *binaries.notes(payload),
    ]
    notes += [
        f"found in your shell, ignored: {item.partition('=')[0]}; pass it with --env"
        for item in plan.stray
    ]
    return (*notes, *cautions(plan))


def replayed(recorded: Path, out: Path, started: str) -> tuple[RunDir, RunDir, RunPlan, Transport]:
    """(the recording, a new run, its plan, which is the recording's, what answers for the nodes).

    Raises:
        RunDirError: the recording is none, or is not readable.
    """
    from busbw.transport.replay import ReplayTransport

    recording = run_directory.open_existing(recorded)
    plan = assess.load_plan(recording)
    run = run_directory.create(out, started, f"{plan.playbook.name}-replay")
    run.write_raw("plan.json", recording.read_raw("plan.json") or b"")
    for name in (earlier.FILE, own_builds.FILE):
        if (content := recording.read_raw(name)) is not None:
            run.write_raw(name, content)
    reach = artefacts.load(recording, "reach.json", ReachArtefact)
    return recording, run, plan, ReplayTransport(recording, reach.unreachable if reach else ())


def enter_lab(plan: RunPlan) -> None:
    """Where the run is one in the lab: start this command over inside it. Does not return then."""
    if plan.cluster.emulated:
        enter.become_inside("lab:" + plan.cluster.source.removeprefix("lab ").partition(" ")[0])


def new_plan(options: RunOptions, *, started: str = "") -> RunPlan:
    """The plan that the options, the inventory, the playbook and the profile make together.

    Raises:
        UsageError: one of them is wrong; nothing was contacted.
    """
    if options.ranks_per_node is not None and options.ranks_per_node < 1:
        raise UsageError(
            f"--ranks-per-node {options.ranks_per_node}: no rank would run",
            next_step="a number from 1 on, such as 8",
        )
    cluster = _with_launcher(
        inventory.resolve(
            options.inventory, options.nodes, options.exclude, os.environ, here=options.here
        ),
        options.launcher,
    )
    if options.pods:  # The file that names them is gone after the run.
        cluster = dataclasses.replace(cluster, source=f"workers of {options.pods[1]}")
    fabric, book, interleaving = _what(options, cluster)
    return RunPlan(
        schema=SCHEMA,
        tool_version=busbw.__version__,
        run_id="dry-run",
        started=started,
        cluster=cluster,
        playbook=book,
        profile=fabric,
        transport=options.transport,
        overrides=env.parse_overrides(options.env, options.unset),
        stray=env.stray(os.environ),
        ranks_per_node=options.ranks_per_node,
        forks=options.forks,
        connect_timeout_s=options.connect_timeout_s,
        temporary_keys=options.temporary_keys,
        controller=controller.identity(),
        force=options.force,
        slurm_job=_slurm_job(os.environ),
        salloc=salloc_options(options),
        mpi_plugin=options.mpi,
        pml=options.pml,
        interleaving=interleaving,
        words=_words(options),
        run_words=_run_words(options),
    )


def _words(options: RunOptions) -> tuple[str, ...]:
    """What of the options a printed command repeats to be about the same nodes. Workers of a run's
    own are gone when it ends: the inventory of theirs names nothing any more."""
    if options.pods:
        return _given(("-p", options.profile))
    words = _given(
        ("-i", options.inventory),
        ("-w", options.nodes),
        ("-x", options.exclude),
        ("-p", options.profile),
    )
    return words if options.transport == "ssh" else (*words, "--transport", options.transport)


def _run_words(options: RunOptions) -> tuple[str, ...]:
    """What it repeats to measure the same."""
    environment = [word for each in options.env for word in ("--env", each)]
    environment += [word for each in options.unset for word in ("--unset", each)]
    # One word, for its value begins with a hyphen; the empty one keeps the pairs.
    allocation = [word for each in options.salloc for word in (f"--salloc={each}", "")]
    return (
        options.playbook,
        *_given(
            ("--nccl-tests", options.nccl_tests),
            ("--contract", options.contract),
            ("--launcher", options.launcher),
            ("--ranks-per-node", options.ranks_per_node),
            ("--partition", options.partition),
            ("--time", options.time),
            ("--node-count", options.node_count),
            ("--pml", options.pml),
            ("--mpi", options.mpi),
            *(("--sweep", each) for each in options.sweep),
            ("--treatment", options.treatment),
            ("--duration", options.duration),
            ("-o", None if options.out == _OUT else options.out),
        ),
        *options.pods,
        *allocation,
        *environment,
    )


def _given(*pairs: tuple[str, object]) -> tuple[str, ...]:
    """Both of each pair that has a value; an address may hold a password."""
    return tuple(masked(str(word)) for pair in pairs if pair[1] is not None for word in pair)


def _what(options: RunOptions, cluster: Cluster) -> tuple[Profile, Playbook, Interleaving | None]:
    """The fabric, the playbook, and what of it is interleaved."""
    book = _book(options, emulated=cluster.emulated)
    if book.contract is not None:
        from busbw.run import promised  # tables of hardware that most plans do not need

        promised.refuse_impossible(book, len(cluster.nodes), cluster.requirements)
    fabric = _fabric(options.profile or book.fabric or cluster.fabric)
    _refuse_unknown_checks(f"playbook {book.name}", book.checks)
    _refuse_unknown_checks(f"profile {fabric.name}", fabric.checks)
    if cluster.invented and cluster.fabric is not None:
        fabric = _with_invented(fabric, profiles.load(cluster.fabric))
    settings = interleaving_plan.settings(options.sweep)
    interleaving_plan.refuse_unsafe(settings, fabric)
    treatment = expand(options.treatment) if options.treatment else ()
    soak_s = None if options.duration is None else _seconds("--duration", options.duration)
    book, interleaving = interleaving_plan.interleave(
        book,
        tuple(node.name for node in cluster.nodes),
        settings,
        treatment,
        soak_s,
        interleaving_plan.collectives(options.sweep),
    )
    return fabric, book, interleaving


def _refuse_unknown_checks(owner: str, checks: ChecksPlan) -> None:
    """`owner`: whose demands they are, as in `playbook quick`.

    Raises:
        PlaybookError: it demands a check that there is not.
    """
    families = frame.families()
    for check_id in frame.unknown_ids(families, (*checks.required, *checks.advisory)):
        raise PlaybookError(
            f"{owner}: {unknown('check', check_id, frame.known_ids(families))}",
            next_step="docs/checks.md lists them; correct the id and start again; nothing was contacted",
        )


_INVENTED = ("gpu", "rdma", "pci")
"""Subjects of the checks of hardware that an emulated node can show."""


def _with_invented(fabric: Profile, shown: Profile) -> Profile:
    """The fabric, with the checks of what the emulated nodes show: they warn, and no number of an
    emulated run rests on them."""
    patterns = (*shown.checks.required, *shown.checks.advisory)
    more = tuple(each for each in patterns if each.partition(".")[0] in _INVENTED)
    checks = dataclasses.replace(fabric.checks, advisory=(*fabric.checks.advisory, *more))
    return dataclasses.replace(fabric, checks=checks)


def salloc_options(options: RunOptions) -> tuple[str, ...]:
    """The options of salloc that the user asked for; () = none, so no allocation either."""
    named = (("partition", options.partition), ("time", options.time))
    return (*(f"--{name}={value}" for name, value in named if value), *options.salloc)


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
    return undetected() if name is None else profiles.load(name)


def _book(options: RunOptions, *, emulated: bool) -> Playbook:
    """The playbook, with the contract of --contract in it.

    Raises:
        PlaybookError: one of them is wrong, or the playbook is about a contract and there is none.
    """
    book = playbook.load(options.playbook, emulated=emulated)
    path = options.contract
    if path is not None:
        book = dataclasses.replace(
            book,
            contract=contract.load(
                path, frozenset(case.id for case in book.cases if not case.repeats)
            ),
        )
    budget = options.budget
    if options.survey or budget is not None:
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
    return playbook.with_contracts_launches(book)


def _seconds(option: str, text: str) -> float:
    """`20m` of that option in seconds.

    Raises:
        UsageError: it is no duration, or none at all.
    """
    if whole_number(text.replace(".", "", 1)):
        raise UsageError(
            f"{option} {text}: the unit is missing", next_step=f"{text}s, {text}m or {text}h"
        )
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageError(
            f"{option} {text}: not a duration", seen=str(error), next_step="such as 90s or 20m"
        ) from error
    if seconds <= 0:
        raise UsageError(f"{option} {text}: no time to measure in", next_step="such as 90s or 20m")
    return seconds


def profile_note(plan: RunPlan) -> str:
    """The profile in words, with the site's file that extends it."""
    if plan.profile.name == UNDETECTED:
        return "the fabric profile is detected from the nodes' answers"
    site = plan.profile.site
    if site is None:
        return f"profile {plan.profile.name}"
    return f"profile {plan.profile.name} extended by {site.path} (SHA-256 {site.sha256[:12]})"


def origins_of(plan: RunPlan) -> env.Origins:
    """Whatever sets a variable of the ranks, besides the case."""
    return env.Origins(plan.profile, plan.playbook, plan.overrides, plan.cluster.env)


def cautions(plan: RunPlan) -> list[str]:
    """What is known against values that the playbook, a case or --env sets; each once."""
    facts = FabricFacts()
    origins = origins_of(plan)
    texts = [
        text
        for case in plan.playbook.cases
        for text in env.cautions(
            plan.profile,
            env.resolve(origins, case, facts).variables,
        )
    ]
    return list(dict.fromkeys(texts))


def set_aside_unfinished(run: RunDir) -> None:
    """Make room for the steps that an earlier try could not finish; what is finished stays and is
    not repeated."""
    from busbw.store.artefacts import CaseArtefact

    run.forget_unwritten()
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
