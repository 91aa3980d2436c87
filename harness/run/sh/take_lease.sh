# Takes the lease of this node and prints those of other runs; where there are any it keeps none, unless it is forced.
# $1 = the run, $2 = its process, $3 = runs that have ended, whose leases count no more, $4 = `force`.

run=$1; text=run=$1,$2,since=$(date +%s); ended=" $3 "
gone() { [ -n "$id" ] && case $ended in *" $id "*) return 0 ;; esac; return 1; }
# Of many that take over one lease, who makes the second link does: the lease is replaced by it in one step.
take_over() {
  if ! ln -sT "$text" "$lease.next" 2>/dev/null; then
    # Of one that was killed half way.
    read_lease "$lease.next"; gone && rm -f "$lease.next"
    return
  fi
  read_lease "$lease"
  if gone; then mv -fT "$lease.next" "$lease"; else rm -f "$lease.next"; fi
}
take() {
  why=$(ln -sT "$text" "$lease" 2>&1) && return
  read_lease "$lease"
  if [ "$id" = "$run" ]; then ln -sfT "$text" "$lease"; elif gone; then take_over; fi
}
# Whose lease was in the way may give it back before it is listed: then once more.
i=0; while [ $i -lt 20 ]; do
  take; list_leases "$run" "$3"
  if [ $held -gt 0 ]; then [ "$4" = force ] || free_lease "$run" > /dev/null; exit 0; fi
  case $(readlink "$lease") in "run=$run,"*) exit 0 ;; esac
  i=$((i + 1)); sleep 0.05
done
echo "unleased $why"
