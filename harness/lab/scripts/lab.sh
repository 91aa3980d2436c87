# First process of a lab of namespaces: makes the switches, the links and the nodes, then waits. Its end ends every process of the lab.
#
# Started by busbw.lab.namespaces as  unshare --net --mount --pid --fork --kill-child --mount-proc sh lab.sh STATE SCRIPTS GROUPS UID GID
# (with --user --map-root-user in front for a plain user), in the switch namespace. Says "ready" on standard output when all nodes are started, then
# wants the word "keep" on standard input: when its maker dies half way, the input ends, and with it the lab.
set -eu
state=$1 scripts=$2 groups=$3 uid=$4 gid=$5

# /run is the lab's own: namespaces under their plain names, what sshd needs, and the record of the lab, wherever it lies outside.
mount -t tmpfs -o mode=755 busbw-lab "$state/run"
mkdir "$state/run/netns" "$state/run/sshd" "$state/run/node" "$state/run/lab" "$state/run/cgroup"
mount --bind "$state" "$state/run/lab"
if [ -d /sys/fs/cgroup ]; then mount --rbind /sys/fs/cgroup "$state/run/cgroup"; fi
mount --rbind "$state/run" /run
cd /run/lab

ip -batch wiring/namespaces
ip -batch wiring/switch
tc -batch wiring/switch.tc
ip -n head -batch wiring/head

if [ -d slurm ]; then
    # Foreground daemons, in the background of this shell: they stay its children and end with the lab.
    munged --foreground --force --num-threads=2 --key-file=/run/lab/slurm/munge.key --socket=/run/lab/slurm/munge.socket \
        --pid-file=/run/lab/slurm/munged.pid --seed-file=/run/lab/slurm/munged.seed >slurm/munged.log 2>&1 </dev/null &
    nsenter --net=/run/netns/head unshare --uts --mount sh -c 'hostname head; mount --bind /run/lab/hosts /etc/hosts
        i=0; while [ ! -S /run/lab/slurm/munge.socket ] && [ $i -lt 200 ]; do i=$((i + 1)); sleep 0.02; done
        exec slurmctld -D -i -f /run/lab/slurm/slurm.conf' >slurm/slurmctld.out 2>&1 </dev/null &
fi

start_node() {
    if [ -n "$groups" ]; then echo 0 >"$groups-$1/cgroup.procs"; fi
    ip -n "$1" -batch "nodes/$1/wiring"
    if [ -s "nodes/$1/wiring.tc" ]; then tc -n "$1" -batch "nodes/$1/wiring.tc"; fi
    exec nsenter --net="/run/netns/$1" unshare --uts --mount --pid --fork --kill-child --mount-proc sh "$scripts/node.sh" "$1" "$uid" "$gid"
}
for directory in nodes/*; do
    start_node "${directory#nodes/}" >"$directory/log" 2>&1 </dev/null &
done

echo ready
read -r word || exit 1
[ "$word" = keep ]
exec >log 2>&1 </dev/null
# A child that never ends, so that `wait` never does: it also collects what nodes leave behind.
sleep infinity &
while :; do wait || :; done
