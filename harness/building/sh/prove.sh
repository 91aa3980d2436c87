# Prints hashes of the binaries in $1 and what one of them is linked to.

cd "$1" 2>/dev/null || exit 3
sha256sum -- *_perf || exit 3; for f in *.so*; do [ -e "$f" ] && sha256sum -- "$f"; done
echo "--- ldd"; for f in *_perf; do ldd "$f"; n=$(ldd "$f" | sed -n 's/.*libnccl[^ ]* => //p' | sed 's/ .*//'); break; done
[ -f "$n" ] && { echo "--- nccl"; sha256sum -- "$n"; }
:
