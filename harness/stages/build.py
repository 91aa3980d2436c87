"""Putting the benchmark on the nodes: built on one, copied to the others, proven on all."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from busbw import artefacts
from busbw import build as building
from busbw.build import Benchmark, BuildOutcome, BuildPlan, Proof
from busbw.errors import BuildError
from busbw.inventory.hostlist import fold
from busbw.preflight import toolchain
from busbw.preflight.software import NodeFacts
from busbw.preflight.toolchain import Toolchain
from busbw.records import CommandResult
from busbw.stages.context import Context

PROVE_DEADLINE_S = 90.0


def work_root(known: Mapping[str, NodeFacts]) -> str:
    """The folder on every node that builds and jobs go below: one absolute path, for the launcher starts ranks by path.

    The home directory where it is the same on all nodes, else a folder of the user's in /tmp.
    """
    homes = {facts.home for facts in known.values()}
    users = {facts.user_id for facts in known.values()}
    home = homes.pop() if len(homes) == 1 else None
    if home and home.startswith("/"):
        return f"{home.rstrip('/')}/.cache/busbw"
    return f"/tmp/busbw-{users.pop() if len(users) == 1 else 'run'}"


def build(
    context: Context, builder: str, nodes: tuple[str, ...], known: Mapping[str, NodeFacts], benchmark: Benchmark, root: str
) -> BuildOutcome:
    """Build from the sources on `builder` and put the same binaries on all `nodes`, below `root`. A build of the same inputs is reused.

    Raises:
        BuildError: it did not build, or the node lacks what it takes; `seen` is the compiler's own line.
    """
    done = artefacts.load(context.run, "build.json", BuildOutcome)
    if done is not None:
        return done
    facts = known[builder]
    if facts.mpi_home is None:
        raise BuildError(
            f"no MPI headers on {builder}",
            seen="include/mpi.h is not below the directory of mpirun, $MPI_HOME or the usual places",
            next_step="apt-get install libopenmpi-dev, or load the MPI module, or set MPI_HOME for the login shell",
        )
    mpi = f"{facts.mpi.version if facts.mpi else None} {facts.mpirun_path} {facts.mpi_home}"
    chains = _toolchains(context, builder, nodes) if benchmark.cuda else {}
    chain = chains.get(builder)
    plan = _plan(context, benchmark, facts.mpi_home, mpi, root, chain, chains)
    context.say("build", f"{plan.stamp} on {builder}{_told(chain)}")
    answer = context.fleet.sessions[builder].run(building.build_command(plan))
    if not answer.ok:
        log = answer.out() + answer.err()
        raise BuildError(
            f"the benchmark does not build on {builder} ({answer.problem or f'make ended with exit status {answer.exit_status}'})",
            seen=building.first_error(log),
            next_step=f"read raw/nodes/{builder}/*-build.out and .err; the command is `make {' '.join(plan.make_args)}`",
        )
    same = tuple(node for node in nodes if chain is None or (node in chains and chains[node].kind == chain.kind))
    proofs = _distribute(context, plan, builder, same)
    outcome = _outcome(plan, builder, answer, same, proofs)
    problems = outcome.problems + _other_kinds(nodes, chains, builder)
    outcome = dataclasses.replace(
        outcome, problems=problems, version=benchmark.version, cuda=chain.cuda if chain else None, nccl=chain.nccl if chain else None
    )
    artefacts.keep(context.run, "build.json", outcome)
    return outcome


def _toolchains(context: Context, builder: str, nodes: tuple[str, ...]) -> dict[str, Toolchain]:
    """What every node has to build with.

    Raises:
        BuildError: the builder lacks nvcc or NCCL.
    """
    answers = context.fleet.run(dict.fromkeys(nodes, toolchain.command()), deadline_s=60)
    chains = {a.node: toolchain.parse(a.node, a.out()) for a in answers if isinstance(a, CommandResult) and a.ok}
    chain = chains.get(builder)
    if chain is None or chain.cuda_home is None:
        raise BuildError(
            f"no CUDA toolkit on {builder}, which nccl-tests is built with",
            seen="no nvcc on PATH, in $CUDA_HOME or /usr/local/cuda",
            next_step="install the toolkit or load its module for the login shell, or give binaries that are there: --nccl-tests /FOLDER",
        )
    if chain.nccl_home is None or chain.nccl_library is None:
        raise BuildError(
            f"no NCCL on {builder}, which nccl-tests is built with",
            seen="include/nccl.h with libnccl.so.2: not in $NCCL_HOME, /usr, /usr/local or a Python environment's nvidia/nccl",
            next_step="apt-get install libnccl-dev, or pip install nvidia-nccl-cu12, or set NCCL_HOME for the login shell",
        )
    return chains


def _plan(
    context: Context, benchmark: Benchmark, mpi_home: str, mpi: str, root: str, chain: Toolchain | None, chains: Mapping[str, Toolchain]
) -> BuildPlan:
    make = ("MPI=1", f"MPI_HOME={mpi_home}", *benchmark.make_args)
    if chain is None:
        return building.plan(benchmark.sources or b"", make, mpi, root)
    assert chain.cuda_home is not None  # both are by _toolchains
    assert chain.nccl_library is not None
    wanted = sorted({str(case.collective) for case in context.plan.playbook.cases} | {"all_reduce"})
    make += (f"CUDA_HOME={chain.cuda_home}", f"BIN_FILES_LIST={' '.join(wanted)}")
    targets = toolchain.gencode(tuple(sorted({text for each in chains.values() for text in each.capabilities}, key=float)))
    if context.plan.cluster.emulated:
        # Nothing runs on a GPU there: one target is enough, and the loader takes the stand-ins that lie beside the binaries.
        make += ("NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90",)
        path = "$ORIGIN"
    else:
        make += (f"NVCC_GENCODE={targets}",) if targets else ()
        path = f"{chain.nccl_library.rpartition('/')[0]}:{chain.cuda_home}/lib64"
    nccl = (chain.nccl_home or "", chain.nccl_library, chain.nccl or "")
    return building.plan(benchmark.sources or b"", make, f"{mpi} CUDA {chain.cuda} {chain.machine}", root, nccl=nccl, run_path=path)


def _told(chain: Toolchain | None) -> str:
    return "" if chain is None else f": CUDA {chain.cuda}, NCCL {chain.nccl} from {chain.nccl_library}"


def _other_kinds(nodes: tuple[str, ...], chains: Mapping[str, Toolchain], builder: str) -> tuple[str, ...]:
    """Why nodes of another kind take no part: one launch has one binary at one path."""
    own = chains[builder].kind if builder in chains else None
    other = [node for node in nodes if own is not None and (node not in chains or chains[node].kind != own)]
    kinds: dict[str, list[str]] = {}
    for node in other:
        chain = chains.get(node)
        kinds.setdefault(f"CUDA {chain.cuda}, NCCL {chain.nccl} ({chain.nccl_library})" if chain else "no answer", []).append(node)
    return tuple(f"{fold(where)}: {what}, unlike {builder}: not measured in this run" for what, where in kinds.items())


def _distribute(context: Context, plan: BuildPlan, builder: str, nodes: tuple[str, ...]) -> dict[str, Proof]:
    """Copy to every node that does not have the builder's binaries (a shared file system has them already), then prove all."""
    proofs = _prove(context, plan, nodes)
    wanted = proofs[builder].hashes if builder in proofs else ()
    lacking = tuple(node for node in nodes if node != builder and (node not in proofs or proofs[node].hashes != wanted))
    if not lacking:
        return proofs
    packed = context.fleet.sessions[builder].run(building.pack_command(plan.directory))
    if not packed.ok or not packed.stdout:
        seen = packed.problem or packed.err().strip() or f"exit status {packed.exit_status}"
        raise BuildError(f"the binaries cannot be read back from {builder}", seen=seen, next_step="look at the disk of that node")
    command = building.unpack_command(plan.directory, packed.stdout)
    context.fleet.run(dict.fromkeys(lacking, command), deadline_s=building.COPY_TIMEOUT_S + 20)
    return _prove(context, plan, nodes)


def _prove(context: Context, plan: BuildPlan, nodes: tuple[str, ...]) -> dict[str, Proof]:
    command = building.prove_command(plan.directory)
    answers = context.fleet.run(dict.fromkeys(nodes, command), deadline_s=PROVE_DEADLINE_S)
    return {a.node: building.parse_proof(a.node, a.out()) for a in answers if isinstance(a, CommandResult) and a.ok}


def _outcome(plan: BuildPlan, builder: str, answer: CommandResult, nodes: tuple[str, ...], proofs: Mapping[str, Proof]) -> BuildOutcome:
    wanted = proofs[builder].hashes if builder in proofs else ()
    usable = tuple(node for node in nodes if wanted and node in proofs and proofs[node].hashes == wanted)
    problems = [f"{node} does not have the binaries that {builder} built" for node in nodes if node not in usable]
    missing = Counter(library for node in usable for library in proofs[node].not_found)
    problems += [f"{library} is not found by the loader on {count} nodes" for library, count in sorted(missing.items())]
    if plan.nccl_library and plan.run_path != "$ORIGIN":
        taken = {proofs[node].nccl: node for node in usable if proofs[node].nccl != plan.nccl_library}
        problems += [f"{node} takes {path or 'no libnccl'} instead of {plan.nccl_library}" for path, node in taken.items()]
    if len({proofs[node].nccl_hash for node in usable}) > 1:
        problems.append("the nodes have different libnccl files of that name")
    if any(proofs[node].mpi_linked is False for node in usable):
        problems.append("the binary is not linked to MPI: every process would measure itself alone")
    return BuildOutcome(
        directory=plan.directory,
        stamp=plan.stamp,
        builder=builder,
        reused=answer.out().startswith("reused"),
        proofs=tuple(dataclasses.replace(proofs[node]) for node in nodes if node in proofs),
        usable=usable,
        problems=tuple(problems),
    )
