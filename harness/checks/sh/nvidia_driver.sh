# Whether the NVIDIA driver is loaded, and for how many GPUs.

[ -r /proc/driver/nvidia/version ] && echo loaded
for d in /proc/driver/nvidia/gpus/*; do
  [ -d $d ] && echo gpu ${d##*/}
done
:
