"""Open MPI's mpirun: the command line for a launch. Written against 4.1.4 and 5.0.11, both run
here; the option names of either.

What differs in 5: the launcher's own parameters are PRRTE's (`--prtemca`, `plm_ssh_agent` for
`plm_rsh_agent`), and a list of nodes keeps its order. In 4 the node that mpirun runs on is mapped
first wherever `-H` has it: there every rank is placed by name instead.
"""

from __future__ import annotations

import dataclasses
import re

from busbw.errors import UsageError
from busbw.launch import Launcher, LaunchRequest, placing
from busbw.launch.nccl_tests import arguments
from busbw.model import Invocation

NOISE = (
    re.compile(
        r"plm:(rsh|ssh): Warning: setpgid\(.*\) failed in parent with errno=Permission denied"
    ),
    re.compile(r"srun: cluster configuration lacks support for cpu binding"),
    re.compile(r"Warning: Permanently added .* to the list of known hosts"),
)
"""Lines on a launcher's standard error that mean nothing: harmless races, and an option that there
is nothing to switch off for."""


def ssh_agent(config: str | None, *, options: tuple[tuple[str, str], ...] = ()) -> str:
    """The command with which mpirun on the head reaches the other nodes: never asks, checks host
    keys, spares CPU.

    `config` is the path of an ssh_config on the head; None = the head user's own. sntrup761,
    OpenSSH 9's first choice of key exchange, takes 63 ms of CPU per connection, curve25519, which
    comes next, 9 ms: without the first, 64 nodes start in 2.5 to 3.0 s instead of 4.5.

    Raises:
        UsageError: a word holds a blank or a quote.

    >>> ssh_agent(None)
    'ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=20 -o KexAlgorithms=-sntrup*'
    """
    pairs = (
        ("BatchMode", "yes"),
        ("StrictHostKeyChecking", "yes"),
        ("ConnectTimeout", "20"),
        ("KexAlgorithms", "-sntrup*"),
        *options,
    )
    words = ["ssh", *(["-F", config] if config is not None else [])]
    for name, value in pairs:
        words += ["-o", f"{name}={value}"]
    strange = [word for word in words if re.search(r"[\s'\"\\]", word)]
    if strange:
        # mpirun cuts the agent at blanks and knows no quoting.
        raise UsageError(
            f"{strange[0]!r} cannot be handed to mpirun's ssh: it holds a blank or a quote",
            next_step="use another path",
        )
    return " ".join(words)


def build(request: LaunchRequest) -> Invocation:
    """The complete mpirun command line: nodes, places, MCA parameters, every variable, the binary
    and its options.

    Raises:
        UsageError: no node, a node twice, an illegal name, no number of ranks, two values of an MCA
        parameter, or Open MPI before 3.
    """
    kind = "ssh" if placing.major(request.mpi) >= 5 else "rsh"
    # Daemons are started by the head alone: the other nodes need no key for each other.
    agent = placing.agent(request)
    daemons = [(f"plm_{kind}_agent", agent.command)]
    if request.odd_shells:
        # Else it takes the words of the head's own login shell for all nodes.
        daemons.append((f"plm_{kind}_assume_same_shell", "0"))
    daemons.append((f"plm_{kind}_no_tree_spawn", "1"))
    plain = compose(request, tuple(daemons))
    return dataclasses.replace(plain, argv=(*agent.before, *plain.argv))


def compose(
    request: LaunchRequest, daemons: tuple[tuple[str, str], ...], *, in_order: bool = True
) -> Invocation:
    """mpirun with the parameters that say how its daemons are started. `in_order` = False: its own
    order of the nodes is another.

    Raises:
        UsageError: as `build`.
    """
    case = request.case
    names = placing.names(request)
    ranks = placing.ranks_per_node(request)
    major = placing.major(request.mpi)
    argv = [request.mpi.path, *(["--allow-run-as-root"] if request.mpi.run_as_root else [])]
    by_name = not in_order or (major < 5 and request.head in names[1:])
    argv += ["-np", str(len(names) * ranks)]
    argv += _placement(
        names, ranks, by_rail=case.by_rail, seq=by_name or (case.by_rail and major < 5)
    )
    argv += ["--bind-to", "none"]
    for flag, name, value in _mca(request, daemons, major):
        argv += [flag, name, value]
    for variable in request.env:
        argv += ["-x", f"{variable.name}={variable.value}"]
    argv += [*placing.program(request), *arguments(case, request.json_path)]
    return placing.invocation(request, argv, ranks)


def _placement(names: tuple[str, ...], ranks: int, *, by_rail: bool, seq: bool) -> list[str]:
    """Node by node, or `by_rail`: round the nodes, once per rank of a node. `seq` = every rank is
    placed by name."""
    if seq:
        by_rank = names * ranks if by_rail else [name for name in names for _ in range(ranks)]
        return ["-H", ",".join(by_rank), "--map-by", "seq"]
    hosts = ",".join(f"{name}:{ranks}" for name in names)
    rank_by = "node" if by_rail else "slot"
    return ["-H", hosts, "--map-by", f"ppr:{ranks}:node", "--rank-by", rank_by]


def _mca(
    request: LaunchRequest, daemons: tuple[tuple[str, str], ...], major: int
) -> list[tuple[str, str, str]]:
    """(flag, parameter, value), each parameter once: Open MPI refuses a parameter that is listed
    twice."""
    runtime = "--prtemca" if major >= 5 else "--mca"
    parameters = [(runtime, name, value) for name, value in daemons]
    for option in placing.options(request):
        flag = runtime if option.runtime else "--mca"
        ours = dict(daemons).get(option.name)
        if ours is not None and ours != option.value:
            raise UsageError(
                f"MCA parameter {option.name} is given twice, as {ours!r} and {option.value!r}",
                next_step="give it once",
            )
        if ours is None:
            parameters.append((flag, option.name, option.value))
    return parameters


LAUNCHER = Launcher(
    "mpirun",
    "Open MPI over ssh",
    build,
    over_ssh=True,
    concurrent=True,
    option_words=(("--allow-run-as-root", 0), ("--mca", 2), ("--prtemca", 2)),
)
