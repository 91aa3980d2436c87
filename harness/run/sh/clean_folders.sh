# $1 = a run: removes its lease, its folders, and builds that nobody makes any more.

free_lease "$1"
for root in $roots; do for dir in "$root/jobs/$1" "$root"/build/*.part.*; do
  [ -d "$dir" ] || continue
  # What is being built is another's.
  case $dir in *.part.*) kill -s 0 "${dir##*.}" 2>/dev/null && continue ;; esac
  rm -rf -- "$dir" && echo "removed $dir" || echo "left $dir"
done; done
exit 0
