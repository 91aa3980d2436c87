# $1 = a job, or a run: what carries its mark is ended.

n=0; daemons=; folders=
ours() { case $2 in "$1" | "$1"/*) return 0 ;; esac; return 1; }
# The daemons of mpirun carry the mark on their command line, and when they are told politely they end their ranks and remove their files.
for p in /proc/[0-9]*; do
  read -r name 2>/dev/null < "$p/comm" && [ "$name" = orted ] || continue
  words=" $(tr '\0' ' ' 2>/dev/null < "$p/cmdline")"; mark=${words##* busbw_job }; id=${words##* ess_base_jobid }; id=${id%% *}
  [ "$mark" != "$words" ] && ours "$1" "${mark%% *}" && kill -s TERM "${p#/proc/}" 2>/dev/null || continue
  n=$((n + 1)); daemons="$daemons ${p#/proc/}"
  case $id in *[!0-9]* | "") ;; *) folders="$folders jf.$((id >> 16))" ;; esac
done
some() { for d in $daemons; do kill -s 0 "$d" 2>/dev/null && return 0; done; return 1; }
i=0; while [ $i -lt 20 ] && some; do i=$((i + 1)); sleep 0.1; done
for p in /proc/[0-9]*; do
  job=$(tr '\0' '\n' 2>/dev/null < "$p/environ" | sed -n 's/^BUSBW_JOB=//p')
  [ -n "$job" ] && ours "$1" "$job" && kill -s KILL "${p#/proc/}" 2>/dev/null && n=$((n + 1))
done
for d in $daemons; do kill -s KILL "$d" 2>/dev/null; done
for f in $folders; do forget "$f"; done
echo "killed $n"
