# Takes the lease of this node and prints those of other runs; where there are any it keeps none, unless it is forced.
# $1 = the run, $2 = its process, $3 = runs that have ended, whose leases count no more, $4 = `force`.

run=$1; now=$(date +%s); text=run=$1,$2,since=$now; ended=" $3 "
gone() { [ -n "$id" ] && case $ended in *" $id "*) return 0 ;; esac; return 1; }
# Of others, a text may be anything.
read_lease() { old=$(readlink "$1" | tr -c 'A-Za-z0-9._@=,-' '?'); old=${old%\?}; id=${old#run=}; id=${id%%,*}; }
# Of many that take over one lease, who makes the second link does: the lease is replaced by it in one step.
take_over() {
  if ! ln -s "$text" "$lease.next" 2>/dev/null; then
    # Of one that was killed half way.
    read_lease "$lease.next"; gone && rm -f "$lease.next"
    return
  fi
  read_lease "$lease"
  if gone; then mv -fT "$lease.next" "$lease"; else rm -f "$lease.next"; fi
}
take() {
  why=$(ln -s "$text" "$lease" 2>&1) && return
  read_lease "$lease"
  if [ "$id" = "$run" ]; then ln -sfn "$text" "$lease"; elif gone; then take_over; fi
}
# The pattern does not find itself.
runs() {
  case $id in "" | *[!A-Za-z0-9._-]*) return 1 ;; esac
  rest=${id#?}
  LC_ALL=C grep -qsaE "(BUSBW_JOB=|busbw_job.)[${id%"$rest"}]$rest/" /proc/[0-9]*/environ /proc/[0-9]*/cmdline
}
list() {
  held=0
  for each in "$leases".*; do
    [ -L "$each" ] || [ -e "$each" ] || continue
    read_lease "$each"
    if [ "$id" = "$run" ] || gone; then continue; fi
    held=$((held + 1)); [ $held -le 8 ] || break
    running=no; if runs; then running=yes; fi
    echo "lease $(stat -c '%U %Y' "$each" || echo - "$now") $now $running $each $old"
  done 2>/dev/null
}
# Whose lease was in the way may give it back before it is listed: then once more.
i=0; while [ $i -lt 20 ]; do
  take; list
  if [ $held -gt 0 ]; then [ "$4" = force ] || free_lease "$run" > /dev/null; exit 0; fi
  case $(readlink "$lease") in "run=$run,"*) exit 0 ;; esac
  i=$((i + 1)); sleep 0.05
done
echo "unleased $why"
