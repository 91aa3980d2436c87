# Lays the invented hardware of a node over what the kernel shows there, in the node's own mount namespace. Sourced by node.sh.
#
# $hardware holds the trees (busbw.lab.persona_files): sys/class, sys/bus and sys/module get links to everything real that the persona does not
# speak of. The trees are mounted, not copied: what the lab changes in them, the node sees at once. Few mounts, and none with others below it:
# the kernel takes them down one by one when the lab ends.
hardware=/run/node/hardware

# Links to a directory's entries, one program for all of them. What the tree has stays; drivers of real GPUs and adapters are hidden.
link_all() {
    from=$1 into=$2
    set --
    for entry in "$from"/*; do
        item=${entry##*/}
        case $item in infiniband* | pci | nvidia* | amdgpu | kfd | memory_peers | mlx5_* | nv_peer_mem) continue ;; esac
        if [ ! -e "$into/$item" ]; then set -- "$@" "$entry"; fi
    done
    if [ $# -gt 0 ]; then ln -s -t "$into" "$@"; fi
}

# In a user namespace a mount goes nowhere without those below it.
mount_alone() { mount --bind "$1" "$2" 2>/dev/null || mount --rbind "$1" "$2"; }

mkdir -p "$hardware/real/sys" "$hardware/real/dev" "$hardware/dev-made"
mount_alone /sys "$hardware/real/sys"
for part in class bus module; do
    link_all "$hardware/real/sys/$part" "$hardware/sys/$part"
    mount --bind "$hardware/sys/$part" "/sys/$part"
done

# Where the driver of AMD's GPUs says that adapters may read their memory.
if [ -d "$hardware/sys/mm" ] && [ -d /sys/kernel/mm ]; then
    link_all "$hardware/real/sys/kernel/mm" "$hardware/sys/mm"
    mount --bind "$hardware/sys/mm" /sys/kernel/mm
fi

# /dev/infiniband cannot be made on this machine's own /dev: one of the node's own, with links to every real device.
mount_alone /dev "$hardware/real/dev"
mount -t tmpfs -o mode=755 busbw-lab "$hardware/dev-made"
mkdir "$hardware/dev-made/infiniband" "$hardware/dev-made/pts" "$hardware/dev-made/shm"
link_all "$hardware/real/dev" "$hardware/dev-made"
mount --bind "$hardware/dev/infiniband" "$hardware/dev-made/infiniband"
mount_alone /dev/pts "$hardware/dev-made/pts"
mount_alone /dev/shm "$hardware/dev-made/shm"
mount --move "$hardware/dev-made" /dev

if [ -d /proc/driver ]; then mount --bind "$hardware/proc" /proc/driver; fi
# The CPUs of this machine, under the persona's name and as on bare metal.
read -r model <"$hardware/cpu-model"
sed -e "s/^\(model name[[:space:]]*: \).*/\1$model/" -e '/^flags/s/ hypervisor//' /proc/cpuinfo >"$hardware/cpuinfo"
mount --bind "$hardware/cpuinfo" /proc/cpuinfo
