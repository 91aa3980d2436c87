# $1 = directory of the job, $2 = what its session runs (forget.sh, supervise.sh). Standard input = its script.
# Needs load.sh.

dir=$1; umask 077
if [ -f "$dir/pid" ]; then cat "$dir/pid"; exit 0; fi
script=$(cat)
[ "$(printf '%s\n' "$script" | tail -n 1)" = "# whole" ] || { echo "the job's script is truncated" >&2; exit 71; }
mkdir -p "$dir" && cd "$dir" || exit 70
# One of several that start it at once does, the others find it.
if why=$(mkdir session 2>&1); then
  # By cat, which says why it cannot write; the shell's own printf says "I/O error".
  printf '%s\n' "$script" | cat > job.sh || exit 70
  load > ./load.begin
  setsid sh -c "$2" > /dev/null 2>&1 < /dev/null &
elif [ ! -d session ]; then echo "$why" >&2; exit 70; fi
i=0; while [ ! -s pid ] && [ $i -lt 100 ]; do i=$((i + 1)); sleep 0.05; done
cat pid
