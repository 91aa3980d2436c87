# Makes a key, or finds the one that is there, and prints its public half and the addresses of this node. $1 = folder, $2 = comment.

umask 077; mkdir -p "$1" && cd "$1" || exit 70
[ -f key ] || ssh-keygen -q -t ed25519 -N '' -C "$2" -f key || exit 71
cat key.pub
# The addresses that others see when this node logs in: the key is good from nowhere else.
set -- $SSH_CONNECTION
[ -z "$3" ] || echo "address $3"
ip -o addr show 2>/dev/null | while read -r _ _ _ address _; do echo "address ${address%%/*}"; done
for address in $(hostname -I 2>/dev/null); do echo "address $address"; done
