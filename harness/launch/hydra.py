"""MPICH's Hydra: the mpiexec command line for a launch. Written against the options of MPICH 3.2 to
4.3 (`mpiexec -help`); MPICH installs the same program as `mpirun`.

Hydra takes ssh's options from HYDRA_LAUNCHER_EXTRA_ARGS, cut at blanks, and ssh's program from
`-launcher-exec`. Without `-genvnone` it would hand the head's whole environment to every rank.
MCA parameters are Open MPI's and have no meaning here; `-iface` keeps MPI's own traffic off the
rails. An MPICH built on UCX takes it from UCX_NET_DEVICES (`env.ucx_variables`).
"""

from __future__ import annotations

from busbw.launch import Launcher, LaunchRequest, Mpi, placing
from busbw.launch.nccl_tests import arguments
from busbw.model import Invocation

_INTERFACE = "btl_tcp_if_include"
"""The MCA parameter of a profile whose value `-iface` takes."""


def build(request: LaunchRequest) -> Invocation:
    """The complete mpiexec command line: nodes, places, every variable, the binary and its options.

    Raises:
        UsageError: no node, a node twice, an illegal name or no number of ranks.
    """
    case = request.case
    names = placing.names(request)
    ranks = placing.ranks_per_node(request)
    agent = placing.agent(request)
    program, *extra = agent.command.split()
    argv = [*(agent.before or ("env",)), f"HYDRA_LAUNCHER_EXTRA_ARGS={' '.join(extra)}"]
    # As "ssh" it puts an -x before them all, which is ssh's and would be sh's.
    kind = "rsh" if request.odd_shells else "ssh"
    argv += [request.mpi.path, "-launcher", kind, "-launcher-exec", program]
    for option in request.options:
        if option.name == _INTERFACE:
            argv += ["-iface", option.value.split(",")[0]]
    # One rank a node and more ranks than nodes: Hydra goes round the nodes.
    per_node = 1 if case.by_rail else ranks
    argv += ["-hosts", ",".join(names), "-ppn", str(per_node), "-n", str(len(names) * ranks)]
    argv += ["-bind-to", "none", "-genvnone"]
    for variable in request.env:
        argv += ["-genv", variable.name, variable.value]
    # Else each node's proxy would look for the job's folder, which the head alone has.
    argv += ["-wdir", "/tmp"]
    argv += [*placing.program(request), *arguments(case, request.json_path)]
    return placing.invocation(request, argv, ranks)


LAUNCHER = Launcher(
    "hydra",
    "MPICH over ssh",
    build,
    mpi=Mpi.MPICH,
    over_ssh=True,
    concurrent=True,
    option_words=(("-genvnone", 0), ("-genv", 2)),
)
