"""What is built for which nodes: their types, what a type lacks for a build, and the arguments of make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from busbw import faults
from busbw.building import node_types
from busbw.building import recipe as building
from busbw.building.node_types import Group, NodeType
from busbw.building.recipe import Benchmark, BuildPlan
from busbw.checks import toolchain
from busbw.checks.software import NodeFacts
from busbw.checks.toolchain import Toolchain
from busbw.errors import BuildError
from busbw.inventory.hostlist import fold
from busbw.run.context import Context

ORIGIN = "$ORIGIN"
"""The loader takes what lies next to the binary."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """A benchmark, and the nodes of a run that are to have it."""

    context: Context
    head: str
    """It starts the launcher, so a build that lacks it is useless."""
    nodes: tuple[str, ...]
    known: Mapping[str, NodeFacts]
    """What each of `nodes` says of itself."""
    benchmark: Benchmark
    root: str
    """Folder on every node that builds go below, absolute."""


def groups_to_build_for(request: BuildRequest) -> tuple[list[Group], list[str]]:
    """The node types that can be built for and launched together, and why others are left out.

    Raises:
        BuildError: the head lacks what a build takes.
    """
    head, benchmark = request.head, request.benchmark
    commands = dict.fromkeys(request.nodes, toolchain.command(cuda=benchmark.cuda))
    answers = request.context.fleet.run(commands, deadline_s=60)
    chains = faults.read_each(answers, toolchain.parse)
    silent = Toolchain(head, None, None, None, None, None, None, None, False, ())
    types = {
        node: node_types.type_of(chains.get(node, silent), request.known[node], cuda=benchmark.cuda)
        for node in request.nodes
        if node in chains or node == head
    }
    lacks = lacking_for_build(types[head], head, benchmark)
    if lacks is not None:
        raise lacks
    groups = []
    problems = [
        f"{node} does not say what it has to build with: not measured in this run"
        for node in request.nodes
        if node not in types
    ]
    for each in node_types.group(types, head):
        missing = lacking_for_build(each.type, each.builder, benchmark)
        reason = node_types.incompatible(each.type, types[head]) or (
            missing.what if missing else ""
        )
        if reason:
            problems.append(f"{fold(each.nodes)}: {reason}: not measured in this run")
        else:
            groups.append(each)
    if len(groups) > 1:
        request.context.progress("build", node_types.summary(tuple(groups)))
    return groups, problems


def lacking_for_build(node_type: NodeType, node: str, benchmark: Benchmark) -> BuildError | None:
    """What a build for this type fails for; None = nothing."""
    cuda = benchmark.cuda and not benchmark.hip
    if node_type.mpi_home is None:
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
    if benchmark.hip and (node_type.rocm_home is None or node_type.nccl_library is None):
        lacking = "ROCm" if node_type.rocm_home is None else "RCCL"
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
    if cuda and node_type.rocm_home is not None:
        return BuildError(
            f"{node} has AMD's GPUs, and the sources are nccl-tests, which is CUDA's",
            seen=f"ROCm {node_type.rocm or 'of unknown version'} in {node_type.rocm_home}",
            next_step="--nccl-tests git+https://github.com/ROCm/rccl-tests.git",
        )
    if cuda and node_type.cuda_home is None:
        return BuildError(
            f"no CUDA toolkit on {node}, which nccl-tests is built with",
            seen="no nvcc on PATH, in $CUDA_HOME or /usr/local/cuda",
            next_step=(
                "install the toolkit or load its module for the login shell, or give binaries that"
                " are there: --nccl-tests /FOLDER"
            ),
        )
    if cuda and (node_type.nccl_home is None or node_type.nccl_library is None):
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


def collectives_of(context: Context) -> tuple[str, ...]:
    """Those of the plan's cases, sorted; all_reduce is always one."""
    return tuple(
        sorted({str(case.collective) for case in context.plan.playbook.cases} | {"all_reduce"})
    )


def plan_of(request: BuildRequest, node_type: NodeType, owner: str) -> BuildPlan:
    """The build for one node type; `owner` marks the builds of this machine."""
    context, benchmark = request.context, request.benchmark
    make = ("MPI=1", f"MPI_HOME={node_type.mpi_home}", *benchmark.make_args)
    # The loader searches /usr by itself.
    path = [] if node_type.mpi_home in (None, "/usr") else [f"{node_type.mpi_home}/lib"]
    sources, nccl = benchmark.sources or b"", ("", "", "")
    if benchmark.hip:
        make += _rccl_arguments(node_type, collectives_of(context))
        path = [f"{node_type.nccl_home}/lib", f"{node_type.rocm_home}/lib", *path]
    elif benchmark.cuda:
        make += (
            f"CUDA_HOME={node_type.cuda_home}",
            f"BIN_FILES_LIST={' '.join(collectives_of(context))}",
        )
        nccl = (node_type.nccl_home or "", node_type.nccl_library or "", node_type.nccl or "")
        targets = toolchain.gencode(node_type.capabilities)
        if context.plan.cluster.emulated:
            # Nothing runs on a GPU there: one target is enough, and the loader takes the stand-ins
            # that lie beside the binaries.
            make += ("NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90",)
            path = [ORIGIN, *path]
        else:
            make += (f"NVCC_GENCODE={targets}",) if targets else ()
            path = [nccl[1].rpartition("/")[0], f"{node_type.cuda_home}/lib64", *path]
    return building.plan(
        sources,
        make,
        repr(node_type),
        request.root,
        nccl=nccl,
        run_path=":".join(path),
        owner=owner,
    )


def _rccl_arguments(node_type: NodeType, collectives: tuple[str, ...]) -> tuple[str, ...]:
    """What rccl-tests' Makefile takes (ROCm/rccl-tests, src/Makefile of September 2024; newer ones
    also take the targets). hipify-perl is called without a folder, so that PATH must have it."""
    home = node_type.rocm_home or ""
    targets = ",".join(node_type.capabilities)
    return (
        f"ROCM_PATH={home}",
        f"HIP_HOME={home}",
        f"NCCL_HOME={node_type.nccl_home}",
        f"CUSTOM_RCCL_LIB={node_type.nccl_home}/lib",
        *((f"GPU_TARGETS={targets}",) if targets else ()),
        f"BIN_FILES_LIST={' '.join(collectives)}",
        f"PATH={home}/bin:/usr/local/bin:/usr/bin:/bin",
    )


def versions_of(node_type: NodeType) -> str:
    """What a build for this type is linked to, as the end of a line; "" = nothing of a GPU."""
    if node_type.rocm_home is not None:
        return f": ROCm {node_type.rocm}, RCCL {node_type.nccl} from {node_type.nccl_library}"
    return (
        ""
        if node_type.cuda is None
        else f": CUDA {node_type.cuda}, NCCL {node_type.nccl} from {node_type.nccl_library}"
    )
