# Whether a GPU driver is loaded, and for how many GPUs: of NVIDIA, else of AMD (its nodes with a gpu_id).

[ -r /proc/driver/nvidia/version ] && echo loaded
for d in /proc/driver/nvidia/gpus/*; do
  [ -d $d ] && echo gpu ${d##*/}
done
if [ -d /sys/module/amdgpu ] && [ ! -e /proc/driver/nvidia/version ]; then
  echo loaded
  for d in /sys/class/kfd/kfd/topology/nodes/*; do
    v=0
    [ -r $d/gpu_id ] && read -r v <$d/gpu_id
    [ "$v" = 0 ] || echo gpu ${d##*/}
  done
fi
:
