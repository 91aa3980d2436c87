# The processes of ranks: what carries a rank's number in its environment. Read under a limit: the
# memory of a held process may not answer.

found=$(limit 5 grep -alszE "^($NAMES)=" /proc/[0-9]*/environ)
# What this script starts carries BL_SELF; and emulated nodes that share one process table tell theirs apart by name.
ours=$(limit 5 grep -alszE '^BL_SELF=1$' $found /dev/null) named= mine=
if [ -n "$LAB_NODE" ] && [ -n "$found" ]; then
  named=$(limit 5 grep -alszE '^LAB_NODE=' $found); mine=$(limit 5 grep -alszxF "LAB_NODE=$LAB_NODE" $found)
fi
HUNG= HCAS=; for f in /sys/class/infiniband/*; do [ -e "$f" ] && HCAS=yes; done
PIDS=; count=0
for f in $found; do
  case $NL$ours$NL in *"$NL$f$NL"*) continue;; esac
  case $NL$named$NL in *"$NL$f$NL"*) case $NL$mine$NL in *"$NL$f$NL"*) ;; *) continue;; esac;; esac
  p=${f#/proc/}; p=${p%/environ}; [ "$p" = $$ ] || [ ! -d "/proc/$p" ] || [ "$count" -ge 512 ] && continue
  PIDS="$PIDS $p" count=$((count + 1))
done
set -- $PIDS; FIRST=$1
paths ENVIRONS environ; paths COMMANDS cmdline; paths EXES exe; paths CWDS cwd; paths NETS ns/net; paths MAPS maps; paths FDS fd
FOREIGN=; [ -n "$FIRST" ] && [ -e "/proc/$FIRST/ns/net" ] && ! [ "/proc/$FIRST/ns/net" -ef /proc/self/ns/net ] && FOREIGN="nsenter -t $FIRST -n"
RANKS=; [ -z "$FIRST" ] || RANKS=$(limit 6 sh -c "$READ_RANKS" sh "$ENVIRONS" "$COMMANDS" "$EXES $CWDS $NETS" "$MAPS")
