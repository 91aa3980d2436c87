"""Putting the benchmark on the nodes: built on one node of each type, copied to the others, proven
on all."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from busbw.assess import placeholders
from busbw.building import recipe as building
from busbw.building.node_types import Group
from busbw.building.recipe import BuildOutcome, BuildPlan, NodeTypeBuild, Proof
from busbw.checks.software import NodeFacts
from busbw.compare import ab
from busbw.errors import BuildError
from busbw.inventory.hostlist import fold
from busbw.launch import nccl_tests
from busbw.model import CommandResult
from busbw.run import build_copies, build_plans
from busbw.run.build_plans import BuildRequest
from busbw.run.context import Context
from busbw.store import artefacts, own_builds
from busbw.store.plan import RunPlan

FILE = "build.json"


def build(request: BuildRequest) -> BuildOutcome:
    """The benchmark on all nodes: built from its sources, once for each node type, or found in
    the folder that was named.

    A build of the same inputs is reused; so is the outcome of a run that goes on, where the nodes
    still have what it says.

    Raises:
        BuildError: it did not build for the head, or that node lacks what it takes; `seen` is the
        compiler's own line.
    """
    context, benchmark = request.context, request.benchmark
    done = artefacts.load(context.run, FILE, BuildOutcome)
    if done is not None and _still_there(request, done):
        return done
    if done is not None:
        context.progress("build", "the nodes do not have any more what was built: once more")
        context.run.set_aside(FILE)
    outcome = _built(request) if benchmark.directory is None else _existing(request)
    outcome = dataclasses.replace(
        outcome,
        version=benchmark.version,
        origin=benchmark.origin,
        sha256=benchmark.sha256,
        commit=benchmark.commit,
    )
    artefacts.keep(context.run, FILE, outcome)
    return outcome


def refuse_unsupported(plan: RunPlan, outcome: BuildOutcome) -> None:
    """Nothing, where the binaries have every option that the plan gives them, as far as their version
    and NCCL's are known.

    Raises:
        BuildError: they lack one; `seen` names each, with the version that brought it.
    """
    if not outcome.origin and outcome.version is None:
        return  # the benchmark in host memory, which has the newest options
    interleaved = plan.interleaving
    cases = plan.playbook.cases
    if interleaved is not None:
        each = itertools.product(interleaved.cases, interleaved.settings or ((),))
        cases = (*cases, *(ab.with_setting(case, setting) for case, setting in each))
    nccl = min((build.nccl for build in outcome.builds if build.nccl), default=None)
    lacking = [
        f"case {case.id}: {fault}"
        for case in cases
        for fault in nccl_tests.unsupported(
            case, outcome.version, nccl, sources=bool(outcome.builds)
        )
    ]
    if lacking:
        raise BuildError(
            "the binaries lack options that the plan gives them",
            seen="; ".join(dict.fromkeys(lacking)),
            next_step="--nccl-tests with a newer release, or leave the option out of the case",
        )


def _still_there(request: BuildRequest, done: BuildOutcome) -> bool:
    """Whether the nodes have what an earlier build put there: pods may be new ones, caches are
    emptied, and programs swapped."""
    context = request.context
    places = {
        node: f"{each.directory}/build" for each in done.builds for node in each.nodes
    } or dict.fromkeys(done.usable, done.folder)
    here = [node for node in done.usable if node in context.fleet.sessions]
    expected = {proof.node: proof.hashes for proof in done.proofs}
    digests = {building.digest(expected[node]) for node in here}
    now = build_copies.prove(context, {node: places[node] for node in here}, tuple(sorted(digests)))
    if any(node not in now or now[node].hashes != expected[node] for node in here):
        return False
    if len(done.builds) < 2:
        return True
    _, _, files = build_copies.dispatcher(context, done.builds, request.known)
    return not build_copies.present(context, done.folder, tuple(here), files)[1]


def _existing(request: BuildRequest) -> BuildOutcome:
    """Binaries that are there already.

    Raises:
        BuildError: no node has them.
    """
    context, nodes = request.context, request.nodes
    folder = request.benchmark.directory or ""
    proofs = build_copies.prove(context, dict.fromkeys(nodes, folder))
    programs = {f"{collective}_perf" for collective in build_plans.collectives_of(context)}
    lacking = {
        node: (
            sorted(programs - {name for name, _ in proofs[node].hashes})
            if node in proofs
            else ["*_perf"]
        )
        for node in nodes
    }
    usable = tuple(node for node in nodes if not lacking[node])
    if not usable:
        raise BuildError(
            f"no node has the binaries of nccl-tests in {folder}",
            seen=f"{nodes[0]}: {_lacks(folder, lacking[nodes[0]], nodes[0] in proofs)}",
            next_step=(
                "name the folder of all_reduce_perf on the nodes, or the sources of nccl-tests"
                " here: --nccl-tests PATH"
            ),
        )
    problems = [
        f"{node}: {_lacks(folder, names, node in proofs)}: not measured in this run"
        for node, names in lacking.items()
        if names
    ]
    if len({proofs[node].hashes for node in usable}) > 1:
        problems.append(f"the nodes have different binaries in {folder}")
    return BuildOutcome(
        folder,
        (),
        build_copies.in_order(proofs, nodes),
        usable,
        (*problems, *build_copies.linkage_problems(proofs, usable)),
    )


def _lacks(folder: str, programs: list[str], answered: bool) -> str:
    """What is not there: of a folder with benchmarks in it some of them, else the folder."""
    if not answered:
        return f"there is no folder {folder} with *_perf in it"
    return f"no {', '.join(programs)} in {folder}"


def _built(request: BuildRequest) -> BuildOutcome:
    context = request.context
    groups, problems = build_plans.groups_to_build_for(request)
    owner = own_builds.owner(context.run, replay=build_copies.is_replay(context))
    plans = {each.builder: build_plans.plan_of(request, each.type, owner) for each in groups}
    for each in groups:
        context.progress(
            "build",
            f"{plans[each.builder].stamp} on {each.builder}{build_plans.versions_of(each.type)}",
        )
    stamps = [] if build_copies.is_replay(context) else [plan.stamp for plan in plans.values()]
    note = "another run builds the same: waiting for it"
    limit_s = 2 * building.BUILD_TIMEOUT_S
    with own_builds.locked(stamps, lambda: context.progress("build", note), limit_s):
        return _build_all(request, groups, plans, problems)


def _build_all(
    request: BuildRequest,
    groups: list[Group],
    plans: Mapping[str, BuildPlan],
    problems: list[str],
) -> BuildOutcome:
    """`plans`: by the group's builder; `problems`: those known before."""
    context = request.context
    stamps = [plan.stamp for plan in plans.values()]
    own = own_builds.known(context.run, stamps, replay=build_copies.is_replay(context))
    commands = {
        builder: building.build_command(plan, own.of(plan.stamp)) for builder, plan in plans.items()
    }
    answers = {
        a.node: a
        for a in context.fleet.run(commands, deadline_s=building.BUILD_TIMEOUT_S + 20)
        if isinstance(a, CommandResult)
    }
    builds: list[NodeTypeBuild] = []
    proofs: dict[str, Proof] = {}
    for each in groups:
        plan, answer = plans[each.builder], answers.get(each.builder)
        if answer is None or not answer.ok:
            error = _failed(plan, each.builder, answer)
            if each.builder == request.head:
                raise error
            problems.append(f"{fold(each.nodes)}: {error.what}: {error.seen}")
            continue
        build, group_proofs, wrong = _copied(context, plan, each, own.of(plan.stamp), answer)
        problems += wrong
        proofs |= group_proofs
        builds.append(build)
    folder, usable, wrong = build_copies.one_folder(request, tuple(builds))
    if not usable:
        raise BuildError(
            "no node has the binaries that were built",
            seen="; ".join((*problems, *wrong)),
            next_step=f"busbw run --resume {placeholders.directory(context.plan)}",
        )
    return BuildOutcome(
        folder,
        tuple(builds),
        build_copies.in_order(proofs, request.nodes),
        tuple(node for node in request.nodes if node in usable),
        (*problems, *wrong),
    )


def _copied(
    context: Context,
    plan: BuildPlan,
    group: Group,
    recorded: tuple[str, ...],
    answer: CommandResult,
) -> tuple[NodeTypeBuild, dict[str, Proof], list[str]]:
    """What the builder built, on all nodes of its type: with the proofs of the copies, and what is
    wrong with some of them. `recorded`: digests of the same build that this machine made before."""
    reused = answer.out().startswith("reused")
    if f"replaced {plan.directory}" in answer.out().splitlines():
        context.progress(
            "build",
            f"{group.builder} had another build of {plan.stamp}, which this machine has no"
            " record of: not executed, built again",
        )
    proofs = build_copies.distribute(context, plan, group, recorded if reused else None)
    usable, wrong = build_copies.judge(plan, group, proofs)
    build = NodeTypeBuild(
        plan.stamp,
        plan.directory,
        group.builder,
        reused,
        usable,
        group.type.cuda,
        group.type.nccl,
    )
    return build, proofs, wrong


def _failed(plan: BuildPlan, builder: str, answer: CommandResult | None) -> BuildError:
    why = (
        (answer.problem or f"make ended with exit status {answer.exit_status}")
        if answer
        else "the node is gone"
    )
    return BuildError(
        f"the benchmark does not build on {builder} ({why})",
        seen=building.first_error(answer.out() + answer.err()) if answer else "",
        next_step=(
            f"read raw/nodes/{builder}/*-build.out and .err; the command is `make"
            f" {' '.join(plan.make_args)}`"
        ),
    )


def nccl_version(outcome: BuildOutcome) -> str | None:
    """Of the library that the ranks were built with, where all node types have one version;
    None = not known: binaries that were there, or several."""
    versions = {each.nccl for each in outcome.builds}
    return versions.pop() if len(versions) == 1 else None


def work_root(known: Mapping[str, NodeFacts]) -> str:
    """The folder on every node that builds and jobs go below: one absolute path, for the launcher
    starts ranks by path.

    Below the home directory of most nodes; where most have none in common, a folder of the user's
    in /tmp. One node that differs changes nothing for the others.
    """
    home = _most({facts.node: facts.home for facts in known.values()})
    if home and home.startswith("/"):
        return f"{home.rstrip('/')}/.cache/busbw"
    user = _most({facts.node: facts.user_id for facts in known.values()})
    return f"/tmp/busbw-{'run' if user is None else user}"


_T = TypeVar("_T")


def _most(values: Mapping[str, _T]) -> _T | None:
    """The value that more than half of the nodes have; None = there is none."""
    value, count = Counter(values.values()).most_common(1)[0] if values else (None, 0)
    return value if 2 * count > len(values) else None
