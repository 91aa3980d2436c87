# Finds the authorized_keys file and changes it, one process at a time, also where nodes share a home directory.
# $1 = mark of the run, $2 = its lines as grep finds them. Whoever sends this defines `next`, which writes the next version to $part.

umask 077; export LC_ALL=C; mark=$1 lines=$2; file=$HOME/.ssh/authorized_keys
[ -e "$file" ] && file=$(readlink -f "$file")
dir=${file%/*}; made=$dir/.made-by-busbw; lock=$file.busbw; me=$(uname -n).$$; part=$lock/$me.next
header='# busbw made this file; it goes with the last temporary key'
# Only who still has the lock gives it back.
release() { { rm -f "$part"; rm "$lock/$me" && rmdir "$lock"; } 2>/dev/null; }
trap release EXIT; trap 'exit 143' HUP INT TERM
fail() { release; tidy; echo "$file cannot be written: $(df -h "$HOME" | tail -n 1)" >&2; exit 73; }
# A folder that was made for the key goes with it, whoever made it.
tidy() { while [ -e "$made" ] && [ "$(ls -A "$dir")" = "${made##*/}" ]; do rm -f "$made"; rmdir "$dir" 2>/dev/null || : > "$made"; done; }
# mkdir is one step on NFS, too. A lock without change for 5 s belongs to a process that was killed. One that was only slow
# finds its next version gone with the lock, and begins again: what it would have written is never put in place.
state() { stat -c '%i %Z' "$lock"; ls -A "$lock"; } 2>/dev/null
# One at a time: of many that wait, the second would break the lock of whoever took it after the first.
break_lock() {
  mkdir "$lock.break" || return
  [ "$(state)" != "$1" ] || { mv "$lock" "$lock.$me" && rm -rf -- "$lock.$me"; }
  rmdir "$lock.break"
}
# Nobody else is in the folder of the lock.
alone() { [ "$(ls -A "$lock")" = "$(printf '%s\n' "$me" "${part##*/}")" ]; }
take() {
  looks=0; same=0; seen=; vain=0
  while :; do
    [ -d "$dir" ] || { mkdir "$dir" && : > "$made"; } 2>/dev/null
    mkdir "$lock" 2>/dev/null && break
    ready && return 1
    if [ -d "$lock" ]; then vain=0; else vain=$((vain + 1)); [ $vain -lt 20 ] || fail; fi
    now=$(state)
    if [ -n "$now" ] && [ "$now" = "$seen" ]; then same=$((same + 1)); else same=0 seen=$now; fi
    [ $same -lt 50 ] || { break_lock "$now"; same=0; } 2>/dev/null
    looks=$((looks + 1)); [ $looks -lt 250 ] || { echo "other processes hold $lock" >&2; exit 75; }
    sleep 0.1
  done
  : > "$lock/$me"
}
# What is not this run's, by content: it must be the same before and after.
others() { grep -va -e "$lines" -e "^$header\$" "$1" 2>/dev/null | cksum; }
# The next version takes the place of the old one whole: on a full disk nobody loses the keys that were there.
change() {
  try=0
  until ready; do
    [ $try -lt 5 ] || fail
    try=$((try + 1)); take || break
    next && sync "$part" && [ "$(others "$part")" = "$(others "$file")" ] && alone && put
    release
  done
}
