"""The script that collects the evidence of a stalled job on one node: POSIX sh, read-only, in the order in which evidence dies.

It looks twice (processes, sockets, ports, GPUs, NCCL's RAS), and between the looks at what keeps longer: kernel log, memory, disks, dumps,
logs. It writes no file, sends no signal and starts nothing that stays. Only `--stacks` touches a process: the tools that read stacks pause it.

Framing and time limits are those of the preflight script; the first line names the boundary, so that an answer that a site collected by
its own means can be taken apart as well.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.preflight import CheckFamily, Section
from busbw.preflight.script import build, limit_s
from busbw.records import Command

INTERVAL_S = 5
"""Between the two looks: a healthy job's collectives take milliseconds to seconds."""
MAGIC = "busbw-live 1"
"""First words of every answer."""
RAS_PORT = 28028
_RANK_NAMES = "RANK OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID"
_KEPT = (
    "LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|OMPI_COMM_WORLD_SIZE|OMPI_COMM_WORLD_LOCAL_SIZE|OMPI_COMM_WORLD_LOCAL_RANK|PMI_SIZE|SLURM_NTASKS"
    "|SLURM_LOCALID|SLURM_JOB_ID|SLURM_STEP_ID|SLURM_NODEID|SLURM_JOB_NAME|SLURM_JOB_PARTITION|OMPI_MCA_ess_base_jobid|PMIX_NAMESPACE"
    "|TORCHELASTIC_RUN_ID|MASTER_ADDR|MASTER_PORT|BUSBW_JOB|CUDA_VISIBLE_DEVICES|NCCL_RAS_ADDR|NCCL_RAS_ENABLE|NCCL_DEBUG_FILE"
    "|NCCL_SOCKET_IFNAME|NCCL_IB_HCA|NCCL_INSPECTOR_DUMP_DIR|TORCH_FR_DUMP_TEMP_FILE|TORCH_NCCL_DEBUG_INFO_TEMP_FILE|TORCH_FR_BUFFER_SIZE"
    "|TORCH_NCCL_TRACE_BUFFER_SIZE|TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC|KUBERNETES_SERVICE_HOST|HOSTNAME"
)
"""Variables that say which rank of which job a process is and where it writes. Nothing else of an environment leaves the node."""

_LIBRARY = r"""
NL='
'
each() { for p in $BL_PIDS; do [ -d "/proc/$p" ] && "$@" "$p"; done; }
env_of() { { tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null; }
load() { E="$NL$(env_of "$1")$NL"; }
val() { v=; case $E in *"$NL$1="*) v=${E#*"$NL$1="}; v=${v%%"$NL"*};; esac; }
kept() { echo "pid $1"; env_of "$1" | grep -E "^($BL_RANKS|$BL_KEPT)="
  ls -ld "/proc/$1/exe" "/proc/$1/cwd" "/proc/$1/ns/net" 2>/dev/null | sed -n 's#.* /proc/[0-9]*/\([a-z/]*\) -> #\1 #p' | sed 's#^ns/net#netns#'
  echo "command $(tr '\0\n' '  ' <"/proc/$1/cmdline" 2>/dev/null | head -c 300)"
  grep -oEm1 '(libnccl|librccl|libtorch_cpu|libmpi)[^ /]*' "/proc/$1/maps" 2>/dev/null | sed 's/^/library /'; }
state() { read -r s <"/proc/$1/stat" || return; w=; read -r w <"/proc/$1/wchan"; c=${s#*\(}; c=${c%\)*}; set -- "$1" ${s##*) }
  echo "state $1 $2 parent $3 ticks $((${13} + ${14})) start ${21} rss ${23} io ${41:-0} wchan ${w:--}"
  for t in "/proc/$1/task"/*; do read -r s <"$t/stat" || continue; x=${s##*) }
    case $x in D*|T*|t*) w=; read -r w <"$t/wchan"; echo "task $1 ${t##*/} ${x%% *} wchan ${w:--}";; esac; done; }
descriptors() { l=/proc/self/fd; for p in $BL_PIDS; do l="$l /proc/$p/fd"; done; ls -l $l 2>/dev/null; }
foreign() { [ -n "$1" ] && [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
first() { echo "${BL_PIDS%% *}"; }
"""
_STATES = "each state 2>/dev/null"
_PORTS = r"""
cd /sys/class/net && grep -sH '' */operstate */carrier */carrier_changes */statistics/?x_bytes */statistics/?x_dropped */statistics/?x_errors |
  grep -v '^lo/'
cd /sys/class/infiniband 2>/dev/null && for k in state phys_state rate counters/port_xmit_data counters/port_rcv_data counters/link_downed \
  counters/symbol_error counters/port_rcv_errors counters/port_xmit_discards counters/port_xmit_wait counters/link_error_recovery \
  hw_counters/local_ack_timeout_err hw_counters/out_of_sequence hw_counters/packet_seq_err hw_counters/rnr_nak_retry_err \
  hw_counters/req_cqe_error hw_counters/resp_cqe_error hw_counters/roce_adp_retrans hw_counters/rp_cnp_handled; do
  grep -sH '' */ports/*/$k; done
grep -s '^Tcp:' /proc/net/snmp
"""
_SOCKETS = r"""
descriptors | sed -n 's#^/proc/\([0-9]*\)/fd:$#own \1#p; s/.* socket:\[\([0-9]*\)\]$/\1/p'
p=$(first); in=; if foreign "$p"; then in="nsenter -t $p -n"; fi
if [ -n "$p" ]; then
  if command -v ss >/dev/null; then $in ss -tineoOH 2>/dev/null || $in ss -tineo; else cat "/proc/$p/net/tcp" "/proc/$p/net/tcp6"; fi
fi 2>/dev/null | head -c 400000
"""
_LOOK = f'now=$(date +%s.%N); echo "look $now"\n{_STATES}\n{_SOCKETS}\n{_PORTS}'
_RAS = r"""
grep -qs ':6D7C 0*:0000 0A' /proc/net/tcp /proc/net/tcp6 && echo "listens"
[ "$BL_RAS" = yes ] || { echo "not asked"; exit 0; }
p=$(first); v=; in=; if [ -n "$p" ]; then load "$p"; val NCCL_RAS_ADDR; fi
if foreign "$p"; then in="nsenter -t $p -n"; fi
a=${v:-localhost:28028}; h=${a%:*}; q='TIMEOUT 5\nSET FORMAT json\nVERBOSE STATUS\n'
echo "asked $h ${a##*:}"
if command -v bash >/dev/null; then
  $in bash -c 'exec 3<>"/dev/tcp/$1/$2" || exit 7; printf "$3" >&3; cat <&3' bash "$h" "${a##*:}" "$q"
elif command -v nc >/dev/null; then printf "$q" | $in nc "$h" "${a##*:}"
elif command -v ncclras >/dev/null; then $in ncclras -v -h "$h" -p "${a##*:}"
else echo "neither bash nor nc nor ncclras is here" >&2; exit 127; fi | head -c 8000000
"""
_GPU = (
    "nvidia-smi --query-gpu=index,uuid,pci.bus_id,utilization.gpu,power.draw,power.limit,clocks.sm,clocks_event_reasons.active,"
    "temperature.gpu,ecc.errors.uncorrected.volatile.total --format=csv,nounits"
)
_GPU_APPS = "nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv,nounits"
_HOST = r"""
cat /proc/loadavg; grep -E '^(MemAvailable|MemTotal)' /proc/meminfo; grep -E '^oom_kill ' /proc/vmstat
grep -sH '' /proc/pressure/cpu /proc/pressure/memory /proc/pressure/io
cd /proc && for d in [0-9]*; do read -r s <"$d/stat" || continue; x=${s##*) }; case $x in D*|T*|t*|Z*) w=; read -r w <"$d/wchan"
  c=${s#*(}; echo "held $d ${x%% *} wchan ${w:--} name ${c%)*}";; esac; done 2>/dev/null | head -n 200
cgroups() { while IFS=: read -r n c g; do case $c in
  '') f=/sys/fs/cgroup$g/memory.events; [ -e "$f" ] || f=/sys/fs/cgroup/unified$g/memory.events;;
  *memory*) f=/sys/fs/cgroup/memory$g/memory.oom_control;; *) continue;; esac
  grep -s '^oom_kill ' "$f" | sed "s|^|group $1 $g |"; done <"/proc/$1/cgroup"; }
each cgroups 2>/dev/null
"""
_DISKS = r"""
all=$( { for p in $BL_PIDS; do echo "/proc/$p/fd:"; readlink "/proc/$p/cwd" | sed 's#^#x -> #; s#$#/.#'; done; descriptors; } 2>/dev/null | awk '
  /^\/proc\/[0-9]+\/fd:$/ { split($1, part, "/"); pid = part[3]; next }
  / -> \// { path = $0; sub(/.* -> /, "", path); if (path ~ /^\/(dev|proc|sys|memfd)/) next
    if (n[pid]++ < 12) print "place", pid, path }')
printf '%s\n' "$all" | sed 's#/[.]$##'
printf '%s\n' "$all" | cut -d' ' -f3- | sed 's|/[^/]*$|/|' | sort -u | head -n 40 | tr '\n' '\0' | xargs -0 -r df -P
grep -E ' (nfs4?|lustre|gpfs|beegfs|ceph|fuse\.[^ ]*|weka[^ ]*) ' /proc/mounts | cut -d' ' -f1-3
"""
_KERNEL = "{ dmesg 2>/dev/null || journalctl -k -b -o short-monotonic --no-pager -n 400; } | tail -n 400"
_DUMPS = r"""
one() { [ -f "$1" ] || return; case " $seen " in *" $1 "*) return;; esac; seen="$seen $1"; size=$(stat -c %s "$1") || return
  echo "file $size $(stat -c %Y "$1") $1"
  [ "$size" -le 4000000 ] && total=$((total + size)) && [ "$total" -le 24000000 ] && base64 -w 0 "$1"; echo; }
seen=; total=0
for p in $BL_PIDS; do load "$p"; val TORCH_FR_DUMP_TEMP_FILE; f=$v
  if [ -z "$f" ]; then val TORCH_NCCL_DEBUG_INFO_TEMP_FILE; f=${v:-/tmp/nccl_trace_rank_}; fi
  for r in $BL_RANK_NAMES; do val "$r"; if [ -n "$v" ]; then one "$f$v"; break; fi; done
done
[ -n "$seen" ] || { n=0; for f in /tmp/nccl_trace_rank_*; do n=$((n + 1)); [ "$n" -gt 16 ] || one "$f"; done; }
"""
_LOGS = r"""
words='NCCL WARN|NCCL error|[Ww]atchdog|last enqueued|[Tt]imed out|Traceback|Error|ERROR|Killed|No space left|heartbeat|Broken pipe|reset by peer'
one() { case $1 in /dev/*|pipe:*|socket:*|/proc/*|'') return;; esac; [ -f "$1" ] || return; case " $seen " in *" $1 "*) return;; esac; seen="$seen $1"
  echo "log $(stat -c '%s %Y' "$1") $2 $1"; tail -c 4000000 "$1" | grep -naE "$words" | tail -n 40 | cut -c 1-600; echo "end of log"
  tail -n 4 "$1" | cut -c 1-400; echo "end of tail"; }
seen=; h=$(hostname)
for p in $BL_PIDS; do
  for f in $(ls -l "/proc/$p/fd/1" "/proc/$p/fd/2" 2>/dev/null | sed -n 's#.* -> \(/[^ ]*\)$#\1#p'); do one "$f" "$p"; done
  load "$p"; val NCCL_DEBUG_FILE; [ -n "$v" ] && one "$(printf '%s' "$v" | sed "s/%h/$h/g;s/%p/$p/g")" "$p"
done | head -c 2000000
"""
_QUEUE_PAIRS = "rdma resource show qp"
_STACKS = r"""
for p in $BL_PIDS; do echo "stack $p"
  if command -v py-spy >/dev/null; then timeout 8 py-spy dump --nonblocking --pid "$p"
  elif command -v gdb >/dev/null; then timeout 8 gdb -p "$p" -batch -ex 'thread apply all bt 12'
  else cat "/proc/$p/stack"; fi; done 2>&1 | head -c 1000000
"""
_SELF = r"""
boot=$(cat /proc/sys/kernel/random/boot_id); up=$(cut -d' ' -f1 /proc/uptime)
echo "host $(hostname) now $(date +%s.%N) up $up boot $boot tick $(getconf CLK_TCK || echo 100)"
ip -o addr 2>/dev/null | awk '{ sub("/.*", "", $4); print "address", $2, $4 }'
echo "login $SSH_CONNECTION"
"""
_WAIT = 's=$((BL_T0 + BL_INTERVAL - $(date +%s))); [ "$s" -gt 0 ] && sleep "$s"; echo "waited"'


@dataclass(frozen=True, slots=True)
class Asking:
    """What differs between askings."""

    interval_s: int = INTERVAL_S
    """Between the looks."""
    ras: bool = True
    """Ask NCCL's RAS here: it collects over the whole job, so a few nodes of a job are enough."""
    stacks: bool = False
    """Read stacks, which pauses every rank for a moment: only where the job's owner agrees."""


def sections(asking: Asking) -> tuple[Section, ...]:
    """What is asked, in the order in which evidence dies."""

    def own(name: str, shell: str, timeout_s: int) -> Section:
        return Section(name, f'eval "$BL_LIB"\n{shell.strip()}', timeout_s, small=True)

    stacks = (own("stacks", _STACKS, 60),) if asking.stacks else ()
    return (
        own("self", _SELF, 5),
        own("ranks", "each kept", 6),
        own("look-1", _LOOK, 8),
        own("ras-1", _RAS, 14),
        Section("gpu-1", _GPU, 8),
        Section("gpu-apps", _GPU_APPS, 8, after="gpu-1"),
        Section("kernel", _KERNEL, 5, small=True),
        own("dumps", _DUMPS, 10),
        own("logs", _LOGS, 8),
        own("host", _HOST, 5),
        Section("disks", f'eval "$BL_LIB"\n{_DISKS.strip()}', 4),
        Section("qps", _QUEUE_PAIRS, 4),
        *stacks,
        own("wait", _WAIT, asking.interval_s + 3),
        own("look-2", _LOOK, 8),
        own("ras-2", _RAS, 14),
        Section("gpu-2", _GPU, 8, after="gpu-1"),
        own("self-2", _SELF, 5),
    )


def spread(names: Sequence[str]) -> tuple[str, ...]:
    """The nodes whose RAS is asked: the first, the last and one in the middle. A job on some of these nodes has one of them, mostly."""
    return tuple(names) if len(names) < 4 else (names[0], names[len(names) // 2], names[-1])


def command(asking: Asking, boundary: str, *, store: str | None = None) -> Command:
    """The script as one command; standard output is kept as `raw/<store>`."""
    asked = sections(asking)
    return Command(("sh", "-s"), text(asking, boundary).encode(), timeout_s=limit_s(asked), label="live", store=store)


def text(asking: Asking, boundary: str) -> str:
    """The script itself: runs as it stands with `sh`, on any node, and prints its answer on standard output."""
    family = CheckFamily("live", (), sections(asking), lambda answer: ())
    return _preamble(asking, boundary) + build((family,), boundary, 0.0).stdin.decode()


def _preamble(asking: Asking, boundary: str) -> str:
    """What every section reads from its environment, and the processes of ranks, found once: what carries a rank's number.

    No here-document: some shells write those to a file, and the disk may be full.
    """
    names = "|".join(_RANK_NAMES.split())
    return f"""\
# Collects the evidence of a stalled job on this node. Reads only. Output: one text; keep it as NODE.txt, then: busbw why DIRECTORY
echo "{MAGIC} {boundary}"
BL_SELF=1 BL_RAS={"yes" if asking.ras else "no"} BL_INTERVAL={asking.interval_s} BL_T0=$(date +%s)
BL_RANK_NAMES='{_RANK_NAMES}' BL_RANKS='{names}' BL_KEPT='{_KEPT}'
BL_LIB={shlex.quote(_LIBRARY.strip())}
ranked() {{ if command -v timeout >/dev/null; then timeout -k 1 5 "$@"; else "$@"; fi; }}
BL_PIDS=$(ranked grep -lszE '^({names})=' /proc/[0-9]*/environ | cut -d/ -f3 | sort -n | head -n 512 | while read -r p; do
  [ "$p" = $$ ] && continue; tr '\\0' '\\n' <"/proc/$p/environ" 2>/dev/null | grep -q '^BL_SELF=1' && continue
  # Emulated nodes that share one process table tell theirs apart by name.
  [ -z "$LAB_NODE" ] || ! tr '\\0' '\\n' <"/proc/$p/environ" 2>/dev/null | grep '^LAB_NODE=' | grep -qvxF "LAB_NODE=$LAB_NODE" || continue
  printf '%s ' "$p"; done)
export BL_SELF BL_RAS BL_INTERVAL BL_T0 BL_RANK_NAMES BL_RANKS BL_KEPT BL_LIB BL_PIDS
"""
