set --; IFS=$NL; set -f
for line in $files; do case $line in "dump "*) line=${line#dump * }
  case $line in /tmp/nccl_trace_rank_*) [ -f "$line" ] || continue;; esac; set -- "$@" "$line";; esac; done
unset IFS; set +f
[ $# -gt 0 ] || for f in /tmp/nccl_trace_rank_*; do [ -f "$f" ] && [ $# -lt 16 ] && set -- "$@" "$f"; done
