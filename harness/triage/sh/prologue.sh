# `clock` knows dates that count whole seconds only (busybox). `ask` runs a part that may hang:
# the limit ends its shell and the `head` that holds our output, even where the tool itself cannot
# be ended.

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
