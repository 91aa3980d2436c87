# First process of a node, in its own network, host name, mount and process namespaces: gives it its name and files, then becomes its sshd.
#
# Started by lab.sh as  sh node.sh NAME UID GID ; UID is empty where the lab was made by root.
set -eu
name=$1 uid=$2 gid=$3

hostname "$name"
mount --bind "/run/lab/nodes/$name" /run/node
# What a connection has learnt of a link must not outlive a fault of that link.
echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save
# Locked memory as a cluster's nodes have it. What the kernel refuses is noted in refused/, for the lab's record.
ulimit -l unlimited || touch /run/node/refused/memlock
# The network devices that programs see in /sys are those of the namespace that mounted it.
if mount -t sysfs sysfs /sys; then
    if [ -d /sys/fs/cgroup ]; then mount --rbind /run/cgroup /sys/fs/cgroup; fi
else
    touch /run/node/refused/sysfs
fi
# What root changes below /etc on a node stays there. A plain user may not write to this machine's /etc at all.
if [ -z "$uid" ]; then
    mkdir /run/node/etc /run/node/etc.work
    mount -t overlay -o lowerdir=/etc,upperdir=/run/node/etc,workdir=/run/node/etc.work etc /etc || touch /run/node/refused/etc
fi
if [ -d /run/node/hardware ]; then . "${0%/*}/hardware.sh"; fi
mount --bind /run/lab/hosts /etc/hosts
mount --bind /run/lab/passwd /etc/passwd
if [ -z "$uid" ] && [ -e /etc/shadow ]; then mount --bind /run/lab/shadow /etc/shadow; fi
if [ -d /dev/shm ]; then mount -t tmpfs -o mode=1777 tmpfs /dev/shm; fi
mount --bind /run/node/tmp /tmp
read -r sshd </run/node/sshd-path
cd /
if [ -d /run/lab/slurm ]; then
    (
        i=0; while [ ! -S /run/lab/slurm/munge.socket ] && [ $i -lt 200 ]; do i=$((i + 1)); sleep 0.02; done
        exec slurmd -D -N "$name" -f /run/lab/slurm/slurm.conf
    ) >/run/node/slurm/slurmd.out 2>&1 </dev/null &
fi
if [ -n "$uid" ]; then
    # sshd cannot separate privileges where root is the only user there is; as a plain user it does not try, but may not listen on port 22.
    echo 22 >/proc/sys/net/ipv4/ip_unprivileged_port_start
    exec unshare --user --map-user="$uid" --map-group="$gid" "$sshd" -D -e -f /run/node/sshd_config
fi
exec "$sshd" -D -e -f /run/node/sshd_config
