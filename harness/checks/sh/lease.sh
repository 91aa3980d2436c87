# The lease of a node says which run uses it: a link in /tmp, one for each account, whose target is its text. A link is made in
# one step with its text, nothing is written through it, and reading it waits for nothing.

leases=/tmp/busbw-lease${BUSBW_LAB:+-$BUSBW_LAB}; lease=$leases.$(id -u)
# Of others, a text may be anything.
read_lease() { old=$(readlink "$1" | tr -c 'A-Za-z0-9._@=,-' '?'); old=${old%\?}; id=${old#run=}; id=${id%%,*}; }
# Whether a process of the run `$id` is here. The pattern does not find itself.
runs() {
  case $id in "" | *[!A-Za-z0-9._-]*) return 1 ;; esac
  rest=${id#?}
  LC_ALL=C grep -qsaE "(BUSBW_JOB=|busbw_job.)[${id%"$rest"}]$rest/" /proc/[0-9]*/environ /proc/[0-9]*/cmdline
}
# list_leases RUN ENDED: those of other runs than RUN and than those that have ended.
list_leases() {
  held=0; now=$(date +%s)
  for each in "$leases".*; do
    [ -L "$each" ] || [ -e "$each" ] || continue
    read_lease "$each"
    [ -z "$id" ] || case " $1 $2 " in *" $id "*) continue ;; esac
    held=$((held + 1)); [ $held -le 8 ] || break
    running=no; if runs; then running=yes; fi
    echo "lease $(stat -c '%U %Y' "$each" || echo - "$now") $now $running $each $old"
  done 2>/dev/null
}
