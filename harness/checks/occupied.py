"""Whether somebody else works on a node: processes on its GPUs, other users' launchers; and what of
it could not be seen."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.checks import CheckFamily, NodeAnswer, Section
from busbw.checks.software import facts
from busbw.parsers.tools import gpus

_LAUNCHERS = "mpirun|mpiexec|mpiexec.hydra|orterun|prterun|prte|orted|prted|hydra_pmi_proxy|torchrun|[a-z_]*_perf"
_PS = "ps -eo state,pid,uid,user:32,wchan:32,comm"
_ROW = re.compile(r"^(\S+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S+)\s+(\S.*?)\s*$", re.M)
_OWNER = re.compile(r"^owner (\d+) (\S+) (\S.*?)\s*$", re.M)


@dataclass(frozen=True, slots=True)
class Process:
    """One line of `ps`."""

    state: str
    pid: int
    user_id: int
    user: str
    wait_channel: str
    name: str


@dataclass(frozen=True, slots=True)
class Occupant:
    """Somebody else's work on a node."""

    node: str
    what: str
    """In a few words: `python3 on a GPU`, `mpirun`, `Slurm job 8812`."""
    owner: str | None
    """User name; None = the process is of another name space, so that nobody here knows whose it
    is."""


def processes(text: str) -> tuple[Process, ...]:
    """The processes that the section lists, in order; its head line is none.

    >>> processes("S PID UID USER WCHAN COMMAND\\nD    77  1000 ana  nfs_wait python3\\n")[0].user
    'ana'
    """
    return tuple(
        Process(state, int(pid), int(uid), user, channel, name)
        for state, pid, uid, user, channel, name in _ROW.findall(text)
    )


def users(answers: tuple[NodeAnswer, ...]) -> tuple[str, ...]:
    """People who were seen on the nodes, sorted. Accounts of the system (below 1000, the usual
    `UID_MIN` of login.defs, and `nobody`) are nobody."""
    seen = set()
    for answer in answers:
        apps, listed = answer.section("gpu_apps"), answer.section("processes")
        if listed is not None:
            people = (p for p in processes(listed.stdout) if 1000 <= p.user_id < 65534)
            seen |= {p.user for p in people}
        if apps is not None:
            seen |= {user for _, user, _ in _OWNER.findall(apps.stdout)}
    return tuple(sorted(seen))


def occupants(answer: NodeAnswer, user_id: int | None) -> tuple[Occupant, ...]:
    """Who else works on the node: any process on a GPU (none of ours runs yet), and launchers of
    other users than `user_id`."""
    name, jobs = answer.node.name, []
    apps, listed = answer.section("gpu_apps"), answer.section("processes")
    if apps is not None:
        owners = {int(pid): (user, command) for pid, user, command in _OWNER.findall(apps.stdout)}
        for pid in gpus.process_ids(apps.stdout) or ():
            owner, command = owners.get(pid, (None, f"process {pid}"))
            jobs.append(Occupant(name, f"{command} on a GPU", owner))
    if listed is not None and user_id is not None:
        launchers = {
            (p.name, p.user)
            for p in processes(listed.stdout)
            if p.user_id != user_id and re.fullmatch(_LAUNCHERS, p.name)
        }
        jobs += [Occupant(name, command, owner) for command, owner in sorted(launchers)]
    return tuple(dict.fromkeys(jobs))


def occupants_of_others(answer: NodeAnswer) -> tuple[Occupant, ...]:
    """`occupants` for the user that the node itself names."""
    return occupants(answer, facts(answer).user_id)


def unseen(answer: NodeAnswer) -> tuple[str, ...]:
    """What would tell more and did not answer; () = all was seen."""
    unanswered = []
    modules, apps, listed = (
        answer.section(name) for name in ("nvidia_driver", "gpu_apps", "processes")
    )
    driver = modules is not None and modules.stdout.strip() != ""
    if driver and (apps is None or apps.exit_status != 0):
        unanswered.append("processes on GPUs: nvidia-smi does not answer")
    if listed is None or listed.exit_status != 0:
        unanswered.append("other users' launchers: ps does not answer")
    return tuple(unanswered)


def schedules(answer: NodeAnswer) -> bool:
    """Whether the node is one of Slurm's: its daemon runs."""
    listed = answer.section("processes")
    return listed is not None and any(
        p.name in ("slurmd", "slurmstepd") for p in processes(listed.stdout)
    )


CHECK = CheckFamily(
    name="occupied",
    checks=(),
    sections=(
        # A second look only where the first found a process that hangs: a moment in that state
        # means nothing.
        Section(
            "processes",
            tool="ps",
        ),
        Section(
            "nvidia_driver",
            small=True,
        ),
    ),
    judge=lambda answer: (),
    purpose="whether another job uses the node",
)
