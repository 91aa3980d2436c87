# The NVIDIA driver and its peer memory module.

r() {
  v=
  [ -r $2 ] && read -r v <$2
  echo $1=$v
}
r nvidia /proc/driver/nvidia/version
r kernel /proc/sys/kernel/osrelease
for m in nvidia_peermem nv_peer_mem; do
  [ -d /sys/module/$m ] && echo peermem=$m
done
set -- /sys/class/infiniband/*
[ -e $1 ] || echo rdma=none
v=
for m in /sys/module/nvidia* /sys/module/nv_peer* /sys/module/ib_* /sys/module/mlx5_*; do
  [ -d $m ] && v="$v ${m##*/}"
done
echo "loaded_modules=looked for nvidia_peermem and nv_peer_mem among:${v:- none of nvidia, ib, mlx5}"
