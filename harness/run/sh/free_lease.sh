# free_lease RUN: removes its lease of this node.

free_lease() { case $(readlink "$lease" 2>/dev/null) in "run=$1,"*) rm -f "$lease" && echo "removed $lease" ;; esac; }
