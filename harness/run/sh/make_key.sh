# Makes a key, or finds the one that is there, and prints its public half. $1 = folder, $2 = comment.

umask 077; mkdir -p "$1" && cd "$1" || exit 70
[ -f key ] || ssh-keygen -q -t ed25519 -N '' -C "$2" -f key || exit 71
cat key.pub
