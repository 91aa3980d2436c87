# Google's NCCL plugins.

for f in /usr/local/gib/lib64/libnccl-net*.so /usr/local/fastrak/lib64/libnccl-net*.so /usr/local/tcpx/lib64/libnccl-net*.so /usr/local/nvidia/lib64/libnccl-net*.so; do
  [ -e $f ] && echo gcp $f
done
:
