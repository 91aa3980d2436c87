# ROCm, its driver, RCCL's libraries and network plugin, and the ways of GPUDirect RDMA.

[ -d /sys/module/amdgpu ] || exit 0
v=
for f in "${ROCM_PATH:-/opt/rocm}/.info/version" /opt/rocm/.info/version-dev; do
  [ -r "$f" ] && read -r v <"$f" && break
done
echo "rocm=$v"
v=
[ -r /sys/module/amdgpu/version ] && read -r v </sys/module/amdgpu/version
echo "driver=$v"
read -r v </proc/sys/kernel/osrelease
echo "kernel=$v"
for f in /sys/kernel/mm/memory_peers /sys/kernel/memory_peers /sys/memory_peers; do
  [ -e $f/amdkfd/version ] && echo "peer=$f/amdkfd"
done
grep -qs ib_register_peer_memory_client /proc/kallsyms && echo peer=ib_register_peer_memory_client
for o in CONFIG_DMABUF_MOVE_NOTIFY CONFIG_PCI_P2PDMA; do
  grep -qsx "$o=y" "/boot/config-$v" && echo "option=$o"
done
[ -r "/boot/config-$v" ] && echo config=1
set -- /sys/class/infiniband/*
[ -e "$1" ] || echo rdma=none
for d in /sys/class/drm/card*/device; do
  [ -r "$d/current_compute_partition" ] && read -r v <"$d/current_compute_partition" && echo "partition=$v"
done
read -r v </proc/sys/kernel/numa_balancing && echo "numa_balancing=$v"
:
