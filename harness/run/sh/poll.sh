# $1 = directory of the job, $2 = bytes of output seen before, $3 = seconds to wait for more. Needs load.sh: where the job has ended, the
# load before and after it is there, too.

cd "$1" 2>/dev/null || { echo "state=gone"; exit 0; }
# After a restart of the node the number may be somebody else's: the job's process is the one that works here.
alive() { [ "/proc/$(cat pid)/cwd" -ef . ]; }
from=$2; i=0
while [ $i -lt $(($3 * 5)) ]; do
  [ -s status ] && break
  [ "$(wc -c < stdout 2>/dev/null || echo 0)" -gt "$from" ] && break
  alive || break
  i=$((i + 1)); sleep 0.2
done
if [ -s status ]; then state=ended; elif alive; then state=running; else sleep 0.3
  if [ -s status ]; then state=ended; else state=lost; fi; fi
read -r b _ 2>/dev/null < began || b=; e=
if [ $state = ended ]; then read -r e _ 2>/dev/null < ended; else read -r e _ < /proc/uptime; fi
if [ -n "$b" ] && [ -n "$e" ]; then age=$((${e%.*}${e#*.} - ${b%.*}${b#*.})); [ $age -ge 0 ] && state="$state ${age}0"; fi
[ "${state%% *}" = ended ] && loads=" before=$(cat load.begin 2>/dev/null) after=$(load)" || loads=
echo "state=$state stderr=$(wc -c < stderr 2>/dev/null || echo 0)$loads"
tail -c "+$((from + 1))" stdout 2>/dev/null
