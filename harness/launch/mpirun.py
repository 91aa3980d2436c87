"""Open MPI's mpirun: the command line for a launch. Written against 4.1.4 and 5.0.11, both run here; the option names of either.

What differs in 5: the launcher's own parameters are PRRTE's (`--prtemca`, `plm_ssh_agent` for `plm_rsh_agent`), and a list of nodes keeps
its order. In 4 the node that mpirun runs on is mapped first wherever `-H` has it: there every rank is placed by name instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.errors import UsageError
from busbw.inventory.hostlist import LEGAL_NAME, fold, illegal
from busbw.launch import LaunchRequest, MpiFacts
from busbw.launch.nccl_tests import arguments
from busbw.records import Invocation, Node

NOISE = (
    re.compile(r"plm:(rsh|ssh): Warning: setpgid\(.*\) failed in parent with errno=Permission denied"),
    re.compile(r"Warning: Permanently added .* to the list of known hosts"),
)
"""Lines on mpirun's standard error that mean nothing: harmless races of the launcher."""


def ssh_agent(config: str | None, *, options: tuple[tuple[str, str], ...] = ()) -> str:
    """The command with which mpirun on the head reaches the other nodes: never asks, checks host keys, spares CPU.

    `config` is the path of an ssh_config on the head; None = the head user's own. sntrup761, OpenSSH 9's first choice of key exchange,
    takes 63 ms of CPU per connection, curve25519, which comes next, 9 ms: without the first, 64 nodes start in 2.5 to 3.0 s instead of 4.5.

    Raises:
        UsageError: a word holds a blank or a quote.

    >>> ssh_agent(None)
    'ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=20 -o KexAlgorithms=-sntrup*'
    """
    pairs = (("BatchMode", "yes"), ("StrictHostKeyChecking", "yes"), ("ConnectTimeout", "20"), ("KexAlgorithms", "-sntrup*"), *options)
    words = ["ssh", *(["-F", config] if config is not None else [])]
    for name, value in pairs:
        words += ["-o", f"{name}={value}"]
    strange = [word for word in words if re.search(r"[\s'\"\\]", word)]
    if strange:
        # mpirun cuts the agent at blanks and knows no quoting.
        raise UsageError(f"{strange[0]!r} cannot be handed to mpirun's ssh: it holds a blank or a quote", next_step="use another path")
    return " ".join(words)


@dataclass(frozen=True, slots=True)
class Mpirun:
    """Open MPI's launcher over ssh."""

    name: str = "mpirun"

    def build(self, request: LaunchRequest) -> Invocation:
        """The complete mpirun command line: nodes, places, MCA parameters, every variable, the binary and its options.

        Raises:
            UsageError: no node, a node twice, an illegal name, no number of ranks, two values of an MCA parameter, or Open MPI before 3.
        """
        case = request.case
        names = tuple(node.name for node in request.nodes)
        _check(names, case.id)
        ranks = _ranks_per_node(request)
        major = _major(request.mpi)
        argv = [request.mpi.path, *(["--allow-run-as-root"] if request.mpi.run_as_root else [])]
        placement = _by_rail(names, ranks, major) if case.by_rail else _placement(names, ranks, request.head, major)
        argv += ["-np", str(len(names) * ranks), *placement, "--bind-to", "none"]
        for flag, name, value in _mca(request, major):
            argv += [flag, name, value]
        for variable in request.env:
            argv += ["-x", f"{variable.name}={variable.value}"]
        argv += [request.binary, *arguments(case, request.json_path)]
        return Invocation(case.id, tuple(argv), request.env, names, case.timeout_s, len(names) * ranks)


LAUNCHER = Mpirun()


def _check(names: tuple[str, ...], case_id: str) -> None:
    if not names:
        raise UsageError(f"case {case_id}: no node to run on")
    bad = [name for name in names if not LEGAL_NAME.match(name)]
    if bad:
        raise UsageError(illegal(bad[0]))
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UsageError(f"case {case_id}: {fold(twice)} named twice")


def _ranks_per_node(request: LaunchRequest) -> int:
    """One number for all nodes: groups and rails are counted by it."""
    if request.case.ranks_per_node is not None:
        return request.case.ranks_per_node
    if request.ranks_per_node is not None:
        return request.ranks_per_node
    by_count: dict[int | None, list[str]] = {}
    for node in request.nodes:
        by_count.setdefault(_own_ranks(node), []).append(node.name)
    if len(by_count) > 1:
        seen = ", ".join(f"{'unknown' if count is None else count} on {fold(nodes)}" for count, nodes in by_count.items())
        raise UsageError(
            f"case {request.case.id}: the nodes have different numbers of GPUs",
            seen=seen,
            next_step="leave some out with -x, or give ranks_per_node",
        )
    (count,) = by_count
    if count is None:
        raise UsageError(
            f"case {request.case.id}: how many ranks belong on a node is not known",
            seen=f"no gpus and no slots for {fold(node.name for node in request.nodes)}",
            next_step="give gpus in the inventory or ranks_per_node in the playbook",
        )
    return count


def _own_ranks(node: Node) -> int | None:
    return node.slots if node.slots is not None else node.gpus


def _placement(names: tuple[str, ...], ranks: int, head: str, major: int) -> list[str]:
    if major < 5 and head in names[1:]:
        return ["-H", ",".join(name for name in names for _ in range(ranks)), "--map-by", "seq"]
    return ["-H", ",".join(f"{name}:{ranks}" for name in names), "--map-by", f"ppr:{ranks}:node", "--rank-by", "slot"]


def _by_rail(names: tuple[str, ...], ranks: int, major: int) -> list[str]:
    """Round the nodes, once per rank of a node."""
    if major < 5:
        return ["-H", ",".join(names * ranks), "--map-by", "seq"]
    return ["-H", ",".join(f"{name}:{ranks}" for name in names), "--map-by", f"ppr:{ranks}:node", "--rank-by", "node"]


def _mca(request: LaunchRequest, major: int) -> list[tuple[str, str, str]]:
    """(flag, parameter, value), each parameter once: Open MPI refuses a parameter that is listed twice."""
    runtime = "--prtemca" if major >= 5 else "--mca"
    launcher = "ssh" if major >= 5 else "rsh"
    wanted = [
        (runtime, f"plm_{launcher}_agent", request.ssh_agent),
        # Daemons are started by the head alone: the other nodes need no key for each other.
        (runtime, f"plm_{launcher}_no_tree_spawn", "1"),
    ]
    for option in request.options:
        if (option.since is None or major >= option.since) and (option.until is None or major < option.until):
            wanted.append((runtime if option.runtime else "--mca", option.name, option.value))
    values: dict[str, str] = {}
    for _, name, value in wanted:
        if values.setdefault(name, value) != value:
            raise UsageError(f"MCA parameter {name} is given twice, as {values[name]!r} and {value!r}", next_step="give it once")
    return list(dict.fromkeys(wanted))


def _major(mpi: MpiFacts) -> int:
    match = re.match(r"v?(\d+)\.", mpi.version)
    if match is None or int(match[1]) < 3:
        raise UsageError(
            f"mpirun is Open MPI {mpi.version!r}; 3, 4 and 5 are known", next_step="put another Open MPI first in PATH on the head node"
        )
    return int(match[1])
