"""The processes of a parallel job on one node, as busbw's own script prints them from /proc: who is
which rank, and what each does.

>>> text = "pid 41\\nWORLD_SIZE=4\\nRANK=3\\nexe /usr/bin/python3.11\\ncommand python train.py \\nlibrary libnccl.so.2\\n"
>>> (rank,) = parse(text)
>>> rank.rank, rank.world, rank.library
(3, 4, 'libnccl.so.2')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from busbw.text import whole_number

NAMES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""Variables with a rank's number, the innermost launcher's first."""
_STATE = re.compile(
    r"^state (\d+) (\S) parent (\d+) ticks (\d+) start (\d+) rss (-?\d+) io (\d+) wchan (\S+)$"
)
_TASK = re.compile(r"^task (\d+) (\d+) (\S) wchan (\S+)$")
_SHELLS = re.compile(
    r"/(?:ba|da|z|k|c|tc|fi)?sh$|/busybox$|/(?:srun|mpirun|orterun|prterun|orted|prted|torchrun|numactl|env|timeout)$"
)


@dataclass(frozen=True, slots=True)
class RankProcess:
    """One process that carries a rank's number in its environment."""

    pid: int
    rank: int
    named_by: str
    """The variable that says so."""
    world: int | None
    """Ranks of the job; None = the environment does not say."""
    local_rank: int | None
    local_size: int | None
    job: str
    """What tells this job from others: `slurm 881234`, `mpi 2914648065`, `10.0.0.1:29500`; empty =
    nothing does."""
    executable: str
    command: str
    directory: str
    namespace: str
    """Network namespace, as the kernel names it."""
    library: str | None
    """The communication library it has loaded: `libnccl.so.2`; None = none of the known ones, or
    not readable."""
    environment: tuple[tuple[str, str], ...]
    """The variables that were kept, sorted."""
    line_no: int

    def variable(self, name: str) -> str | None:
        """The value of a kept variable; None = not set."""
        return dict(self.environment).get(name)


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What one process does in one look."""

    pid: int
    state: str
    """As in /proc/PID/stat: R running, S sleeping, D disk sleep, T stopped, Z zombie."""
    parent: int
    cpu_ticks: int
    start_ticks: int
    """Since the machine started."""
    io_ticks: int
    """Waited for block devices; 0 also where the kernel does not count."""
    wait_channel: str
    line_no: int
    blocked_threads: tuple[tuple[str, str], ...] = ()
    """(state, wait channel) of its threads that are in disk sleep or stopped."""


def parse(text: str) -> tuple[RankProcess, ...]:
    """The processes that carry a rank, in order; () = none is there, or none may be read."""
    processes: list[RankProcess] = []
    block: dict[str, str] = {}
    start = 0
    for line_no, line in enumerate([*text.splitlines(), "pid end"], 1):
        if line.startswith("pid "):
            if block and (process := _process(block, start)) is not None:
                processes.append(process)
            block, start = {"pid": line[4:]}, line_no
        elif not block:
            continue  # belongs to no process
        elif (m := re.match(r"(exe|cwd|netns|command|library) (.*)", line)) is not None:
            block[m[1]] = m[2].strip()
        elif "=" in line:
            name, _, value = line.partition("=")
            block[f"${name}"] = value
    return tuple(processes)


def parse_states(text: str) -> tuple[ProcessState, ...]:
    """The states in a look, in order.

    >>> parse_states("state 7 D parent 1 ticks 12 start 99 rss 5 io 3 wchan nfs_wait_bit\\n")[0].wait_channel
    'nfs_wait_bit'
    """
    lines = text.splitlines()
    tasks_by_pid: dict[int, list[tuple[str, str]]] = {}
    for line in lines:
        if (m := _TASK.match(line)) is not None:
            tasks_by_pid.setdefault(int(m[1]), []).append((m[3], m[4]))
    states = []
    for line_no, line in enumerate(lines, 1):
        if (m := _STATE.match(line)) is not None:
            pid = int(m[1])
            tasks = tuple(tasks_by_pid.get(pid, ()))
            # The kernel prints 0 for a process that runs.
            channel = "-" if m[8] == "0" else m[8]
            states.append(
                ProcessState(
                    pid, m[2], int(m[3]), int(m[4]), int(m[5]), int(m[7]), channel, line_no, tasks
                )
            )
    return tuple(states)


def innermost(processes: Sequence[RankProcess]) -> tuple[RankProcess, ...]:
    """Of every job the processes that its innermost launcher numbered: an agent that srun started
    is no rank of torchrun's job."""
    best: dict[str, int] = {}
    for process in processes:
        best[process.job] = min(NAMES.index(process.named_by), best.get(process.job, len(NAMES)))
    return tuple(
        process for process in processes if NAMES.index(process.named_by) == best[process.job]
    )


def one_per_rank(
    processes: Iterable[RankProcess], parents: dict[int, int]
) -> tuple[RankProcess, ...]:
    """Of the processes that carry one rank's number (wrappers, data loaders and the rank itself),
    the rank: sorted by job and rank.

    It is the outermost one that loaded a communication library, else the outermost one that is no
    shell or launcher. `parents`: pid → parent.
    """
    groups: dict[tuple[str, int], list[RankProcess]] = {}
    for process in processes:
        groups.setdefault((process.job, process.rank), []).append(process)
    chosen = []
    for key in sorted(groups):
        members = groups[key]
        pids = {member.pid for member in members}
        best = (
            [m for m in members if m.library]
            or [m for m in members if not _SHELLS.search(m.executable)]
            or members
        )
        chosen.append(min(best, key=lambda m: (_depth(m.pid, pids, parents), m.pid)))
    return tuple(chosen)


def _depth(pid: int, pids: set[int], parents: dict[int, int]) -> int:
    depth, visited = 0, {pid}
    while (pid := parents.get(pid, 0)) in pids and pid not in visited:
        visited.add(pid)
        depth += 1
    return depth


def _process(block: dict[str, str], line_no: int) -> RankProcess | None:
    if whole_number(block["pid"]) is None:
        return None
    variables = {name[1:]: value for name, value in block.items() if name.startswith("$")}
    # torchrun's workers have the number of their whole job in RANK; what srun or mpirun gave to the
    # agent is not theirs.
    name = next(
        (
            n
            for n in NAMES
            if _number(variables, n) is not None and (n != "RANK" or "WORLD_SIZE" in variables)
        ),
        None,
    )
    rank = None if name is None else _number(variables, name)
    if name is None or rank is None:
        return None
    return RankProcess(
        pid=int(block["pid"]),
        rank=rank,
        named_by=name,
        world=_first(variables, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
        local_rank=_first(variables, "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
        local_size=_first(variables, "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        job=_job(variables),
        executable=block.get("exe", ""),
        command=block.get("command", ""),
        directory=block.get("cwd", ""),
        namespace=block.get("netns", ""),
        library=block.get("library"),
        environment=tuple(sorted(variables.items())),
        line_no=line_no,
    )


def _job(variables: dict[str, str]) -> str:
    if own := variables.get("BUSBW_JOB"):
        return f"busbw {own}"
    if slurm := variables.get("SLURM_JOB_ID"):
        return f"slurm {slurm}"
    for name in ("OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"):
        if number := variables.get(name):
            return f"mpi {number.partition('.')[0]}"
    if run := variables.get("TORCHELASTIC_RUN_ID"):
        return f"torchrun {run}"
    address, port = variables.get("MASTER_ADDR"), variables.get("MASTER_PORT")
    return f"{address}:{port}" if address and port else ""


def _first(variables: dict[str, str], *names: str) -> int | None:
    return next(
        (number for name in names if (number := _number(variables, name)) is not None), None
    )


def _number(variables: dict[str, str], name: str) -> int | None:
    text = variables.get(name, "")
    return whole_number(text)
