# EFA devices, the NCCL plugin for them, and the version of the EFA installer.

for n in /sys/class/infiniband/rdmap* /sys/class/infiniband/efa*; do
  [ -e $n ] && echo "device ${n##*/}"
done
p=$LD_LIBRARY_PATH
IFS=:
for d in $p /opt/amazon/ofi-nccl/lib /opt/amazon/ofi-nccl/lib64 /opt/amazon/ofi-nccl/lib/x86_64-linux-gnu /opt/aws-ofi-nccl/lib; do
  for f in $d/libnccl-net*.so; do
    [ -e $f ] && echo plugin $f
  done
done
unset IFS
f=/opt/amazon/efa_installed_packages
[ -r $f ] && while read -r _ _ _ v; do
  echo installer $v
  break
done <$f
:
