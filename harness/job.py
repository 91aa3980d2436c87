"""A benchmark as a detached job on the head node: started, watched, ended and collected by small POSIX sh scripts.

The job runs in its own session, so a dropped connection neither orphans nor kills it; its pid, exit status and output are files in one
directory on the head node, and whoever comes back finds them there. Nothing here runs anything: these are `Command`s and readers of
answers.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from busbw.records import Command

POLL_WAIT_S = 10

_START = """\
dir=$1; umask 077
if [ -f "$dir/pid" ]; then cat "$dir/pid"; exit 0; fi
mkdir -p "$dir" && cat > "$dir/job.sh" && cd "$dir" || exit 70
[ "$(tail -n 1 job.sh)" = "# whole" ] || { echo "the job's script came only in part" >&2; exit 71; }
setsid sh -c 'echo $$ > pid.part && mv pid.part pid
sh job.sh > stdout 2> stderr
echo $? > status.part && mv status.part status' > /dev/null 2>&1 < /dev/null &
i=0; while [ ! -s pid ] && [ $i -lt 100 ]; do i=$((i + 1)); sleep 0.05; done
cat pid
"""

_POLL = """\
cd "$1" 2>/dev/null || { echo "state=gone"; exit 0; }
from=$2; i=0
while [ $i -lt $(($3 * 5)) ]; do
  [ -s status ] && break
  [ "$(wc -c < stdout 2>/dev/null || echo 0)" -gt "$from" ] && break
  kill -0 "$(cat pid)" 2>/dev/null || break
  i=$((i + 1)); sleep 0.2
done
if [ -s status ]; then state=ended; elif kill -0 "$(cat pid)" 2>/dev/null; then state=running; else sleep 0.3
  if [ -s status ]; then state=ended; else state=lost; fi; fi
echo "state=$state"
tail -c "+$((from + 1))" stdout 2>/dev/null
"""

_END = """\
cd "$1" 2>/dev/null || exit 0
[ -s status ] && exit 0
pid=$(cat pid 2>/dev/null) || exit 0
kill -s TERM -- "-$pid" 2>/dev/null
i=0; while [ $i -lt 50 ] && kill -s 0 -- "-$pid" 2>/dev/null; do i=$((i + 1)); sleep 0.1; done
kill -s KILL -- "-$pid" 2>/dev/null
exit 0
"""

_SWEEP = """\
n=0
for p in /proc/[0-9]*; do
  tr '\\0' '\\n' < "$p/environ" 2>/dev/null | grep -qxF "BUSBW_JOB=$1" && kill -KILL "${p#/proc/}" 2>/dev/null && n=$((n + 1))
done
echo "killed $n"
"""


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """How far the job is."""

    state: str
    """`running`, `ended`, `lost` (no process and no exit status: killed or rebooted) or `gone` (no directory)."""
    output: bytes
    """Standard output since the bytes seen before."""


def start(directory: str, argv: tuple[str, ...], environment: tuple[tuple[str, str], ...]) -> Command:
    """Starts the job, or finds it started already; prints the pid of its session.

    A script whose last line did not come is not run: where the sender dies half way, a shell takes what came for all there is.
    """
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment)
    script = f"{exports}exec {shlex.join(argv)}\n# whole\n"
    return Command(("sh", "-c", _START, "busbw-start", directory), stdin=script.encode(), timeout_s=30, label="start")


def found(directory: str) -> Command:
    """Exit status 0 = the job was started, now or by an earlier busbw."""
    return Command(("test", "-s", f"{directory}/pid"), timeout_s=30, label="found")


def poll(directory: str, seen_bytes: int) -> Command:
    """Waits up to `POLL_WAIT_S` for more output than `seen_bytes`, or for the end; gives the state and the new output."""
    argv = ("sh", "-c", _POLL, "busbw-poll", directory, str(seen_bytes), str(POLL_WAIT_S))
    return Command(argv, timeout_s=POLL_WAIT_S + 20, label="poll")


def parse_poll(stdout: bytes) -> PollAnswer | None:
    """Reads `poll`'s answer; None = it is not one.

    >>> parse_poll(b"state=running\\n# nccl-tests")
    PollAnswer(state='running', output=b'# nccl-tests')
    """
    match = re.match(rb"state=(\w+)\n", stdout)
    return PollAnswer(match[1].decode(), stdout[match.end() :]) if match else None


def fetch(directory: str, name: str, store: str) -> Command:
    """The whole of the job's file `name`, kept as `raw/<store>`. Exit status non-zero = there is none."""
    return Command(("cat", f"{directory}/{name}"), timeout_s=300, label="fetch", store=store)


def end(directory: str) -> Command:
    """Ends the job's session by its recorded pid, politely, then not. Nothing happens when it has ended.

    `-s` because dash takes the `--` of `kill -TERM -- -PID` for a number."""
    return Command(("sh", "-c", _END, "busbw-end", directory), timeout_s=30, label="end")


def sweep(job_id: str) -> Command:
    """Kills what still carries this job's mark in its environment: ranks that outlived their launcher."""
    return Command(("sh", "-c", _SWEEP, "busbw-sweep", job_id), timeout_s=30, label="sweep")


def remove(directory: str) -> Command:
    """Removes the job's directory."""
    return Command(("rm", "-rf", "--", directory), timeout_s=60, label="remove")
