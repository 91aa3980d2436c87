"""The binaries on the nodes: copied to those that lack them, proven on each, and one folder to launch from."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping

from busbw import faults
from busbw.building import node_types
from busbw.building import recipe as building
from busbw.building.node_types import Group
from busbw.building.recipe import BuildPlan, NodeTypeBuild, Proof
from busbw.checks.software import NodeFacts
from busbw.errors import BuildError
from busbw.model import Command
from busbw.run.build_plans import ORIGIN, BuildRequest, collectives_of
from busbw.run.context import Context
from busbw.store import own_builds
from busbw.transport.replay import ReplayTransport
from busbw.units import counted

PROVE_DEADLINE_S = 90.0


def is_replay(context: Context) -> bool:
    """What a recording says was built is nothing that this machine built."""
    return context.fleet.transport == ReplayTransport.name


def distribute(
    context: Context, plan: BuildPlan, group: Group, recorded: tuple[str, ...] | None
) -> dict[str, Proof]:
    """Copy to every node that does not have the builder's binaries (a shared file system has them
    already), then prove all. `recorded` = one of which a build that is used again has to be; None =
    it is new, and is recorded."""
    builder, places = group.builder, dict.fromkeys(group.nodes, f"{plan.directory}/build")
    built = prove(context, {builder: places[builder]}, recorded or ())
    hashes = built[builder].hashes if builder in built else ()
    digest = building.digest(hashes)
    if not hashes or (recorded is not None and digest not in recorded):
        return {}
    if not is_replay(context):
        own_builds.note_build(plan.stamp, digest)
    proofs = prove(context, places, (digest,))
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
    return prove(context, places, (digest,))


def _unpack(context: Context, directory: str, packed: bytes, nodes: tuple[str, ...]) -> None:
    command = building.unpack_command(directory, packed)
    context.fleet.run(dict.fromkeys(nodes, command), deadline_s=building.COPY_TIMEOUT_S + 20)


def prove(
    context: Context, places: Mapping[str, str], digests: tuple[str, ...] = ()
) -> dict[str, Proof]:
    """What each node has in the folder named for it; nodes that have nothing are left out.
    `digests`: what may be there; () = anything."""
    commands: dict[str, Command] = {
        node: building.prove_command(folder, digests) for node, folder in places.items()
    }
    answers = context.fleet.run(commands, deadline_s=PROVE_DEADLINE_S)
    return faults.read_each(answers, building.parse_proof)


def in_order(proofs: Mapping[str, Proof], nodes: tuple[str, ...]) -> tuple[Proof, ...]:
    """The proofs in the order of the nodes; nodes without one are left out."""
    return tuple(proofs[node] for node in nodes if node in proofs)


def judge(
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
    if plan.nccl_library and not plan.run_path.startswith(ORIGIN):
        taken = {
            proofs[node].nccl: node for node in usable if proofs[node].nccl != plan.nccl_library
        }
        problems += [
            f"{node} takes {path or 'no libnccl'} instead of {plan.nccl_library}"
            for path, node in taken.items()
        ]
    return usable, [*problems, *linkage_problems(proofs, usable)]


def linkage_problems(proofs: Mapping[str, Proof], usable: tuple[str, ...]) -> list[str]:
    """What the loader would do wrong with the binaries on the usable nodes, each in a sentence."""
    missing = Counter(library for node in usable for library in proofs[node].not_found)
    problems = [
        f"{library} is not found by the loader on {counted(count, 'node')}"
        for library, count in sorted(missing.items())
    ]
    if len({proofs[node].nccl_hash for node in usable}) > 1:
        problems.append("the nodes have different libnccl files of that name")
    if any(proofs[node].mpi_linked is False for node in usable):
        problems.append("the binary is not linked to MPI: every process would measure itself alone")
    return problems


def one_folder(
    request: BuildRequest, builds: tuple[NodeTypeBuild, ...]
) -> tuple[str, tuple[str, ...], list[str]]:
    """(folder of the programs, nodes that can be launched on, what is wrong): a launch names one
    path, whatever its nodes' kinds."""
    if len(builds) == 1:
        return f"{builds[0].directory}/build", builds[0].nodes, []
    context = request.context
    nodes, stamp, files = dispatcher(context, builds, request.known)
    problems = [
        f"{n} has no host name of its own: not measured in this run"
        for each in builds
        for n in each.nodes
        if n not in nodes
    ]
    directory = f"{request.root}/build/{stamp}"
    packed = building.archive(files, mode=0o755)
    have, lacking = present(context, f"{directory}/build", nodes, files)
    # The head first: where the file system is shared, the others have it then.
    for wave in ((request.head,), nodes) if lacking else ():
        _unpack(context, directory, packed, tuple(node for node in wave if node in lacking))
        have, lacking = present(context, f"{directory}/build", nodes, files)
    problems += [
        f"{node} did not take the programs that choose its build: not measured in this run"
        for node in lacking
    ]
    return f"{directory}/build", have, problems


def dispatcher(
    context: Context, builds: tuple[NodeTypeBuild, ...], known: Mapping[str, NodeFacts]
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
        tuple(f"{collective}_perf" for collective in collectives_of(context)),
    )
    return tuple(node for each in named.values() for node in each), stamp, files


def present(
    context: Context, folder: str, nodes: tuple[str, ...], files: Mapping[str, bytes]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(nodes with these programs in the folder, nodes without)."""
    hashes = tuple(
        (name.removeprefix("build/"), hashlib.sha256(content).hexdigest())
        for name, content in sorted(files.items())
    )
    proofs = prove(context, dict.fromkeys(nodes, folder), (building.digest(hashes),))
    have = tuple(node for node in nodes if node in proofs and proofs[node].hashes == hashes)
    return have, tuple(node for node in nodes if node not in have)
