# One line per rank, and one per thread of it that is in disk sleep or stopped.

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
