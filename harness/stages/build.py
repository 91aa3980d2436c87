"""Putting the benchmark on the nodes: built on one, copied to the others, proven on all."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from busbw import artefacts
from busbw import build as building
from busbw.build import BuildOutcome, BuildPlan, Proof
from busbw.errors import BuildError
from busbw.preflight.software import NodeFacts
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
    context: Context, builder: str, nodes: tuple[str, ...], known: Mapping[str, NodeFacts], sources: bytes, extra: tuple[str, ...]
) -> BuildOutcome:
    """Build from `sources` (tar.gz) on `builder` and put the same binaries on all `nodes`. A build of the same inputs is reused.

    Raises:
        BuildError: it did not build; `seen` is the compiler's own line.
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
    plan = building.plan(sources, ("MPI=1", f"MPI_HOME={facts.mpi_home}", *extra), mpi, work_root(known))
    context.say("build", f"{plan.stamp} on {builder}")
    answer = context.fleet.sessions[builder].run(building.build_command(plan))
    if not answer.ok:
        log = answer.out() + answer.err()
        raise BuildError(
            f"the benchmark does not build on {builder} ({answer.problem or f'make ended with exit status {answer.exit_status}'})",
            seen=building.first_error(log),
            next_step=f"read raw/nodes/{builder}/*-build.out and .err; the command is `make {' '.join(plan.make_args)}`",
        )
    proofs = _distribute(context, plan, builder, nodes)
    outcome = _outcome(plan, builder, answer, nodes, proofs)
    artefacts.keep(context.run, "build.json", outcome)
    return outcome


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
