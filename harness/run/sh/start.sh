# $1 = directory of the job, $2 = what its session runs (forget.sh, supervise.sh).
# Standard input = the job's script.

dir=$1; umask 077
if [ -f "$dir/pid" ]; then cat "$dir/pid"; exit 0; fi
mkdir -p "$dir" && cat > "$dir/job.sh" && cd "$dir" || exit 70
[ "$(tail -n 1 job.sh)" = "# whole" ] || { echo "the job's script came only in part" >&2; exit 71; }
setsid sh -c "$2" > /dev/null 2>&1 < /dev/null &
i=0; while [ ! -s pid ] && [ $i -lt 100 ]; do i=$((i + 1)); sleep 0.05; done
cat pid
