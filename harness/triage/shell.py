"""The shell text of the collecting script, part by part: POSIX sh with grep, awk, ls and what
iproute2 and the GPU driver bring.

It runs on every node of a job at once, often on nodes whose CPUs the job uses, so it starts few
processes: what a loop of the shell would read file by file, one grep or one awk reads for all
ranks. What may hang (a mount, a driver, the memory of a process that is held) runs in a shell of
its own under a limit, with its output in a pipe that ends with the limit.
"""

from __future__ import annotations

RANK_NAMES = "RANK|OMPI_COMM_WORLD_RANK|PMIX_RANK|PMI_RANK|SLURM_PROCID"
KEPT = (
    "LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|OMPI_COMM_WORLD_SIZE|OMPI_COMM_WORLD_LOCAL_SIZE|OMPI_COMM_WORLD_LOCAL_RANK|PMI_SIZE|SLURM_NTASKS"
    "|SLURM_LOCALID|SLURM_JOB_ID|SLURM_STEP_ID|SLURM_NODEID|SLURM_JOB_NAME|SLURM_JOB_PARTITION|OMPI_MCA_ess_base_jobid|PMIX_NAMESPACE"
    "|TORCHELASTIC_RUN_ID|MASTER_ADDR|MASTER_PORT|BUSBW_JOB|CUDA_VISIBLE_DEVICES|NCCL_RAS_ADDR|NCCL_RAS_ENABLE|NCCL_DEBUG_FILE"
    "|NCCL_SOCKET_IFNAME|NCCL_IB_HCA|NCCL_INSPECTOR_DUMP_DIR|TORCH_FR_DUMP_TEMP_FILE|TORCH_NCCL_DEBUG_INFO_TEMP_FILE|TORCH_FR_BUFFER_SIZE"
    "|TORCH_NCCL_TRACE_BUFFER_SIZE|TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC|KUBERNETES_SERVICE_HOST|HOSTNAME"
)
"""Variables that say which rank of which job a process is and where it writes. Nothing else of an
environment leaves the node."""

PROLOGUE = r"""
LC_ALL=C BL_SELF=1; export LC_ALL BL_SELF
NL='
'
T=; command -v timeout >/dev/null 2>&1 && T='timeout -k 1'
limit() { if [ -n "$T" ]; then $T "$@"; else shift; "$@"; fi; }
mark() { u=; [ -r /proc/uptime ] && read -r u _ </proc/uptime; printf '\n@@%s %s %s\n' "$B" "$*" "$u"; }
ask() { n=$1 l=$2 t=$3; shift 3; mark begin "$n"; limit "$l" sh -c "{ $t$NL:; } 2>&1 | head -c 8000000" sh "$@"; s=$?
  mark end "$n" "$s"; case $s in 124|137) return 1;; esac; }
clock() { now=$(date +%s.%N); case $now in *N) now=${now%.*}.0;; esac; }
paths() { eval "$1="; for p in $PIDS; do eval "$1=\"\$$1 /proc/$p/$2\""; done; }
"""
"""`clock` knows dates that count whole seconds only (busybox). `ask` runs a part that may hang: the
limit ends its shell and the `head` that holds our output, even where the tool itself cannot be
ended."""

FIND = r"""
found=$(limit 5 grep -alszE "^($NAMES)=" /proc/[0-9]*/environ)
# What this script starts carries BL_SELF; and emulated nodes that share one process table tell theirs apart by name.
ours=$(limit 5 grep -alszE '^BL_SELF=1$' $found /dev/null) named= mine=
if [ -n "$LAB_NODE" ] && [ -n "$found" ]; then
  named=$(limit 5 grep -alszE '^LAB_NODE=' $found); mine=$(limit 5 grep -alszxF "LAB_NODE=$LAB_NODE" $found)
fi
HUNG= HCAS=; for f in /sys/class/infiniband/*; do [ -e "$f" ] && HCAS=yes; done
PIDS=; count=0
for f in $found; do
  case $NL$ours$NL in *"$NL$f$NL"*) continue;; esac
  case $NL$named$NL in *"$NL$f$NL"*) case $NL$mine$NL in *"$NL$f$NL"*) ;; *) continue;; esac;; esac
  p=${f#/proc/}; p=${p%/environ}; [ "$p" = $$ ] || [ ! -d "/proc/$p" ] || [ "$count" -ge 512 ] && continue
  PIDS="$PIDS $p" count=$((count + 1))
done
set -- $PIDS; FIRST=$1
paths ENVIRONS environ; paths COMMANDS cmdline; paths EXES exe; paths CWDS cwd; paths NETS ns/net; paths MAPS maps; paths FDS fd
FOREIGN=; [ -n "$FIRST" ] && [ -e "/proc/$FIRST/ns/net" ] && ! [ "/proc/$FIRST/ns/net" -ef /proc/self/ns/net ] && FOREIGN="nsenter -t $FIRST -n"
RANKS=; [ -z "$FIRST" ] || RANKS=$(limit 6 sh -c "$READ_RANKS" sh "$ENVIRONS" "$COMMANDS" "$EXES $CWDS $NETS" "$MAPS")
"""
"""The processes of ranks: what carries a rank's number in its environment. Read under a limit: the
memory of a held process may not answer."""

READ_RANKS = r"""
{ grep -azHsE "^($NAMES|$KEPT)=" $1 /dev/null | tr '\n\0' ' \n'
  grep -azHs '' $2 /dev/null | tr '\n\0' ' \n'
  ls -ld $3 2>/dev/null
  grep -aosEHm1 '(libnccl|librccl|libtorch_cpu|libmpi)[^ /]*' $4 /dev/null; } | awk '
{ s = substr($0, index($0, "/proc/") + 6); p = s; sub(/\/.*/, "", p); if (p !~ /^[0-9]+$/) next
  if (!(p in known)) { known[p] = 1; order[++n] = p }
  s = substr(s, length(p) + 2)
  if (s ~ /^environ:/) own[p] = own[p] substr(s, 9) "\n"
  else if (s ~ /^cmdline:/) { if (length(words[p]) < 300) words[p] = words[p] substr(s, 9) " " }
  else if (s ~ /^maps:/) library[p] = "library " substr(s, 6) "\n"
  else if ((i = index(s, " -> ")) > 0) { k = substr(s, 1, i - 1); if (k == "ns/net") k = "netns"; own[p] = own[p] k " " substr(s, i + 4) "\n" } }
END { for (i = 1; i <= n; i++) { p = order[i]; printf "pid %s\n%scommand %s\n%s", p, own[p], substr(words[p], 1, 300), library[p] } }' |
head -c 4000000
"""
"""One block per process: `pid`, the kept variables, exe, cwd, network namespace, command line,
communication library."""

SELF = r"""
read -r boot </proc/sys/kernel/random/boot_id; read -r up _ </proc/uptime; clock
echo "host $(hostname) now $now up $up boot $boot tick 100"
ip -o addr 2>/dev/null | awk '{ sub("/.*", "", $4); print "address", $2, $4 }'
echo "login $SSH_CONNECTION"
"""
SELF_AGAIN = (
    'read -r up _ </proc/uptime; clock; echo "host $(hostname) now $now up $up boot $boot tick 100"'
)
"""A second time, which with the first bounds how far the node's clock is from ours."""

LOOK = r"""
clock; echo "look $now"; read -r LOOKED _ </proc/uptime
[ -z "$PIDS" ] || { paths TASKS 'task/*/stat'; awk "$STATES" $PIDS $TASKS 2>/dev/null
  DESCRIPTORS=$(ls -l /proc/self/fd $FDS 2>/dev/null)
  printf '%s\n' "$DESCRIPTORS" | sed -n 's#^/proc/\([0-9]*\)/fd:$#own \1#p; s/.* socket:\[\([0-9]*\)\]$/\1/p'
  if command -v ss >/dev/null; then $FOREIGN ss -tineoOH 2>/dev/null || $FOREIGN ss -tineo; else cat "/proc/$FIRST/net/tcp" "/proc/$FIRST/net/tcp6"
  fi 2>/dev/null | head -c 400000; }
(cd /sys/class/net && limit 4 grep -sH '' */operstate */carrier */carrier_changes */statistics/?x_bytes */statistics/?x_dropped \
  */statistics/?x_errors)
[ -z "$HCAS" ] || (cd /sys/class/infiniband && files= && for k in $COUNTERS; do files="$files */ports/*/$k"; done && limit 4 grep -sH '' $files)
"""
"""What every rank does, its connections, the node's ports: alike in both looks."""

COUNTERS = (
    "state phys_state rate counters/port_xmit_data counters/port_rcv_data counters/link_downed"
    " counters/symbol_error counters/port_rcv_errors counters/port_xmit_discards"
    " counters/port_xmit_wait counters/link_error_recovery hw_counters/local_ack_timeout_err"
    " hw_counters/out_of_sequence hw_counters/packet_seq_err hw_counters/rnr_nak_retry_err"
    " hw_counters/req_cqe_error hw_counters/resp_cqe_error hw_counters/roce_adp_retrans"
    " hw_counters/rp_cnp_handled"
)

STATES = r"""
function stat_of(f,   s, i) { s = ""; if ((getline s < f) <= 0) s = ""; close(f); while ((i = index(s, ") ")) > 0) s = substr(s, i + 2); return s }
function channel(f,   s) { s = ""; if ((getline s < f) <= 0) s = ""; close(f); return s == "" ? "-" : s }
BEGIN {
  for (a = 1; a < ARGC; a++) {
    f = ARGV[a]
    if (f ~ /^[0-9]+$/) {
      if (split(stat_of("/proc/" f "/stat"), x, " ") < 20) continue
      printf "state %s %s parent %s ticks %.0f start %s rss %s io %.0f wchan %s\n", f, x[1], x[2], x[12] + x[13], x[20], x[22], x[40], \
        channel("/proc/" f "/wchan")
    } else {
      s = substr(stat_of(f), 1, 1)
      if (s == "" || index("DTt", s) == 0) continue
      split(f, part, "/"); print "task", part[3], part[5], s, "wchan", channel("/proc/" part[3] "/task/" part[5] "/wchan")
    }
  }
}
"""
"""One line per rank, and one per thread of it that is in disk sleep or stopped."""

LISTENS = r"""
grep -qs ':6D7C 0*:0000 0A' "/proc/${FIRST:-self}/net/tcp" "/proc/${FIRST:-self}/net/tcp6" && echo "listens"
echo "not asked"
"""
RAS = r"""
grep -qs ':6D7C 0*:0000 0A' "/proc/$4/net/tcp" "/proc/$4/net/tcp6" && echo "listens"
q='TIMEOUT 5\nSET FORMAT json\nVERBOSE STATUS\n'; echo "asked $1 $2"
if command -v bash >/dev/null; then
  $3 bash -c 'exec 3<>"/dev/tcp/$1/$2" || exit 7; printf "$3" >&3; read -r -t "$4" first <&3
    if [ $? -gt 128 ]; then echo "silent for $4 s"; else printf "%s\n" "$first"; cat <&3; fi' bash "$1" "$2" "$q" "$5" 2>/dev/null
elif command -v nc >/dev/null; then printf "$q" | $3 nc "$1" "$2"
elif command -v ncclras >/dev/null; then $3 ncclras -v -h "$1" -p "$2"
fi
"""
"""NCCL's RAS by its own protocol over the first of bash, nc and ncclras that is here. $1 host, $2
port, $3 how to enter its network, $4 a rank, $5 seconds.

A server acknowledges the first word at once, and collects for TIMEOUT seconds after that: one that
is silent for $5 s is held up itself."""

GPU = (
    "nvidia-smi"
    " --query-gpu=index,uuid,pci.bus_id,utilization.gpu,power.draw,power.limit,clocks.sm"
    ",clocks_event_reasons.active,temperature.gpu,ecc.errors.uncorrected.volatile.total"
    " --format=csv,nounits"
)
GPU_APPS = "nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv,nounits"

KERNEL = (
    "{ dmesg 2>/dev/null || limit 5 journalctl -k -b -o short-monotonic --no-pager -n 400; } | tail"
    " -n 400"
)

HOST = r"""
grep -shE '^(MemAvailable|MemTotal|oom_kill )|^[0-9.]+ [0-9.]+ [0-9.]+ [0-9]+/' /proc/loadavg /proc/meminfo /proc/vmstat
grep -sH '' /proc/pressure/cpu /proc/pressure/memory /proc/pressure/io
grep -shE '^[0-9]+ \(.*\) [DTtZ] ' /proc/[0-9]*/stat | head -n 200 | awk "$HELD" pids="$PIDS"
"""
HELD = r"""
{ w = ""; if ((getline w < ("/proc/" $1 "/wchan")) <= 0) w = ""; close("/proc/" $1 "/wchan")
  s = $0; while ((i = index(s, ") ")) > 0) s = substr(s, i + 2)
  name = $0; sub(/^[0-9]+ \(/, "", name); name = substr(name, 1, length(name) - length(s) - 2)
  print "held", $1, substr(s, 1, 1), "wchan", (w == "" ? "-" : w), "name", name }
END { n = split(pids, p, " ")
  for (i = 1; i <= n; i++) {
    while ((getline line < ("/proc/" p[i] "/cgroup")) > 0) {
      g = line; sub(/^[0-9]*:[^:]*:/, "", g); split(line, part, ":")
      if (part[2] == "") { sum(p[i], g, "/sys/fs/cgroup" g "/memory.events"); sum(p[i], g, "/sys/fs/cgroup/unified" g "/memory.events") }
      else if (part[2] ~ /memory/) sum(p[i], g, "/sys/fs/cgroup/memory" g "/memory.oom_control")
    }
    close("/proc/" p[i] "/cgroup")
  } }
function sum(pid, group, f,   s) { while ((getline s < f) > 0) if (s ~ /^oom_kill /) print "group", pid, group, s; close(f) }
"""
"""Processes of the node that are held up, and how often the control groups of the ranks killed."""

PLACES = r"""
files=$(printf '%s\n' "$RANKS" "$DESCRIPTORS" | awk '
  function dump() { if (pid == "") return; f = prefix != "" ? prefix : older != "" ? older : "/tmp/nccl_trace_rank_"
    if (rank != "" && !dumped[f rank]++) print "dump", pid, f rank; prefix = older = rank = "" }
  /^pid [0-9]+$/ { dump(); pid = $2; best = 99; next }
  /^cwd \// { print "place", pid, substr($0, 5) "/."; next }
  /^NCCL_RAS_ADDR=/ { print "ras", pid, substr($0, 15); next }
  /^NCCL_DEBUG_FILE=/ { print "debug", pid, substr($0, 17); next }
  /^TORCH_FR_DUMP_TEMP_FILE=/ { prefix = substr($0, 25); next }
  /^TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/ { older = substr($0, 33); next }
  /^(RANK|OMPI_COMM_WORLD_RANK|PMIX_RANK|PMI_RANK|SLURM_PROCID)=/ {
    i = index("RANK OMPI_ PMIX_ PMI_ SLURM_", substr($0, 1, 4)); if (i <= best) { best = i; rank = $0; sub(/.*=/, "", rank) } next }
  /^\/proc\/.*\/fd:$/ { dump(); split($1, part, "/"); pid = part[3] ~ /^[0-9]+$/ ? part[3] : ""; next }
  pid != "" && /^l.* -> \// { i = index($0, " -> "); path = substr($0, i + 4); fd = substr($0, 1, i - 1); sub(/.* /, "", fd)
    if (path ~ /^\/(dev|proc|sys|memfd)/ || path ~ / \(deleted\)$/) next
    if ((fd == 1 || fd == 2) && !seen[path]++) print "log", pid, path
    if (n[pid]++ < 12) print "place", pid, path }')
address=localhost:28028; case $files in *"ras $FIRST "*) address=${files#*"ras $FIRST "}; address=${address%%"$NL"*};; esac
"""
"""Where the ranks stand, what they have open, what they write to, where their dumps and RAS are:
told apart once, after the first look."""

DUMP_FILES = r"""
set --; IFS=$NL; set -f
for line in $files; do case $line in "dump "*) line=${line#dump * }
  case $line in /tmp/nccl_trace_rank_*) [ -f "$line" ] || continue;; esac; set -- "$@" "$line";; esac; done
unset IFS; set +f
[ $# -gt 0 ] || for f in /tmp/nccl_trace_rank_*; do [ -f "$f" ] && [ $# -lt 16 ] && set -- "$@" "$f"; done
"""
DUMPS = r"""
total=0
for f in "$@"; do [ -f "$f" ] || continue; told=$(stat -c '%s %Y' "$f") || continue; echo "file $told $f"; size=${told% *}
  [ "$size" -le 4000000 ] && total=$((total + size)) && [ "$total" -le 24000000 ] && base64 -w 0 "$f"; echo; done
"""

LOG_FILES = r"""
set --; IFS=$NL; set -f; h=; seen=
for line in $files; do
  case $line in
    "log "*) line=${line#log };;
    "debug "*) line=${line#debug }; h=${h:-$(hostname)}; line=$(printf '%s' "$line" | sed "s/%h/$h/g;s/%p/${line%% *}/g");;
    *) continue;;
  esac
  case $seen in *"$NL${line#* }$NL"*) ;; *) set -- "$@" "${line%% *}" "${line#* }"; seen="$seen$NL${line#* }$NL";; esac
done
unset IFS; set +f
"""
LOGS = r"""
words='NCCL WARN|NCCL error|[Ww]atchdog|last enqueued|[Tt]imed out|Traceback|Error|ERROR|Killed|No space left|heartbeat|Broken pipe|reset by peer'
while [ $# -gt 1 ]; do
  if [ -f "$2" ]; then echo "log $(stat -c '%s %Y' "$2") $1 $2"; tail -c 4000000 "$2" | grep -naE "$words" | tail -n 40
    echo "end of log"; tail -n 4 "$2"; echo; echo "end of tail"; fi; shift 2
done 2>/dev/null | cut -c 1-600 | head -c 2000000
"""

DISK_FILES = r"""
set --; IFS=$NL; set -f; seen=
for line in $files; do case $line in "place "*) path=${line#place * }; path=${path%/*}/
  case $seen in *"$NL$path$NL"*) ;; *) [ $# -lt 40 ] && set -- "$@" "$path"; seen="$seen$NL$path$NL";; esac;; esac; done
unset IFS; set +f
"""
DISKS = r"""
cat; [ $# -eq 0 ] || df -P "$@" 2>/dev/null
grep -E ' (nfs4?|lustre|gpfs|beegfs|ceph|fuse\.[^ ]*|weka[^ ]*) ' /proc/mounts
"""

QUEUE_PAIRS = "rdma resource show qp"

STACKS = r"""
for p in "$@"; do echo "stack $p"
  if command -v py-spy >/dev/null; then timeout 8 py-spy dump --nonblocking --pid "$p"
  elif command -v gdb >/dev/null; then timeout 8 gdb -p "$p" -batch -ex 'thread apply all bt 12'
  else cat "/proc/$p/stack"; fi; done | head -c 1000000
"""

WAIT = r"""
read -r now _ </proc/uptime; s=$((${LOOKED%.*}${LOOKED#*.} + INTERVAL * 100 - ${now%.*}${now#*.}))
part=$((s % 100)); [ "$part" -gt 9 ] || part=0$part
[ "$s" -le 0 ] || sleep "$((s / 100)).$part" 2>/dev/null || sleep "$((s / 100 + 1))"; echo "waited"
"""
"""Until so long after the first look; the kernel's clock counts in hundredths."""
