# Prints NCCL's log of every rank of this node, each behind a line with its name and size. Only the
# node's own: where nodes share a home directory, all ranks write into one folder.
# $1 = folder, $2 = most bytes of each log, $3 = what that line begins with.

cd "$1" || exit 1
h=$(uname -n); h=${h%%.*}
for f in nccl."$h".*.log; do
  [ -f "$f" ] || continue
  printf '\n%s%s %s\n' "$3" "$f" "$(($(wc -c <"$f")))"; head -c "$2" "$f"
done
