# Libraries of NCCL and RCCL on the loader path and in the usual folders.

p=$LD_LIBRARY_PATH
IFS=:
set -- $p
unset IFS
for d in "$@" /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /usr/local/lib /usr/local/nccl/lib /usr/local/cuda/lib64 "${ROCM_PATH:-/opt/rocm}/lib"; do
  for f in "$d"/libnccl.so.2.* "$d"/librccl.so.1.*; do
    [ -e "$f" ] && echo "nccl $f"
  done
done
:
