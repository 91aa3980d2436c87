"""A benchmark as a detached job on the head node: started, watched, ended and collected by small
POSIX sh scripts.

The job runs in its own session, so a dropped connection neither orphans nor kills it; its pid, exit
status and output are files in one directory on the head node, and whoever comes back finds them
there. Nothing here runs anything: these are `Command`s and readers of answers.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from busbw.model import Command

POLL_WAIT_S = 10

_FORGET = """\
forget() { for d in "${TMPDIR:-/tmp}"/ompi.*."$(id -u)"; do [ -d "$d/$1" ] && rm -rf -- "$d/$1" && rmdir "$d" 2>/dev/null; done; }
"""
"""Open MPI's own files of a launcher or daemon that was killed; one that ends by itself removes
them. `pid.N` on the head, `jf.N` elsewhere."""

_START = f"""\
dir=$1; umask 077
if [ -f "$dir/pid" ]; then cat "$dir/pid"; exit 0; fi
mkdir -p "$dir" && cat > "$dir/job.sh" && cd "$dir" || exit 70
[ "$(tail -n 1 job.sh)" = "# whole" ] || {{ echo "the job's script came only in part" >&2; exit 71; }}
setsid sh -c '{_FORGET}
cat /proc/uptime > began; echo > status.part && echo $$ > pid.part && mv pid.part pid || exit 70
sh job.sh > stdout 2> stderr
s=$?; cat /proc/uptime > ended; forget "pid.$(cat launcher)"; echo $s 1<> status.part && mv status.part status' > /dev/null 2>&1 < /dev/null &
i=0; while [ ! -s pid ] && [ $i -lt 100 ]; do i=$((i + 1)); sleep 0.05; done
cat pid
"""

_POLL = """\
cd "$1" 2>/dev/null || { echo "state=gone"; exit 0; }
# After a restart of the node the number may be somebody else's: the job's process is the one that works here.
alive() { [ "/proc/$(cat pid)/cwd" -ef . ]; }
from=$2; i=0
while [ $i -lt $(($3 * 5)) ]; do
  [ -s status ] && break
  [ "$(wc -c < stdout 2>/dev/null || echo 0)" -gt "$from" ] && break
  alive || break
  i=$((i + 1)); sleep 0.2
done
if [ -s status ]; then state=ended; elif alive; then state=running; else sleep 0.3
  if [ -s status ]; then state=ended; else state=lost; fi; fi
read -r b _ 2>/dev/null < began || b=; e=
if [ $state = ended ]; then read -r e _ 2>/dev/null < ended; else read -r e _ < /proc/uptime; fi
if [ -n "$b" ] && [ -n "$e" ]; then age=$((${e%.*}${e#*.} - ${b%.*}${b#*.})); [ $age -ge 0 ] && state="$state ${age}0"; fi
echo "state=$state stderr=$(wc -c < stderr 2>/dev/null || echo 0)"
tail -c "+$((from + 1))" stdout 2>/dev/null
"""

_ENDING = f"""\
{_FORGET}
end() {{
  [ -s "$1/status" ] && return 0
  pid=$(cat "$1/pid" 2>/dev/null) || return 0
  # A number may have come round to somebody else: the job's processes are those that work in its folder. Each is told once: mpirun leaves
  # its own files behind when it is told twice.
  if [ "/proc/$pid/cwd" -ef "$1" ]; then ours=-$pid; else ours=
    for p in /proc/[0-9]*; do [ "$p/cwd" -ef "$1" ] && ours="$ours ${{p#/proc/}}"; done; fi
  send TERM
  i=0; while [ $i -lt 50 ] && send 0; do i=$((i + 1)); sleep 0.1; done
  send KILL
  launcher=$(cat "$1/launcher" 2>/dev/null) || return 0
  i=0; while [ "/proc/$launcher/cwd" -ef "$1" ]; do [ $i -lt 20 ] || return 0; i=$((i + 1)); sleep 0.1; done
  forget "pid.$launcher"
}}
send() {{ r=1; for each in $ours; do kill -s "$1" -- "$each" 2>/dev/null && r=0; done; return $r; }}
"""

_END = f"""\
{_ENDING}
end "$1"
exit 0
"""

_SWEEP = f"""\
{_FORGET}
n=0; daemons=; folders=
ours() {{ case $2 in "$1" | "$1"/*) return 0 ;; esac; return 1; }}
# The daemons of mpirun carry the mark on their command line, and when they are told politely they end their ranks and remove their files.
for p in /proc/[0-9]*; do
  read -r name 2>/dev/null < "$p/comm" && [ "$name" = orted ] || continue
  words=" $(tr '\\0' ' ' 2>/dev/null < "$p/cmdline")"; mark=${{words##* busbw_job }}; id=${{words##* ess_base_jobid }}; id=${{id%% *}}
  [ "$mark" != "$words" ] && ours "$1" "${{mark%% *}}" && kill -s TERM "${{p#/proc/}}" 2>/dev/null || continue
  n=$((n + 1)); daemons="$daemons ${{p#/proc/}}"
  case $id in *[!0-9]* | "") ;; *) folders="$folders jf.$((id >> 16))" ;; esac
done
some() {{ for d in $daemons; do kill -s 0 "$d" 2>/dev/null && return 0; done; return 1; }}
i=0; while [ $i -lt 20 ] && some; do i=$((i + 1)); sleep 0.1; done
for p in /proc/[0-9]*; do
  job=$(tr '\\0' '\\n' 2>/dev/null < "$p/environ" | sed -n 's/^BUSBW_JOB=//p')
  [ -n "$job" ] && ours "$1" "$job" && kill -s KILL "${{p#/proc/}}" 2>/dev/null && n=$((n + 1))
done
for d in $daemons; do kill -s KILL "$d" 2>/dev/null; done
for f in $folders; do forget "$f"; done
echo "killed $n"
"""

_CLEAN = f"""\
{_ENDING}
roots="$HOME/.cache/busbw /tmp/busbw-$(id -u) /tmp/busbw-run"
for root in $roots; do for dir in "$root/jobs/$1"/*/; do [ -d "$dir" ] && end "${{dir%/}}"; done; done
{_SWEEP}
for root in $roots; do for dir in "$root/jobs/$1" "$root"/build/*.part.*; do
  [ -d "$dir" ] || continue
  # What is being built is another's.
  case $dir in *.part.*) kill -s 0 "${{dir##*.}}" 2>/dev/null && continue ;; esac
  rm -rf -- "$dir" && echo "removed $dir" || echo "left $dir"
done; done
exit 0
"""


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


def start(
    directory: str, argv: tuple[str, ...], environment: tuple[tuple[str, str], ...]
) -> Command:
    """Starts the job, or finds it started already; prints the pid of its session.

    A script whose last line did not come is not run: where the sender dies half way, a shell takes
    what came for all there is.
    """
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment)
    script = f"echo $$ > launcher\n{exports}exec {shlex.join(argv)}\n# whole\n"
    return Command(
        ("sh", "-c", _START, "busbw-start", directory),
        stdin=script.encode(),
        timeout_s=30,
        label="start",
    )


def found(directory: str) -> Command:
    """Exit status 0 = the job was started, now or by an earlier busbw."""
    return Command(("test", "-s", f"{directory}/pid"), timeout_s=30, label="found")


def poll(directory: str, seen_bytes: int) -> Command:
    """Waits up to `POLL_WAIT_S` for more output than `seen_bytes`, or for the end; gives the state
    and the new output."""
    argv = ("sh", "-c", _POLL, "busbw-poll", directory, str(seen_bytes), str(POLL_WAIT_S))
    return Command(argv, timeout_s=POLL_WAIT_S + 20, label="poll")


def parse_poll(stdout: bytes) -> PollAnswer | None:
    """Reads `poll`'s answer; None = it is not one.

    >>> parse_poll(b"state=running 1230 stderr=77\\n# nccl-tests")
    PollAnswer(state='running', output=b'# nccl-tests', age_s=1.23, error_bytes=77)
    """
    match = re.match(rb"state=(\w+)(?: (\d+))?(?: stderr=(\d+))?\n", stdout)
    if match is None:
        return None
    return PollAnswer(
        match[1].decode(),
        stdout[match.end() :],
        int(match[2]) / 1000 if match[2] else None,
        int(match[3] or 0),
    )


def fetch(directory: str, name: str, store: str) -> Command:
    """The whole of the job's file `name`, kept as `raw/<store>`. Exit status non-zero = there is
    none."""
    path = f"{directory}/{name}"
    return Command(("cat", path), timeout_s=300, label="fetch", store=store, reads=path)


def end(directory: str) -> Command:
    """Ends the job's session by its recorded pid, politely, then not. Nothing happens when it has
    ended.

    `-s` because dash takes the `--` of `kill -TERM -- -PID` for a number."""
    return Command(("sh", "-c", _END, "busbw-end", directory), timeout_s=30, label="end")


def marks(job_id: str) -> tuple[tuple[str, str], ...]:
    """Variables for the launcher by which a sweep knows its daemons: mpirun writes each
    `OMPI_MCA_…` on their command lines."""
    return (("OMPI_MCA_busbw_job", job_id),)


def sweep(job_id: str) -> Command:
    """Ends what still carries the mark of this job, or of any job of that run: daemons and ranks
    that outlived their launcher."""
    return Command(("sh", "-c", _SWEEP, "busbw-sweep", job_id), timeout_s=30, label="sweep")


def clean(run_id: str) -> Command:
    """Ends and removes everything of a run on a node, in whatever state it was left: `killed N`,
    then `removed PATH` or `left PATH` each."""
    return Command(("sh", "-c", _CLEAN, "busbw-clean", run_id), timeout_s=90, label="clean")


def remove(directory: str) -> Command:
    """Removes the job's directory."""
    return Command(("rm", "-rf", "--", directory), timeout_s=60, label="remove")
