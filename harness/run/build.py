"""Putting the benchmark on the nodes: built on one node of each kind, copied to the others, proven
on all."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from busbw import faults
from busbw.building import node_types
from busbw.building import recipe as building
from busbw.building.node_types import Group, NodeKind
from busbw.building.recipe import Benchmark, BuildOutcome, BuildPlan, KindBuild, Proof
from busbw.checks import software
from busbw.checks.software import NodeFacts, Toolchain
from busbw.compare import ab
from busbw.errors import BuildError
from busbw.inventory.hostlist import fold
from busbw.launch import nccl_tests
from busbw.model import Command, CommandResult
from busbw.run.context import Context
from busbw.store import artefacts, own_builds
from busbw.store.plan import RunPlan
from busbw.transport.replay import ReplayTransport

FILE = "build.json"
PROVE_DEADLINE_S = 90.0
_ORIGIN = "$ORIGIN"
"""The loader takes what lies next to the binary."""


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


def build(
    context: Context,
    head: str,
    nodes: tuple[str, ...],
    known: Mapping[str, NodeFacts],
    benchmark: Benchmark,
    root: str,
) -> BuildOutcome:
    """The benchmark on all `nodes`: built from its sources below `root`, once for each kind of
    node, or found where it is said to be.

    A build of the same inputs is reused; so is the outcome of a run that goes on, where the nodes
    still have what it says.

    Raises:
        BuildError: it did not build for the head, or that node lacks what it takes; `seen` is the
        compiler's own line.
    """
    done = artefacts.load(context.run, FILE, BuildOutcome)
    if done is not None and _still_there(context, done, known):
        return done
    if done is not None:
        context.progress("build", "the nodes do not have any more what was built: once more")
        context.run.set_aside(FILE)
    outcome = (
        _built(context, head, nodes, known, benchmark, root)
        if benchmark.directory is None
        else _existing(context, benchmark, nodes)
    )
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


def _still_there(context: Context, done: BuildOutcome, known: Mapping[str, NodeFacts]) -> bool:
    """Pods may be new ones, caches are emptied, and programs swapped."""
    places = {
        node: f"{each.directory}/build" for each in done.builds for node in each.nodes
    } or dict.fromkeys(done.usable, done.folder)
    here = [node for node in done.usable if node in context.fleet.sessions]
    expected = {proof.node: proof.hashes for proof in done.proofs}
    digests = {building.digest(expected[node]) for node in here}
    now = _prove(context, {node: places[node] for node in here}, tuple(sorted(digests)))
    if any(node not in now or now[node].hashes != expected[node] for node in here):
        return False
    if len(done.builds) < 2:
        return True
    _, _, files = _dispatcher(context, done.builds, known)
    return not _present(context, done.folder, tuple(here), files)[1]


def _existing(context: Context, benchmark: Benchmark, nodes: tuple[str, ...]) -> BuildOutcome:
    """Binaries that are there already."""
    folder = benchmark.directory or ""
    proofs = _prove(context, dict.fromkeys(nodes, folder))
    programs = {f"{collective}_perf" for collective in _collectives(context)}
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
        folder, (), _ordered(proofs, nodes), usable, (*problems, *_linkage(proofs, usable))
    )


def _lacks(folder: str, programs: list[str], answered: bool) -> str:
    """What is not there: of a folder with benchmarks in it some of them, else the folder."""
    if not answered:
        return f"there is no folder {folder} with *_perf in it"
    return f"no {', '.join(programs)} in {folder}"


def _built(
    context: Context,
    head: str,
    nodes: tuple[str, ...],
    known: Mapping[str, NodeFacts],
    benchmark: Benchmark,
    root: str,
) -> BuildOutcome:
    groups, problems = _groups(context, head, nodes, known, benchmark)
    owner = own_builds.owner(context.run, replay=_is_replay(context))
    plans = {each.builder: _plan(context, benchmark, each.kind, root, owner) for each in groups}
    for each in groups:
        context.progress(
            "build", f"{plans[each.builder].stamp} on {each.builder}{_versions(each.kind)}"
        )
    stamps = [] if _is_replay(context) else [plan.stamp for plan in plans.values()]
    note = "another run builds the same: waiting for it"
    limit_s = 2 * building.BUILD_TIMEOUT_S
    with own_builds.locked(stamps, lambda: context.progress("build", note), limit_s):
        return _build_all(context, head, nodes, known, root, groups, plans, problems)


def _build_all(
    context: Context,
    head: str,
    nodes: tuple[str, ...],
    known: Mapping[str, NodeFacts],
    root: str,
    groups: list[Group],
    plans: Mapping[str, BuildPlan],
    problems: list[str],
) -> BuildOutcome:
    stamps = [plan.stamp for plan in plans.values()]
    own = own_builds.known(context.run, stamps, replay=_is_replay(context))
    commands = {
        builder: building.build_command(plan, own.of(plan.stamp)) for builder, plan in plans.items()
    }
    answers = {
        a.node: a
        for a in context.fleet.run(commands, deadline_s=building.BUILD_TIMEOUT_S + 20)
        if isinstance(a, CommandResult)
    }
    builds: list[KindBuild] = []
    proofs: dict[str, Proof] = {}
    for each in groups:
        plan, answer = plans[each.builder], answers.get(each.builder)
        if answer is None or not answer.ok:
            error = _failed(plan, each.builder, answer)
            if each.builder == head:
                raise error
            problems.append(f"{fold(each.nodes)}: {error.what}: {error.seen}")
            continue
        reused = answer.out().startswith("reused")
        if f"replaced {plan.directory}" in answer.out().splitlines():
            context.progress(
                "build",
                f"{each.builder} had another build of {plan.stamp}, which this machine has no"
                " record of: not executed, built again",
            )
        group_proofs = _distribute(context, plan, each, own.of(plan.stamp) if reused else None)
        usable, wrong = _judged(plan, each, group_proofs)
        problems += wrong
        proofs |= group_proofs
        builds.append(
            KindBuild(
                plan.stamp,
                plan.directory,
                each.builder,
                reused,
                usable,
                each.kind.cuda,
                each.kind.nccl,
            )
        )
    folder, usable, wrong = _one_folder(context, tuple(builds), known, root, head)
    if not usable:
        raise BuildError(
            "no node has the binaries that were built",
            seen="; ".join((*problems, *wrong)),
            next_step=f"busbw run --resume runs/{context.plan.run_id}",
        )
    return BuildOutcome(
        folder,
        tuple(builds),
        _ordered(proofs, nodes),
        tuple(n for n in nodes if n in usable),
        (*problems, *wrong),
    )


def _groups(
    context: Context,
    head: str,
    nodes: tuple[str, ...],
    known: Mapping[str, NodeFacts],
    benchmark: Benchmark,
) -> tuple[list[Group], list[str]]:
    """The kinds of nodes that can be built for and launched together, and why others are left out.

    Raises:
        BuildError: the head lacks what a build takes.
    """
    cuda = benchmark.cuda
    answers = context.fleet.run(dict.fromkeys(nodes, software.command(cuda=cuda)), deadline_s=60)
    chains = faults.read_each(answers, software.parse)
    silent = Toolchain(head, None, None, None, None, None, None, None, False, ())
    kinds = {
        node: node_types.kind(chains.get(node, silent), known[node], cuda=cuda)
        for node in nodes
        if node in chains or node == head
    }
    lacks = _lacking(kinds[head], head, benchmark)
    if lacks is not None:
        raise lacks
    groups, problems = (
        [],
        [
            f"{node} does not say what it has to build with: not measured in this run"
            for node in nodes
            if node not in kinds
        ],
    )
    for each in node_types.group(kinds, head):
        missing = _lacking(each.kind, each.builder, benchmark)
        reason = node_types.incompatible(each.kind, kinds[head]) or (
            missing.what if missing else ""
        )
        if reason:
            problems.append(f"{fold(each.nodes)}: {reason}: not measured in this run")
        else:
            groups.append(each)
    if len(groups) > 1:
        context.progress("build", node_types.summary(tuple(groups)))
    return groups, problems


def _lacking(kind: NodeKind, node: str, benchmark: Benchmark) -> BuildError | None:
    """What a build for this kind fails for; None = nothing."""
    cuda = benchmark.cuda and not benchmark.hip
    if kind.mpi_home is None:
        return BuildError(
            f"no MPI headers on {node}",
            seen=(
                "include/mpi.h is not below the directory of mpirun, $MPI_HOME or the usual places"
            ),
            next_step=(
                "apt-get install libopenmpi-dev, or load the MPI module, or set MPI_HOME for the"
                " login shell"
            ),
        )
    if benchmark.hip and (kind.rocm_home is None or kind.nccl_library is None):
        lacking = "ROCm" if kind.rocm_home is None else "RCCL"
        return BuildError(
            f"no {lacking} on {node}, which rccl-tests is built with",
            seen=(
                "amdgpu with bin/hipcc, include/rccl/rccl.h and lib/librccl.so: not in $ROCM_PATH"
                " or /opt/rocm"
            ),
            next_step=(
                "install rocm-dev and rccl-dev, or set ROCM_PATH for the login shell, or give"
                " binaries that are there: --nccl-tests /FOLDER"
            ),
        )
    if cuda and kind.rocm_home is not None:
        return BuildError(
            f"{node} has AMD's GPUs, and the sources are nccl-tests, which is CUDA's",
            seen=f"ROCm {kind.rocm or 'of unknown version'} in {kind.rocm_home}",
            next_step="--nccl-tests git+https://github.com/ROCm/rccl-tests.git",
        )
    if cuda and kind.cuda_home is None:
        return BuildError(
            f"no CUDA toolkit on {node}, which nccl-tests is built with",
            seen="no nvcc on PATH, in $CUDA_HOME or /usr/local/cuda",
            next_step=(
                "install the toolkit or load its module for the login shell, or give binaries that"
                " are there: --nccl-tests /FOLDER"
            ),
        )
    if cuda and (kind.nccl_home is None or kind.nccl_library is None):
        return BuildError(
            f"no NCCL on {node}, which nccl-tests is built with",
            seen=(
                "include/nccl.h with libnccl.so.2: not in $NCCL_HOME, /usr, /usr/local or a Python"
                " environment's nvidia/nccl"
            ),
            next_step=(
                "apt-get install libnccl-dev, or pip install nvidia-nccl-cu12, or set NCCL_HOME for"
                " the login shell"
            ),
        )
    return None


def _collectives(context: Context) -> tuple[str, ...]:
    return tuple(
        sorted({str(case.collective) for case in context.plan.playbook.cases} | {"all_reduce"})
    )


def _plan(
    context: Context, benchmark: Benchmark, kind: NodeKind, root: str, owner: str
) -> BuildPlan:
    make = ("MPI=1", f"MPI_HOME={kind.mpi_home}", *benchmark.make_args)
    # The loader's own places need no word.
    path = [] if kind.mpi_home in (None, "/usr") else [f"{kind.mpi_home}/lib"]
    sources, nccl = benchmark.sources or b"", ("", "", "")
    if benchmark.hip:
        make += _rccl_arguments(kind, _collectives(context))
        path = [f"{kind.nccl_home}/lib", f"{kind.rocm_home}/lib", *path]
    elif benchmark.cuda:
        make += (f"CUDA_HOME={kind.cuda_home}", f"BIN_FILES_LIST={' '.join(_collectives(context))}")
        nccl = (kind.nccl_home or "", kind.nccl_library or "", kind.nccl or "")
        targets = software.gencode(kind.capabilities)
        if context.plan.cluster.emulated:
            # Nothing runs on a GPU there: one target is enough, and the loader takes the stand-ins
            # that lie beside the binaries.
            make += ("NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90",)
            path = [_ORIGIN, *path]
        else:
            make += (f"NVCC_GENCODE={targets}",) if targets else ()
            path = [nccl[1].rpartition("/")[0], f"{kind.cuda_home}/lib64", *path]
    return building.plan(
        sources, make, repr(kind), root, nccl=nccl, run_path=":".join(path), owner=owner
    )


def _rccl_arguments(kind: NodeKind, collectives: tuple[str, ...]) -> tuple[str, ...]:
    """What rccl-tests' Makefile takes (ROCm/rccl-tests, src/Makefile of September 2024; newer ones
    also take the targets). hipify-perl is called without a folder, so that PATH must have it."""
    home = kind.rocm_home or ""
    targets = ",".join(kind.capabilities)
    return (
        f"ROCM_PATH={home}",
        f"HIP_HOME={home}",
        f"NCCL_HOME={kind.nccl_home}",
        f"CUSTOM_RCCL_LIB={kind.nccl_home}/lib",
        *((f"GPU_TARGETS={targets}",) if targets else ()),
        f"BIN_FILES_LIST={' '.join(collectives)}",
        f"PATH={home}/bin:/usr/local/bin:/usr/bin:/bin",
    )


def nccl_version(outcome: BuildOutcome) -> str | None:
    """Of the library that the ranks were built with, where all kinds of nodes have one version;
    None = not known: binaries that were there, or several."""
    versions = {each.nccl for each in outcome.builds}
    return versions.pop() if len(versions) == 1 else None


def _versions(kind: NodeKind) -> str:
    if kind.rocm_home is not None:
        return f": ROCm {kind.rocm}, RCCL {kind.nccl} from {kind.nccl_library}"
    return (
        ""
        if kind.cuda is None
        else f": CUDA {kind.cuda}, NCCL {kind.nccl} from {kind.nccl_library}"
    )


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


def _is_replay(context: Context) -> bool:
    """What a recording says was built is nothing that this machine built."""
    return context.fleet.transport == ReplayTransport.name


def _distribute(
    context: Context, plan: BuildPlan, group: Group, recorded: tuple[str, ...] | None
) -> dict[str, Proof]:
    """Copy to every node that does not have the builder's binaries (a shared file system has them
    already), then prove all. `recorded` = one of which a build that is used again has to be; None =
    it is new, and is recorded."""
    builder, places = group.builder, dict.fromkeys(group.nodes, f"{plan.directory}/build")
    built = _prove(context, {builder: places[builder]}, recorded or ())
    hashes = built[builder].hashes if builder in built else ()
    digest = building.digest(hashes)
    if not hashes or (recorded is not None and digest not in recorded):
        return {}
    if not _is_replay(context):
        own_builds.note_build(plan.stamp, digest)
    proofs = _prove(context, places, (digest,))
    lacking = tuple(
        node
        for node in places
        if node != builder and (node not in proofs or proofs[node].hashes != hashes)
    )
    if not lacking:
        return proofs
    packed = context.fleet.sessions[builder].run(building.pack_command(plan.directory))
    if not packed.ok or not packed.stdout:
        reason = packed.problem or packed.err().strip() or f"exit status {packed.exit_status}"
        raise BuildError(
            f"the binaries cannot be read back from {builder}",
            seen=reason,
            next_step="look at the disk of that node",
        )
    _unpack(context, plan.directory, packed.stdout, lacking)
    return _prove(context, places, (digest,))


def _unpack(context: Context, directory: str, packed: bytes, nodes: tuple[str, ...]) -> None:
    command = building.unpack_command(directory, packed)
    context.fleet.run(dict.fromkeys(nodes, command), deadline_s=building.COPY_TIMEOUT_S + 20)


def _prove(
    context: Context, places: Mapping[str, str], digests: tuple[str, ...] = ()
) -> dict[str, Proof]:
    """What each node has in the folder named for it; nodes that have nothing are left out.
    `digests`: what may be there; () = anything."""
    commands: dict[str, Command] = {
        node: building.prove_command(folder, digests) for node, folder in places.items()
    }
    answers = context.fleet.run(commands, deadline_s=PROVE_DEADLINE_S)
    return faults.read_each(answers, building.parse_proof)


def _ordered(proofs: Mapping[str, Proof], nodes: tuple[str, ...]) -> tuple[Proof, ...]:
    return tuple(proofs[node] for node in nodes if node in proofs)


def _judged(
    plan: BuildPlan, group: Group, proofs: Mapping[str, Proof]
) -> tuple[tuple[str, ...], list[str]]:
    """(nodes of the group that have what its builder built, what is wrong)."""
    nodes, builder = group.nodes, group.builder
    hashes = proofs[builder].hashes if builder in proofs else ()
    usable = tuple(
        node for node in nodes if hashes and node in proofs and proofs[node].hashes == hashes
    )
    problems = [
        f"{node} does not have the binaries that {builder} built"
        for node in nodes
        if node not in usable
    ]
    if plan.nccl_library and not plan.run_path.startswith(_ORIGIN):
        taken = {
            proofs[node].nccl: node for node in usable if proofs[node].nccl != plan.nccl_library
        }
        problems += [
            f"{node} takes {path or 'no libnccl'} instead of {plan.nccl_library}"
            for path, node in taken.items()
        ]
    return usable, [*problems, *_linkage(proofs, usable)]


def _linkage(proofs: Mapping[str, Proof], usable: tuple[str, ...]) -> list[str]:
    missing = Counter(library for node in usable for library in proofs[node].not_found)
    problems = [
        f"{library} is not found by the loader on {count} nodes"
        for library, count in sorted(missing.items())
    ]
    if len({proofs[node].nccl_hash for node in usable}) > 1:
        problems.append("the nodes have different libnccl files of that name")
    if any(proofs[node].mpi_linked is False for node in usable):
        problems.append("the binary is not linked to MPI: every process would measure itself alone")
    return problems


def _one_folder(
    context: Context,
    builds: tuple[KindBuild, ...],
    known: Mapping[str, NodeFacts],
    root: str,
    head: str,
) -> tuple[str, tuple[str, ...], list[str]]:
    """(folder of the programs, nodes that can be launched on, what is wrong): a launch names one
    path, whatever its nodes' kinds."""
    if len(builds) == 1:
        return f"{builds[0].directory}/build", builds[0].nodes, []
    nodes, stamp, files = _dispatcher(context, builds, known)
    problems = [
        f"{n} has no host name of its own: not measured in this run"
        for each in builds
        for n in each.nodes
        if n not in nodes
    ]
    directory = f"{root}/build/{stamp}"
    packed = building.archive(files, mode=0o755)
    have, lacking = _present(context, f"{directory}/build", nodes, files)
    # The head first: where the file system is shared, the others have it then.
    for wave in ((head,), nodes) if lacking else ():
        _unpack(context, directory, packed, tuple(node for node in wave if node in lacking))
        have, lacking = _present(context, f"{directory}/build", nodes, files)
    problems += [
        f"{node} did not take the programs that choose its build: not measured in this run"
        for node in lacking
    ]
    return f"{directory}/build", have, problems


def _dispatcher(
    context: Context, builds: tuple[KindBuild, ...], known: Mapping[str, NodeFacts]
) -> tuple[tuple[str, ...], str, dict[str, bytes]]:
    """(nodes that can be told by their host names, stamp, files) of the programs that choose a
    node's build."""
    hosts = Counter(known[node].host_name for each in builds for node in each.nodes)
    named = {
        each.directory: tuple(
            n for n in each.nodes if known[n].host_name and hosts[known[n].host_name] == 1
        )
        for each in builds
    }
    stamp, files = node_types.dispatcher(
        {
            place: tuple(str(known[node].host_name) for node in each)
            for place, each in named.items()
        },
        tuple(f"{collective}_perf" for collective in _collectives(context)),
    )
    return tuple(node for each in named.values() for node in each), stamp, files


def _present(
    context: Context, folder: str, nodes: tuple[str, ...], files: Mapping[str, bytes]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(nodes with these programs in the folder, nodes without)."""
    hashes = tuple(
        (name.removeprefix("build/"), hashlib.sha256(content).hexdigest())
        for name, content in sorted(files.items())
    )
    proofs = _prove(context, dict.fromkeys(nodes, folder), (building.digest(hashes),))
    have = tuple(node for node in nodes if node in proofs and proofs[node].hashes == hashes)
    return have, tuple(node for node in nodes if node not in have)
