"""From a case to a launch: the environment, the places, the command line and the directory of its
job. No node is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from busbw.checks.software import NodeFacts
from busbw.errors import LaunchError
from busbw.launch import FabricFacts, Launcher, LaunchRequest, Mpi, MpiFacts, SlurmFacts, pml
from busbw.launch.choose import choose, launchers
from busbw.launch.env import mpi_options, resolve, setup_script
from busbw.launch.mpirun import ssh_agent
from busbw.model import BenchmarkCase, ResolvedVar
from busbw.run.planning import origins_of
from busbw.store.plan import RunPlan

if TYPE_CHECKING:
    from busbw.run.measure import Launch

PROOF = "proof"
"""Purpose of the launch whose log proves transport, rails and GPUDirect."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where launches of a run happen."""

    head: str
    """The node that starts the launcher."""
    directory: str
    """Work folder of busbw on every node, absolute."""
    binaries: str
    """Folder of the binaries on every node, absolute."""
    known: Mapping[str, NodeFacts]
    ssh_config: str | None = None
    """On the head, for the launcher's ssh; None = the head user's own."""
    slurm: SlurmFacts | None = None
    """The allocation, where the launcher needs one."""
    nccl_version: str | None = None
    """What the ranks were built with: a profile's values are for some versions; None = not
    known."""


def common(values: tuple[_T | None, ...]) -> _T | None:
    """The value all have; None = they differ, or one is not known.

    >>> common(("eth0", "eth0")), common(("eth0", "ib0")), common(())
    ('eth0', None, None)
    """
    kinds = Counter(values)
    return next(iter(kinds)) if len(kinds) == 1 else None


def fabric_facts(
    plan: RunPlan,
    nodes: tuple[str, ...],
    known: Mapping[str, NodeFacts],
    log_dir: str | None = None,
    nccl_version: str | None = None,
) -> FabricFacts:
    """What the profile's placeholders stand for, where all nodes agree; `log_dir` None = the ranks'
    logs stay on standard output."""
    chosen = plan.cluster.chosen(nodes)
    rails = {node.data_interfaces for node in chosen}
    return FabricFacts(
        socket_ifname=common(
            tuple(known[name].ssh_interface if name in known else None for name in nodes)
        ),
        rails=rails.pop() if len(rails) == 1 else (),
        log_dir=log_dir,
        machine=common(tuple(dict(node.labels).get("machine") for node in chosen)),
        nccl_version=nccl_version,
    )


def _listed_gpus(
    plan: RunPlan, nodes: tuple[str, ...], known: Mapping[str, NodeFacts]
) -> int | None:
    """The GPUs that every node lists, where the inventory says nothing of slots or GPUs."""
    if any(node.slots or node.gpus for node in plan.cluster.chosen(nodes)):
        return None
    return common(tuple(known[name].gpus if name in known else None for name in nodes))


def mpi_of(facts: NodeFacts, mpi: Mpi) -> MpiFacts | None:
    """The node's MPI; None = it has none, or another implementation."""
    version, path = facts.mpi, facts.mpirun_path
    if version is None or version.version is None or path is None or version.implementation != mpi:
        return None
    return MpiFacts(version.version, path, run_as_root=facts.user_id == 0)


_POSIX = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
"""Login shells that read the words with which mpirun starts its daemons."""


def odd_shells(nodes: tuple[str, ...], known: Mapping[str, NodeFacts]) -> bool:
    """Whether a node's login shell does not read sh (fish, tcsh)."""
    shells = (known[name].login_shell for name in nodes if name in known)
    return any(shell.rpartition("/")[2] not in _POSIX for shell in shells if shell)


def _mpi_on_head(place: Place, launcher: Launcher) -> MpiFacts:
    facts = place.known.get(place.head)
    mpi = mpi_of(facts, launcher.mpi) if facts else None
    if mpi is not None:
        return mpi
    others = [each.name for each in launchers().values() if facts and mpi_of(facts, each.mpi)]
    if others:
        next_step = f"--launcher {others[0]}, or put {launcher.mpi} first in PATH on the head node"
    else:
        next_step = (
            f"install {launcher.mpi} on it, load the MPI module in its login shell, or name another"
            " head in the inventory"
        )
    raise LaunchError(
        f"no {launcher.mpi} on the head node {place.head}, which launcher {launcher.name} needs",
        seen=f"mpirun: {facts.mpirun_path if facts else 'the node did not answer'}",
        next_step=next_step,
    )


def _variables(
    resolved: tuple[ResolvedVar, ...],
    plan: RunPlan,
    launcher: Launcher,
    facts: FabricFacts,
    mpi: MpiFacts,
    job_id: str,
) -> tuple[ResolvedVar, ...]:
    """What the ranks get: also the transport of their MPI, and the mark of their launch."""
    # MPICH may be built on UCX, too, and has no option that says so.
    transport = "ucx" if launcher.mpi is Mpi.MPICH else plan.pml
    mark = ResolvedVar(
        "BUSBW_JOB",
        job_id,
        "busbw",
        "marks the ranks of this launch, so that they are found and ended by it",
    )
    return (*pml.ucx_variables(transport, resolved, facts, mpi.path), mark)


def make(
    plan: RunPlan,
    place: Place,
    case: BenchmarkCase,
    nodes: tuple[str, ...],
    *,
    order: int,
    groups: tuple[tuple[str, ...], ...] = (),
) -> Launch:
    """A complete launch of `case` on `nodes`, ranks in that order.

    Raises:
        LaunchError: the head node has not the MPI that the launcher needs.
        UsageError: the launcher cannot express the case.
    """
    # Here, because it loads what judges stalls: a check plans without launching.
    from busbw.run.measure import Launch

    launcher = choose(plan.cluster.launcher)
    mpi = _mpi_on_head(place, launcher)
    job_id = f"{plan.run_id}/{case.id}"
    directory = f"{place.directory}/{plan.job_directory}/{case.id}"
    # Only what is to be proven fills files: of the other launches NCCL prints its warnings, and
    # they belong beside the launcher's words.
    facts = fabric_facts(
        plan,
        nodes,
        place.known,
        f"{directory}.nccl" if case.purpose == PROOF else None,
        place.nccl_version,
    )
    resolved = resolve(origins_of(plan), case, facts)
    env = _variables(resolved.variables, plan, launcher, facts, mpi, job_id)
    request = LaunchRequest(
        case=case,
        nodes=plan.cluster.chosen(nodes),
        head=place.head,
        binary=f"{place.binaries}/{case.collective}_perf",
        env=env,
        mpi=mpi,
        options=pml.options(plan.pml, mpi_options(plan.profile, facts)),
        json_path=f"{directory}/result.json",
        ssh_agent=ssh_agent(place.ssh_config),
        odd_shells=odd_shells((place.head, *nodes), place.known),
        ranks_per_node=plan.ranks_per_node or _listed_gpus(plan, nodes, place.known),
        slurm=place.slurm,
        unset=resolved.unset,
        setup=setup_script(plan.profile, plan.playbook, plan.cluster.setup),
    )
    invocation = launcher.build(request)
    logs = any(variable.name == "NCCL_DEBUG_FILE" for variable in env)
    return Launch(
        case=case,
        invocation=invocation,
        nodes=nodes,
        ranks_per_node=invocation.nranks // len(nodes),
        directory=directory,
        job_id=job_id,
        log_dir=facts.log_dir if logs else None,
        head=place.head,
        groups=groups,
        order=order,
    )
