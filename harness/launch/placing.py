"""Which nodes a launch may name, and how many ranks belong on each: what every launcher has to know
before it writes a line."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from busbw import shell
from busbw.errors import UsageError
from busbw.fabrics.profile import MpiOption
from busbw.inventory.hostlist import LEGAL_NAME, fold, illegal
from busbw.launch import LaunchRequest, MpiFacts
from busbw.model import Invocation, Node

_AGENT = "BUSBW_AGENT"


def names(request: LaunchRequest) -> tuple[str, ...]:
    """The nodes in the order of their ranks.

    Raises:
        UsageError: no node, a node twice, or an illegal name.
    """
    names_in_order = tuple(node.name for node in request.nodes)
    if not names_in_order:
        raise UsageError(f"case {request.case.id}: no node to run on")
    bad = [name for name in names_in_order if not LEGAL_NAME.match(name)]
    if bad:
        raise UsageError(illegal(bad[0]))
    twice = {name for name, times in Counter(names_in_order).items() if times > 1}
    if twice:
        raise UsageError(f"case {request.case.id}: {fold(twice)} named twice")
    return names_in_order


def ranks_per_node(request: LaunchRequest) -> int:
    """One number for all nodes: groups and rails are counted by it.

    Raises:
        UsageError: the nodes differ, or it is not known.
    """
    if request.case.ranks_per_node is not None:
        return request.case.ranks_per_node
    if request.ranks_per_node is not None:
        return request.ranks_per_node
    by_count: dict[int | None, list[str]] = {}
    for node in request.nodes:
        by_count.setdefault(_own_ranks(node), []).append(node.name)
    if len(by_count) > 1:
        counts = [
            f"{'unknown' if count is None else count} on {fold(nodes)}"
            for count, nodes in by_count.items()
        ]
        raise UsageError(
            f"case {request.case.id}: the nodes have different numbers of GPUs",
            seen=", ".join(counts),
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


@dataclass(frozen=True, slots=True)
class Agent:
    """How a launcher reaches the other nodes."""

    command: str
    """One line, which launchers cut at blanks: no quoting."""
    before: tuple[str, ...] = ()
    """Words before the launcher's own."""


def agent(request: LaunchRequest) -> Agent:
    """ssh; where a login shell is not POSIX, the script in front of it that encodes the command.

    The script travels in a variable: a file would have to be written before a launch that is only
    tried.
    """
    ssh = request.ssh_agent
    if not request.odd_shells:
        return Agent(ssh)
    script = shell.load("busbw.launch", "agent.sh")
    start = f'sh -c eval${{IFS}}"${_AGENT}" busbw-agent'
    return Agent(f"{start} {len(ssh.split())} {ssh}", ("env", f"{_AGENT}={script}"))


def major(mpi: MpiFacts) -> int:
    """Open MPI's major version.

    Raises:
        UsageError: it is another MPI, or Open MPI before 3.
    """
    match = re.match(r"v?(\d+)\.", mpi.version)
    if match is None or int(match[1]) < 3:
        raise UsageError(
            f"mpirun is Open MPI {mpi.version!r}; 3, 4 and 5 are known",
            next_step="put another Open MPI first in PATH on the head node",
        )
    return int(match[1])


def options(request: LaunchRequest) -> tuple[MpiOption, ...]:
    """The MCA parameters that this version of Open MPI knows, each once.

    Raises:
        UsageError: two values of one parameter.
    """
    version = major(request.mpi)
    values: dict[str, MpiOption] = {}
    for option in request.options:
        if version < (option.since or 0) or version >= (option.until or math.inf):
            continue
        first = values.setdefault(option.name, option)
        if first.value != option.value:
            raise UsageError(
                f"MCA parameter {option.name} is given twice, as {first.value!r} and"
                f" {option.value!r}",
                next_step="give it once",
            )
    return tuple(values.values())


def program(request: LaunchRequest) -> tuple[str, ...]:
    """The words that start a rank's program: `env -u` where a variable must be taken away, a shell
    where a script is sourced first.

    A launcher can only add variables: what a login shell, an image or, on the head, its own
    environment sets would stay.
    """
    away = tuple(word for each in request.unset for word in ("-u", each.name))
    if request.setup is None:
        return (*(("env", *away) if away else ()), request.binary)
    script = shell.load("busbw.launch", "setup.sh")
    need = "optional" if request.setup.optional else "required"
    own = tuple(f"{each.name}={each.value}" for each in request.env if not each.yields)
    return ("bash", "-c", script, "setup", request.setup.path, need, *away, *own, request.binary)


def invocation(request: LaunchRequest, argv: Iterable[str], ranks: int) -> Invocation:
    """The launch of `ranks` ranks a node with these words."""
    nodes = names(request)
    return Invocation(
        case_id=request.case.id,
        argv=tuple(argv),
        env=request.env,
        nodes=nodes,
        timeout_s=request.case.timeout_s,
        nranks=len(nodes) * ranks,
        unset=request.unset,
        setup=request.setup,
    )


def _own_ranks(node: Node) -> int | None:
    return node.slots if node.slots is not None else node.gpus
