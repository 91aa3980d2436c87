# How busy this node's CPUs are now: tasks that run or wait, CPUs, load of a minute, percent of the last 10 s in which some task waited.

load() {
  set -- "$(sed -n 's/^procs_running //p' /proc/stat)" "$(grep -c '^cpu[0-9]' /proc/stat)" "$(cut -d' ' -f1 /proc/loadavg)" \
    "$(sed -n 's/^some avg10=\([0-9.]*\).*/\1/p' /proc/pressure/cpu)"
  echo "$1/$2/$3/$4"
} 2>/dev/null
