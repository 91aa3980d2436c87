# The functions of the script that asks a node. Before it: B = the boundary of this run, S = how root
# is asked for, and how many bytes of a section are kept: K of its output, E of its errors.
#
# A and Z stand around a tool and keep the start of both streams and the exit status. The limit
# inside them ends the tool, so that what it printed still arrives; the limit around them ends the
# wait for a tool that no signal ends and that holds its output open. A single command that is not
# installed is answered at once (absent): most nodes lack a dozen of these tools, and each attempt
# would start five processes. The small sections are read by one shell (G); only where that one does
# not end in time is each asked by itself. U reads the node's clock.

LC_ALL=C
export LC_ALL B S K E
if command -v timeout >/dev/null 2>&1; then T='timeout -k 2'; else T=; fi
U=
[ -r /proc/uptime ] && U='read -r u _ </proc/uptime'
M='mark() {
  u=
  eval "$U"
  printf "\n@@%s %s %s\n" "$B" "$*" "$u"
  printf "\n@@%s %s %s\n" "$B" "$*" "$u" >&2
}'
export U M
eval "$M"
limit() {
  if [ -n "$T" ]; then $T "$@"; else
    shift
    "$@"
  fi
}
ended() {
  case $2 in 124 | 137) HUNG="$HUNG $1 " ;; esac
  mark end "$1" "$2"
}
after() {
  case $HUNG in *" $1 "*)
    echo "not asked: $1 did not end" >&2
    return 0
    ;;
  esac
  return 1
}
A='exec 3>&1 4>&2; s=$({ { { '
Z=' 2>&5 3>&- 4>&- 5>&- 6>&-; echo $? >&6; } | head -c $K >&3; } 5>&1 | head -c $E >&4; } 6>&1); exit ${s:-125}'
HUNG=
simple() {
  case $1 in *["|;&$<>*?()\'\"["]*) return 1 ;; esac
}
absent() {
  t=$2
  [ -n "$t" ] || {
    simple "$1" && t=${1%% *}
  } || return 1
  command -v "$t" >/dev/null 2>&1 && return 1
  echo "sh: $t: not found" >&2
}
G='eval "$M"; while [ $# -gt 1 ]; do mark begin "$1"; (eval "$2"); mark end "$1" $?; shift 2; done'
small() {
  mark begin "$1"
  limit "$2" sh -c "$3" </dev/null
  ended "$1" $?
}
ask() {
  mark begin "$1"
  if after "${4:--}"; then
    ended "$1" 124
    return
  fi
  if absent "$3" "$5"; then
    ended "$1" 127
    return
  fi
  L=${T:+$T $2 }
  if simple "$3"; then L="$L$3"; else L="${L}sh -c \"\$1\""; fi
  limit $(($2 + 4)) sh -c "$A$L$Z" sh "$3" </dev/null
  ended "$1" $?
}
