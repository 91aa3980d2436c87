# Prints hashes of the binaries in $1 and, where their digest is one of $2 (empty = any), what one of them is linked
# to: ldd may run what it is given.

cd "$1" 2>/dev/null || exit 3
h=$(hashes) || exit 3; printf '%s\n' "$h"
[ -z "$2" ] || among "$(printf '%s\n' "$h" | digest)" "$2" || exit 0
echo "--- ldd"; for f in *_perf; do ldd "$f"; n=$(ldd "$f" | sed -n 's/.*lib[nr]ccl[^ ]* => //p' | sed 's/ .*//'); break; done
[ -f "$n" ] && { echo "--- nccl"; sha256sum -- "$n"; }
:
