# Logs in to each of the nodes $2 $3 … with the command $1, and prints what came of it.

agent=$1
shift
printf '%s\n' "$@" | xargs -P 32 -I{} sh -c '
  e=$('"$agent"' {} true 2>&1 </dev/null) && echo "ok {}" || echo "no {} $(echo "$e" | tail -n 1)"'
