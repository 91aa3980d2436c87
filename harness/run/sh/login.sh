# Logs in to every node named, as the launcher will. $1 = the ssh command; the rest = nodes.

agent=$1; shift
printf '%s\n' "$@" | xargs -P 32 -I{} sh -c '
  e=$('"$agent"' {} true 2>&1 </dev/null) && echo "ok {}" || echo "no {} $(echo "$e" | tail -n 1)"'
