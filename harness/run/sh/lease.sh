# The lease of a node says which run uses it: a link in /tmp, one for each account, whose target is its text. A link is made in
# one step with its text, nothing is written through it, and reading it waits for nothing.

leases=/tmp/busbw-lease${BUSBW_LAB:+-$BUSBW_LAB}; lease=$leases.$(id -u)
# free_lease RUN
free_lease() { case $(readlink "$lease" 2>/dev/null) in "run=$1,"*) rm -f "$lease" && echo "removed $lease" ;; esac; }
