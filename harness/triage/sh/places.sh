# Where the ranks stand, what they have open, what they write to, where their dumps and RAS are:
# told apart once, after the first look.

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
