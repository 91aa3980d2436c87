# What every rank does, its connections, the node's ports: alike in both samples.

clock; echo "look $now"; read -r LOOKED _ </proc/uptime
[ -z "$PIDS" ] || { paths TASKS 'task/*/stat'; awk "$STATES" $PIDS $TASKS 2>/dev/null
  DESCRIPTORS=$(ls -l /proc/self/fd $FDS 2>/dev/null)
  printf '%s\n' "$DESCRIPTORS" | sed -n 's#^/proc/\([0-9]*\)/fd:$#own \1#p; s/.* socket:\[\([0-9]*\)\]$/\1/p'
  if command -v ss >/dev/null; then $FOREIGN ss -tineoOH 2>/dev/null || $FOREIGN ss -tineo; else cat "/proc/$FIRST/net/tcp" "/proc/$FIRST/net/tcp6"
  fi 2>/dev/null | head -c 400000; }
(cd /sys/class/net && limit 4 grep -sH '' */operstate */carrier */carrier_changes */statistics/?x_bytes */statistics/?x_dropped \
  */statistics/?x_errors)
[ -z "$HCAS" ] || (cd /sys/class/infiniband && files= && for k in $COUNTERS; do files="$files */ports/*/$k"; done && limit 4 grep -sH '' $files)
