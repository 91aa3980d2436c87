grep -shE '^(MemAvailable|MemTotal|oom_kill )|^[0-9.]+ [0-9.]+ [0-9.]+ [0-9]+/' /proc/loadavg /proc/meminfo /proc/vmstat
grep -sH '' /proc/pressure/cpu /proc/pressure/memory /proc/pressure/io
grep -shE '^[0-9]+ \(.*\) [DTtZ] ' /proc/[0-9]*/stat | head -n 200 | awk "$HELD" pids="$PIDS"
