# Trust state, DSCP map and flow control of every Ethernet interface of an RDMA device.

for n in /sys/class/infiniband/*/device/net/*; do
  [ -e $n ] || continue
  echo "== ${n##*/}"
  $S mlnx_qos -i ${n##*/}
done
:
