cat; [ $# -eq 0 ] || df -P "$@" 2>/dev/null
grep -E ' (nfs4?|lustre|gpfs|beegfs|ceph|fuse\.[^ ]*|weka[^ ]*) ' /proc/mounts
