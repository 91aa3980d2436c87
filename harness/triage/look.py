"""Two looks at a running job, some seconds apart, on one node: its ranks and the node's interfaces. Reads /proc and /sys only.

Two looks tell stalled from slow. Ranks are found by the mark `BUSBW_JOB` in their environment, and only in the caller's own network
namespace: nodes of the embedded lab share one process table.
"""

from __future__ import annotations

from busbw.records import Command

BETWEEN_LOOKS_S = 2

_LOOK = """\
own=$(readlink /proc/self/ns/net)
look() {
  echo "look $1"
  for p in /proc/[0-9]*; do
    env=$(tr '\\0' '\\n' < "$p/environ" 2>/dev/null) || continue
    case "$env" in *"BUSBW_JOB=$job"*) ;; *) continue ;; esac
    [ "$(readlink "$p/ns/net" 2>/dev/null)" = "$own" ] || continue
    rank=$(printf '%s\\n' "$env" | sed -n -e 's/^OMPI_COMM_WORLD_RANK=//p' -e 's/^PMIX_RANK=//p' | head -n 1)
    [ -n "$rank" ] || continue
    stat=$(cat "$p/stat" 2>/dev/null) || continue
    set -- ${stat##*) }
    echo "rank $rank pid ${p#/proc/} state $1 ticks $((${12} + ${13})) wchan $(cat "$p/wchan" 2>/dev/null || echo -)"
  done
  for d in /sys/class/net/*; do
    n=${d#/sys/class/net/}; [ "$n" = lo ] && continue
    echo "net $n operstate $(cat "$d/operstate" 2>/dev/null || echo -) carrier $(cat "$d/carrier" 2>/dev/null || echo -)" \\
      "rx $(cat "$d/statistics/rx_bytes" 2>/dev/null || echo -) tx $(cat "$d/statistics/tx_bytes" 2>/dev/null || echo -)"
  done
}
job=$1
look 1; sleep "$2"; look 2; echo "end"
"""


def look(job_id: str, store: str) -> Command:
    """The two looks as one command, kept as `raw/<store>`."""
    argv = ("sh", "-c", _LOOK, "busbw-look", job_id, str(BETWEEN_LOOKS_S))
    return Command(argv, timeout_s=BETWEEN_LOOKS_S + 20, label="look", store=store)
