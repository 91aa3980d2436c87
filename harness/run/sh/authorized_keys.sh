# Finds the authorized_keys file, and where its next version is written. $1 = mark of the run.

umask 077; export LC_ALL=C; dir=$HOME/.ssh; file=$dir/authorized_keys
[ -e "$file" ] && file=$(readlink -f "$file")
part="$file.$1"
# The next is put in the place of the old, whole: on a full disk nobody loses the keys that were there.
fail() { rm -f "$part"; echo "$file cannot be written: $(df -h "$dir" | tail -n 1)" >&2; exit 73; }
