# Processes of the node that are held up, and how often the control groups of the ranks killed.

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
