# Removes Open MPI's own files of a launcher or daemon that was killed; one that ends by itself
# removes them. $1 = `pid.N` on the head, `jf.N` elsewhere.

forget() { for d in "${TMPDIR:-/tmp}"/ompi.*."$(id -u)"; do [ -d "$d/$1" ] && rm -rf -- "$d/$1" && rmdir "$d" 2>/dev/null; done; }
