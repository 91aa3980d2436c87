# Finds the authorized_keys file and changes it, one process at a time, also where nodes share a home directory.
# $1 = mark of the run, $2 = its lines as grep finds them. Whoever sends this defines `ready`, `next`, which writes the next version to
# $part, and `put`. It may be killed at any moment: what stays is found by the removal of this run's key.

umask 077; export LC_ALL=C; mark=$1 lines=$2; home=$(readlink -f "$HOME"); dir=$home/.ssh; file=$dir/authorized_keys
# The folder that was made for the key goes with it, whoever made it. The note is there first, and goes last.
made=$home/.ssh.made-by-busbw lock=$home/.ssh.busbw
real=$(readlink -f "$file") && [ "$real" != "$file" ] && { file=$real; dir=${file%/*}; lock=$file.busbw; }
me=$mark@$(uname -n).$$.$(date +%s%N); part=$file.busbw.$me
header='# busbw made this file; it goes with the last temporary key'
release() { { rm -f "$part" "$lock/$me"; rmdir "$lock"; } 2>/dev/null; }
trap release EXIT; trap 'exit 143' HUP INT TERM
fail() { release; echo "$file cannot be written: $(df -h "$HOME" | tail -n 1)" >&2; exit 73; }
# The lock is a folder with one file in it, named for its owner. An empty one is between two owners.
owners() { ls -A "$lock" 2>/dev/null; }
mine() { [ "$(owners)" = "$me" ]; }
# mkdir and renaming are one step, on NFS, too. A lock without change for 5 s belongs to a process that was killed, or is slow. Its file can
# be renamed by one process only, and its next version goes at once: neither it nor a child that outlived it puts that in place later.
take_over() {
  if [ -n "$1" ]; then mv "$lock/$1" "$lock/$me" && rm -f "$file.busbw.$1"; else rmdir "$lock"; fi
} 2>/dev/null
state() { stat -c '%i %Z' "$lock" && owners; } 2>/dev/null
take() {
  looks=0; same=0; seen=; vain=0
  while :; do
    # Who was slow between these may be in the folder of another, and leaves it.
    if mkdir "$lock" 2>/dev/null; then { true > "$lock/$me"; } 2>/dev/null && mine && return; rm -f "$lock/$me"; fi
    ready && return 1
    if [ -d "$lock" ]; then vain=0; else vain=$((vain + 1)); [ $vain -lt 20 ] || fail; fi
    now=$(state)
    if [ -n "$now" ] && [ "$now" = "$seen" ]; then same=$((same + 1)); else same=0 seen=$now; fi
    [ $same -lt 50 ] || { same=0; take_over "$(owners | head -n 1)"; mine && return; }
    looks=$((looks + 1)); [ $looks -lt 250 ] || { echo "other processes hold $lock" >&2; exit 75; }
    sleep 0.1
  done
}
# What is not this run's, by content: it must be the same before and after.
others() { grep -va -e "$lines" -e "^$header\$" "$1" 2>/dev/null | cksum; }
whole() { [ ! -e "$part" ] || { sync "$part" && [ "$(others "$part")" = "$(others "$file")" ]; }; }
# The next version takes the place of the old one whole: on a full disk nobody loses the keys that were there.
change() {
  try=0
  until ready; do
    [ $try -lt 5 ] || fail
    try=$((try + 1)); take || break
    next && whole && mine && put
    release
  done
  return 0
}
