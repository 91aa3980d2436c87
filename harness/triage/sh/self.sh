read -r boot </proc/sys/kernel/random/boot_id; read -r up _ </proc/uptime; clock
echo "host $(hostname) now $now up $up boot $boot tick 100"
ip -o addr 2>/dev/null | awk '{ sub("/.*", "", $4); print "address", $2, $4 }'
echo "login $SSH_CONNECTION"
