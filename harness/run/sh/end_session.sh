# `end DIRECTORY` ends the job's session by its recorded pid, politely, then not.

end() {
  [ -s "$1/status" ] && return 0
  pid=$(cat "$1/pid" 2>/dev/null) || return 0
  # A number may have come round to somebody else: the job's processes are those that work in its folder. Each is told once: mpirun leaves
  # its own files behind when it is told twice.
  if [ "/proc/$pid/cwd" -ef "$1" ]; then ours=-$pid; else ours=
    for p in /proc/[0-9]*; do [ "$p/cwd" -ef "$1" ] && ours="$ours ${p#/proc/}"; done; fi
  send TERM
  i=0; while [ $i -lt 50 ] && send 0; do i=$((i + 1)); sleep 0.1; done
  send KILL
  launcher=$(cat "$1/launcher" 2>/dev/null) || return 0
  i=0; while [ "/proc/$launcher/cwd" -ef "$1" ]; do [ $i -lt 20 ] || return 0; i=$((i + 1)); sleep 0.1; done
  forget "pid.$launcher"
}
send() { r=1; for each in $ours; do kill -s "$1" -- "$each" 2>/dev/null && r=0; done; return $r; }
