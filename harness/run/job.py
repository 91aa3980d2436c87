"""A benchmark as a detached job on the head node: started, watched, ended and collected by small
POSIX sh scripts.

The job runs in its own session, so a dropped connection neither orphans nor kills it; its pid, exit
status and output are files in one directory on the head node, and whoever comes back finds them
there. Nothing here runs anything: these are `Command`s and readers of answers.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from dataclasses import dataclass

from busbw import shell
from busbw.model import Command
from busbw.store.artefacts import CpuLoad

POLL_WAIT_S = 10

_PACKAGE = "busbw.run"
_ENDING = ("forget.sh", "end_session.sh")
_SWEEPING = ("forget.sh", "sweep.sh")


def _script(label: str, files: tuple[str, ...], *arguments: str, timeout_s: float) -> Command:
    """The shell files as one command with these arguments."""
    argv = ("sh", "-c", shell.load(_PACKAGE, *files), f"busbw-{label}", *arguments)
    return Command(argv, timeout_s=timeout_s, label=label)


def lease_script(*files: str) -> str:
    """Shell files behind the functions that know the lease of a node and free it."""
    return shell.load("busbw.checks", "lease.sh") + shell.load(_PACKAGE, "free_lease.sh", *files)


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """How far the job is."""

    state: str
    """`running`, `ended`, `lost` (no process and no exit status: killed or rebooted) or `gone` (no
    directory)."""
    output: bytes
    """Standard output since the bytes seen before."""
    age_s: float | None = None
    """Seconds since it was started, until its end where it has ended, by the node's clock that
    never jumps; None = the node cannot tell."""
    error_bytes: int = 0
    """Of standard error so far."""
    loads: tuple[CpuLoad | None, CpuLoad | None] = (None, None)
    """Of the node right before the job began and now, where it has ended; None = the node cannot
    tell."""


def start(
    directory: str, argv: tuple[str, ...], environment: tuple[tuple[str, str], ...]
) -> Command:
    """Starts the job, or finds it started already; prints the pid of its session.

    A script whose last line did not come is not run: where the sender dies half way, a shell takes
    what came for all there is.
    """
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment)
    script = f"echo $$ > launcher\n{exports}exec {shlex.join(argv)}\n# whole\n"
    session = shell.load(_PACKAGE, "forget.sh", "supervise.sh")
    command = _script("start", ("load.sh", "start.sh"), directory, session, timeout_s=30)
    return dataclasses.replace(command, stdin=script.encode())


def exists(directory: str) -> Command:
    """Exit status 0 = the job was started, now or by an earlier busbw."""
    return Command(("test", "-s", f"{directory}/pid"), timeout_s=30, label="found")


def poll(directory: str, seen_bytes: int) -> Command:
    """Waits up to `POLL_WAIT_S` for more output than `seen_bytes`, or for the end; gives the state
    and the new output."""
    arguments = (directory, str(seen_bytes), str(POLL_WAIT_S))
    return _script("poll", ("load.sh", "poll.sh"), *arguments, timeout_s=POLL_WAIT_S + 20)


def parse_poll(stdout: bytes) -> PollAnswer | None:
    """Reads `poll`'s answer; None = it is not one.

    >>> answer = parse_poll(b"state=running 1230 stderr=77\\n# nccl-tests")
    >>> answer.state, answer.output, answer.age_s, answer.error_bytes
    ('running', b'# nccl-tests', 1.23, 77)
    """
    head = rb"state=(\w+)(?: (\d{1,20}))?(?: stderr=(\d{1,20}))?( before=[\d./]* after=[\d./]*)?\n"
    match = re.match(head, stdout)
    if match is None:
        return None
    loads = match[4] or b""
    return PollAnswer(
        match[1].decode(),
        stdout[match.end() :],
        int(match[2]) / 1000 if match[2] else None,
        int(match[3] or 0),
        (parse_load(loads, "before"), parse_load(loads, "after")),
    )


def parse_load(text: bytes, name: str = "load") -> CpuLoad | None:
    """What `load.sh` prints, as the value of `name` somewhere in `text`; None = it is not there.

    >>> parse_load(b"load=19/2/12.24/25.57\\n")
    CpuLoad(running=19, cpus=2, load_1m=12.24, pressure_percent=25.57)
    """
    number = r"(\d{1,9}\.\d{1,9})"
    pattern = rf"\b{name}=(\d{{1,9}})/(\d{{1,9}})/{number}/(?:{number})?(?:\s|$)"
    match = re.search(pattern.encode(), text)
    if match is None or int(match[2]) == 0:
        return None
    pressure = float(match[4]) if match[4] else None
    return CpuLoad(int(match[1]), int(match[2]), float(match[3]), pressure)


QUIET_WAIT_S = 10


def quiet() -> Command:
    """Waits until the node's CPUs have nothing else to do, `QUIET_WAIT_S` at most."""
    files = ("load.sh", "quiet.sh")
    return _script("quiet", files, str(QUIET_WAIT_S), timeout_s=QUIET_WAIT_S + 20)


def fetch(directory: str, name: str, store: str) -> Command:
    """The whole of the job's file `name`, kept as `raw/<store>`. Exit status non-zero = there is
    none."""
    path = f"{directory}/{name}"
    return Command(("cat", path), timeout_s=300, label="fetch", store=store, reads=path)


def end(directory: str) -> Command:
    """Ends the job's session by its recorded pid, politely, then not. Nothing happens when it has
    ended.

    `-s` because dash takes the `--` of `kill -TERM -- -PID` for a number."""
    return _script("end", (*_ENDING, "end.sh"), directory, timeout_s=30)


def marks(job_id: str) -> tuple[tuple[str, str], ...]:
    """Variables for the launcher by which a sweep knows its daemons: mpirun writes each
    `OMPI_MCA_…` on their command lines."""
    return (("OMPI_MCA_busbw_job", job_id),)


def sweep(job_id: str) -> Command:
    """Ends what still carries the mark of this job, or of any job of that run: daemons and ranks
    that outlived their launcher."""
    return _script("sweep", _SWEEPING, job_id, timeout_s=30)


def clean(run_id: str) -> Command:
    """Ends and removes everything of a run on a node, in whatever state it was left: `killed N`,
    then `removed PATH` or `left PATH` each."""
    script = shell.load(_PACKAGE, *_ENDING, "clean_jobs.sh", "sweep.sh")
    argv = ("sh", "-c", script + lease_script("clean_folders.sh"), "busbw-clean", run_id)
    return Command(argv, timeout_s=90, label="clean")


def end_run(run_id: str, directory: str) -> Command:
    """Removes the lease of the run and the folder of its jobs."""
    argv = ("sh", "-c", lease_script("end_run.sh"), "busbw-remove", run_id, directory)
    return Command(argv, timeout_s=60, label="remove")


def remove(directory: str) -> Command:
    """Removes the job's directory."""
    return Command(("rm", "-rf", "--", directory), timeout_s=60, label="remove")
