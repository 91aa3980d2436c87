# Hashes of the programs and libraries in the current folder, as C sorts them, and one hash of those lines.

hashes() { LC_ALL=C sh -c 'sha256sum -- *_perf || exit 1; for f in *.so*; do [ -e "$f" ] && sha256sum -- "$f"; done; :'; }
digest() { sha256sum | cut -d" " -f1; }
# Whether the digest $1 is one of the list $2.
among() { case " $2 " in *" $1 "*) ;; *) return 1 ;; esac; }
